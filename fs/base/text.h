/* A text that grows: what a file renders, what a handle collects from writes, what a command
 * prints.
 *
 * `failed` remembers that memory ran out and is checked once at the end, so that rendering a table
 * stays a list of lines. */
#ifndef MOEFS_FS_BASE_TEXT_H
#define MOEFS_FS_BASE_TEXT_H

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
/* Adds n bytes as UTF-8. U+FFFD replaces each byte that is not part of a character. */
void text_add_characters(struct text *t, const char *bytes, size_t n);
/* Adds a JSON string, quoted. U+FFFD replaces each byte that is not part of a character: JSON
 * cannot express such a byte, and readers refuse a whole file that holds one. */
void text_json(struct text *t, const char *string);
/* Adds a string on one line, as mountinfo has paths: control characters and backslashes in octal.
 */
void text_line(struct text *t, const char *string);
/* Adds a word for a shell, quoted if the shell would change it. */
void text_word(struct text *t, const char *string);
/* Writes data at offset; zeros fill the gap if the text was shorter. False: out of memory. */
bool text_put(struct text *t, size_t offset, const void *data, size_t length);
void text_cut(struct text *t, size_t length); /* to at most this length; the capacity stays */
void text_free(struct text *t);
/* FNV-1a of n bytes, continuing from `hash`: TEXT_HASH, or the hash of the bytes before. */
#define TEXT_HASH UINT64_C(0xcbf29ce484222325)
uint64_t text_hash(uint64_t hash, const void *bytes, size_t n);
/* The capacity that the text has once it has this length; SIZE_MAX: it cannot. */
size_t text_room(const struct text *t, size_t length);

#endif
