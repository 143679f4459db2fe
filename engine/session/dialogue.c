#include "engine/session/dialogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void dialogue_free_document(struct document *d)
{
	json_free(d->json);
	free(d->text);
	*d = (struct document){0};
}

void dialogue_free(struct dialogue *c)
{
	messages_free(&c->messages);
	messages_free(&c->results);
	dialogue_free_document(&c->tools);
	dialogue_free_document(&c->variables);
	choices_free(&c->choices);
	c->clock_set = false;
}

/* ---- documents ---- */

/* Parses a document; an empty text is an empty document. -EFBIG, or an error of the parser. */
static int dialogue_parse_document(struct document *out, const char *text, size_t n,
				   const char *name, struct err *e)
{
	struct text_out line = {0};
	if (n > DOCUMENT_BYTES_MAX)
		return err_set(e, EFBIG, "%s: %zu bytes; at most %d are allowed", name, n,
			       DOCUMENT_BYTES_MAX);
	*out = (struct document){0};
	if (n == strspn(text, " \t\r\n"))
		return 0;
	int rc = json_parse_text(&out->json, text, n, name, e);
	if (rc < 0)
		return rc;
	text_out_json(&line, out->json);
	text_out_string(&line, "\n");
	if (line.failed) {
		text_out_free(&line);
		dialogue_free_document(out);
		return err_set(e, ENOMEM, "%s: out of memory", name);
	}
	out->text = line.bytes;
	out->n = line.n;
	return 0;
}

/* Replaces a document by the checked one. An empty document counts as none. */
static int dialogue_replace_document(struct document *d, struct document *checked, int rc)
{
	if (rc < 0 || json_count(checked->json) == 0)
		dialogue_free_document(checked);
	if (rc == 0) {
		dialogue_free_document(d);
		*d = *checked;
	}
	return rc;
}

int dialogue_set_tools(struct dialogue *c, const char *text, size_t n, struct err *e)
{
	struct document read = {0};
	int rc = dialogue_parse_document(&read, text, n, "tools.json", e);
	if (rc == 0 && read.json)
		rc = message_check_tools(read.json, e);
	return dialogue_replace_document(&c->tools, &read, rc);
}

int dialogue_set_variables(struct dialogue *c, const char *text, size_t n, struct err *e)
{
	struct document read = {0};
	int rc = dialogue_parse_document(&read, text, n, "template.json", e);
	if (rc == 0 && read.json)
		rc = chat_variables_check(read.json, e);
	return dialogue_replace_document(&c->variables, &read, rc);
}

static int dialogue_copy_document(struct document *to, const struct document *from, struct err *e)
{
	*to = (struct document){0};
	if (!from->text)
		return 0;
	to->text = strdup(from->text);
	to->n = from->n;
	return to->text ? 0 : err_set(e, ENOMEM, "out of memory for a copy of a session's texts");
}

int dialogue_copy(struct dialogue *to, const struct dialogue *from, struct err *e)
{
	*to = (struct dialogue){.clock = from->clock, .clock_set = from->clock_set};
	int rc = messages_copy(&to->messages, &from->messages, e);
	if (rc == 0)
		rc = dialogue_copy_document(&to->tools, &from->tools, e);
	if (rc == 0)
		rc = dialogue_copy_document(&to->variables, &from->variables, e);
	if (rc == 0)
		rc = choices_copy(&to->choices, &from->choices, e);
	if (rc < 0)
		dialogue_free(to);
	return rc;
}

int dialogue_parse(struct dialogue *copy, struct err *e)
{
	struct document *documents[] = {&copy->tools, &copy->variables};
	int rc = 0;
	for (size_t i = 0; i < 2 && rc == 0; i++)
		if (documents[i]->text && !documents[i]->json)
			rc = json_parse_text(&documents[i]->json, documents[i]->text,
					     documents[i]->n, "a session", e);
	return rc ? rc : choices_parse(&copy->choices, e);
}

/* ---- the system's message ---- */

static bool dialogue_has_system(const struct messages *m)
{
	return m->count > 0 && message_is(&m->items[0], "system");
}

int dialogue_system(const struct messages *m, char **text, struct err *e)
{
	size_t n = 0;
	*text = dialogue_has_system(m) ? message_text(&m->items[0], &n) : strdup("");
	if (!*text)
		return err_set(e, ENOMEM, "out of memory for params/system");
	if (strlen(*text) == n && n <= PARAMS_MAX_TEXT)
		return 0;
	free(*text);
	return err_set(e, EINVAL,
		       "messages.json: message 0: a system message has at most %d bytes and no "
		       "NUL, since params/system holds it",
		       PARAMS_MAX_TEXT);
}

int dialogue_set_system(struct dialogue *c, const char *text, int *added, struct err *e)
{
	struct messages *m = &c->messages;
	bool had = dialogue_has_system(m);
	size_t n = 0;
	*added = 0;
	char *old = had ? message_text(&m->items[0], &n) : strdup("");
	bool same = old && strlen(text) == n && !memcmp(old, text, n);
	free(old);
	if (!old)
		return err_set(e, ENOMEM, "out of memory for params/system");
	if (same)
		return 0;
	int rc = *text ? messages_add_first(m, "system", text, strlen(text), e) : 0;
	if (rc == 0 && had)
		messages_remove(m, *text ? 1 : 0, 1);
	if (rc == 0)
		*added = (*text != 0) - had;
	return rc;
}

/* The number of the turn in the first six characters of a call id; CALL_TURNS: no number. */
static uint32_t dialogue_turn_named(const char *text)
{
	uint32_t turn = 0;
	for (size_t i = 1; i < CALL_ID_TURN; i++) {
		char c = text[i];
		bool digit = c >= '0' && c <= '9';
		if (!digit && (c < 'a' || c > 'z'))
			return CALL_TURNS;
		turn = 36 * turn + (uint32_t)(digit ? c - '0' : c - 'a' + 10);
	}
	return turn;
}

/* Looks at each message once. */
int dialogue_name_turn(const struct messages *m, uint32_t *turn, struct err *e)
{
	uint8_t *used = calloc(CALL_TURNS / 8 + 1, 1);
	if (!used)
		return err_set(e, ENOMEM, "out of memory for the names of calls");
	for (size_t i = 0; i < m->count; i++) {
		const char *at = m->items[i].json, *end = at + m->items[i].n;
		for (; end - at >= CALL_ID_TURN &&
		       (at = memchr(at, 'c', (size_t)(end - at) - CALL_ID_TURN + 1));
		     at++) {
			uint32_t named = dialogue_turn_named(at);
			used[named / 8] |= (uint8_t)(1U << named % 8);
		}
	}
	*turn = (uint32_t)m->count;
	for (uint32_t n = *turn; n < CALL_TURNS && used[n / 8] >> n % 8 & 1;)
		*turn = ++n;
	free(used);
	return 0;
}

/* ---- rendering ---- */

/* The template variables that params/thinking sets. */
static const struct {
	const char *const *names;
	const char *value;
} thinking[] = {
	[THINK_DEFAULT] = {(const char *const[]){NULL}, ""},
	[THINK_ON] = {(const char *const[]){"enable_thinking", "thinking", NULL}, "true"},
	[THINK_OFF] = {(const char *const[]){"enable_thinking", "thinking", NULL}, "false"},
	[THINK_LOW] = {(const char *const[]){"reasoning_effort", NULL}, "\"low\""},
	[THINK_MEDIUM] = {(const char *const[]){"reasoning_effort", NULL}, "\"medium\""},
	[THINK_HIGH] = {(const char *const[]){"reasoning_effort", NULL}, "\"high\""},
};

int dialogue_check_thinking(const struct chat_template *t, enum thinking_mode mode, struct err *e)
{
	const char *const *names = thinking[mode].names;
	bool known = !*names;
	for (const char *const *name = names; *name; name++)
		known |= chat_template_reads(t, *name);
	if (known)
		return 0;
	return err_set(e, EINVAL,
		       "params/thinking: the model's template (%s) does not use %s, so this would "
		       "change nothing; write default",
		       chat_template_origin(t), *names);
}

static bool dialogue_thinking_sets(enum thinking_mode mode, const char *key)
{
	const char *const *name = thinking[mode].names;
	while (*name && strcmp(*name, key) != 0)
		name++;
	return *name;
}

/* Merges the session's variables with those of its params; NULL: none. */
static int dialogue_make_variables(struct json **out, const struct json *own,
				   enum thinking_mode mode, struct err *e)
{
	struct text_out o = {0};
	*out = NULL;
	if (!own && mode == THINK_DEFAULT)
		return 0;
	text_out_string(&o, "{");
	for (const char *const *name = thinking[mode].names; *name; name++) {
		text_out_string(&o, o.n > 1 ? ", " : "");
		text_out_json_text(&o, *name, strlen(*name));
		text_out_string(&o, ": ");
		text_out_string(&o, thinking[mode].value);
	}
	for (const struct json *v = NULL; (v = json_next(own, v));) {
		if (dialogue_thinking_sets(mode, json_key(v)))
			continue;
		text_out_string(&o, o.n > 1 ? ", " : "");
		text_out_json_text(&o, json_key(v), strlen(json_key(v)));
		text_out_string(&o, ": ");
		text_out_json(&o, v);
	}
	text_out_string(&o, "}");
	int rc = o.failed ? err_set(e, ENOMEM, "out of memory for the template's variables")
			  : json_parse_text(out, o.bytes, o.n, "template.json", e);
	text_out_free(&o);
	return rc;
}

static struct tm dialogue_clock(const struct dialogue *c, const struct params *p)
{
	struct tm clock;
	time_t now = time(NULL);
	if (params_clock(p, &clock))
		return clock;
	if (c->clock_set || !localtime_r(&now, &clock))
		return c->clock;
	return clock;
}

int dialogue_render(const struct dialogue *c, const struct chat_template *t, const struct params *p,
		    const _Atomic bool *stop, struct template_text *out, struct err *e)
{
	struct json *variables;
	struct tm clock = dialogue_clock(c, p);
	int rc = dialogue_check_thinking(t, p->thinking, e);
	if (rc == 0)
		rc = dialogue_make_variables(&variables, c->variables.json, p->thinking, e);
	if (rc < 0)
		return rc;
	struct chat_input in = {
		.messages = &c->messages,
		.tools = p->format == FORMAT_CHOICES ? NULL : c->tools.json,
		.variables = variables,
		.clock = &clock,
		.answer = true,
	};
	rc = chat_render(t, &in, stop, out, e);
	json_free(variables);
	return rc;
}
