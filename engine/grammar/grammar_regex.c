/* Regular expressions of ECMA 262, as far as they are regular: groups, alternatives, classes,
 * repetitions, and ^ and $ at the ends. Everything else is refused by name. */
#include "engine/grammar/grammar_build.h"
#include "cache/utf8.h"

#include <errno.h>
#include <string.h>

/* ---- sets of characters: classes of regular expressions ---- */

static void regex_ranges_add(struct char_ranges *set, uint32_t from, uint32_t to)
{
	if (set->count == CHAR_RANGES_MAX)
		set->full = true;
	else
		set->at[set->count++] = (struct char_range){from, to};
}

/* Sorts the ranges and joins those that touch. */
static void regex_ranges_sort(struct char_ranges *set)
{
	uint32_t kept = 0;
	for (uint32_t i = 1; i < set->count; i++) {
		struct char_range moving = set->at[i];
		uint32_t k = i;
		for (; k && set->at[k - 1].from > moving.from; k--)
			set->at[k] = set->at[k - 1];
		set->at[k] = moving;
	}
	for (uint32_t i = 0; i < set->count; i++) {
		if (kept && set->at[i].from <= set->at[kept - 1].to + 1) {
			if (set->at[i].to > set->at[kept - 1].to)
				set->at[kept - 1].to = set->at[i].to;
		} else {
			set->at[kept++] = set->at[i];
		}
	}
	set->count = kept;
}

/* All other characters. */
static void regex_ranges_invert(struct char_ranges *set)
{
	struct char_ranges others = {.full = set->full};
	uint32_t from = 0;
	regex_ranges_sort(set);
	for (uint32_t i = 0; i < set->count; i++) {
		if (set->at[i].from > from)
			regex_ranges_add(&others, from, set->at[i].from - 1);
		from = set->at[i].to + 1;
	}
	if (from <= CHARACTER_MAX)
		regex_ranges_add(&others, from, CHARACTER_MAX);
	*set = others;
}

/* Classes by letter; in upper case: all other characters. */
static const struct regex_class {
	char letter;
	uint32_t count;
	struct char_range at[10];
} classes[] = {
	{'d', 1, {{'0', '9'}}},
	{'w', 4, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
	{'s',
	 10,
	 {{'\t', '\r'},
	  {' ', ' '},
	  {0xa0, 0xa0},
	  {0x1680, 0x1680},
	  {0x2000, 0x200a},
	  {0x2028, 0x2029},
	  {0x202f, 0x202f},
	  {0x205f, 0x205f},
	  {0x3000, 0x3000},
	  {0xfeff, 0xfeff}}},
};
enum { CLASSES = sizeof classes / sizeof *classes };

/* Adds the class of a letter (\d \D \w \W \s \S); false: no class. */
static bool regex_ranges_add_class(struct char_ranges *set, char letter)
{
	for (int i = 0; i < CLASSES; i++) {
		struct char_ranges one = {0};
		if ((letter | 0x20) != classes[i].letter)
			continue;
		for (uint32_t k = 0; k < classes[i].count; k++)
			regex_ranges_add(&one, classes[i].at[k].from, classes[i].at[k].to);
		if (letter != classes[i].letter)
			regex_ranges_invert(&one);
		for (uint32_t k = 0; k < one.count; k++)
			regex_ranges_add(set, one.at[k].from, one.at[k].to);
		return true;
	}
	return false;
}

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

static uint32_t regex_refuse(struct regex *r, size_t at, int code, const char *words)
{
	return grammar_fail(r->s, code, "%s: byte %zu: %s", r->what, at, words);
}

static bool regex_at_end(const struct regex *r)
{
	return r->at >= r->n || r->s->failed;
}

static char regex_peek(const struct regex *r)
{
	return r->at < r->n ? r->text[r->at] : '\0';
}

static bool regex_accept(struct regex *r, const char *word)
{
	size_t n = strlen(word);
	bool there = r->n - r->at >= n && !memcmp(r->text + r->at, word, n);
	r->at += there ? n : 0;
	return there;
}

static uint32_t regex_take_character(struct regex *r)
{
	size_t n;
	uint32_t c = utf8_decode(r->text + r->at, &n);
	r->at += n;
	return c;
}

/* ---- escapes ---- */

/* Reads `digits` hexadecimal digits; 0: up to a closing brace. */
static uint32_t regex_hexadecimal(struct regex *r, uint32_t digits)
{
	uint32_t value = 0, read = 0;
	size_t from = r->at;
	while (!regex_at_end(r) && utf8_hex_digit(regex_peek(r)) >= 0 &&
	       read < (digits ? digits : 6)) {
		value = value << 4 | (uint32_t)utf8_hex_digit(r->text[r->at++]);
		read++;
	}
	bool good = digits ? read == digits : read && regex_accept(r, "}");
	if (!good || value > CHARACTER_MAX || (value >= 0xd800 && value < 0xe000))
		regex_refuse(r, from, EINVAL, "not the code of a character");
	return value;
}

/* After a backslash: a character; or a class, which is added to `set`, and then false. */
static bool regex_escape(struct regex *r, struct char_ranges *set, uint32_t *character)
{
	static const char plain[] = "n\nr\rt\tv\vf\f0\0";
	size_t from = r->at;
	if (regex_at_end(r)) {
		regex_refuse(r, from, EINVAL, "nothing follows the backslash");
		return true;
	}
	char c = regex_peek(r);
	if (regex_ranges_add_class(set, c)) {
		r->at++;
		return false;
	}
	*character = regex_take_character(r);
	for (const char *p = plain; p < plain + sizeof plain - 1; p += 2)
		if (c == *p)
			*character = (uint8_t)p[1];
	if (c == 'x' || c == 'u')
		*character = regex_hexadecimal(r, c == 'x' ? 2 : regex_accept(r, "{") ? 0 : 4);
	else if (c == 'p' || c == 'P')
		regex_refuse(r, from, ENOTSUP, "\\p{...} is not supported");
	else if (c == 'b' || c == 'B')
		regex_refuse(r, from, ENOTSUP, "\\b is not supported");
	else if (c >= '1' && c <= '9')
		regex_refuse(r, from, ENOTSUP, "references back to a group are not supported");
	else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' && !strchr("nrtvf", c))
		regex_refuse(r, from, EINVAL, "unknown escape");
	return true;
}

/* ---- one character ---- */

static uint32_t regex_character_expr(struct regex *r, struct char_ranges *set)
{
	regex_ranges_sort(set);
	if (set->full)
		return regex_refuse(r, r->at, E2BIG, "the class has too many ranges");
	return grammar_characters(r->s, set->at, set->count, r->spelling);
}

/* Reads one end of a range. False: it was a class. */
static bool regex_class_character(struct regex *r, struct char_ranges *set, uint32_t *c)
{
	if (!regex_accept(r, "\\")) {
		*c = regex_take_character(r);
		return true;
	}
	if (regex_accept(r, "b")) { /* a backspace, in classes */
		*c = '\b';
		return true;
	}
	return regex_accept(r, "-") ? (*c = '-', true) : regex_escape(r, set, c);
}

/* A class, after its opening bracket. */
static uint32_t regex_bracket(struct regex *r)
{
	struct char_ranges set = {0};
	size_t from = r->at - 1;
	bool others = regex_accept(r, "^");
	while (!regex_at_end(r) && regex_peek(r) != ']') {
		uint32_t low = 0, high = 0;
		size_t here = r->at;
		if (!regex_class_character(r, &set, &low))
			continue;
		high = low;
		if (r->n - r->at >= 2 && regex_peek(r) == '-' && r->text[r->at + 1] != ']') {
			r->at++;
			if (!regex_class_character(r, &set, &high))
				return regex_refuse(r, here, EINVAL,
						    "a range cannot end with a class");
		}
		if (high < low)
			return regex_refuse(r, here, EINVAL,
					    "the range's end is before its beginning");
		regex_ranges_add(&set, low, high);
	}
	if (!regex_accept(r, "]"))
		return regex_refuse(r, from, EINVAL, "the class is not closed");
	if (others)
		regex_ranges_invert(&set);
	return regex_character_expr(r, &set);
}

/* ---- groups and repetitions ---- */

static uint32_t regex_alternatives(struct regex *r);

static uint32_t regex_group(struct regex *r)
{
	size_t from = r->at - 1;
	if (regex_peek(r) == '?' && !regex_accept(r, "?:") && r->n - r->at >= 2) {
		bool named = r->text[r->at + 1] == '<' && r->n - r->at >= 3 &&
			     !strchr("=!", r->text[r->at + 2]);
		if (!named)
			return regex_refuse(
				r, from, ENOTSUP,
				"only the groups (...), (?:...) and (?<name>...) are supported");
		while (!regex_at_end(r) && !regex_accept(r, ">"))
			r->at++;
	}
	if (++r->depth > GROUPS_MAX)
		return regex_refuse(r, from, E2BIG, "the groups nest too deep");
	uint32_t inside = regex_alternatives(r);
	r->depth--;
	if (!regex_accept(r, ")"))
		return regex_refuse(r, from, EINVAL, "the group is not closed");
	return inside;
}

static uint32_t regex_atom(struct regex *r)
{
	struct char_ranges set = {0};
	size_t from = r->at;
	if (regex_accept(r, "("))
		return regex_group(r);
	if (regex_accept(r, "["))
		return regex_bracket(r);
	if (regex_accept(r, ".")) { /* any character but line ends */
		set = (struct char_ranges){.count = 3,
					   .at = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}};
		regex_ranges_invert(&set);
		return regex_character_expr(r, &set);
	}
	if (strchr("*+?{", regex_peek(r)) && regex_peek(r))
		return regex_refuse(r, from, EINVAL, "there is nothing to repeat");
	if (regex_peek(r) == '^' || regex_peek(r) == '$')
		return regex_refuse(
			r, from, ENOTSUP,
			"^ and $ are supported only at the ends of the whole expression");
	uint32_t c = 0;
	bool single = true;
	if (regex_accept(r, "\\"))
		single = regex_escape(r, &set, &c);
	else
		c = regex_take_character(r);
	if (single)
		regex_ranges_add(&set, c, c);
	return regex_character_expr(r, &set);
}

/* Reads digits; false: none. */
static bool regex_number(struct regex *r, uint32_t *value)
{
	size_t from = r->at;
	*value = 0;
	while (regex_peek(r) >= '0' && regex_peek(r) <= '9') {
		uint32_t digit = (uint32_t)(r->text[r->at++] - '0');
		*value = *value > GRAMMAR_MAX_REPEAT ? *value : *value * 10 + digit;
	}
	return r->at > from;
}

/* Reads {2}, {2,} or {2,5} after the brace. */
static bool regex_bounds(struct regex *r, uint32_t *least, uint32_t *most)
{
	if (!regex_number(r, least))
		return false;
	*most = *least;
	if (regex_accept(r, ",") && !regex_number(r, most))
		*most = REPEAT_ENDLESS;
	return regex_accept(r, "}") && *least <= *most;
}

static uint32_t regex_repeated(struct regex *r)
{
	uint32_t one = regex_atom(r);
	while (!regex_at_end(r)) {
		uint32_t least = 0, most = REPEAT_ENDLESS;
		size_t from = r->at;
		if (regex_accept(r, "?"))
			most = 1;
		else if (regex_accept(r, "+"))
			least = 1;
		else if (regex_accept(r, "{")) {
			if (!regex_bounds(r, &least, &most))
				return regex_refuse(r, from, EINVAL, "expected {m}, {m,} or {m,n}");
		} else if (!regex_accept(r, "*"))
			break;
		regex_accept(r, "?"); /* what is taken first makes no difference to what matches */
		one = expr_repeat(r->s, one, least, most);
	}
	return one;
}

static uint32_t regex_anything(struct regex *r)
{
	static const struct char_range all[] = {{0, CHARACTER_MAX}};
	return expr_repeat(r->s, grammar_characters(r->s, all, 1, r->spelling), 0, REPEAT_ENDLESS);
}

/* Outermost alternatives that are not anchored may match within the text. */
static uint32_t regex_sequence(struct regex *r)
{
	uint32_t all = EMPTY;
	bool begins = r->whole, ends = r->whole;
	if (!r->depth)
		begins |= regex_accept(r, "^");
	while (!regex_at_end(r) && regex_peek(r) != '|' && (regex_peek(r) != ')' || !r->depth)) {
		bool last = r->at + 1 == r->n || r->text[r->at + 1] == '|';
		if (!r->depth && last && regex_accept(r, "$")) {
			ends = true;
			break;
		}
		if (regex_peek(r) == ')')
			return regex_refuse(r, r->at, EINVAL, "no group is open here");
		all = expr_then(r->s, all, regex_repeated(r));
	}
	if (!r->depth && !begins)
		all = expr_then(r->s, regex_anything(r), all);
	if (!r->depth && !ends)
		all = expr_then(r->s, all, regex_anything(r));
	return all;
}

static uint32_t regex_alternatives(struct regex *r)
{
	uint32_t any = regex_sequence(r);
	while (regex_accept(r, "|") && !r->s->failed)
		any = expr_either(r->s, any, regex_sequence(r));
	return any;
}

uint32_t regex_expr(struct grammar_source *s, const char *regex, size_t n, bool whole,
		    enum spelling_of spelling, const char *what)
{
	struct regex r = {
		.s = s, .text = regex, .n = n, .what = what, .spelling = spelling, .whole = whole};
	size_t valid = utf8_valid_length(regex, n);
	if (valid < n)
		return regex_refuse(&r, valid, EINVAL, "not valid UTF-8");
	return regex_alternatives(&r);
}
