/* UTF-8; utf8.h defines well-formed UTF-8. */
#include "cache/utf8.h"

#include <string.h>

uint32_t utf8_promised_length(char first)
{
	uint8_t lead = (uint8_t)first;
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

void utf8_second_byte(uint8_t lead, uint8_t *low, uint8_t *high)
{
	*low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;  /* below: overlong forms */
	*high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf; /* above: surrogates, U+110000 */
}

/* Whether `byte` may stand at position `at` (1 .. 3) of a character that begins with `lead`. */
static bool utf8_may_continue(uint8_t lead, uint32_t at, uint8_t byte)
{
	uint8_t low = 0x80, high = 0xbf;
	if (at == 1)
		utf8_second_byte(lead, &low, &high);
	return byte >= low && byte <= high;
}

size_t utf8_length(const char *text, size_t n)
{
	const uint8_t *s = (const uint8_t *)text;
	uint32_t length = n ? utf8_promised_length(*text) : 0;
	if (length > n)
		return 0;
	for (uint32_t at = 1; at < length; at++)
		if (!utf8_may_continue(s[0], at, s[at]))
			return 0;
	return length;
}

size_t utf8_valid_length(const char *text, size_t n)
{
	size_t i = 0;
	for (size_t length = 1; i < n && length > 0; i += length)
		length = utf8_length(text + i, n - i);
	return i;
}

uint32_t utf8_decode(const char *s, size_t *length)
{
	static const uint8_t lead_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	const uint8_t *u = (const uint8_t *)s;
	uint32_t bytes = utf8_promised_length(*s);
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
		if (h->count >= utf8_promised_length((char)h->bytes[0]))
			written += utf8_hold_flush(h, out + written);
	}
	return written;
}
