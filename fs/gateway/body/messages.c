/* Messages and tools, checked and brought into the tree's form. See messages.h. */
#include "fs/gateway/body/messages.h"
#include "fs/gateway/body/fields.h"
#include "fs/gateway/body/offered.h"
#include "fs/base/text.h"

#include <stdlib.h>
#include <string.h>

static int wrong(struct problem *p, const char *list, size_t i, const char *what)
{
	return problem_set(p, PROBLEM_INVALID, list, "%s[%zu]%s", list, i, what);
}

/* ---- texts ---- */

struct json_object *messages_without(const char *text, const regex_t *ignored)
{
	struct text kept = {0};
	while (ignored && *text) {
		size_t n = strcspn(text, "\n"), with_end = n + (text[n] == '\n');
		char *line = strndup(text, n);
		if (!line || regexec(ignored, line, 0, NULL, 0))
			text_add(&kept, text, with_end);
		free(line);
		text += with_end;
	}
	text_string(&kept, text);
	struct json_object *out =
		kept.failed
			? NULL
			: json_object_new_string_len(kept.data ? kept.data : "", (int)kept.length);
	text_free(&kept);
	return out;
}

static struct json_object *take_text(struct json_object *text, const regex_t *ignored)
{
	return ignored ? messages_without(json_object_get_string(text), ignored)
		       : json_object_get(text);
}

/* Parts of type text; a refusal that an assistant once gave is its text. */
static int take_parts(struct json_object *list, size_t i, const regex_t *ignored,
		      struct json_object **out, struct problem *p)
{
	*out = json_object_new_array();
	for (size_t n = 0; n < json_object_array_length(list); n++) {
		struct json_object *part = json_object_array_get_idx(list, n);
		struct json_object *text = field_get(part, "text"), *new;
		const char *type = json_object_get_string(field_get(part, "type"));
		if (type && !strcmp(type, "refusal"))
			text = field_get(part, "refusal");
		if (!type || !json_object_is_type(text, json_type_string))
			return problem_set(p, PROBLEM_INVALID, "messages",
					   "messages[%zu]: content[%zu] is of type '%.40s'; models "
					   "are given text alone",
					   i, n, type ? type : "");
		new = json_object_new_object();
		json_object_object_add(new, "type", json_object_new_string("text"));
		json_object_object_add(new, "text", take_text(text, ignored));
		json_object_array_add(*out, new);
	}
	return 0;
}

static int take_content(struct json_object *m, size_t i, const regex_t *ignored,
			struct json_object *out, struct problem *p)
{
	struct json_object *content = field_get(m, "content"), *new = NULL;
	if (json_object_is_type(content, json_type_string))
		new = take_text(content, ignored);
	else if (json_object_is_type(content, json_type_array)) {
		if (take_parts(content, i, ignored, &new, p)) {
			json_object_put(new);
			return -1;
		}
	} else if (content)
		return wrong(p, "messages", i, ": content must be a text or a list of parts");
	json_object_object_add(out, "content", new);
	return 0;
}

/* ---- calls ---- */

static int take_calls(struct json_object *m, size_t i, struct json_object *out, struct problem *p)
{
	struct json_object *calls = field_get(m, "tool_calls"), *list;
	if (!calls)
		return 0;
	if (!json_object_is_type(calls, json_type_array))
		return wrong(p, "messages", i, ": tool_calls must be a list");
	list = json_object_new_array();
	for (size_t n = 0; n < json_object_array_length(calls); n++) {
		struct json_object *call = json_object_array_get_idx(calls, n), *new;
		struct json_object *function = field_get(call, "function"), *one;
		if (!function) {
			json_object_put(list);
			return wrong(p, "messages", i, ": only calls of type 'function' are known");
		}
		new = json_object_new_object();
		one = json_object_new_object();
		json_object_object_add(new, "id", json_object_get(field_get(call, "id")));
		json_object_object_add(new, "type", json_object_new_string("function"));
		json_object_object_add(one, "name", json_object_get(field_get(function, "name")));
		json_object_object_add(one, "arguments",
				       json_object_get(field_get(function, "arguments")));
		json_object_object_add(new, "function", one);
		json_object_array_add(list, new);
	}
	if (json_object_array_length(list))
		json_object_object_add(out, "tool_calls", list);
	else
		json_object_put(list);
	return 0;
}

static int take_one(struct json_object *m, size_t i, const regex_t *ignored,
		    struct json_object *out, struct problem *p)
{
	static const char *const known[] = {"name", "tool_call_id", "reasoning_content"};
	const char *role = json_object_get_string(field_get(m, "role"));
	if (!json_object_is_type(m, json_type_object) || !role)
		return wrong(p, "messages", i, " must be an object with a role");
	if (!strcmp(role, "function") || field_get(m, "function_call"))
		return wrong(p, "messages", i,
			     ": function_call and the role 'function' are gone: use tool_calls and "
			     "the role 'tool'");
	bool system = !strcmp(role, "system") || !strcmp(role, "developer");
	json_object_object_add(out, "role", json_object_new_string(system ? "system" : role));
	if (take_content(m, i, system ? ignored : NULL, out, p) || take_calls(m, i, out, p))
		return -1;
	for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
		struct json_object *value = field_get(m, known[k]);
		bool thinks = !strcmp(known[k], "reasoning_content");
		if (value && (!thinks || !strcmp(role, "assistant")))
			json_object_object_add(out, known[k], json_object_get(value));
	}
	return 0;
}

static const struct offered_results results = {
	RESULTS_NEXT,
	{"An assistant message with 'tool_calls' must be followed by tool messages responding to "
	 "each 'tool_call_id'. The following tool_call_ids did not have response messages: ",
	 ""},
	{"messages with role 'tool' must be a response to a preceding message with 'tool_calls': "
	 "there is no call '",
	 "'"},
};

int messages_take(struct json_object *list, const regex_t *ignored, struct json_object **out,
		  struct problem *p)
{
	if (!json_object_is_type(list, json_type_array) || !json_object_array_length(list))
		return problem_set(p, PROBLEM_INVALID, "messages",
				   "'messages' must be a list of at least one message");
	*out = json_object_new_array();
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *m = json_object_new_object();
		json_object_array_add(*out, m);
		if (take_one(json_object_array_get_idx(list, i), i, ignored, m, p)) {
			json_object_put(*out);
			*out = NULL;
			return -1;
		}
	}
	struct err e;
	if (!offered_results(*out, &results, &e))
		return 0;
	json_object_put(*out);
	*out = NULL;
	return problem_set(p, PROBLEM_INVALID, "messages", "%s", e.text);
}
