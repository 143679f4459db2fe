#include "engine/grammar/grammar_expr.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables and arrays that grow ---- */

static struct triple_slot *grammar_triple_slot(const struct triple_table *t, struct triple key)
{
	uint64_t z = key.a * 0x9e3779b97f4a7c15u + key.b * 0xbf58476d1ce4e5b9u + key.c;
	z = (z ^ z >> 29) * 0x94d049bb133111ebu;
	for (uint32_t i = (uint32_t)(z >> 32);; i++) {
		struct triple_slot *slot = &t->slots[i & (t->room - 1)];
		const struct triple *k = &slot->key;
		if (slot->value == TRIPLE_NEW || (k->a == key.a && k->b == key.b && k->c == key.c))
			return slot;
	}
}

static bool grammar_triple_grow(struct triple_table *t)
{
	struct triple_table wider = {.room = t->room ? 2 * t->room : 64, .count = t->count};
	wider.slots = malloc(wider.room * sizeof *wider.slots);
	if (!wider.slots)
		return false;
	for (uint32_t i = 0; i < wider.room; i++)
		wider.slots[i].value = TRIPLE_NEW;
	for (uint32_t i = 0; i < t->room; i++)
		if (t->slots[i].value != TRIPLE_NEW)
			*grammar_triple_slot(&wider, t->slots[i].key) = t->slots[i];
	free(t->slots);
	*t = wider;
	return true;
}

/* A key without a value may leave its slot free: it is still counted. */
uint32_t *grammar_triple_find(struct triple_table *t, struct triple key)
{
	if (2 * t->count >= t->room && !grammar_triple_grow(t))
		return NULL;
	struct triple_slot *slot = grammar_triple_slot(t, key);
	if (slot->value == TRIPLE_NEW) {
		slot->key = key;
		t->count++;
	}
	return &slot->value;
}

void grammar_triple_free(struct triple_table *t)
{
	free(t->slots);
	*t = (struct triple_table){0};
}

void *grammar_grown(void *array, size_t count, uint32_t *room, size_t size)
{
	if (count < *room)
		return array;
	uint32_t more = *room ? 2 * *room : 64;
	void *moved = realloc(array, more * size);
	if (moved)
		*room = more;
	return moved;
}

/* ---- failing ---- */

uint32_t grammar_fail(struct grammar_source *s, int code, const char *format, ...)
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

static uint32_t expr_no_memory(struct grammar_source *s)
{
	return grammar_fail(s, ENOMEM, "out of memory for a grammar");
}

/* ---- expressions ---- */

static uint32_t expr_add(struct grammar_source *s, struct expr e)
{
	if (s->failed)
		return NOTHING;
	if (s->expr_count >= GRAMMAR_MAX_EXPRS)
		return grammar_fail(s, E2BIG,
				    "the grammar is too large: more than %d parts; simplify it, or "
				    "use smaller bounds",
				    GRAMMAR_MAX_EXPRS);
	struct expr *exprs = grammar_grown(s->exprs, s->expr_count, &s->expr_room, sizeof e);
	if (!exprs)
		return expr_no_memory(s);
	s->exprs = exprs;
	s->exprs[s->expr_count] = e;
	return s->expr_count++;
}

/* The equal expression, or a new one. */
static uint32_t expr_intern(struct grammar_source *s, struct expr e)
{
	struct triple key = {e.kind | e.least << 3, e.a, e.kind == EXPR_REPEAT ? e.most : e.b};
	if (e.kind == EXPR_BYTES)
		key.c = e.most;
	uint32_t *place = s->failed ? NULL : grammar_triple_find(&s->interned, key);
	if (!place)
		return expr_no_memory(s);
	if (*place == TRIPLE_NEW) {
		uint32_t added = expr_add(s, e);
		if (s->failed)
			return NOTHING;
		*place = added;
	}
	return *place;
}

void grammar_source_init(struct grammar_source *s)
{
	*s = (struct grammar_source){0};
	expr_add(s, (struct expr){.kind = EXPR_NOTHING});
	expr_add(s, (struct expr){.kind = EXPR_EMPTY});
}

void grammar_source_free(struct grammar_source *s)
{
	free(s->exprs);
	free(s->rules);
	grammar_triple_free(&s->interned);
	*s = (struct grammar_source){0};
}

uint32_t expr_bytes(struct grammar_source *s, uint8_t least, uint8_t most)
{
	return expr_intern(s, (struct expr){.kind = EXPR_BYTES, .least = least, .most = most});
}

uint32_t expr_then(struct grammar_source *s, uint32_t a, uint32_t b)
{
	if (a == NOTHING || b == NOTHING)
		return NOTHING;
	if (a == EMPTY || b == EMPTY)
		return a == EMPTY ? b : a;
	return expr_intern(s, (struct expr){.kind = EXPR_THEN, .a = a, .b = b});
}

uint32_t expr_sequence(struct grammar_source *s, const uint32_t *parts, size_t count)
{
	uint32_t all = EMPTY;
	for (size_t i = 0; i < count; i++)
		all = expr_then(s, all, parts[i]);
	return all;
}

uint32_t expr_either(struct grammar_source *s, uint32_t a, uint32_t b)
{
	if (a == NOTHING || a == b)
		return b;
	if (b == NOTHING)
		return a;
	return expr_intern(s, (struct expr){.kind = EXPR_EITHER, .a = a, .b = b});
}

uint32_t expr_repeat(struct grammar_source *s, uint32_t a, uint32_t least, uint32_t most)
{
	bool bounded = most != REPEAT_ENDLESS;
	if ((bounded ? most : least) > GRAMMAR_MAX_REPEAT)
		return grammar_fail(s, E2BIG,
				    "a repetition of %u is too large; at most %d are allowed",
				    bounded ? most : least, GRAMMAR_MAX_REPEAT);
	if (a == NOTHING)
		return least ? NOTHING : EMPTY;
	if (a == EMPTY || !most)
		return EMPTY;
	if (least == 1 && most == 1)
		return a;
	return expr_intern(
		s, (struct expr){.kind = EXPR_REPEAT, .a = a, .least = least, .most = most});
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

/* Table 3-7 of the Unicode standard: ranges of characters by their number of bytes. */
static const struct utf8_row {
	uint32_t least, most; /* characters */
	uint32_t bytes;
} utf8_rows[] = {
	{0, 0x7f, 1},	     {0x80, 0x7ff, 2},	     {0x800, 0xd7ff, 3},
	{0xe000, 0xffff, 3}, {0x10000, 0x10ffff, 4},
};
enum { UTF8_ROWS = sizeof utf8_rows / sizeof *utf8_rows };

static uint8_t expr_utf8_byte(uint32_t character, uint32_t bytes, uint32_t i)
{
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	uint32_t bits = character >> 6 * (bytes - 1 - i);
	if (bytes == 1)
		return (uint8_t)character;
	return (uint8_t)(i ? 0x80 | (bits & 0x3f) : lead[bytes] | bits);
}

/* Characters with the same number of bytes that agree in their first i bytes: a range of the
 * next byte, and different ends if the range is not complete. */
static uint32_t expr_range(struct grammar_source *s, uint32_t least, uint32_t most, uint32_t bytes,
			   uint32_t i)
{
	if (i == bytes)
		return EMPTY;
	uint32_t shift = 6 * (bytes - 1 - i), below = (1u << shift) - 1;
	uint8_t low = expr_utf8_byte(least, bytes, i), high = expr_utf8_byte(most, bytes, i);
	if (low == high || (!(least & below) && (most & below) == below))
		return expr_then(
			s, expr_bytes(s, low, high),
			expr_range(s, least, low == high ? most : least | below, bytes, i + 1));
	uint32_t cut = least & below ? least | below : (most & ~below) - 1;
	return expr_either(s, expr_range(s, least, cut, bytes, i),
			   expr_range(s, cut + 1, most, bytes, i));
}

uint32_t expr_characters(struct grammar_source *s, uint32_t least, uint32_t most)
{
	uint32_t any = NOTHING;
	for (int i = 0; i < UTF8_ROWS; i++) {
		const struct utf8_row *r = &utf8_rows[i];
		uint32_t from = least > r->least ? least : r->least;
		uint32_t to = most < r->most ? most : r->most;
		if (from <= to)
			any = expr_either(s, any, expr_range(s, from, to, r->bytes, 0));
	}
	return any;
}

/* ---- rules ---- */

uint32_t expr_new_rule(struct grammar_source *s)
{
	if (s->failed)
		return 0;
	if (s->rule_count >= GRAMMAR_MAX_RULES) {
		grammar_fail(s, E2BIG, "the grammar is too large: more than %d rules",
			     GRAMMAR_MAX_RULES);
		return 0;
	}
	uint32_t *rules = grammar_grown(s->rules, s->rule_count, &s->rule_room, sizeof *rules);
	if (!rules)
		return expr_no_memory(s);
	s->rules = rules;
	s->rules[s->rule_count] = RULE_OPEN;
	return s->rule_count++;
}

void expr_set_rule(struct grammar_source *s, uint32_t rule, uint32_t expr)
{
	if (!s->failed)
		s->rules[rule] = expr;
}

uint32_t expr_call(struct grammar_source *s, uint32_t rule)
{
	return expr_intern(s, (struct expr){.kind = EXPR_CALL, .a = rule});
}
