#include "engine/template/template_parse.h"

#include "cache/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BRACKETS_MAX = 200 }; /* open at once */

struct lexer {
	struct template_run *r;
	const char *at, *end;
	const char *counted; /* r->line is counted up to here */
	bool line_begins;    /* at the start of a line */
	char open[BRACKETS_MAX];
	int depth;
	struct token_array *tokens;
	struct template_token spare; /* returned if there is no memory for a token */
};

static struct template_token *lex_add(struct lexer *l, enum token_kind kind, const char *text,
				      size_t n)
{
	struct token_array *t = l->tokens;
	for (; l->counted < l->at; l->counted++)
		l->r->line += *l->counted == '\n';
	struct template_token *items =
		template_grow(l->r, t->items, t->count, &t->room, sizeof *items);
	if (!items)
		return &l->spare;
	t->items = items;
	t->items[t->count] =
		(struct template_token){.kind = kind, .line = l->r->line, .text = text, .n = n};
	return &t->items[t->count++];
}

/* ---- between tags ---- */

static const char *lex_skip_space(const char *at, const char *end)
{
	for (size_t step; at < end && value_is_space(utf8_decode(at, &step));)
		at += step;
	return at;
}

/* The start of the white space at the end of a text. */
static const char *lex_strip_end(const char *text, const char *end)
{
	while (end > text) {
		const char *last = text + utf8_begin(text, (size_t)(end - text) - 1);
		size_t step;
		if (!value_is_space(utf8_decode(last, &step)))
			break;
		end = last;
	}
	return end;
}

/* Moves to a later place. */
static void lex_move_to(struct lexer *l, const char *to)
{
	if (to > l->at)
		l->line_begins = to[-1] == '\n';
	l->at = to;
}

/* Adds the text before a tag, without the white space that the tag's sign removes. */
static void lex_add_data(struct lexer *l, const char *end, char sign, bool strips_line)
{
	const char *text = l->at;
	if (sign == '-')
		end = lex_strip_end(text, end);
	else if (strips_line && sign != '+') {
		const char *line = end;
		while (line > text && line[-1] != '\n')
			line--;
		if ((line > text || l->line_begins) && lex_skip_space(line, end) == end)
			end = line;
	}
	if (end > text)
		lex_add(l, T_DATA, text, (size_t)(end - text))->value =
			value_text(l->r, text, (size_t)(end - text), FROM_TEMPLATE);
}

/* The place after a tag or comment whose two-character end is at `close`; its sign stands
 * before. */
static const char *lex_after_tag(const struct lexer *l, const char *close, char sign, bool trims)
{
	const char *to = close + 2;
	if (sign == '-')
		return lex_skip_space(to, l->end);
	return trims && sign != '+' && to < l->end && *to == '\n' ? to + 1 : to;
}

/* Matches "{% NAME %}": returns its end and signs; NULL: no match. */
static const char *lex_match_tag(const struct lexer *l, const char *at, const char *name,
				 char *before, char *after)
{
	size_t n = strlen(name);
	const char *p = at + 2;
	*before = *p == '-' || *p == '+' ? *p++ : '\0';
	p = lex_skip_space(p, l->end);
	if ((size_t)(l->end - p) < n || memcmp(p, name, n) != 0)
		return NULL;
	p = lex_skip_space(p + n, l->end);
	*after = *p == '-' || *p == '+' ? *p++ : '\0';
	return p[0] == '%' && p[1] == '}' ? p : NULL;
}

/* The text between raw and endraw. */
static void lex_raw(struct lexer *l, const char *close, char sign)
{
	char before, after;
	lex_move_to(l, lex_after_tag(l, close, sign, false));
	for (const char *p = l->at; (p = memmem(p, (size_t)(l->end - p), "{%", 2)); p++) {
		const char *last = lex_match_tag(l, p, "endraw", &before, &after);
		if (!last)
			continue;
		lex_add_data(l, p, before, true);
		lex_move_to(l, lex_after_tag(l, last, after, true));
		return;
	}
	template_fail(l->r, EINVAL, "raw is not closed by endraw");
}

/* ---- in tags ---- */

static bool lex_is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool lex_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Copies digits of a base, without the underscores between them. */
static const char *lex_copy_digits(const char *p, const char *digits, char *out, size_t *n,
				   size_t max)
{
	for (; *p && (strchr(digits, *p) || (*p == '_' && p[1] && strchr(digits, p[1]))); p++)
		if (*p != '_' && *n < max)
			out[(*n)++] = *p;
	out[*n] = '\0';
	return p;
}

static struct value lex_integer(struct template_run *r, const char *digits, int base)
{
	errno = 0;
	long long integer = strtoll(digits, NULL, base);
	if (errno)
		return template_fail(r, EINVAL, "the number %.40s is too large", digits);
	return value_int(integer);
}

/* The fraction and exponent of a number; NULL: none. */
static const char *lex_fraction(const char *p, char *digits, size_t *n, size_t max)
{
	const char *begin = p;
	if (p[0] == '.' && lex_is_digit(p[1])) {
		digits[(*n)++] = '.';
		p = lex_copy_digits(p + 1, "0123456789", digits, n, max);
	}
	const char *e = p + 1 + (p[0] && (p[1] == '+' || p[1] == '-'));
	if ((*p == 'e' || *p == 'E') && lex_is_digit(*e)) {
		digits[(*n)++] = 'e';
		if (e > p + 1)
			digits[(*n)++] = p[1];
		p = lex_copy_digits(e, "0123456789", digits, n, max);
	}
	return p > begin ? p : NULL;
}

static void lex_number(struct lexer *l)
{
	static const struct {
		char letter;
		int base;
		const char *digits;
	} BASES[] = {{'b', 2, "01"}, {'o', 8, "01234567"}, {'x', 16, "0123456789abcdefABCDEF"}};
	enum { DIGITS_MAX = 400 };
	char digits[DIGITS_MAX + 16] = "";
	size_t n = 0;
	struct value v = {0};
	const char *p = NULL;
	for (size_t i = 0; i < sizeof BASES / sizeof *BASES && !p; i++)
		if (l->at[0] == '0' && (l->at[1] | 0x20) == BASES[i].letter) {
			p = lex_copy_digits(l->at + 2, BASES[i].digits, digits, &n, DIGITS_MAX);
			v = lex_integer(l->r, digits, BASES[i].base);
		}
	if (!p) {
		p = lex_copy_digits(l->at, "0123456789", digits, &n, DIGITS_MAX);
		/* 1.5 is a number; the 0.1 of x.0.1 is two keys. */
		const struct token_array *t = l->tokens;
		bool key = t->count > 0 && t->items[t->count - 1].text == l->at - 1 &&
			   l->at[-1] == '.';
		const char *fraction = key ? NULL : lex_fraction(p, digits, &n, DIGITS_MAX);
		v = fraction ? value_float(strtod(digits, NULL)) : lex_integer(l->r, digits, 10);
		p = fraction ? fraction : p;
	}
	lex_add(l, T_NUMBER, l->at, (size_t)(p - l->at))->value = v;
	lex_move_to(l, p);
}

/* The character of \xHH, \uHHHH or \UHHHHHHHH; false if digits are missing. */
static bool lex_escaped_number(const char *p, uint32_t *c)
{
	size_t digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
	char text[9];
	if (digits == 0 || strspn(p + 1, "0123456789abcdefABCDEF") < digits)
		return false;
	memcpy(text, p + 1, digits);
	text[digits] = '\0';
	*c = (uint32_t)strtoul(text, NULL, 16);
	return *c <= 0x10ffff && (*c < 0xd800 || *c > 0xdfff);
}

/* Writes the meaning of an escape, p after the backslash, and returns its end. An escape that
 * Python does not know stays as it is. */
static const char *lex_unescape(struct lexer *l, const char *p, char *out, size_t *n)
{
	static const char SIMPLE[] = "n\nt\tr\r\\\\'\'\"\"a\ab\bf\fv\v";
	uint32_t c;
	for (const char *s = SIMPLE; *s; s += 2)
		if (*p == *s) {
			out[(*n)++] = s[1];
			return p + 1;
		}
	if (*p == '\n')
		return p + 1;
	if (*p >= '0' && *p <= '7') {
		c = 0;
		for (int i = 0; i < 3 && *p >= '0' && *p <= '7'; i++, p++)
			c = c * 8 + (uint32_t)(*p - '0');
		*n += utf8_encode(c, out + *n);
		return p;
	}
	if (*p == 'x' || *p == 'u' || *p == 'U') {
		if (!lex_escaped_number(p, &c)) {
			template_fail(l->r, EINVAL, "invalid escape \\%.6s", p);
			return p + 1;
		}
		*n += utf8_encode(c, out + *n);
		return p + 1 + (*p == 'x' ? 2 : *p == 'u' ? 4 : 8);
	}
	if (*p == 'N')
		template_fail(l->r, ENOTSUP, "\\N{...} is not supported");
	out[(*n)++] = '\\';
	return p;
}

static void lex_string(struct lexer *l)
{
	char quote = *l->at;
	const char *close = l->at + 1;
	while (close < l->end && *close != quote)
		close += *close == '\\' && close + 1 < l->end ? 2 : 1;
	/* No escape is shorter than what it means. */
	char *bytes = close < l->end ? template_allocate(l->r, (size_t)(close - l->at)) : NULL;
	if (!bytes) {
		template_fail(l->r, EINVAL, "a text is not closed: %c is missing", quote);
		return;
	}
	size_t n = 0;
	for (const char *p = l->at + 1; p < close && !l->r->failed;)
		if (*p == '\\')
			p = lex_unescape(l, p + 1, bytes, &n);
		else
			bytes[n++] = *p++;
	lex_add(l, T_STRING, l->at, (size_t)(close + 1 - l->at))->value =
		value_text(l->r, bytes, n, FROM_TEMPLATE);
	lex_move_to(l, close + 1);
}

static void lex_operator(struct lexer *l)
{
	static const char TWO[][3] = {"**", "//", "==", "!=", ">=", "<="};
	static const char OPEN[] = "([{", CLOSE[] = ")]}";
	size_t n = 0;
	for (size_t i = 0; i < sizeof TWO / sizeof *TWO; i++)
		if (l->at[0] == TWO[i][0] && l->at[1] == TWO[i][1])
			n = 2;
	char c = *l->at;
	if (n == 0 && c && strchr("+-/*%~[](){}><=.:|,;", c))
		n = 1;
	if (n == 0) {
		template_fail(l->r, EINVAL, "unexpected character at \"%.12s\"", l->at);
		return;
	}
	if (n == 1 && strchr(OPEN, c)) {
		if (l->depth == BRACKETS_MAX)
			template_fail(l->r, EINVAL, "more than %d brackets open at once",
				      BRACKETS_MAX);
		else
			l->open[l->depth++] = CLOSE[strchr(OPEN, c) - OPEN];
	} else if (n == 1 && strchr(CLOSE, c) && (l->depth == 0 || l->open[--l->depth] != c))
		template_fail(l->r, EINVAL, "unexpected \"%c\"", c);
	lex_add(l, T_OPERATOR, l->at, n);
	lex_move_to(l, l->at + n);
}

/* Ends the tag, if its end is here. */
static bool lex_close(struct lexer *l, bool tag)
{
	const char *p = l->at;
	char sign = *p == '-' || (*p == '+' && tag) ? *p : '\0';
	p += sign != '\0';
	if (p[0] != (tag ? '%' : '}') || p[1] != '}')
		return false;
	lex_add(l, tag ? T_TAG_END : T_PRINT_END, p, 2);
	lex_move_to(l, lex_after_tag(l, p, sign, tag));
	return true;
}

static void lex_inside(struct lexer *l, bool tag)
{
	l->depth = 0;
	while (!l->r->failed) {
		lex_move_to(l, lex_skip_space(l->at, l->end));
		if (l->at >= l->end)
			template_fail(l->r, EINVAL, "the template ends inside a tag");
		else if (l->depth == 0 && lex_close(l, tag))
			return;
		else if (lex_is_name_start(*l->at)) {
			const char *p = l->at;
			while (lex_is_name_start(*p) || lex_is_digit(*p))
				p++;
			lex_add(l, T_NAME, l->at, (size_t)(p - l->at));
			lex_move_to(l, p);
		} else if (lex_is_digit(*l->at))
			lex_number(l);
		else if (*l->at == '\'' || *l->at == '"')
			lex_string(l);
		else
			lex_operator(l);
	}
}

/* ---- the whole ---- */

static void lex_opening(struct lexer *l, const char *open)
{
	char before, after;
	const char *raw = open[1] == '%' ? lex_match_tag(l, open, "raw", &before, &after) : NULL;
	char sign = open[2] == '-' || open[2] == '+' ? open[2] : '\0';
	lex_add_data(l, open, sign, open[1] != '{');
	lex_move_to(l, open);
	if (raw) {
		lex_raw(l, raw, after);
		return;
	}
	if (open[1] == '#') {
		const char *close = memmem(open + 2, (size_t)(l->end - open - 2), "#}", 2);
		if (close)
			lex_move_to(l, lex_after_tag(l, close, close > open + 2 ? close[-1] : '\0',
						     true));
		else
			template_fail(l->r, EINVAL, "a comment is not closed");
		return;
	}
	bool tag = open[1] == '%';
	lex_add(l, tag ? T_TAG : T_PRINT, open, 2);
	lex_move_to(l, open + 2 + (sign != '\0'));
	lex_inside(l, tag);
}

void template_lex(struct template_run *r, const char *source, size_t n, struct token_array *tokens)
{
	struct lexer l = {.r = r,
			  .at = source,
			  .end = source + n,
			  .counted = source,
			  .line_begins = true,
			  .tokens = tokens};
	r->line = 1;
	while (!r->failed && l.at < l.end) {
		const char *open = l.at; /* the next "{{", "{%" or "{#" */
		while ((open = memchr(open, '{', (size_t)(l.end - open))) &&
		       !(open[1] && strchr("{%#", open[1])))
			open++;
		if (open) {
			lex_opening(&l, open);
			continue;
		}
		lex_add_data(&l, l.end, '\0', false);
		lex_move_to(&l, l.end);
	}
	lex_add(&l, T_END, l.end, 0);
}
