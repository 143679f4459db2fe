/* Reading, checking, writing and editing lists of messages; and the form that templates receive. */
#include "engine/answer/split_scan.h"
#include "cache/utf8.h"
#include "engine/template/chat_messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- checking ---- */

/* The members that messages.json and tools.json may have; a refusal names the message and the key.
 */

static int message_check_content(const struct json *v, const char *where, struct err *e)
{
	if (json_kind(v) != JSON_LIST && json_kind(v) != JSON_TEXT && json_kind(v) != JSON_NULL)
		return json_wrong(v, "content", where, "a text, null, or a list of text parts", e);
	for (const struct json *p = NULL; (p = json_next(v, p));) {
		bool text = json_kind(p) == JSON_OBJECT &&
			    json_is_text(json_find(p, "type"), "text", 4) &&
			    json_kind(json_find(p, "text")) == JSON_TEXT;
		if (!text)
			return json_wrong(p, "content", where,
					  "a text, null, or a list of {\"type\": \"text\", "
					  "\"text\": ...}",
					  e);
	}
	return 0;
}

static int message_check_text(const struct json *v, const char *key, const char *where,
			      struct err *e)
{
	if (json_kind(v) == JSON_TEXT || json_kind(v) == JSON_NULL)
		return 0;
	return json_wrong(v, key, where, "a text", e);
}

static int message_check_call(const struct json *call, const char *where, struct err *e)
{
	const struct json *function = json_find(call, "function");
	const struct json *arguments = json_find(function, "arguments");
	const char *name, *text;
	char first;
	size_t n;
	if (json_kind(function) != JSON_OBJECT)
		return json_wrong(call, "tool_calls", where,
				  "a list of {\"id\", \"type\", \"function\": {\"name\", "
				  "\"arguments\"}}",
				  e);
	int rc = message_check_text(json_find(call, "id"), "id", where, e);
	if (rc == 0)
		rc = json_get_string(function, "name", where, &name, e);
	bool good = json_kind(arguments) == JSON_OBJECT || json_kind(arguments) == JSON_NULL;
	text = json_bytes(arguments, &n);
	if (json_kind(arguments) == JSON_TEXT)
		good = scan_is_json(text, n, &first) && first == '{';
	if (rc == 0 && !good)
		rc = json_wrong(arguments, "arguments", where, "an object, or one as JSON text", e);
	return rc;
}

static int message_check_calls(const struct json *v, const char *where, struct err *e)
{
	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_LIST || json_count(v) > MESSAGE_CALLS_MAX)
		return json_wrong(v, "tool_calls", where, "a list of calls", e);
	int rc = 0;
	for (const struct json *c = NULL; rc == 0 && (c = json_next(v, c));)
		rc = message_check_call(c, where, e);
	return rc;
}

/* The role as a static string; NULL: not a role. */
static const char *message_role_of(const struct json *v)
{
	static const char *const ROLES[] = {"system", "developer", "user", "assistant", "tool"};
	for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++)
		if (json_is_text(v, ROLES[i], strlen(ROLES[i])))
			return ROLES[i];
	return NULL;
}

static int message_check_role(const struct json *v, const char *where, struct err *e)
{
	if (message_role_of(v))
		return 0;
	return json_wrong(v, "role", where, "system, developer, user, assistant or tool", e);
}

/* Checks a member by its key; unknown keys are refused. */
static int message_check_member(const struct json *v, bool assistant, const char *where,
				struct err *e)
{
	static const char *const TEXTS[] = {"name", "tool_call_id", "thinking",
					    "reasoning_content"};
	const char *key = json_key(v);
	bool of_assistant = strcmp(key, "thinking") == 0 || strcmp(key, "tool_calls") == 0 ||
			    strcmp(key, "reasoning_content") == 0;
	if (of_assistant && !assistant && json_kind(v) != JSON_NULL)
		return err_set(e, EINVAL, "%s: only an assistant's message may have \"%s\"", where,
			       key);
	if (strcmp(key, "role") == 0)
		return message_check_role(v, where, e);
	if (strcmp(key, "content") == 0)
		return message_check_content(v, where, e);
	if (strcmp(key, "tool_calls") == 0)
		return message_check_calls(v, where, e);
	for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
		if (strcmp(key, TEXTS[i]) == 0)
			return message_check_text(v, key, where, e);
	return err_set(e, EINVAL, "%s: a message has no \"%.40s\"", where, key);
}

/* Checks the i-th message of a list; -EINVAL says what is wrong. */
static int message_check(const struct json *message, size_t i, struct err *e)
{
	char where[64];
	(void)snprintf(where, sizeof where, "message %zu", i);
	if (json_kind(message) != JSON_OBJECT)
		return json_wrong(message, "messages", where, "an object", e);
	bool assistant = json_is_text(json_find(message, "role"), "assistant", 9);
	int rc = message_check_role(json_find(message, "role"), where, e);
	for (const struct json *v = NULL; rc == 0 && (v = json_next(message, v));)
		rc = message_check_member(v, assistant, where, e);
	return rc;
}

/* ---- tools ---- */

int message_check_tools(const struct json *tools, struct err *e)
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

/* ---- lists ---- */

void messages_cut(struct messages *m, size_t count)
{
	while (m->count > count)
		free(m->items[--m->count].json);
}

void messages_free(struct messages *m)
{
	messages_cut(m, 0);
	free(m->items);
	*m = (struct messages){0};
}

static int messages_reserve(struct messages *m, size_t more, struct err *e)
{
	if (m->room - m->count >= more)
		return 0;
	size_t room = m->count + more + m->room;
	struct message *items = reallocarray(m->items, room, sizeof *items);
	if (!items)
		return err_set(e, ENOMEM, "out of memory for a conversation's messages");
	m->items = items;
	m->room = room;
	return 0;
}

/* Appends a message and takes over `json`; `role` is static. */
static int messages_append(struct messages *m, const char *role, struct text_out *json,
			   struct err *e)
{
	int rc = json->failed ? err_set(e, ENOMEM, "out of memory for another message")
		 : m->count >= MESSAGES_MAX
			 ? err_set(e, EFBIG, "a conversation has at most %d messages", MESSAGES_MAX)
			 : messages_reserve(m, 1, e);
	if (rc < 0) {
		text_out_free(json);
		return rc;
	}
	m->items[m->count++] = (struct message){json->bytes, json->n, role};
	return 0;
}

/* ---- reading and writing ---- */

int messages_read(struct messages *m, const char *text, size_t n, struct err *e)
{
	struct messages read = {0};
	struct json *list;
	if (n > MESSAGES_BYTES_MAX)
		return err_set(e, EFBIG, "messages.json: has %zu bytes; at most %d are allowed", n,
			       MESSAGES_BYTES_MAX);
	int rc = json_parse_text(&list, text, n, "messages.json", e);
	if (rc < 0)
		return rc;
	if (json_kind(list) != JSON_LIST)
		rc = err_set(e, EINVAL, "messages.json: must be a list of messages");
	for (const struct json *v = NULL; rc == 0 && (v = json_next(list, v));) {
		struct text_out json = {0};
		rc = message_check(v, read.count, e);
		if (rc < 0)
			break;
		text_out_json(&json, v);
		rc = messages_append(&read, message_role_of(json_find(v, "role")), &json, e);
	}
	json_free(list);
	if (rc < 0) {
		messages_free(&read);
		return rc;
	}
	messages_free(m);
	*m = read;
	return 0;
}

void messages_write(const struct messages *m, struct text_out *out)
{
	text_out_string(out, "[");
	for (size_t i = 0; i < m->count; i++) {
		text_out_string(out, i > 0 ? ",\n" : "\n");
		text_out_add(out, m->items[i].json, m->items[i].n);
	}
	text_out_string(out, m->count > 0 ? "\n]\n" : "]\n");
}

/* ---- adding ---- */

/* Appends "key": "text" to an unfinished object. */
static void message_write_member(struct text_out *o, const char *key, const char *text, size_t n)
{
	text_out_string(o, o->n > 1 ? ", " : "");
	text_out_json_text(o, key, strlen(key));
	text_out_string(o, ": ");
	text_out_json_text(o, text, n);
}

static void message_begin(struct text_out *o, const char *role)
{
	text_out_string(o, "{");
	message_write_member(o, "role", role, strlen(role));
}

int messages_add(struct messages *m, const char *role, const char *text, size_t n, struct err *e)
{
	struct text_out json = {0};
	int rc = utf8_check(text, n, e);
	if (rc < 0)
		return rc;
	message_begin(&json, role);
	message_write_member(&json, "content", text, n);
	text_out_string(&json, "}");
	return messages_append(m, role, &json, e);
}

/* Writes `digits` digits in base 36. */
static void message_write_digits(char *to, size_t digits, size_t number)
{
	while (digits-- > 0) {
		to[digits] = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
		number /= 36;
	}
}

void message_call_id(char id[CALL_ID + 1], uint32_t turn, size_t place)
{
	id[0] = 'c';
	message_write_digits(id + 1, CALL_ID_TURN - 1, turn);
	message_write_digits(id + CALL_ID_TURN, CALL_ID - CALL_ID_TURN, place);
	id[CALL_ID] = '\0';
}

static void message_write_call(struct text_out *o, const struct call *call, uint32_t turn,
			       size_t place)
{
	char id[CALL_ID + 1];
	message_call_id(id, turn, place);
	text_out_string(o, place > 0 ? ", {\"id\": " : "{\"id\": ");
	text_out_json_text(o, call->id ? call->id : id, call->id ? call->id_n : CALL_ID);
	text_out_string(o, ", \"type\": \"function\", \"function\": {\"name\": ");
	text_out_json_text(o, call->name, call->name_n);
	text_out_string(o, ", \"arguments\": ");
	text_out_add(o, call->arguments, call->arguments_n);
	text_out_string(o, "}}");
}

void messages_write_calls(struct text_out *out, const struct calls *calls, uint32_t turn)
{
	text_out_string(out, "[");
	for (size_t i = 0; i < calls->count; i++)
		message_write_call(out, &calls->items[i], turn, i);
	text_out_string(out, "]");
}

int messages_add_answer(struct messages *m, const char *content, size_t n, const char *thoughts,
			size_t thoughts_n, const struct calls *calls, uint32_t turn, struct err *e)
{
	struct text_out json = {0};
	message_begin(&json, "assistant");
	message_write_member(&json, "content", content, n);
	if (thoughts_n > 0)
		message_write_member(&json, "thinking", thoughts, thoughts_n);
	if (calls && calls->count > 0) {
		text_out_string(&json, ", \"tool_calls\": ");
		messages_write_calls(&json, calls, turn);
	}
	text_out_string(&json, "}");
	return messages_append(m, "assistant", &json, e);
}

int messages_add_result(struct messages *m, const char *call_id, size_t call_id_n, const char *text,
			size_t n, struct err *e)
{
	struct text_out json = {0};
	int rc = utf8_check(text, n, e);
	if (rc < 0)
		return rc;
	message_begin(&json, "tool");
	message_write_member(&json, "tool_call_id", call_id, call_id_n);
	message_write_member(&json, "content", text, n);
	text_out_string(&json, "}");
	return messages_append(m, "tool", &json, e);
}

/* ---- editing a list ---- */

int messages_copy(struct messages *to, const struct messages *from, struct err *e)
{
	messages_cut(to, 0);
	int rc = messages_reserve(to, from->count, e);
	for (size_t i = 0; rc == 0 && i < from->count; i++) {
		const struct message *m = &from->items[i];
		char *json = malloc(m->n + 1);
		if (!json) {
			messages_free(to);
			return err_set(e, ENOMEM, "out of memory for a conversation's messages");
		}
		memcpy(json, m->json, m->n + 1);
		to->items[to->count++] = (struct message){json, m->n, m->role};
	}
	return rc;
}

int messages_move(struct messages *to, struct messages *from, size_t first, struct err *e)
{
	size_t count = from->count - first;
	int rc = messages_reserve(to, count, e);
	if (rc < 0 || count == 0)
		return rc;
	memcpy(to->items + to->count, from->items + first, count * sizeof *to->items);
	to->count += count;
	from->count = first;
	return 0;
}

void messages_remove(struct messages *m, size_t at, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(m->items[at + i].json);
	m->count -= count;
	if (m->count > at)
		memmove(m->items + at, m->items + at + count, (m->count - at) * sizeof *m->items);
}

int messages_add_first(struct messages *m, const char *role, const char *text, size_t n,
		       struct err *e)
{
	int rc = messages_add(m, role, text, n, e);
	if (rc < 0)
		return rc;
	struct message added = m->items[m->count - 1];
	memmove(m->items + 1, m->items, (m->count - 1) * sizeof *m->items);
	m->items[0] = added;
	return 0;
}

/* ---- looking ---- */

/* NULL: out of memory. It is valid JSON: it was read or written here. */
static struct json *message_parse(const struct message *m)
{
	struct json *parsed = NULL;
	struct err ignored = {0};
	return json_parse_text(&parsed, m->json, m->n, "message", &ignored) < 0 ? NULL : parsed;
}

bool message_is(const struct message *m, const char *role)
{
	return strcmp(m->role, role) == 0;
}

char *message_text(const struct message *m, size_t *n)
{
	struct json *parsed = message_parse(m);
	struct text_out out = {0};
	if (!parsed)
		return NULL;
	message_join(json_find(parsed, "content"), &out);
	json_free(parsed);
	text_out_add(&out, "", 0); /* a NUL, also where there is nothing */
	if (out.failed)
		text_out_free(&out);
	*n = out.n;
	return out.bytes;
}

/* ---- for templates ---- */

void message_join(const struct json *content, struct text_out *out)
{
	size_t n;
	const char *text = json_bytes(content, &n);
	text_out_add(out, text, n);
	if (json_kind(content) == JSON_LIST)
		for (const struct json *p = NULL; (p = json_next(content, p));) {
			text = json_bytes(json_find(p, "text"), &n);
			text_out_add(out, text, n);
		}
}

static void message_write_call_list(struct text_out *o, const struct json *calls)
{
	const char *between = ", \"tool_calls\": [";
	for (const struct json *c = NULL; (c = json_next(calls, c)); between = ", ") {
		const struct json *function = json_find(c, "function");
		const struct json *arguments = json_find(function, "arguments");
		size_t n;
		const char *text = json_bytes(arguments, &n);
		text_out_string(o, between);
		text_out_string(o, "{\"id\": ");
		text_out_json(o, json_find(c, "id"));
		text_out_string(o, ", \"type\": \"function\", \"function\": {\"name\": ");
		text_out_json(o, json_find(function, "name"));
		text_out_string(o, ", \"arguments\": ");
		if (json_kind(arguments) == JSON_TEXT)
			text_out_add(o, text, n); /* a checked object */
		else if (json_kind(arguments) == JSON_OBJECT)
			text_out_json(o, arguments);
		else
			text_out_string(o, "{}");
		text_out_string(o, "}}");
	}
	text_out_string(o, json_count(calls) > 0 ? "]" : "");
}

static void message_write_for_template(struct text_out *o, const struct json *message)
{
	static const char *const THINKING[] = {"thinking", "reasoning_content"};
	static const char *const OTHERS[] = {"tool_call_id", "name"};
	struct text_out joined = {0};
	size_t n;
	const char *text = json_bytes(json_find(message, "role"), &n);
	text_out_string(o, "{\"role\": ");
	text_out_json_text(o, text, n);
	message_join(json_find(message, "content"), &joined);
	message_write_member(o, "content", joined.failed ? "" : joined.bytes, joined.n);
	o->failed |= joined.failed;
	text_out_free(&joined);
	for (size_t i = 0; i < 2; i++) {
		const struct json *v = json_find(message, THINKING[i]);
		text = json_bytes(v, &n);
		for (size_t k = 0; n > 0 && k < 2; k++)
			message_write_member(o, THINKING[k], text, n);
		if (n > 0)
			break;
	}
	for (size_t i = 0; i < 2; i++) {
		const struct json *v = json_find(message, OTHERS[i]);
		text = json_bytes(v, &n);
		if (json_kind(v) == JSON_TEXT)
			message_write_member(o, OTHERS[i], text, n);
	}
	message_write_call_list(o, json_find(message, "tool_calls"));
	text_out_string(o, "}");
}

void messages_for_template(const struct messages *m, struct text_out *out)
{
	text_out_string(out, "[");
	for (size_t i = 0; i < m->count && !out->failed; i++) {
		struct json *message = message_parse(&m->items[i]);
		text_out_string(out, i > 0 ? ", " : "");
		if (!message) {
			out->failed = true;
			return;
		}
		message_write_for_template(out, message);
		json_free(message);
	}
	text_out_string(out, "]");
}
