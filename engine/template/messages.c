#include "engine/template/messages.h"

#include "engine/template/messages_inside.h"
#include "engine/json/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* Takes the text over; the role's stays. */
static int append(struct messages *m, const char *role, struct text_out *json, struct err *e)
{
	if (m->count == m->room && !json->failed) {
		size_t room = 2 * m->room + 8;
		struct message *items = reallocarray(m->items, room, sizeof *items);
		json->failed |= !items;
		m->items = items ? items : m->items;
		m->room = items ? room : m->room;
	}
	bool full = m->count >= MESSAGES_MAX;
	if (json->failed || full) {
		bool failed = json->failed;
		text_out_free(json);
		return failed ? err_set(e, ENOMEM, "out of memory for another message")
			      : err_set(e, EFBIG, "a conversation has at most %d messages",
					MESSAGES_MAX);
	}
	m->items[m->count++] = (struct message){json->bytes, json->n, role};
	return 0;
}

/* ---- reading and writing ---- */

static int read_message(struct messages *m, const struct json *message, struct err *e)
{
	struct text_out json = {0};
	int rc = message_check(message, m->count, e);
	if (rc < 0)
		return rc;
	text_out_json(&json, message);
	return append(m, message_role_of(json_find(message, "role")), &json, e);
}

int messages_read(struct messages *m, const char *text, size_t n, struct err *e)
{
	struct messages read = {0};
	struct json *list;
	if (n > MESSAGES_BYTES_MAX)
		return err_set(e, EFBIG, "messages.json: %zu bytes, more than %d", n,
			       MESSAGES_BYTES_MAX);
	int rc = json_parse_text(&list, text, n, "messages.json", e);
	if (rc < 0)
		return rc;
	if (json_kind(list) != JSON_LIST)
		rc = err_set(e, EINVAL, "messages.json: must be a list of messages");
	for (const struct json *v = NULL; rc == 0 && (v = json_next(list, v));)
		rc = read_message(&read, v, e);
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

void message_write_member(struct text_out *o, const char *key, const char *text, size_t n)
{
	text_out_string(o, o->n > 1 ? ", " : "");
	text_out_json_text(o, key, strlen(key));
	text_out_string(o, ": ");
	text_out_json_text(o, text, n);
}

static void begin(struct text_out *o, const char *role)
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
	begin(&json, role);
	message_write_member(&json, "content", text, n);
	text_out_string(&json, "}");
	return append(m, role, &json, e);
}

/* `digits` of them, in base 36. */
static void write_digits(char *to, size_t digits, size_t number)
{
	while (digits-- > 0) {
		to[digits] = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
		number /= 36;
	}
}

void message_call_id(char id[CALL_ID + 1], uint32_t turn, size_t place)
{
	id[0] = 'c';
	write_digits(id + 1, CALL_ID_TURN - 1, turn);
	write_digits(id + CALL_ID_TURN, CALL_ID - CALL_ID_TURN, place);
	id[CALL_ID] = '\0';
}

static void write_call(struct text_out *o, const struct call *call, uint32_t turn, size_t place)
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
		write_call(out, &calls->items[i], turn, i);
	text_out_string(out, "]");
}

int messages_add_answer(struct messages *m, const char *content, size_t n, const char *thoughts,
			size_t thoughts_n, const struct calls *calls, uint32_t turn, struct err *e)
{
	struct text_out json = {0};
	begin(&json, "assistant");
	message_write_member(&json, "content", content, n);
	if (thoughts_n > 0)
		message_write_member(&json, "thinking", thoughts, thoughts_n);
	if (calls && calls->count > 0) {
		text_out_string(&json, ", \"tool_calls\": ");
		messages_write_calls(&json, calls, turn);
	}
	text_out_string(&json, "}");
	return append(m, "assistant", &json, e);
}

int messages_add_result(struct messages *m, const char *call_id, size_t call_id_n, const char *text,
			size_t n, struct err *e)
{
	struct text_out json = {0};
	int rc = utf8_check(text, n, e);
	if (rc < 0)
		return rc;
	begin(&json, "tool");
	message_write_member(&json, "tool_call_id", call_id, call_id_n);
	message_write_member(&json, "content", text, n);
	text_out_string(&json, "}");
	return append(m, "tool", &json, e);
}
