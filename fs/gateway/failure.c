/* See failure.h. */
#include "fs/gateway/failure.h"
#include "fs/gateway/body/fields.h"
#include "fs/gateway/turn/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void failure_take(struct failure *f, struct json_object *from)
{
	struct json_object *numbers = field_get(from, "numbers");
	struct json_object *code = field_get(from, "code"), *message = field_get(from, "message");
	struct json_object *reason = field_get(from, "reason");
	if (!json_object_is_type(code, json_type_string) ||
	    !json_object_is_type(message, json_type_string))
		return;
	(void)snprintf(f->code, sizeof f->code, "%s", json_object_get_string(code));
	(void)snprintf(f->message, sizeof f->message, "%s", json_object_get_string(message));
	if (json_object_is_type(reason, json_type_string))
		(void)snprintf(f->reason, sizeof f->reason, "%s", json_object_get_string(reason));
	f->tokens = json_object_get_uint64(field_get(numbers, "tokens"));
	f->maximum = json_object_get_uint64(field_get(numbers, "maximum"));
}

int failure_read(struct failure *f, const char *member, const char *tree, const char *folder, ...)
{
	struct text text = {0};
	char path[TREE_PATH];
	va_list names;
	*f = (struct failure){0};
	va_start(names, folder);
	(void)vsnprintf(path, sizeof path, folder, names);
	va_end(names);
	int code = tree_read(tree, &text, "%s/error.json", path);
	text_add(&text, "", 1);
	struct json_object *all = code || text.failed ? NULL : json_tokener_parse(text.data);
	struct json_object *one = member ? field_get(all, member) : NULL;
	failure_take(f, one ? one : all);
	json_object_put(all);
	text_free(&text);
	return code;
}

enum problem_kind failure_kind(const struct failure *f)
{
	static const struct {
		const char *code;
		enum problem_kind kind;
	} rows[] = {
		{"bad_value", PROBLEM_INVALID},
		{"out_of_range", PROBLEM_INVALID},
		{"not_utf8", PROBLEM_INVALID},
		{"bad_name", PROBLEM_INVALID},
		{"no_param", PROBLEM_INVALID},
		{"nothing_to_do", PROBLEM_INVALID},
		{"no_template", PROBLEM_INVALID},
		{"template_refused", PROBLEM_INVALID},
		{"not_supported", PROBLEM_INVALID},
		{"too_large", PROBLEM_INVALID},
		{"prompt_too_long", PROBLEM_TOO_LONG},
		{"not_permitted", PROBLEM_FORBIDDEN},
		{"exists", PROBLEM_INVALID},
		{"not_found", PROBLEM_NOT_FOUND},
		{"busy", PROBLEM_BUSY},
		{"too_many", PROBLEM_BUSY},
		{"not_ready", PROBLEM_NOT_NOW},
		{"context_memory", PROBLEM_NOT_NOW},
		{"no_memory", PROBLEM_NOT_NOW},
		{"no_space", PROBLEM_NOT_NOW},
		{"read_failed", PROBLEM_FAILED},
		{"damaged", PROBLEM_FAILED},
		{"changed", PROBLEM_FAILED},
		{"stopped", PROBLEM_FAILED},
		{"failed", PROBLEM_FAILED},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!strcmp(f->code, rows[i].code))
			return rows[i].kind;
	return PROBLEM_NONE;
}
