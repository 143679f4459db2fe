#include "engine/answer/split_python.h"

#include "engine/json/utf8.h"
#include "engine/answer/split_values.h"

#include <string.h>

/* ---- texts ---- */

static size_t scan_hex(struct scan *s, size_t i, int digits, uint32_t *out)
{
	*out = 0;
	for (int k = 0; k < digits; k++, i++) {
		int digit = utf8_hex_digit(scan_at(s, i));
		if (digit < 0)
			scan_fail(s);
		*out = *out * 16 + (digit < 0 ? 0 : (uint32_t)digit);
	}
	return i;
}

/* The character whose number is at i; two halves, as JSON has them, are one. */
static size_t scan_character(struct scan *s, size_t i, int digits, struct text_out *text)
{
	uint32_t c, low;
	char bytes[4];
	i = scan_hex(s, i, digits, &c);
	if (c >= 0xd800 && c < 0xdc00 && scan_word(s, i, "\\u")) {
		i = scan_hex(s, i + 2, 4, &low);
		c = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00)
						  : 0xd800;
	}
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		scan_fail(s);
	if (s->state == SCAN_GOOD)
		text_out_add(text, bytes, utf8_encode(c, bytes));
	return i;
}

/* Behind the escape whose backslash is at i; one that Python does not know stays as it is. */
static size_t scan_escape(struct scan *s, size_t i, struct text_out *text)
{
	static const char SHORT[] = "\\\\''\"\"//n\nr\rt\tb\bf\fa\av\v0";
	int c = scan_at(s, i + 1);
	if (c < 0)
		return i + 1;
	if (c == 'u' || c == 'U' || c == 'x')
		return scan_character(s, i + 2, c == 'x' ? 2 : c == 'u' ? 4 : 8, text);
	for (size_t k = 0; k + 1 < sizeof SHORT; k += 2)
		if (c == SHORT[k]) {
			text_out_add(text, &SHORT[k + 1], 1);
			return i + 2;
		}
	text_out_add(text, "\\", 1);
	return i + 1;
}

bool is_key_byte(int c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c > 127;
}

/* Whether what is behind a quote ends an argument: another one, or the call's end. */
static bool ends_argument(struct scan *s, size_t i)
{
	i = scan_space(s, i);
	int c = scan_at(s, i);
	if (c != ',')
		return c < 0 || c == ')';
	i = scan_space(s, i + 1);
	size_t from = i;
	while (is_key_byte(c = scan_at(s, i)))
		i++;
	return c < 0 || (i > from && scan_at(s, scan_space(s, i)) == '=');
}

/* A text in quotes, into `text`. One that is a whole argument may have quotes in it that are not
 * escaped: templates write so. */
static size_t scan_quoted(struct scan *s, size_t i, bool argument, struct text_out *text)
{
	int quote = scan_at(s, i++), c;
	while (s->state == SCAN_GOOD) {
		c = scan_at(s, i);
		if (c < 0)
			scan_fail(s);
		else if (c == '\\')
			i = scan_escape(s, i, text);
		else if (c == quote && (!argument || ends_argument(s, i + 1)))
			return i + 1;
		else
			text_out_add(text, s->bytes + i++, 1);
	}
	return i;
}

/* A text between two marks, as it is. */
static size_t scan_marked(struct scan *s, size_t i, const char *mark, struct text_out *text)
{
	size_t from = i + strlen(mark);
	for (i = from; s->state == SCAN_GOOD && !scan_word(s, i, mark); i++)
		if (scan_at(s, i) < 0)
			scan_fail(s);
	if (s->state == SCAN_GOOD)
		text_out_add(text, s->bytes + from, i - from);
	return i + strlen(mark);
}

bool begins_text(struct scan *s, size_t i, const char *quote)
{
	int c = scan_at(s, i);
	return quote ? scan_word(s, i, quote) : c == '"' || c == '\'';
}

size_t scan_text(struct scan *s, size_t i, const char *quote, bool argument, struct text_out *out)
{
	struct text_out text = {0};
	i = quote ? scan_marked(s, i, quote, &text) : scan_quoted(s, i, argument, &text);
	text_out_json_text(out, text.n ? text.bytes : "", text.n);
	out->failed |= text.failed;
	text_out_free(&text);
	return i;
}

/* ---- values ---- */

static size_t scan_literal(struct scan *s, size_t i, struct text_out *out)
{
	static const char *const WORDS[][2] = {{"True", "true"},   {"true", "true"},
					       {"False", "false"}, {"false", "false"},
					       {"None", "null"},   {"null", "null"}};
	size_t from = i;
	for (int c; (c = scan_at(s, i)) > ' ' && !strchr(",:)]}<`", c);)
		i++;
	size_t n = i - from;
	if (s->state != SCAN_GOOD)
		return i;
	for (size_t k = 0; k < sizeof WORDS / sizeof *WORDS; k++)
		if (strlen(WORDS[k][0]) == n && memcmp(s->bytes + from, WORDS[k][0], n) == 0) {
			text_out_string(out, WORDS[k][1]);
			return i;
		}
	if (is_json_number(s->bytes + from, n))
		text_out_add(out, s->bytes + from, n);
	else
		scan_fail(s);
	return i;
}

static size_t scan_deep(struct scan *s, size_t i, const char *quote, int depth,
			struct text_out *out);

/* The key at i and the colon behind it. */
static size_t scan_key(struct scan *s, size_t i, const char *quote, struct text_out *out)
{
	if (begins_text(s, i, quote)) {
		struct text_out text = {0};
		i = quote ? scan_marked(s, i, quote, &text) : scan_quoted(s, i, false, &text);
		if (text.n > 0 && memchr(text.bytes, '\0', text.n))
			scan_fail(s); /* no reader takes such a key */
		text_out_json_text(out, text.n ? text.bytes : "", text.n);
		out->failed |= text.failed;
		text_out_free(&text);
	} else {
		size_t to = quote ? scan_until(s, i, ':', "{}[],<>\n") : i;
		if (to == i)
			scan_fail(s);
		if (s->state == SCAN_GOOD)
			text_out_json_text(out, s->bytes + i, to - i);
		i = to;
	}
	i = scan_space(s, i);
	if (scan_at(s, i) != ':')
		scan_fail(s);
	text_out_string(out, ": ");
	return scan_space(s, i + 1);
}

/* A list, a tuple or an object. */
static size_t scan_container(struct scan *s, size_t i, const char *quote, int depth,
			     struct text_out *out)
{
	int open = scan_at(s, i), close = open == '{' ? '}' : open == '[' ? ']' : ')';
	text_out_string(out, open == '{' ? "{" : "[");
	i = scan_space(s, i + 1);
	for (bool first = true; s->state == SCAN_GOOD && scan_at(s, i) != close; first = false) {
		text_out_string(out, first ? "" : ", ");
		if (open == '{')
			i = scan_key(s, i, quote, out);
		i = scan_space(s, scan_deep(s, i, quote, depth + 1, out));
		if (scan_at(s, i) == ',')
			i = scan_space(s, i + 1);
		else if (scan_at(s, i) != close)
			scan_fail(s);
	}
	text_out_string(out, open == '{' ? "}" : "]");
	return i + 1;
}

static size_t scan_deep(struct scan *s, size_t i, const char *quote, int depth,
			struct text_out *out)
{
	int c = scan_at(s, i);
	if (depth > SCAN_DEPTH_MAX || c < 0)
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	if (begins_text(s, i, quote))
		return scan_text(s, i, quote, false, out);
	bool container = c == '{' || c == '[' || (c == '(' && !quote);
	return container ? scan_container(s, i, quote, depth, out) : scan_literal(s, i, out);
}

size_t scan_python(struct scan *s, size_t i, const char *quote, struct text_out *out)
{
	return scan_deep(s, i, quote, 0, out);
}

bool write_python_by_schema(struct text_out *out, const char *value, size_t n,
			    const struct json *schema)
{
	struct scan s = {.bytes = value, .n = n, .whole = true};
	struct text_out json = {0};
	char first;
	size_t i = scan_space(&s, 0);
	bool wanted = i < n && (value[i] == '{' || value[i] == '[') && !is_json(value, n, &first);
	if (!wanted)
		return false;
	i = scan_space(&s, scan_python(&s, i, NULL, &json));
	bool good = s.state == SCAN_GOOD && i == n && !json.failed;
	if (good)
		write_by_schema(out, json.bytes, json.n, schema);
	good = good && out->n > 0 && out->bytes[0] != '"';
	if (!good)
		out->n = 0;
	text_out_free(&json);
	return good;
}
