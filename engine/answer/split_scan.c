#include "engine/answer/split_scan.h"

#include "cache/utf8.h"

#include <string.h>

void scan_fail(struct split_scan *s)
{
	if (s->state == SCAN_GOOD)
		s->state = SCAN_BAD;
}

int scan_at(struct split_scan *s, size_t i)
{
	if (s->state == SCAN_GOOD && i < s->n) {
		s->reach = i < s->reach ? s->reach : i + 1;
		return (unsigned char)s->bytes[i];
	}
	if (s->state == SCAN_GOOD && !s->whole)
		s->state = SCAN_MORE;
	return -1;
}

bool scan_word(struct split_scan *s, size_t i, const char *word)
{
	size_t n = strlen(word), here = i < s->n ? s->n - i : 0;
	if (s->state != SCAN_GOOD)
		return false;
	if (here >= n)
		return memcmp(s->bytes + i, word, n) == 0;
	if (!s->whole && (here == 0 || memcmp(s->bytes + i, word, here) == 0))
		s->state = SCAN_MORE;
	return false;
}

bool scan_end(struct split_scan *s, size_t i, const char *word)
{
	size_t here = i < s->n ? s->n - i : 0;
	if (s->cut && s->state == SCAN_GOOD && here > 0 && here < strlen(word))
		return memcmp(s->bytes + i, word, here) == 0;
	return scan_word(s, i, word);
}

bool scan_is_space(int c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

size_t scan_space(struct split_scan *s, size_t i)
{
	while (scan_is_space(scan_at(s, i)))
		i++;
	return i;
}

size_t scan_until(struct split_scan *s, size_t i, char stop, const char *never)
{
	for (int c; (c = scan_at(s, i)) != stop; i++)
		if (c <= 0 || strchr(never, c)) {
			scan_fail(s);
			break;
		}
	return i;
}

size_t scan_over(struct split_scan *s, size_t i, const char *word)
{
	if (!scan_word(s, i, word))
		scan_fail(s);
	return i + strlen(word);
}

size_t scan_name(struct split_scan *s, size_t i)
{
	size_t from = i;
	for (int c; (c = scan_at(s, i)) > ' ' && !strchr("<>{}[]\"'", c);)
		i++;
	if (i == from)
		scan_fail(s);
	return i;
}

/* ---- JSON ---- */

static bool scan_is_digit(int c)
{
	return c >= '0' && c <= '9';
}

bool scan_is_number(const char *p, size_t n)
{
	const char *end = p + n;
	p += p < end && *p == '-';
	if (p == end || !scan_is_digit(*p))
		return false;
	if (*p++ != '0')
		while (p < end && scan_is_digit(*p))
			p++;
	if (p < end && *p == '.') {
		const char *from = ++p;
		while (p < end && scan_is_digit(*p))
			p++;
		if (p == from)
			return false;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		p += p < end && (*p == '+' || *p == '-');
		const char *from = p;
		while (p < end && scan_is_digit(*p))
			p++;
		if (p == from)
			return false;
	}
	return p == end;
}

/* The offset after the closing quote of the string at i. */
static size_t scan_string(struct split_scan *s, size_t i)
{
	for (int c; (c = scan_at(s, ++i)) != '"';) {
		if (c < 0x20) {
			scan_fail(s);
			return i;
		}
		if (c != '\\')
			continue;
		c = scan_at(s, ++i);
		bool good = c > 0 && strchr("\"\\/bfnrtu", c);
		for (int k = 0; good && c == 'u' && k < 4; k++)
			good = utf8_hex_digit(scan_at(s, ++i)) >= 0;
		if (!good) {
			scan_fail(s);
			return i;
		}
	}
	return i + 1;
}

static size_t scan_literal(struct split_scan *s, size_t i)
{
	static const char *const WORDS[] = {"true", "false", "null"};
	int c = scan_at(s, i);
	for (size_t w = 0; w < sizeof WORDS / sizeof *WORDS; w++)
		if (c == WORDS[w][0]) {
			if (!scan_word(s, i, WORDS[w]))
				scan_fail(s);
			return i + strlen(WORDS[w]);
		}
	size_t from = i;
	while (c > 0 && strchr("+-.0123456789eE", c))
		c = scan_at(s, ++i);
	if (s->state == SCAN_GOOD && !scan_is_number(s->bytes + from, i - from))
		scan_fail(s);
	return i;
}

static size_t scan_value(struct split_scan *s, size_t i, int depth);

static size_t scan_container(struct split_scan *s, size_t i, int depth)
{
	bool object = scan_at(s, i) == '{';
	int close = object ? '}' : ']', c;
	i = scan_space(s, i + 1);
	if (scan_at(s, i) == close)
		return i + 1;
	for (;;) {
		if (object && scan_at(s, i) != '"')
			scan_fail(s);
		if (object) {
			i = scan_space(s, s->state == SCAN_GOOD ? scan_string(s, i) : i);
			if (scan_at(s, i) != ':')
				scan_fail(s);
			i = scan_space(s, i + 1);
		}
		i = scan_space(s, scan_value(s, i, depth + 1));
		c = scan_at(s, i);
		if (c == close || s->state != SCAN_GOOD)
			return i + 1;
		if (c != ',')
			scan_fail(s);
		i = scan_space(s, i + 1);
	}
}

static size_t scan_value(struct split_scan *s, size_t i, int depth)
{
	int c = scan_at(s, i);
	if (depth > SCAN_DEPTH_MAX || c < 0)
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	if (c == '"')
		return scan_string(s, i);
	return c == '{' || c == '[' ? scan_container(s, i, depth) : scan_literal(s, i);
}

size_t scan_json(struct split_scan *s, size_t i)
{
	return scan_value(s, i, 0);
}

bool scan_is_json(const char *bytes, size_t n, char *first)
{
	struct split_scan s = {.bytes = bytes, .n = n, .whole = true};
	size_t i = scan_space(&s, 0);
	*first = i < n ? bytes[i] : '\0';
	i = scan_space(&s, scan_json(&s, i));
	return s.state == SCAN_GOOD && i == n;
}
