/* A text that grows, and JSON written into it. What json.h reads, text_out_json writes back the
 * same. */
#ifndef MOEFS_ENGINE_JSON_TEXT_OUT_H
#define MOEFS_ENGINE_JSON_TEXT_OUT_H

#include "engine/json/json.h"

/* Zero-initialise; freed by text_out_free. After a failed allocation nothing more is added, so the
 * writer checks `failed` once at the end. */
struct text_out {
	char *bytes; /* NULL while empty; else followed by a NUL that n does not count */
	size_t n, room;
	bool failed;
	bool counts; /* set by the caller: keeps nothing, and n counts the bytes */
};
void text_out_add(struct text_out *o, const char *bytes, size_t n);
void text_out_string(struct text_out *o, const char *text);
void text_out_free(struct text_out *o);

/* Writes a string in quotes. Escapes quotes, backslashes and characters below U+0020. Each byte
 * that is not UTF-8 becomes U+FFFD. */
void text_out_json_text(struct text_out *o, const char *bytes, size_t n);
/* Writes a value on one line, with ", " and ": " as separators. Numbers keep their spelling, keys
 * their order. */
void text_out_json(struct text_out *o, const struct json *value);

#endif
