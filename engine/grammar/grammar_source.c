#include "engine/grammar/grammar_source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failing ---- */

uint32_t source_fail(struct grammar_source *s, int code, const char *format, ...)
{
	char text[sizeof s->error.text];
	va_list values;
	if (s->failed)
		return NOTHING;
	va_start(values, format);
	(void)vsnprintf(text, sizeof text, format, values);
	va_end(values);
	s->failed = err_set(&s->error, code, "%s", text);
	return NOTHING;
}

static uint32_t out_of_memory(struct grammar_source *s)
{
	return source_fail(s, ENOMEM, "out of memory for a grammar");
}

/* ---- expressions ---- */

static uint32_t add_expr(struct grammar_source *s, struct expr e)
{
	if (s->failed)
		return NOTHING;
	if (s->expr_count >= GRAMMAR_MAX_EXPRS)
		return source_fail(s, E2BIG,
				   "it is too large: more than %d parts; make it simpler, or its "
				   "bounds smaller",
				   GRAMMAR_MAX_EXPRS);
	struct expr *exprs = grown(s->exprs, s->expr_count, &s->expr_room, sizeof e);
	if (!exprs)
		return out_of_memory(s);
	s->exprs = exprs;
	s->exprs[s->expr_count] = e;
	return s->expr_count++;
}

/* The one that says the same, or a new one. */
static uint32_t intern(struct grammar_source *s, struct expr e)
{
	struct triple key = {e.kind | e.least << 3, e.a, e.kind == EXPR_REPEAT ? e.most : e.b};
	if (e.kind == EXPR_BYTES)
		key.c = e.most;
	uint32_t *place = s->failed ? NULL : triple_find(&s->interned, key);
	if (!place)
		return out_of_memory(s);
	if (*place == TRIPLE_NEW) {
		uint32_t added = add_expr(s, e);
		if (s->failed)
			return NOTHING;
		*place = added;
	}
	return *place;
}

void source_init(struct grammar_source *s)
{
	*s = (struct grammar_source){0};
	add_expr(s, (struct expr){.kind = EXPR_NOTHING});
	add_expr(s, (struct expr){.kind = EXPR_EMPTY});
}

void source_free(struct grammar_source *s)
{
	free(s->exprs);
	free(s->rules);
	triple_free(&s->interned);
	*s = (struct grammar_source){0};
}

uint32_t expr_bytes(struct grammar_source *s, uint8_t least, uint8_t most)
{
	return intern(s, (struct expr){.kind = EXPR_BYTES, .least = least, .most = most});
}

uint32_t expr_then(struct grammar_source *s, uint32_t a, uint32_t b)
{
	if (a == NOTHING || b == NOTHING)
		return NOTHING;
	if (a == EMPTY || b == EMPTY)
		return a == EMPTY ? b : a;
	return intern(s, (struct expr){.kind = EXPR_THEN, .a = a, .b = b});
}

uint32_t expr_either(struct grammar_source *s, uint32_t a, uint32_t b)
{
	if (a == NOTHING || a == b)
		return b;
	if (b == NOTHING)
		return a;
	return intern(s, (struct expr){.kind = EXPR_EITHER, .a = a, .b = b});
}

uint32_t expr_repeat(struct grammar_source *s, uint32_t a, uint32_t least, uint32_t most)
{
	bool bounded = most != REPEAT_ENDLESS;
	if ((bounded ? most : least) > GRAMMAR_MAX_REPEAT)
		return source_fail(s, E2BIG, "a repetition of %u is more than the %d that it takes",
				   bounded ? most : least, GRAMMAR_MAX_REPEAT);
	if (a == NOTHING)
		return least ? NOTHING : EMPTY;
	if (a == EMPTY || !most)
		return EMPTY;
	if (least == 1 && most == 1)
		return a;
	return intern(s, (struct expr){.kind = EXPR_REPEAT, .a = a, .least = least, .most = most});
}

uint32_t expr_maybe(struct grammar_source *s, uint32_t a)
{
	return expr_either(s, a, EMPTY);
}

uint32_t expr_text(struct grammar_source *s, const char *text, size_t n)
{
	uint32_t whole = EMPTY;
	for (size_t i = 0; i < n; i++)
		whole = expr_then(s, whole, expr_bytes(s, (uint8_t)text[i], (uint8_t)text[i]));
	return whole;
}

uint32_t expr_word(struct grammar_source *s, const char *text)
{
	return expr_text(s, text, strlen(text));
}

/* ---- characters ---- */

/* Of table 3-7 of the Unicode standard: which bytes may begin a character of so many, and what the
 * first of these may be followed by. */
static const struct utf8_row {
	uint32_t least, most; /* characters */
	uint32_t bytes;
} utf8_rows[] = {
	{0, 0x7f, 1},	     {0x80, 0x7ff, 2},	     {0x800, 0xd7ff, 3},
	{0xe000, 0xffff, 3}, {0x10000, 0x10ffff, 4},
};
enum { UTF8_ROWS = sizeof utf8_rows / sizeof *utf8_rows };

static uint8_t byte_of(uint32_t character, uint32_t bytes, uint32_t i)
{
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	uint32_t bits = character >> 6 * (bytes - 1 - i);
	if (bytes == 1)
		return (uint8_t)character;
	return (uint8_t)(i ? 0x80 | (bits & 0x3f) : lead[bytes] | bits);
}

/* Characters of the same number of bytes that agree in their first i: a range of the next byte, and
 * where that is not all, what differs at either end. */
static uint32_t range_from(struct grammar_source *s, uint32_t least, uint32_t most, uint32_t bytes,
			   uint32_t i)
{
	if (i == bytes)
		return EMPTY;
	uint32_t shift = 6 * (bytes - 1 - i), below = (1u << shift) - 1;
	uint8_t low = byte_of(least, bytes, i), high = byte_of(most, bytes, i);
	if (low == high || (!(least & below) && (most & below) == below))
		return expr_then(
			s, expr_bytes(s, low, high),
			range_from(s, least, low == high ? most : least | below, bytes, i + 1));
	uint32_t cut = least & below ? least | below : (most & ~below) - 1;
	return expr_either(s, range_from(s, least, cut, bytes, i),
			   range_from(s, cut + 1, most, bytes, i));
}

uint32_t expr_characters(struct grammar_source *s, uint32_t least, uint32_t most)
{
	uint32_t any = NOTHING;
	for (int i = 0; i < UTF8_ROWS; i++) {
		const struct utf8_row *r = &utf8_rows[i];
		uint32_t from = least > r->least ? least : r->least;
		uint32_t to = most < r->most ? most : r->most;
		if (from <= to)
			any = expr_either(s, any, range_from(s, from, to, r->bytes, 0));
	}
	return any;
}

/* ---- rules ---- */

uint32_t rule_new(struct grammar_source *s)
{
	if (s->failed)
		return 0;
	if (s->rule_count >= GRAMMAR_MAX_RULES) {
		source_fail(s, E2BIG, "it is too large: more than %d rules", GRAMMAR_MAX_RULES);
		return 0;
	}
	uint32_t *rules = grown(s->rules, s->rule_count, &s->rule_room, sizeof *rules);
	if (!rules)
		return out_of_memory(s);
	s->rules = rules;
	s->rules[s->rule_count] = RULE_OPEN;
	return s->rule_count++;
}

void rule_set(struct grammar_source *s, uint32_t rule, uint32_t expr)
{
	if (!s->failed)
		s->rules[rule] = expr;
}

uint32_t expr_call(struct grammar_source *s, uint32_t rule)
{
	return intern(s, (struct expr){.kind = EXPR_CALL, .a = rule});
}
