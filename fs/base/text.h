/* A text that grows: the contents that a file renders, the writes that a handle collects, the
 * output that a command prints.
 *
 * `failed` records that memory ran out. Check it once at the end; so rendering a table is a plain
 * list of lines. */
#ifndef MOEFS_FS_BASE_TEXT_H
#define MOEFS_FS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	char *data; /* length bytes, not terminated; NULL before anything is added */
	size_t length, capacity;
	bool failed; /* out of memory; the text is incomplete */
};

void text_add(struct text *t, const void *data, size_t length);
void text_string(struct text *t, const char *string);
__attribute__((format(printf, 2, 3))) void text_format(struct text *t, const char *format, ...);
/* Adds n bytes as UTF-8. U+FFFD replaces each byte that is not part of a character. */
void text_add_characters(struct text *t, const char *bytes, size_t n);
/* Adds a JSON string, quoted. U+FFFD replaces each byte that is not part of a character: JSON
 * cannot express such a byte, and a reader would refuse the whole file. */
void text_json(struct text *t, const char *string);
/* Adds a string on one line, with control characters and backslashes in octal as in mountinfo. */
void text_line(struct text *t, const char *string);
/* Adds a word for a shell, quoted if the shell would change the word. */
void text_word(struct text *t, const char *string);
/* Writes data at offset. Zeros fill a gap after a shorter text. False: out of memory. */
bool text_put(struct text *t, size_t offset, const void *data, size_t length);
void text_cut(struct text *t, size_t length); /* cuts to at most this length; the capacity stays */
void text_free(struct text *t);
/* Returns the FNV-1a hash of n bytes. hash: TEXT_HASH, or the hash of the bytes before. */
#define TEXT_HASH UINT64_C(0xcbf29ce484222325)
uint64_t text_hash(uint64_t hash, const void *bytes, size_t n);
/* The capacity that the text would have with this length; SIZE_MAX: too long. */
size_t text_room(const struct text *t, size_t length);

#endif
