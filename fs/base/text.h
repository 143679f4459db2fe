/* A text that grows: what a file renders, and what a handle collects from writes.
 *
 * Running out of memory is remembered in `failed` and checked once at the end, so that rendering a
 * table stays a list of lines. */
#ifndef MOEFS_FS_TEXT_H
#define MOEFS_FS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	char *data; /* length bytes, not terminated; NULL while nothing was ever added */
	size_t length, capacity;
	bool failed; /* out of memory; the text is incomplete */
};

void text_add(struct text *t, const void *data, size_t length);
void text_string(struct text *t, const char *string);
__attribute__((format(printf, 2, 3))) void text_format(struct text *t, const char *format, ...);
/* Adds bytes as UTF-8: U+FFFD replaces each byte that is part of no character. */
void text_add_characters(struct text *t, const char *bytes, size_t n);
/* As a JSON string, quoted. U+FFFD replaces each byte that is part of no character: JSON has no way
 * to write such a byte, and readers refuse all of a file that holds one. */
void text_json(struct text *t, const char *string);
/* In one line, as mountinfo has paths: control characters and backslashes in octal. */
void text_line(struct text *t, const char *string);
/* As a shell's word: within quotes, where a shell would read it otherwise. */
void text_word(struct text *t, const char *string);
/* Puts data at offset, zeros before it where the text was shorter. False: out of memory. */
bool text_put(struct text *t, size_t offset, const void *data, size_t length);
void text_cut(struct text *t, size_t length); /* to at most this length; capacity stays */
void text_free(struct text *t);
/* The capacity that it has once it is so long; SIZE_MAX: it never is. */
size_t text_room(const struct text *t, size_t length);

/* A size as people write it: digits, perhaps with a point, and if any one of K, M, G, T (powers of
 * 1024; KB and KiB are the same), or a percentage of the whole (0: that is unknown). False: not a
 * size, more than the whole, or beyond 64 bits. */
bool size_parse(const char *string, uint64_t whole, uint64_t *bytes);
/* A time as people write it: a whole number and s, m or h. False: it is none, 0, or beyond 32 bits.
 */
bool seconds_parse(const char *string, uint32_t *seconds);
/* The same value in the largest unit that divides it, so that it reads back. */
void size_print(char *buffer, size_t size, uint64_t bytes);

#endif
