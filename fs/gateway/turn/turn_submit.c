/* What is asked of a model, into the files of its session. */
#include "fs/gateway/body/fields.h"
#include "fs/gateway/turn/turn_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool wish_param(struct wish *w, const char *name, const char *field, const char *format, ...)
{
	va_list values;
	struct wish_param *param = &w->params[w->param_count];
	if (w->param_count == WISH_PARAMS)
		return false;
	va_start(values, format);
	int n = vasprintf(&param->value, format, values);
	va_end(values);
	if (n < 0)
		return false;
	param->name = name;
	param->field = field;
	w->param_count++;
	return true;
}

void wish_free(struct wish *w)
{
	for (size_t i = 0; i < w->param_count; i++)
		free(w->params[i].value);
	json_object_put(w->messages);
	json_object_put(w->tools);
	*w = (struct wish){0};
}

/* Takes effect when it is closed. Always truncated: even a new session may have longer messages
 * there already, from a write to ctl of which only a later part was refused. */
static int put(struct turn *t, const char *file, const char *field, const char *data, size_t size,
	       struct problem *p)
{
	int code = (t->gateway->polls ? tree_write : tree_write_far)(
		turn_tree(t), data, size, "%s/sessions/%s/%s", t->session.model, t->session.name,
		file);
	return code ? turn_refused(t, code, field, p) : 0;
}

/* Takes effect as it is written: truncating it and closing it would be round trips to the tree
 * before the model is asked. A file system between may write only when it is closed. */
static int put_now(struct turn *t, const char *file, const char *field, const char *data,
		   size_t size, struct problem *p)
{
	if (!t->gateway->polls)
		return put(t, file, field, data, size, p);
	int fd = tree_put(turn_tree(t), data, size, "%s/sessions/%s/%s", t->session.model,
			  t->session.name, file);
	if (fd < 0)
		return turn_refused(t, fd, field, p);
	turn_close_later(t, fd);
	return 0;
}

static int put_json(struct turn *t, const char *file, const char *field, struct json_object *json,
		    struct problem *p)
{
	size_t size;
	const char *text =
		json_object_to_json_string_length(json, JSON_C_TO_STRING_NOSLASHESCAPE, &size);
	if (!text)
		return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
	return put(t, file, field, text, size, p);
}

/* ---- params ---- */

/* Those that are a number or a word, which the tree takes as it is written. */
static bool is_value(const char *name)
{
	static const char *const values[] = {"temperature",
					     "top_p",
					     "top_k",
					     "min_p",
					     "frequency_penalty",
					     "presence_penalty",
					     "repetition_penalty",
					     "seed",
					     "max_tokens",
					     "logprobs",
					     "thinking",
					     "tool_choice"};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		if (!strcmp(name, values[i]))
			return true;
	return false;
}

/* What is remembered of a param that was set: `NAME=VALUE `, or `NAME ` of what cannot be compared
 * with a later one's. Advice may have been refused. */
static int entry_of(char entry[128], const struct wish_param *param)
{
	bool known = is_value(param->name) && !param->advice && strlen(param->value) < 40 &&
		     !strpbrk(param->value, " \n");
	return snprintf(entry, 128, "%s%s%s ", param->name, known ? "=" : "",
			known ? param->value : "");
}

/* Whether it is what an earlier request has set in this session. */
static bool is_set(const char *list, const struct wish_param *param)
{
	char entry[128];
	int n = entry_of(entry, param);
	if (!strchr(entry, '='))
		return false;
	for (const char *at = list; (at = strstr(at, entry)); at += n)
		if (at == list || at[-1] == ' ')
			return true;
	return false;
}

static bool is_wanted(const struct wish *w, const char *name)
{
	for (size_t i = 0; i < w->param_count; i++)
		if (!strcmp(w->params[i].name, name))
			return is_value(name) && !w->params[i].advice;
	return false;
}

/* As every new session's: those of sessions/default. */
static void reset_param(const struct turn *t, const char *name)
{
	struct text value = {0};
	if (!tree_read(turn_tree(t), &value, "%s/sessions/default/params/%s", t->session.model,
		       name))
		(void)tree_write(turn_tree(t), value.data, value.length, "%s/sessions/%s/params/%s",
				 t->session.model, t->session.name, name);
	text_free(&value);
}

/* What an earlier request has set in this session, and this one does not. What an answer is held to
 * goes before what describes it. */
static void reset_params(const struct turn *t, const struct wish *w, const char *set)
{
	char names[KEPT_PARAMS], *rest = names;
	memcpy(names, set, sizeof names);
	if (!strncmp(names, "format ", 7) || strstr(names, " format "))
		reset_param(t, "format");
	for (char *name; (name = strsep(&rest, " "));) {
		name[strcspn(name, "=")] = 0;
		if (*name && !is_wanted(w, name))
			reset_param(t, name);
	}
}

/* What is advice alone may be refused. */
static int put_param(struct turn *t, const struct wish_param *param, struct problem *p)
{
	char file[64];
	(void)snprintf(file, sizeof file, "params/%s", param->name);
	int code = (is_value(param->name) ? put_now : put)(t, file, param->field, param->value,
							   strlen(param->value), p);
	return param->advice ? 0 : code;
}

/* To what the session has set an entry is added. */
static void note_param(struct turn *t, const struct wish_param *param)
{
	char entry[128];
	size_t used = strlen(t->session.params), n = (size_t)entry_of(entry, param);
	if (used + n < KEPT_PARAMS)
		memcpy(t->session.params + used, entry, n + 1);
	else
		t->keeps = false;
}

/* What may stand behind a verb: a value in a single word. */
static bool is_short(const struct wish_param *param)
{
	char entry[128];
	return entry_of(entry, param) && strchr(entry, '=');
}

/* All of them, or those that cannot stand behind a verb. */
static int put_params(struct turn *t, const struct wish *w, const char *set, bool all,
		      struct problem *p)
{
	for (size_t i = 0; i < w->param_count; i++) {
		const struct wish_param *param = &w->params[i];
		if (is_set(set, param) || (!all && is_short(param)))
			continue;
		if (put_param(t, param, p))
			return -1;
	}
	return 0;
}

/* ---- the whole ---- */

/* What a ctl takes in one write. */
enum { VERB_MOST = 60 << 10 };

static void add_line(struct text *verb, const char *name, struct json_object *json)
{
	size_t size;
	const char *text =
		json_object_to_json_string_length(json, JSON_C_TO_STRING_NOSLASHESCAPE, &size);
	text_format(verb, "%s ", name);
	if (text)
		text_add(verb, text, size);
	else
		verb->failed = true;
	text_string(verb, "\n");
}

/* ---- an answer that the request begins ---- */

/* The text of a message's member, all of its parts. */
static void add_member(struct text *out, struct json_object *message, const char *key)
{
	struct json_object *value = field_get(message, key);
	if (json_object_is_type(value, json_type_string))
		text_add(out, json_object_get_string(value),
			 (size_t)json_object_get_string_len(value));
	for (size_t i = 0;
	     json_object_is_type(value, json_type_array) && i < json_object_array_length(value);
	     i++)
		add_member(out, json_object_array_get_idx(value, i), "text");
}

/* Whether the last message is an assistant's, which then is gone on with: what it has already is
 * part of the session's answer, but not of what the client is given. */
static void note_given(struct turn *t, const struct wish *w)
{
	size_t n = json_object_array_length(w->messages);
	struct json_object *last = n ? json_object_array_get_idx(w->messages, n - 1) : NULL;
	const char *role = json_object_get_string(field_get(last, "role"));
	t->goes_on = role && !strcmp(role, "assistant");
	if (!t->goes_on)
		return;
	add_member(&t->files[GROWS_OUTPUT].given, last, "content");
	add_member(&t->files[GROWS_THOUGHTS].given, last, "thinking");
	add_member(&t->files[GROWS_THOUGHTS].given, last, "reasoning_content");
}

/* The verb, behind it the params that are a word, and in lines of their own what it is to answer:
 * a file for each would be four round trips more. */
static void add_verb(struct text *verb, const struct turn *t, const struct wish *w, const char *set)
{
	text_string(verb, turn_verb(t));
	for (size_t i = 0; i < w->param_count; i++)
		if (!is_set(set, &w->params[i]) && is_short(&w->params[i]))
			text_format(verb, " %s=%s", w->params[i].name, w->params[i].value);
	text_string(verb, "\n");
	if (w->tools)
		add_line(verb, "tools", w->tools);
	else if (t->used)
		text_string(verb, "tools []\n");
	add_line(verb, "messages", w->messages);
}

/* All of it in one write. False: it is too long for that, or was refused, and nothing was begun. */
static bool answer_at_once(struct turn *t, const struct wish *w, const char *set)
{
	struct text verb = {0};
	char path[TREE_PATH];
	add_verb(&verb, t, w, set);
	bool fits = t->gateway->polls && !verb.failed && verb.length <= VERB_MOST &&
		    tree_path(path, turn_tree(t), "%s/sessions/%s/ctl", t->session.model,
			      t->session.name);
	int fd = fits ? open(path, O_WRONLY | O_CLOEXEC) : -1;
	bool answers = fd >= 0 && write(fd, verb.data, verb.length) == (ssize_t)verb.length;
	if (fd >= 0)
		turn_close_later(t, fd);
	text_free(&verb);
	return answers;
}

static int put_tools(struct turn *t, const struct wish *w, struct problem *p)
{
	if (w->tools)
		return put_json(t, "tools.json", "tools", w->tools, p);
	return t->used ? put(t, "tools.json", "tools", "[]\n", 3, p) : 0;
}

/* Each into its own file, so that a refusal is about a field. */
static int submit_each(struct turn *t, const struct wish *w, const char *set, bool answers,
		       struct problem *p)
{
	if (put_tools(t, w, p) || put_params(t, w, set, true, p))
		return -1;
	if (!w->messages)
		return put(t, "prompt", "prompt", w->prompt, w->prompt_size, p);
	if (put_json(t, "messages.json", t->asked, w->messages, p))
		return -1;
	return answers ? put_now(t, "ctl", t->asked, turn_verb(t), strlen(turn_verb(t)), p) : 0;
}

int session_submit(struct turn *t, const struct wish *w, struct problem *p)
{
	char set[KEPT_PARAMS];
	bool answers = w->messages && !w->counts;
	if (answers)
		note_given(t, w);
	memcpy(set, t->session.params, sizeof set);
	reset_params(t, w, set);
	*t->session.params = 0;
	for (size_t i = 0; i < w->param_count; i++)
		note_param(t, &w->params[i]);
	if (answers && !put_params(t, w, set, false, p) && answer_at_once(t, w, set))
		return 0;
	return submit_each(t, w, set, answers, p);
}
