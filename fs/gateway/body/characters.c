/* See characters.h. */
#include "fs/gateway/body/characters.h"

#include <stdint.h>

/* How many bytes the character at the beginning has; 0: none begins there. Neither surrogates nor
 * more bytes than needed (RFC 3629). */
static size_t character(const uint8_t *s, size_t n)
{
	static const struct {
		uint8_t first, last, second_least, second_most, size;
	} rows[] = {
		{0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t size = rows[i].size;
		if (s[0] < rows[i].first || s[0] > rows[i].last)
			continue;
		if (size > n ||
		    (size > 1 && (s[1] < rows[i].second_least || s[1] > rows[i].second_most)))
			return 0;
		for (size_t k = 2; k < size; k++)
			if ((s[k] & 0xc0) != 0x80)
				return 0;
		return size;
	}
	return 0;
}

void text_add_characters(struct text *out, const char *bytes, size_t n)
{
	const uint8_t *s = (const uint8_t *)bytes;
	size_t begin = 0;
	for (size_t at = 0; at < n;) {
		size_t size = character(s + at, n - at);
		if (!size) {
			text_add(out, bytes + begin, at - begin);
			text_string(out, "\xef\xbf\xbd");
			begin = at + 1;
		}
		at += size ? size : 1;
	}
	text_add(out, bytes + begin, n - begin);
}
