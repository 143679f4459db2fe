/* Messages as templates are given them. */
#include "engine/template/messages_inside.h"

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

static void write_content(struct text_out *o, const struct json *content)
{
	struct text_out joined = {0};
	message_join(content, &joined);
	message_write_member(o, "content", joined.failed ? "" : joined.bytes, joined.n);
	o->failed |= joined.failed;
	text_out_free(&joined);
}

static void write_arguments(struct text_out *o, const struct json *arguments)
{
	size_t n;
	const char *text = json_bytes(arguments, &n);
	if (json_kind(arguments) == JSON_TEXT)
		text_out_add(o, text, n); /* an object, as was checked */
	else if (json_kind(arguments) == JSON_OBJECT)
		text_out_json(o, arguments);
	else
		text_out_string(o, "{}");
}

static void write_calls(struct text_out *o, const struct json *calls)
{
	const char *between = ", \"tool_calls\": [";
	for (const struct json *c = NULL; (c = json_next(calls, c)); between = ", ") {
		const struct json *function = json_find(c, "function");
		text_out_string(o, between);
		text_out_string(o, "{\"id\": ");
		text_out_json(o, json_find(c, "id"));
		text_out_string(o, ", \"type\": \"function\", \"function\": {\"name\": ");
		text_out_json(o, json_find(function, "name"));
		text_out_string(o, ", \"arguments\": ");
		write_arguments(o, json_find(function, "arguments"));
		text_out_string(o, "}}");
	}
	text_out_string(o, json_count(calls) > 0 ? "]" : "");
}

static void write_for_template(struct text_out *o, const struct json *message)
{
	static const char *const THINKING[] = {"thinking", "reasoning_content"};
	static const char *const OTHERS[] = {"tool_call_id", "name"};
	size_t n;
	const char *text = json_bytes(json_find(message, "role"), &n);
	text_out_string(o, "{\"role\": ");
	text_out_json_text(o, text, n);
	write_content(o, json_find(message, "content"));
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
	write_calls(o, json_find(message, "tool_calls"));
	text_out_string(o, "}");
}

void messages_for_template(const struct messages *m, struct text_out *out)
{
	text_out_string(out, "[");
	for (size_t i = 0; i < m->count && !out->failed; i++) {
		struct json *message;
		struct err ignored = {0};
		text_out_string(out, i > 0 ? ", " : "");
		if (json_parse_text(&message, m->items[i].json, m->items[i].n, "message",
				    &ignored) < 0) {
			out->failed = true; /* it was read or written here: only memory can lack */
			return;
		}
		write_for_template(out, message);
		json_free(message);
	}
	text_out_string(out, "]");
}
