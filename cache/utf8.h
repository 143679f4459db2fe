/* UTF-8: validation, and reading and writing single characters. Well-formed UTF-8 is defined by
 * table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing beyond U+10FFFF.
 *
 * In the lowest layer, since the sentences of errors are UTF-8. */
#ifndef MOEFS_CACHE_UTF8_H
#define MOEFS_CACHE_UTF8_H

#include "cache/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of a character, given its first byte; 0: no character begins with this byte. */
uint32_t utf8_promised_length(char lead);
/* The second byte of a character that begins with `lead` is in [*low, *high]. Later bytes are in
 * [0x80, 0xbf].
 */
void utf8_second_byte(uint8_t lead, uint8_t *low, uint8_t *high);
/* Bytes of the character at the start of text[n]; 0: no character, or an incomplete one. */
size_t utf8_length(const char *text, size_t n);
/* Length of the longest valid prefix of text[n]; n if all of it is UTF-8. */
size_t utf8_valid_length(const char *text, size_t n);

/* Returns 0 if text[n] is UTF-8; else -EILSEQ and a sentence with the offset. (Defined here because
 * err.c uses utf8.c.) */
static inline int utf8_check(const char *text, size_t n, struct err *e)
{
	size_t valid = utf8_valid_length(text, n);
	if (valid == n)
		return 0;
	return err_set(e, EILSEQ,
		       "the text is not valid UTF-8 at byte %zu (0x%02x); convert it, for example "
		       "with iconv",
		       valid, (unsigned)(uint8_t)text[valid]);
}

/* Whether a byte is a continuation byte. */
static inline bool utf8_goes_on(char byte)
{
	return ((uint8_t)byte & 0xc0) == 0x80;
}
/* The start of the character that contains text[at]; everything before is whole characters. */
static inline size_t utf8_begin(const char *text, size_t at)
{
	while (at > 0 && utf8_goes_on(text[at]))
		at--;
	return at;
}

/* The first character of s, and its length in bytes. s is valid UTF-8 and not empty. */
uint32_t utf8_decode(const char *s, size_t *length);
/* Writes a character (at most U+10FFFF) in 1 to 4 bytes; returns their number. */
size_t utf8_encode(uint32_t character, char *out);

/* For streams: holds back the bytes of an incomplete character until it is complete. Bytes that can
 * never become a character pass unchanged. */
struct utf8_hold {
	uint8_t bytes[4];
	uint32_t count;
};
/* Takes n bytes, writes at most n + 3 bytes to `out`, and returns the number written. */
size_t utf8_hold_feed(struct utf8_hold *h, const char *bytes, size_t n, char *out);
/* At the end of the stream: writes the bytes still held, at most 3, and returns their number. */
size_t utf8_hold_flush(struct utf8_hold *h, char *out);

/* The value of a hexadecimal digit, or -1. */
static inline int utf8_hex_digit(int c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

#endif
