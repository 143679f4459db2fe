/* What is asked of a model, into the files of its session. */
#include "fs/gateway/turn_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int put(const struct turn *t, const char *file, const char *field, const char *data,
	       size_t size, struct problem *p)
{
	int code = (t->gateway->polls ? tree_write : tree_write_far)(
		turn_tree(t), data, size, "%s/sessions/%s/%s", t->session.model, t->session.name,
		file);
	return code ? turn_refused(t, code, field, p) : 0;
}

static int put_json(const struct turn *t, const char *file, const char *field,
		    struct json_object *json, struct problem *p)
{
	size_t size;
	const char *text =
		json_object_to_json_string_length(json, JSON_C_TO_STRING_NOSLASHESCAPE, &size);
	if (!text)
		return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
	return put(t, file, field, text, size, p);
}

static bool is_in(const char *list, const char *name)
{
	size_t n = strlen(name);
	for (const char *at = list; (at = strstr(at, name)); at += n)
		if ((at == list || at[-1] == ' ') && at[n] == ' ')
			return true;
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

/* What an earlier request has set in this session. What an answer is held to goes before what
 * describes it. */
static void reset_params(struct turn *t)
{
	char names[KEPT_PARAMS], *rest = names;
	memcpy(names, t->session.params, sizeof names);
	if (is_in(names, "format"))
		reset_param(t, "format");
	for (char *name; (name = strsep(&rest, " "));)
		if (*name)
			reset_param(t, name);
	*t->session.params = 0;
}

/* What is advice alone may be refused. */
static int put_params(struct turn *t, const struct wish *w, struct problem *p)
{
	size_t used = 0;
	for (size_t i = 0; i < w->param_count; i++) {
		char file[64];
		const struct wish_param *param = &w->params[i];
		(void)snprintf(file, sizeof file, "params/%s", param->name);
		if (put(t, file, param->field, param->value, strlen(param->value), p) &&
		    !param->advice)
			return -1;
		used += (size_t)snprintf(t->session.params + used, KEPT_PARAMS - used, "%s ",
					 param->name);
		if (used >= KEPT_PARAMS)
			t->keeps = false;
	}
	return 0;
}

int session_submit(struct turn *t, const struct wish *w, struct problem *p)
{
	bool used = t->used;
	reset_params(t);
	if (w->tools ? put_json(t, "tools.json", "tools", w->tools, p)
		     : used && put(t, "tools.json", "tools", "[]\n", 3, p))
		return -1;
	if (put_params(t, w, p))
		return -1;
	if (!w->messages)
		return put(t, "prompt", "prompt", w->prompt, w->prompt_size, p);
	if (put_json(t, "messages.json", "messages", w->messages, p))
		return -1;
	if (w->counts)
		return 0;
	return put(t, "ctl", "messages", "answer\n", 7, p);
}
