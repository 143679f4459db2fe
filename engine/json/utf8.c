/* UTF-8; utf8.h says what is well-formed. */
#include "engine/json/utf8.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* The length of a character by its first byte; 0 if no character begins with this byte. */
static uint32_t utf8_sequence_length(uint8_t lead)
{
	if (lead < 0x80)
		return 1;
	if (lead < 0xc2) /* a continuation byte, or an overlong form */
		return 0;
	if (lead < 0xe0)
		return 2;
	if (lead < 0xf0)
		return 3;
	return lead < 0xf5 ? 4 : 0;
}

/* Whether `byte` may stand at position `at` (1 .. 3) of a character that begins with `lead`. */
static bool utf8_may_continue(uint8_t lead, uint32_t at, uint8_t byte)
{
	uint8_t low = 0x80, high = 0xbf;
	if (at == 1) {
		if (lead == 0xe0) /* below are overlong forms */
			low = 0xa0;
		else if (lead == 0xed) /* above are surrogates */
			high = 0x9f;
		else if (lead == 0xf0) /* below are overlong forms */
			low = 0x90;
		else if (lead == 0xf4) /* above is U+110000 */
			high = 0x8f;
	}
	return byte >= low && byte <= high;
}

size_t utf8_valid_length(const char *text, size_t n)
{
	const uint8_t *s = (const uint8_t *)text;
	size_t i = 0;
	while (i < n) {
		uint32_t length = utf8_sequence_length(s[i]);
		if (length == 0 || length > n - i)
			return i;
		for (uint32_t at = 1; at < length; at++)
			if (!utf8_may_continue(s[i], at, s[i + at]))
				return i;
		i += length;
	}
	return n;
}

int utf8_check(const char *text, size_t n, struct err *e)
{
	size_t valid = utf8_valid_length(text, n);
	if (valid == n)
		return 0;
	return err_set(e, EILSEQ,
		       "the text is not valid UTF-8 at byte %zu (0x%02x); convert it, for example "
		       "with iconv",
		       valid, (unsigned)(uint8_t)text[valid]);
}

uint32_t utf8_decode(const char *s, size_t *length)
{
	static const uint8_t lead_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	const uint8_t *u = (const uint8_t *)s;
	uint32_t bytes = utf8_sequence_length(u[0]);
	uint32_t character = u[0] & lead_bits[bytes];
	for (uint32_t i = 1; i < bytes; i++)
		character = character << 6 | (u[i] & 0x3f);
	*length = bytes;
	return character;
}

size_t utf8_encode(uint32_t character, char *out)
{
	if (character < 0x80) {
		out[0] = (char)character;
		return 1;
	}
	size_t n = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
	static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (size_t i = n - 1; i > 0; i--, character >>= 6)
		out[i] = (char)(0x80 | (character & 0x3f));
	out[0] = (char)(lead[n] | character);
	return n;
}

size_t utf8_hold_flush(struct utf8_hold *h, char *out)
{
	size_t n = h->count;
	memcpy(out, h->bytes, n);
	h->count = 0;
	return n;
}

size_t utf8_hold_feed(struct utf8_hold *h, const char *bytes, size_t n, char *out)
{
	size_t written = 0;
	for (size_t i = 0; i < n; i++) {
		uint8_t byte = (uint8_t)bytes[i];
		/* The held bytes can no longer become a character: they pass unchanged. */
		if (h->count > 0 && !utf8_may_continue(h->bytes[0], h->count, byte))
			written += utf8_hold_flush(h, out + written);
		h->bytes[h->count++] = byte;
		/* A whole character (length 1: ASCII), or a byte that begins none (length 0). */
		if (h->count >= utf8_sequence_length(h->bytes[0]))
			written += utf8_hold_flush(h, out + written);
	}
	return written;
}
