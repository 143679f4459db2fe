/* Writing JSON into a text that grows: what json.h reads, it writes back the same. */
#ifndef MOEFS_ENGINE_JSON_JSON_WRITE_H
#define MOEFS_ENGINE_JSON_JSON_WRITE_H

#include "engine/json/json.h"

/* Zero-initialise; freed by text_out_free. Once memory was out nothing more is added, so that who
 * writes asks once. */
struct text_out {
	char *bytes; /* a NUL that n does not count follows, if there is any */
	size_t n, room;
	bool failed;
	bool counts; /* for who sets it: nothing is kept, n tells how much it would be */
};
void text_out_add(struct text_out *o, const char *bytes, size_t n);
void text_out_string(struct text_out *o, const char *text);
void text_out_free(struct text_out *o);

/* A text in quotes. Escaped is what must be: quotes, backslashes, and characters below U+0020;
 * bytes that are no UTF-8 become U+FFFD. */
void json_write_text(struct text_out *o, const char *bytes, size_t n);
/* A value on one line, with ", " and ": " between its parts. Numbers keep their spelling, keys
 * their order. */
void json_write(struct text_out *o, const struct json *value);

#endif
