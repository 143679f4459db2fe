/* UTF-8: is it valid, and one character at a time. Well-formed is what table 3-7 of the Unicode
 * standard says: no overlong forms, no surrogates, nothing beyond U+10FFFF.
 */
#ifndef MOEFS_ENGINE_JSON_UTF8_H
#define MOEFS_ENGINE_JSON_UTF8_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the longest valid prefix of text[n]: n where all of it is UTF-8. */
size_t utf8_valid_length(const char *text, size_t n);
/* The same as an answer for people: 0, or -EILSEQ and a sentence with the offset. */
int utf8_check(const char *text, size_t n, struct err *e);

/* Whether a byte goes on with a character that began before it. */
static inline bool utf8_goes_on(char byte)
{
	return ((uint8_t)byte & 0xc0) == 0x80;
}
/* Where the character begins that text[at] is a byte of: up to there are whole characters. */
static inline size_t utf8_begin(const char *text, size_t at)
{
	while (at > 0 && utf8_goes_on(text[at]))
		at--;
	return at;
}

/* The character that s begins with, and the bytes that it takes; s is valid UTF-8, not empty. */
uint32_t utf8_decode(const char *s, size_t *length);
/* Writes a character (at most U+10FFFF), 1 to 4 bytes; returns how many. */
size_t utf8_encode(uint32_t character, char *out);

/* Streaming UTF-8: holds back the bytes of a character until it is whole. Bytes that can never
 * become a character pass as they are. */
struct utf8_hold {
	uint8_t bytes[4];
	uint32_t count;
};
/* Feeds n bytes; writes at most n + 3 bytes to out, returns how many. */
size_t utf8_hold_feed(struct utf8_hold *h, const char *bytes, size_t n, char *out);
/* At the end of the text: what is still held, at most 3 bytes. */
size_t utf8_hold_flush(struct utf8_hold *h, char *out);

#endif
