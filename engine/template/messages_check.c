/* What may stand in messages.json and tools.json; a refusal names the message and the key. */
#include "engine/template/messages_inside.h"
#include "engine/answer/split_scan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_one(const struct json *v, const char *word)
{
	size_t n;
	const char *text = json_bytes(v, &n);
	return n == strlen(word) && memcmp(text, word, n) == 0;
}

static int check_parts(const struct json *list, const char *where, struct err *e)
{
	for (const struct json *p = NULL; (p = json_next(list, p));) {
		bool text = json_kind(p) == JSON_OBJECT && is_one(json_find(p, "type"), "text") &&
			    json_kind(json_find(p, "text")) == JSON_TEXT;
		if (!text)
			return json_wrong(p, "content", where,
					  "a text, null, or a list of {\"type\": \"text\", "
					  "\"text\": ...}",
					  e);
	}
	return 0;
}

static int check_content(const struct json *v, const char *where, struct err *e)
{
	if (json_kind(v) == JSON_LIST)
		return check_parts(v, where, e);
	if (json_kind(v) == JSON_TEXT || json_kind(v) == JSON_NULL)
		return 0;
	return json_wrong(v, "content", where, "a text, null, or a list of text parts", e);
}

static int check_text(const struct json *v, const char *key, const char *where, struct err *e)
{
	if (json_kind(v) == JSON_TEXT || json_kind(v) == JSON_NULL)
		return 0;
	return json_wrong(v, key, where, "a text", e);
}

static bool is_object_text(const struct json *v)
{
	size_t n;
	char first;
	const char *text = json_bytes(v, &n);
	return json_kind(v) == JSON_TEXT && is_json(text, n, &first) && first == '{';
}

static int check_call(const struct json *call, const char *where, struct err *e)
{
	const struct json *function = json_find(call, "function");
	const struct json *arguments = json_find(function, "arguments");
	const char *name;
	if (json_kind(function) != JSON_OBJECT)
		return json_wrong(call, "tool_calls", where,
				  "a list of {\"id\", \"type\", \"function\": {\"name\", "
				  "\"arguments\"}}",
				  e);
	int rc = check_text(json_find(call, "id"), "id", where, e);
	if (rc == 0)
		rc = json_get_string(function, "name", where, &name, e);
	bool good = json_kind(arguments) == JSON_OBJECT || json_kind(arguments) == JSON_NULL ||
		    is_object_text(arguments);
	if (rc == 0 && !good)
		rc = json_wrong(arguments, "arguments", where, "an object, or one as JSON text", e);
	return rc;
}

static int check_calls(const struct json *v, const char *where, struct err *e)
{
	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_LIST || json_count(v) > MESSAGE_CALLS_MAX)
		return json_wrong(v, "tool_calls", where, "a list of calls", e);
	int rc = 0;
	for (const struct json *c = NULL; rc == 0 && (c = json_next(v, c));)
		rc = check_call(c, where, e);
	return rc;
}

const char *message_role_of(const struct json *v)
{
	static const char *const ROLES[] = {"system", "developer", "user", "assistant", "tool"};
	for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++)
		if (is_one(v, ROLES[i]))
			return ROLES[i];
	return NULL;
}

static int check_role(const struct json *v, const char *where, struct err *e)
{
	if (message_role_of(v))
		return 0;
	return json_wrong(v, "role", where, "system, developer, user, assistant or tool", e);
}

/* By key; what is not here is refused. */
static int check_member(const struct json *v, bool assistant, const char *where, struct err *e)
{
	static const char *const TEXTS[] = {"name", "tool_call_id", "thinking",
					    "reasoning_content"};
	const char *key = json_key(v);
	bool of_assistant = strcmp(key, "thinking") == 0 || strcmp(key, "tool_calls") == 0 ||
			    strcmp(key, "reasoning_content") == 0;
	if (of_assistant && !assistant && json_kind(v) != JSON_NULL)
		return err_set(e, EINVAL, "%s: only an assistant's message has \"%s\"", where, key);
	if (strcmp(key, "role") == 0)
		return check_role(v, where, e);
	if (strcmp(key, "content") == 0)
		return check_content(v, where, e);
	if (strcmp(key, "tool_calls") == 0)
		return check_calls(v, where, e);
	for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
		if (strcmp(key, TEXTS[i]) == 0)
			return check_text(v, key, where, e);
	return err_set(e, EINVAL, "%s: \"%.40s\" is nothing that a message has", where, key);
}

int message_check(const struct json *message, size_t i, struct err *e)
{
	char where[64];
	(void)snprintf(where, sizeof where, "message %zu", i);
	if (json_kind(message) != JSON_OBJECT)
		return json_wrong(message, "messages", where, "an object", e);
	bool assistant = is_one(json_find(message, "role"), "assistant");
	int rc = check_role(json_find(message, "role"), where, e);
	for (const struct json *v = NULL; rc == 0 && (v = json_next(message, v));)
		rc = check_member(v, assistant, where, e);
	return rc;
}

/* ---- tools ---- */

int tools_check(const struct json *tools, struct err *e)
{
	char where[64];
	size_t i = 0;
	if (json_kind(tools) != JSON_LIST)
		return err_set(e, EINVAL, "tools.json: must be a list of functions");
	for (const struct json *t = NULL; (t = json_next(tools, t)); i++) {
		const struct json *function = json_find(t, "function");
		const char *name;
		(void)snprintf(where, sizeof where, "tools.json: tool %zu", i);
		if (json_kind(function) != JSON_OBJECT)
			return json_wrong(function, "function", where,
					  "{\"name\", \"description\", \"parameters\"}", e);
		int rc = json_get_string(function, "name", where, &name, e);
		if (rc < 0)
			return rc;
		if (!*name)
			return json_wrong(json_find(function, "name"), "name", where, "a name", e);
	}
	return 0;
}
