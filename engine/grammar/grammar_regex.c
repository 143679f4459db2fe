/* Regular expressions as ECMA 262 writes them, as far as they are regular: groups, alternatives,
 * classes, repetitions, and ^ and $ at the ends of all. What is not is refused by name: it would
 * hold the text to something else. */
#include "engine/grammar/grammar_inside.h"

#include "engine/json/utf8.h"

#include <errno.h>
#include <string.h>

enum { GROUPS_MAX = 64 };

struct regex {
	struct grammar_source *s;
	const char *text; /* valid UTF-8 */
	size_t n, at;
	const char *what;
	enum spelling_of spelling;
	bool whole;
	uint32_t depth;
};

static uint32_t refuse(struct regex *r, size_t at, int code, const char *words)
{
	return source_fail(r->s, code, "%s: byte %zu: %s", r->what, at, words);
}

static bool at_end(const struct regex *r)
{
	return r->at >= r->n || r->s->failed;
}

static char peek(const struct regex *r)
{
	return r->at < r->n ? r->text[r->at] : '\0';
}

static bool accept(struct regex *r, const char *word)
{
	size_t n = strlen(word);
	bool there = r->n - r->at >= n && !memcmp(r->text + r->at, word, n);
	r->at += there ? n : 0;
	return there;
}

static uint32_t take_character(struct regex *r)
{
	size_t n;
	uint32_t c = utf8_decode(r->text + r->at, &n);
	r->at += n;
	return c;
}

/* ---- escapes ---- */

/* So many hexadecimal digits; 0: as many as there are up to a closing brace. */
static uint32_t hexadecimal(struct regex *r, uint32_t digits)
{
	uint32_t value = 0, read = 0;
	size_t from = r->at;
	while (!at_end(r) && utf8_hex_digit(peek(r)) >= 0 && read < (digits ? digits : 6)) {
		value = value << 4 | (uint32_t)utf8_hex_digit(r->text[r->at++]);
		read++;
	}
	bool good = digits ? read == digits : read && accept(r, "}");
	if (!good || value > CHARACTER_MAX || (value >= 0xd800 && value < 0xe000))
		refuse(r, from, EINVAL, "this is no character's number");
	return value;
}

/* Behind a backslash: a character; or a class, which is added to `set`, and then false. */
static bool escape(struct regex *r, struct char_ranges *set, uint32_t *character)
{
	static const char plain[] = "n\nr\rt\tv\vf\f0\0";
	size_t from = r->at;
	if (at_end(r)) {
		refuse(r, from, EINVAL, "nothing follows the backslash");
		return true;
	}
	char c = peek(r);
	if (ranges_add_class(set, c)) {
		r->at++;
		return false;
	}
	*character = take_character(r);
	for (const char *p = plain; p < plain + sizeof plain - 1; p += 2)
		if (c == *p)
			*character = (uint8_t)p[1];
	if (c == 'x' || c == 'u')
		*character = hexadecimal(r, c == 'x' ? 2 : accept(r, "{") ? 0 : 4);
	else if (c == 'p' || c == 'P')
		refuse(r, from, ENOTSUP, "\\p (properties of characters) is not known");
	else if (c == 'b' || c == 'B')
		refuse(r, from, ENOTSUP, "\\b (ends of words) is not known");
	else if (c >= '1' && c <= '9')
		refuse(r, from, ENOTSUP, "references back to a group are not regular");
	else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' && !strchr("nrtvf", c))
		refuse(r, from, EINVAL, "this escape has no meaning");
	return true;
}

/* ---- one character ---- */

static uint32_t character_expr(struct regex *r, struct char_ranges *set)
{
	ranges_sort(set);
	if (set->full)
		return refuse(r, r->at, E2BIG, "the class has too many ranges");
	uint32_t expr = spelled_characters(r->s, set->at, set->count, r->spelling);
	return expr;
}

/* An end of a range of a class. False: it was a class. */
static bool class_character(struct regex *r, struct char_ranges *set, uint32_t *c)
{
	if (!accept(r, "\\")) {
		*c = take_character(r);
		return true;
	}
	if (accept(r, "b")) { /* a backspace, in classes */
		*c = '\b';
		return true;
	}
	return accept(r, "-") ? (*c = '-', true) : escape(r, set, c);
}

/* Behind its bracket. */
static uint32_t bracket(struct regex *r)
{
	struct char_ranges set = {0};
	size_t from = r->at - 1;
	bool others = accept(r, "^");
	while (!at_end(r) && peek(r) != ']') {
		uint32_t low = 0, high = 0;
		size_t here = r->at;
		if (!class_character(r, &set, &low))
			continue;
		high = low;
		if (r->n - r->at >= 2 && peek(r) == '-' && r->text[r->at + 1] != ']') {
			r->at++;
			if (!class_character(r, &set, &high))
				return refuse(r, here, EINVAL, "a class ends this range");
		}
		if (high < low)
			return refuse(r, here, EINVAL, "the range's end is before its beginning");
		ranges_add(&set, low, high);
	}
	if (!accept(r, "]"))
		return refuse(r, from, EINVAL, "the class is not closed");
	if (others)
		ranges_invert(&set);
	return character_expr(r, &set);
}

static uint32_t dot(struct regex *r)
{
	struct char_ranges set = {.count = 3, .at = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}};
	ranges_invert(&set);
	return character_expr(r, &set);
}

/* ---- groups and repetitions ---- */

static uint32_t alternatives(struct regex *r);

static uint32_t group(struct regex *r)
{
	size_t from = r->at - 1;
	if (peek(r) == '?' && !accept(r, "?:") && r->n - r->at >= 2) {
		bool named = r->text[r->at + 1] == '<' && r->n - r->at >= 3 &&
			     !strchr("=!", r->text[r->at + 2]);
		if (!named)
			return refuse(r, from, ENOTSUP,
				      "only (...), (?:...) and (?<name>...) are known of groups");
		while (!at_end(r) && !accept(r, ">"))
			r->at++;
	}
	if (++r->depth > GROUPS_MAX)
		return refuse(r, from, E2BIG, "the groups nest too deep");
	uint32_t inside = alternatives(r);
	r->depth--;
	if (!accept(r, ")"))
		return refuse(r, from, EINVAL, "the group is not closed");
	return inside;
}

static uint32_t atom(struct regex *r)
{
	struct char_ranges set = {0};
	size_t from = r->at;
	if (accept(r, "("))
		return group(r);
	if (accept(r, "["))
		return bracket(r);
	if (accept(r, "."))
		return dot(r);
	if (strchr("*+?{", peek(r)) && peek(r))
		return refuse(r, from, EINVAL, "there is nothing to repeat");
	if (peek(r) == '^' || peek(r) == '$')
		return refuse(r, from, ENOTSUP, "^ and $ are known at the ends of all alone");
	uint32_t c = 0;
	bool single = true;
	if (accept(r, "\\"))
		single = escape(r, &set, &c);
	else
		c = take_character(r);
	if (single)
		ranges_add(&set, c, c);
	return character_expr(r, &set);
}

/* Digits; false: none. */
static bool number(struct regex *r, uint32_t *value)
{
	size_t from = r->at;
	*value = 0;
	while (peek(r) >= '0' && peek(r) <= '9') {
		uint32_t digit = (uint32_t)(r->text[r->at++] - '0');
		*value = *value > GRAMMAR_MAX_REPEAT ? *value : *value * 10 + digit;
	}
	return r->at > from;
}

/* {2}, {2,} or {2,5} behind the brace. */
static bool bounds(struct regex *r, uint32_t *least, uint32_t *most)
{
	if (!number(r, least))
		return false;
	*most = *least;
	if (accept(r, ",") && !number(r, most))
		*most = REPEAT_ENDLESS;
	return accept(r, "}") && *least <= *most;
}

static uint32_t repeated(struct regex *r)
{
	uint32_t one = atom(r);
	while (!at_end(r)) {
		uint32_t least = 0, most = REPEAT_ENDLESS;
		size_t from = r->at;
		if (accept(r, "?"))
			most = 1;
		else if (accept(r, "+"))
			least = 1;
		else if (accept(r, "{")) {
			if (!bounds(r, &least, &most))
				return refuse(r, from, EINVAL, "{m}, {m,} or {m,n} is expected");
		} else if (!accept(r, "*"))
			break;
		accept(r, "?"); /* what is taken first makes no difference to what matches */
		one = expr_repeat(r->s, one, least, most);
	}
	return one;
}

static uint32_t anything(struct regex *r)
{
	static const struct char_range all[] = {{0, CHARACTER_MAX}};
	return expr_repeat(r->s, spelled_characters(r->s, all, 1, r->spelling), 0, REPEAT_ENDLESS);
}

/* Of the outermost ones, those that are not bound to the ends of the text may stand within it. */
static uint32_t sequence(struct regex *r)
{
	uint32_t all = EMPTY;
	bool begins = r->whole, ends = r->whole;
	if (!r->depth)
		begins |= accept(r, "^");
	while (!at_end(r) && peek(r) != '|' && (peek(r) != ')' || !r->depth)) {
		bool last = r->at + 1 == r->n || r->text[r->at + 1] == '|';
		if (!r->depth && last && accept(r, "$")) {
			ends = true;
			break;
		}
		if (peek(r) == ')')
			return refuse(r, r->at, EINVAL, "no group is open here");
		all = expr_then(r->s, all, repeated(r));
	}
	if (!r->depth && !begins)
		all = expr_then(r->s, anything(r), all);
	if (!r->depth && !ends)
		all = expr_then(r->s, all, anything(r));
	return all;
}

static uint32_t alternatives(struct regex *r)
{
	uint32_t any = sequence(r);
	while (accept(r, "|") && !r->s->failed)
		any = expr_either(r->s, any, sequence(r));
	return any;
}

uint32_t regex_expr(struct grammar_source *s, const char *regex, size_t n, bool whole,
		    enum spelling_of spelling, const char *what)
{
	struct regex r = {
		.s = s, .text = regex, .n = n, .what = what, .spelling = spelling, .whole = whole};
	size_t valid = utf8_valid_length(regex, n);
	if (valid < n)
		return refuse(&r, valid, EINVAL, "this is no UTF-8");
	return alternatives(&r);
}
