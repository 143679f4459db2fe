/* Writes a wish into a session's files, and starts the answer. See turn.h.
 *
 * Each operation on a file of the tree takes 10 to 20 µs, and operations before the model starts
 * delay the answer. So one write to ctl has the verb, the params that are single words, and
 * messages and tools in lines of their own. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/turn/tree_client.h"
#include "fs/gateway/turn/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int turn_wish_param(struct turn_wish *w, struct problem *p, const char *name, const char *field,
		    const char *format, ...)
{
	va_list values;
	struct turn_wish_param *param = &w->params[w->param_count];
	if (w->param_count == WISH_PARAMS)
		return problem_no_memory(p);
	va_start(values, format);
	int n = vasprintf(&param->value, format, values);
	va_end(values);
	if (n < 0)
		return problem_no_memory(p);
	param->name = name;
	param->field = field;
	w->param_count++;
	return 0;
}

void turn_wish_free(struct turn_wish *w)
{
	for (size_t i = 0; i < w->param_count; i++)
		free(w->params[i].value);
	json_object_put(w->messages);
	json_object_put(w->tools);
	json_object_put(w->choices);
	*w = (struct turn_wish){0};
}

/* ---- files ---- */

/* Writes a file that takes effect when it is closed. Always truncates it: even a new session may
 * have longer messages already, from a write to ctl whose later part was refused. */
static int turn_put(struct turn *t, const char *file, const char *field, const char *data,
		    size_t size, struct problem *p)
{
	int code = tree_write(turn_tree(t), !t->gateway->polls, data, size, "%s/sessions/%s/%s",
			      t->session.model, t->session.name, file);
	return code ? turn_refused(t, code, field, p) : 0;
}

/* Writes a file that takes effect with each write. Truncating and closing it would be round trips
 * to the tree before the model starts. (A file system in between may write only at the close.) */
static int turn_put_now(struct turn *t, const char *file, const char *field, const char *data,
			size_t size, struct problem *p)
{
	if (!t->gateway->polls)
		return turn_put(t, file, field, data, size, p);
	int fd = tree_put(turn_tree(t), data, size, "%s/sessions/%s/%s", t->session.model,
			  t->session.name, file);
	if (fd < 0)
		return turn_refused(t, fd, field, p);
	turn_close_later(t, fd);
	return 0;
}

static int turn_put_json(struct turn *t, const char *file, const char *field, json_object *json,
			 struct problem *p)
{
	size_t size;
	const char *text =
		json_object_to_json_string_length(json, JSON_C_TO_STRING_NOSLASHESCAPE, &size);
	return text ? turn_put(t, file, field, text, size, p) : problem_no_memory(p);
}

/* ---- params ---- */

/* Whether a param is a number or a word, which the tree accepts unchanged. */
static bool turn_param_is_value(const char *name)
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

/* Whether a param can follow a verb: its value must be a single word. Advice cannot, since its
 * refusal must not refuse the verb. */
static bool turn_param_is_short(const struct turn_wish_param *param)
{
	return turn_param_is_value(param->name) && !param->advice && strlen(param->value) < 40 &&
	       !strpbrk(param->value, " \n");
}

/* Writes each param to its file: all of them, or only those that cannot follow a verb. A refusal of
 * advice is not an error. */
static int turn_put_params(struct turn *t, const struct turn_wish *w, bool all, struct problem *p)
{
	for (size_t i = 0; i < w->param_count; i++) {
		const struct turn_wish_param *param = &w->params[i];
		char file[64];
		if (!all && turn_param_is_short(param))
			continue;
		(void)snprintf(file, sizeof file, "params/%s", param->name);
		int code = (turn_param_is_value(param->name) ? turn_put_now : turn_put)(
			t, file, param->field, param->value, strlen(param->value), p);
		if (code && !param->advice)
			return -1;
	}
	return 0;
}

/* ---- an answer that the request already contains in part ---- */

/* Adds the text of all parts of a message's member. */
static void turn_add_member(struct text *out, json_object *message, const char *key)
{
	json_object *value = json_at(message, key);
	if (json_object_is_type(value, json_type_string))
		json_add_string(out, value);
	for (size_t i = 0; i < json_length(value); i++)
		turn_add_member(out, json_object_array_get_idx(value, i), "text");
}

/* Sets goes_on if the last message is an assistant's, which the model then continues. Its text is
 * part of the session's answer, but the client does not get it again. */
static void turn_note_given(struct turn *t, const struct turn_wish *w)
{
	size_t n = json_object_array_length(w->messages);
	json_object *last = n ? json_object_array_get_idx(w->messages, n - 1) : NULL;
	t->goes_on = json_is(last, "role", "assistant");
	if (!t->goes_on)
		return;
	turn_add_member(&t->files[GROWS_OUTPUT].given, last, "content");
	turn_add_member(&t->files[GROWS_THOUGHTS].given, last, "thinking");
	turn_add_member(&t->files[GROWS_THOUGHTS].given, last, "reasoning_content");
}

/* ---- submitting ---- */

static void turn_add_line(struct text *verb, const char *name, json_object *json)
{
	size_t size;
	const char *text =
		json_object_to_json_string_length(json, JSON_C_TO_STRING_NOSLASHESCAPE, &size);
	text_format(verb, "%s ", name);
	if (text)
		text_add(verb, text, size);
	verb->failed |= !text;
	text_string(verb, "\n");
}

/* Writes everything into ctl at once: the verb with the short params, and lines for tools and
 * messages. Separate files would take four more round trips. False: it is too long for one write,
 * or was refused, and nothing has begun. */
static bool turn_answer_at_once(struct turn *t, const struct turn_wish *w)
{
	enum { VERB_MOST = 60 << 10 }; /* the most that ctl accepts in one write */
	struct text verb = {0};
	char path[TREE_PATH];
	text_string(&verb, turn_verb(t));
	if (*t->session.share)
		text_format(&verb, " share_with=%s", t->session.share);
	for (size_t i = 0; i < w->param_count; i++)
		if (turn_param_is_short(&w->params[i]))
			text_format(&verb, " %s=%s", w->params[i].name, w->params[i].value);
	text_string(&verb, "\n");
	if (w->tools)
		turn_add_line(&verb, "tools", w->tools);
	turn_add_line(&verb, "messages", w->messages);
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

/* Writes each part to its own file, so that a refusal names the field. */
static int turn_submit_each(struct turn *t, const struct turn_wish *w, bool answers,
			    struct problem *p)
{
	const char *share = t->session.share;
	if (*share && turn_put_now(t, "params/share_with", NULL, share, strlen(share), p))
		return -1;
	if (w->tools && turn_put_json(t, "tools.json", "tools", w->tools, p))
		return -1;
	if (turn_put_params(t, w, true, p))
		return -1;
	if (!w->messages)
		return turn_put(t, "prompt", "prompt", w->prompt, w->prompt_size, p);
	if (turn_put_json(t, "messages.json", t->asked, w->messages, p))
		return -1;
	return answers ? turn_put_now(t, "ctl", t->asked, turn_verb(t), strlen(turn_verb(t)), p)
		       : 0;
}

int turn_submit(struct turn *t, const struct turn_wish *w, struct problem *p)
{
	bool answers = w->messages && !w->counts;
	if (answers)
		turn_note_given(t, w);
	if (w->choices && turn_put_json(t, "choices", w->chosen, w->choices, p))
		return -1;
	if (answers && !turn_put_params(t, w, false, p) && turn_answer_at_once(t, w))
		return 0;
	return turn_submit_each(t, w, answers, p);
}
