/* Reads calls and values in Python's syntax, and in Gemma's, which is similar. */
#include "engine/answer/split_forms.h"

#include "engine/answer/split_calls.h"
#include "cache/utf8.h"

#include <string.h>

/* ---- texts ---- */

static size_t python_hex(struct split_scan *s, size_t i, int digits, uint32_t *out)
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

/* Reads the character whose code is at i; a surrogate pair, as in JSON, is one character. */
static size_t python_character(struct split_scan *s, size_t i, int digits, struct text_out *text)
{
	uint32_t c, low;
	char bytes[4];
	i = python_hex(s, i, digits, &c);
	if (c >= 0xd800 && c < 0xdc00 && scan_word(s, i, "\\u")) {
		i = python_hex(s, i + 2, 4, &low);
		c = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00)
						  : 0xd800;
	}
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		scan_fail(s);
	if (s->state == SCAN_GOOD)
		text_out_add(text, bytes, utf8_encode(c, bytes));
	return i;
}

/* Reads the escape whose backslash is at i; an escape that Python does not know is kept. */
static size_t python_escape(struct split_scan *s, size_t i, struct text_out *text)
{
	static const char SHORT[] = "\\\\''\"\"//n\nr\rt\tb\bf\fa\av\v0";
	int c = scan_at(s, i + 1);
	if (c < 0)
		return i + 1;
	if (c == 'u' || c == 'U' || c == 'x')
		return python_character(s, i + 2, c == 'x' ? 2 : c == 'u' ? 4 : 8, text);
	for (size_t k = 0; k + 1 < sizeof SHORT; k += 2)
		if (c == SHORT[k]) {
			text_out_add(text, &SHORT[k + 1], 1);
			return i + 2;
		}
	text_out_add(text, "\\", 1);
	return i + 1;
}

/* A byte of an argument's name. */
static bool python_is_key_byte(int c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c > 127;
}

/* Whether the text after a quote ends an argument: another argument follows, or the call's end. */
static bool python_ends_argument(struct split_scan *s, size_t i)
{
	i = scan_space(s, i);
	int c = scan_at(s, i);
	if (c != ',')
		return c < 0 || c == ')';
	i = scan_space(s, i + 1);
	size_t from = i;
	while (python_is_key_byte(c = scan_at(s, i)))
		i++;
	return c < 0 || (i > from && scan_at(s, scan_space(s, i)) == '=');
}

/* Reads a quoted string into `text`. If the string is a whole argument, it may contain quotes that
 * are not escaped, since templates write such strings. */
static size_t python_quoted(struct split_scan *s, size_t i, bool argument, struct text_out *text)
{
	int quote = scan_at(s, i++), c;
	while (s->state == SCAN_GOOD) {
		c = scan_at(s, i);
		if (c < 0)
			scan_fail(s);
		else if (c == '\\')
			i = python_escape(s, i, text);
		else if (c == quote && (!argument || python_ends_argument(s, i + 1)))
			return i + 1;
		else
			text_out_add(text, s->bytes + i++, 1);
	}
	return i;
}

/* Reads the text between two marks, without escapes. */
static size_t python_marked(struct split_scan *s, size_t i, const char *mark, struct text_out *text)
{
	size_t from = i + strlen(mark);
	for (i = from; s->state == SCAN_GOOD && !scan_word(s, i, mark); i++)
		if (scan_at(s, i) < 0)
			scan_fail(s);
	if (s->state == SCAN_GOOD)
		text_out_add(text, s->bytes + from, i - from);
	return i + strlen(mark);
}

static bool python_begins_text(struct split_scan *s, size_t i, const char *quote)
{
	int c = scan_at(s, i);
	return quote ? scan_word(s, i, quote) : c == '"' || c == '\'';
}

static size_t python_text(struct split_scan *s, size_t i, const char *quote, bool argument,
			  struct text_out *out)
{
	struct text_out text = {0};
	i = quote ? python_marked(s, i, quote, &text) : python_quoted(s, i, argument, &text);
	text_out_json_text(out, text.n ? text.bytes : "", text.n);
	out->failed |= text.failed;
	text_out_free(&text);
	return i;
}

/* ---- values ---- */

static size_t python_literal(struct split_scan *s, size_t i, struct text_out *out)
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
	if (scan_is_number(s->bytes + from, n))
		text_out_add(out, s->bytes + from, n);
	else
		scan_fail(s);
	return i;
}

static size_t python_value_at(struct split_scan *s, size_t i, const char *quote, int depth,
			      struct text_out *out);

/* Reads the key at i and the colon after it. */
static size_t python_key(struct split_scan *s, size_t i, const char *quote, struct text_out *out)
{
	if (python_begins_text(s, i, quote)) {
		struct text_out text = {0};
		i = quote ? python_marked(s, i, quote, &text) : python_quoted(s, i, false, &text);
		if (text.n > 0 && memchr(text.bytes, '\0', text.n))
			scan_fail(s); /* json_parse_text refuses such a key */
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
static size_t python_container(struct split_scan *s, size_t i, const char *quote, int depth,
			       struct text_out *out)
{
	int open = scan_at(s, i), close = open == '{' ? '}' : open == '[' ? ']' : ')';
	text_out_string(out, open == '{' ? "{" : "[");
	i = scan_space(s, i + 1);
	for (bool first = true; s->state == SCAN_GOOD && scan_at(s, i) != close; first = false) {
		text_out_string(out, first ? "" : ", ");
		if (open == '{')
			i = python_key(s, i, quote, out);
		i = scan_space(s, python_value_at(s, i, quote, depth + 1, out));
		if (scan_at(s, i) == ',')
			i = scan_space(s, i + 1);
		else if (scan_at(s, i) != close)
			scan_fail(s);
	}
	text_out_string(out, open == '{' ? "}" : "]");
	return i + 1;
}

static size_t python_value_at(struct split_scan *s, size_t i, const char *quote, int depth,
			      struct text_out *out)
{
	int c = scan_at(s, i);
	if (depth > SCAN_DEPTH_MAX || c < 0)
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	if (python_begins_text(s, i, quote))
		return python_text(s, i, quote, false, out);
	bool container = c == '{' || c == '[' || (c == '(' && !quote);
	return container ? python_container(s, i, quote, depth, out) : python_literal(s, i, out);
}

/* Reads the value at i, writes it as JSON and returns the offset after it. `quote`: the mark around
 * strings, which then have no escapes, and around keys, where it is optional; NULL: Python's
 * quotes. */
static size_t python_value(struct split_scan *s, size_t i, const char *quote, struct text_out *out)
{
	return python_value_at(s, i, quote, 0, out);
}

bool python_write_by_schema(struct text_out *out, const char *value, size_t n,
			    const struct json *schema)
{
	struct split_scan s = {.bytes = value, .n = n, .whole = true};
	struct text_out json = {0};
	char first;
	size_t i = scan_space(&s, 0);
	bool wanted =
		i < n && (value[i] == '{' || value[i] == '[') && !scan_is_json(value, n, &first);
	if (!wanted)
		return false;
	i = scan_space(&s, python_value(&s, i, NULL, &json));
	bool good = s.state == SCAN_GOOD && i == n && !json.failed;
	if (good)
		calls_write_by_schema(out, json.bytes, json.n, schema);
	good = good && out->n > 0 && out->bytes[0] != '"';
	if (!good)
		out->n = 0;
	text_out_free(&json);
	return good;
}

/* ---- calls ---- */

static bool python_is_name_byte(int c)
{
	return python_is_key_byte(c) || c == '-' || c == '.';
}

static size_t python_function_name(struct split_scan *s, size_t i)
{
	size_t from = i;
	while (python_is_name_byte(scan_at(s, i)))
		i++;
	if (i == from)
		scan_fail(s);
	return i;
}

/* Reads KEY=VALUE and the comma after it. */
static size_t python_keyword(struct split_scan *s, size_t i, struct arguments *a)
{
	size_t key = i, key_end = python_function_name(s, i);
	i = scan_space(s, key_end);
	if (scan_at(s, i) != '=')
		scan_fail(s);
	i = scan_space(s, i + 1);
	struct text_out *o =
		s->state == SCAN_GOOD ? call_arguments_add(a, s->bytes + key, key_end - key) : NULL;
	if (!o)
		return i;
	i = python_begins_text(s, i, NULL) ? python_text(s, i, NULL, true, o)
					   : python_value(s, i, NULL, o);
	i = scan_space(s, i);
	if (scan_at(s, i) == ',')
		return scan_space(s, i + 1);
	if (scan_at(s, i) != ')')
		scan_fail(s);
	return i;
}

/* Reads NAME(...). `suffix`: text after the name that is not part of the name. */
static size_t python_call(struct split_scan *s, size_t i, const char *suffix,
			  const struct json *tools, struct calls *calls)
{
	struct arguments a = {0};
	bool known = true;
	size_t name = i, n = (i = python_function_name(s, i)) - name,
	       tail = suffix ? strlen(suffix) : 0;
	if (scan_at(s, i) != '(')
		scan_fail(s);
	if (s->state != SCAN_GOOD)
		return i;
	if (n > tail && tail > 0 && memcmp(s->bytes + i - tail, suffix, tail) == 0)
		n -= tail;
	if (tools)
		calls_tool_properties(tools, s->bytes + name, n, &known);
	i = scan_space(s, i + 1);
	while (s->state == SCAN_GOOD && scan_at(s, i) != ')' && !a.failed)
		i = python_keyword(s, i, &a);
	if (!known ||
	    (s->state == SCAN_GOOD && !call_arguments_append(&a, s->bytes + name, n, calls)))
		scan_fail(s);
	call_arguments_free(&a);
	return i + 1;
}

size_t python_read_calls(struct split_scan *s, size_t i, const struct call_way *way,
			 const struct json *tools, struct calls *calls)
{
	static const char FENCE[] = "```python", FENCE_END[] = "```";
	const struct python_words *w = way->python;
	bool marked = strcmp(way->begin, "[") != 0;
	i = scan_space(s, marked ? i + strlen(way->begin) : i);
	bool fenced = scan_word(s, i, FENCE);
	i = fenced ? scan_space(s, i + strlen(FENCE)) : i;
	bool list = scan_at(s, i) == '[';
	i = list ? scan_space(s, i + 1) : i;
	do {
		i = scan_space(s, python_call(s, i, w->call, marked ? NULL : tools, calls));
		if (scan_at(s, i) == ',')
			i = scan_space(s, i + 1);
	} while (s->state == SCAN_GOOD && python_is_name_byte(scan_at(s, i)));
	if (list && scan_at(s, i) != ']')
		scan_fail(s);
	i = list ? scan_space(s, i + 1) : i;
	if (fenced && !scan_word(s, i, FENCE_END))
		scan_fail(s);
	i = fenced ? scan_space(s, i + strlen(FENCE_END)) : i;
	if (w->end && scan_end(s, i, w->end))
		return i + strlen(w->end);
	if (scan_at(s, i) >= 0)
		scan_fail(s);
	return i;
}

size_t python_read_brace_call(struct split_scan *s, size_t i, const struct call_way *way,
			      const struct json *tools, struct calls *calls)
{
	const struct python_words *w = way->python;
	struct text_out name = {0}, arguments = {0};
	(void)tools;
	i = scan_space(s, i + strlen(way->begin));
	if (!scan_word(s, i, w->call))
		scan_fail(s);
	size_t from = i + strlen(w->call);
	i = python_function_name(s, from);
	if (scan_at(s, i) != '{')
		scan_fail(s);
	if (s->state == SCAN_GOOD)
		text_out_add(&name, s->bytes + from, i - from);
	i = scan_space(s, python_value(s, i, w->quote, &arguments));
	bool closed = scan_end(s, i, w->end);
	if (!closed && scan_at(s, i) >= 0)
		scan_fail(s);
	if (s->state != SCAN_GOOD) {
		text_out_free(&name);
		text_out_free(&arguments);
	} else if (!calls_append(calls, &name, &arguments))
		scan_fail(s);
	return closed ? i + strlen(w->end) : i;
}
