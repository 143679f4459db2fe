#include "engine/json/json.h"
#include "engine/json/text_out.h"
#include "cache/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_out_add(struct text_out *o, const char *bytes, size_t n)
{
	if (o->failed)
		return;
	if (o->counts) {
		o->n += n;
		return;
	}
	if (n + 1 > o->room - o->n) {
		size_t room = 2 * (o->n + n) + 64;
		char *moved = realloc(o->bytes, room);
		if (!moved) {
			o->failed = true;
			return;
		}
		o->bytes = moved;
		o->room = room;
	}
	if (n > 0)
		memcpy(o->bytes + o->n, bytes, n);
	o->n += n;
	o->bytes[o->n] = '\0';
}

void text_out_string(struct text_out *o, const char *text)
{
	text_out_add(o, text, strlen(text));
}

void text_out_free(struct text_out *o)
{
	free(o->bytes);
	*o = (struct text_out){0};
}

static void text_out_escape(struct text_out *o, unsigned char c)
{
	static const char SHORT[] = "\"\"\\\\\bb\ff\nn\rr\tt";
	char escape[8];
	for (const char *s = SHORT; *s; s += 2)
		if ((unsigned char)*s == c) {
			text_out_add(o, (const char[]){'\\', s[1]}, 2);
			return;
		}
	(void)snprintf(escape, sizeof escape, "\\u%04x", c);
	text_out_add(o, escape, 6);
}

void text_out_json_text(struct text_out *o, const char *bytes, size_t n)
{
	text_out_add(o, "\"", 1);
	for (size_t at = 0; at < n;) {
		size_t valid = utf8_valid_length(bytes + at, n - at);
		size_t end = at + valid;
		for (size_t i = at; i < end; i++) {
			unsigned char c = (unsigned char)bytes[i];
			if (c >= 0x20 && c != '"' && c != '\\')
				continue;
			text_out_add(o, bytes + at, i - at);
			text_out_escape(o, c);
			at = i + 1;
		}
		text_out_add(o, bytes + at, end - at);
		at = end;
		if (at < n) {
			text_out_string(o, "\xef\xbf\xbd"); /* U+FFFD */
			at++;
		}
	}
	text_out_add(o, "\"", 1);
}

/* Recursion is bounded by JSON_DEPTH_MAX. */
void text_out_json(struct text_out *o, const struct json *value)
{
	bool object = json_kind(value) == JSON_OBJECT;
	const char *between = "";
	switch (json_kind(value)) {
	case JSON_NULL:
		text_out_string(o, "null");
		return;
	case JSON_BOOL:
	case JSON_NUMBER:
		text_out_add(o, value->text, value->length);
		return;
	case JSON_TEXT:
		text_out_json_text(o, value->text, value->length);
		return;
	default:
		break;
	}
	text_out_string(o, object ? "{" : "[");
	for (const struct json *v = NULL; (v = json_next(value, v)); between = ", ") {
		text_out_string(o, between);
		if (object) {
			text_out_json_text(o, v[-1].text, v[-1].length);
			text_out_string(o, ": ");
		}
		text_out_json(o, v);
	}
	text_out_string(o, object ? "}" : "]");
}
