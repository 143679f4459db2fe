/* See dialog.h. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/body/dialog.h"

#include <stdlib.h>
#include <string.h>

void dialog_free(struct dialog *t)
{
	json_object_put(t->list);
	json_object_put(t->calls);
	text_free(&t->said);
	text_free(&t->thought);
	*t = (struct dialog){0};
}

static void dialog_add(struct dialog *t, json_object *message)
{
	if (!t->list)
		t->list = json_object_new_array();
	if (message && t->list && json_object_array_add(t->list, message) == 0)
		return;
	json_object_put(message);
	t->failed = true;
}

/* Ends the message being built. */
static void dialog_finish(struct dialog *t)
{
	if (!t->role)
		return;
	json_object *message = json_new("role=%s", t->role);
	json_put_n(message, "content", t->said.data, t->said.length);
	if (t->thought.length)
		json_put_n(message, "thinking", t->thought.data, t->thought.length);
	if (t->calls)
		json_object_object_add(message, "tool_calls", t->calls);
	t->failed |= t->said.failed || t->thought.failed;
	t->calls = NULL;
	t->role = NULL;
	text_cut(&t->said, 0);
	text_cut(&t->thought, 0);
	dialog_add(t, message);
}

static void dialog_begin(struct dialog *t, const char *role)
{
	if (t->role && strcmp(t->role, role) == 0)
		return;
	dialog_finish(t);
	t->role = role;
}

void dialog_say(struct dialog *t, const char *role, const char *text, size_t n, const char *between)
{
	bool first = !t->list && (!t->role || strcmp(t->role, "system") == 0);
	if (strcmp(role, "system") == 0 && t->system_first && !first)
		role = "user";
	dialog_begin(t, role);
	if (t->said.length && n)
		text_string(&t->said, between);
	text_add(&t->said, text, n);
}

void dialog_think(struct dialog *t, const char *text, size_t n)
{
	dialog_begin(t, "assistant");
	if (t->thought.length && n)
		text_string(&t->thought, "\n");
	text_add(&t->thought, text, n);
}

void dialog_call(struct dialog *t, const char *id, const char *name, json_object *arguments)
{
	dialog_begin(t, "assistant");
	if (!t->calls)
		t->calls = json_object_new_array();
	json_object *function = json_new("name=%s arguments=%p", name, json_object_get(arguments));
	json_object *call = json_new("id=%s type=function function=%p", id, function);
	if (t->calls && call && json_object_array_add(t->calls, call) == 0)
		return;
	json_object_put(call);
	t->failed = true;
}

void dialog_result(struct dialog *t, const char *id, const char *text, size_t n)
{
	dialog_finish(t);
	json_object *message = json_new("role=tool tool_call_id=%s", id);
	json_put_n(message, "content", text, n);
	dialog_add(t, message);
}

void dialog_append(struct dialog *t, json_object *list)
{
	dialog_finish(t);
	for (size_t i = 0; i < json_object_array_length(list); i++)
		dialog_add(t, json_object_get(json_object_array_get_idx(list, i)));
}

json_object *dialog_take(struct dialog *t)
{
	dialog_finish(t);
	if (!t->list && !t->failed)
		t->list = json_object_new_array();
	json_object *list = t->failed ? NULL : t->list;
	if (list)
		t->list = NULL;
	return list;
}

json_object *dialog_drop_lines(json_object *string, const regex_t *ignored)
{
	struct text kept = {0};
	const char *text = json_object_get_string(string);
	if (!ignored)
		return json_object_get(string);
	while (*text) {
		size_t n = strcspn(text, "\n"), with_end = n + (text[n] == '\n');
		char *line = strndup(text, n);
		if (!line || regexec(ignored, line, 0, NULL, 0))
			text_add(&kept, text, with_end);
		free(line);
		text += with_end;
	}
	json_object *out = kept.failed ? NULL
				       : json_object_new_string_len(kept.data ? kept.data : "",
								    (int)kept.length);
	text_free(&kept);
	return out;
}
