#include "tests/scripted/grams.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t hash(uint32_t level, uint32_t left, uint32_t right)
{
	uint64_t h = (((uint64_t)left << 32 | right) + level) * 0x9e3779b97f4a7c15U;
	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9U;
	return h ^ h >> 32;
}

/* The gram, made if need be; its index from 1, 0: out of memory or too many. */
static uint32_t find_or_add(struct grams *g, uint32_t level, uint32_t left, uint32_t right)
{
	size_t at = hash(level, left, right) % g->place_count;
	for (; g->places[at]; at = (at + 1) % g->place_count) {
		const struct gram *x = &g->list[g->places[at] - 1];
		if (x->level == level && x->left == left && x->right == right)
			return g->places[at];
	}
	if (g->count == GRAMS_MOST)
		return 0;
	if (g->count == g->room) {
		size_t room = g->room ? 2 * g->room : 256;
		struct gram *grown = reallocarray(g->list, room, sizeof *grown);
		if (!grown)
			return 0;
		g->list = grown;
		g->room = room;
	}
	g->list[g->count] = (struct gram){level, left, right, NEXT_UNKNOWN};
	return g->places[at] = (uint32_t)++g->count;
}

/* ---- levels ---- */

uint32_t grams_length(uint32_t level)
{
	static const uint32_t lengths[GRAMS_LEVELS + 1] = {1,  2,  3,  4,  5,	6,   7,	  8,   10,
							   12, 14, 16, 19, 22,	26,  30,  35,  41,
							   48, 56, 64, 80, 100, 128, 160, 200, 256};
	return lengths[level];
}

uint32_t grams_distance(uint32_t level)
{
	return grams_length(level) - grams_length(level - 1);
}

static uint32_t whole_levels(size_t tokens)
{
	uint32_t level = 0;
	while (level < GRAMS_LEVELS && grams_length(level + 1) <= tokens)
		level++;
	return level;
}

/* ---- scripts ---- */

static void forget(struct grams *g)
{
	for (size_t i = 0; i < g->place_count; i++)
		g->places[i] = 0;
	g->count = 0;
}

/* What is said behind the first `end` tokens of an entry. False: something else was said there. */
static bool note_next(struct grams *g, const struct script_entry *x, size_t end, uint32_t gram)
{
	int64_t *next = &g->list[gram].next;
	int64_t said = end < x->tokens.count ? (int64_t)x->tokens.ids[end] : NEXT_END;
	bool same = *next == NEXT_UNKNOWN || *next == said;
	*next = said;
	return same;
}

/* The grams of a level of an entry: row[end], from those of the level below in the same places. */
static int add_level(struct grams *g, const struct script_entry *x, uint32_t level, uint32_t *row,
		     size_t *clash)
{
	for (size_t end = x->tokens.count; end >= grams_length(level); end--) {
		uint32_t left = level ? row[end - grams_distance(level)] : 0;
		uint32_t right = level ? row[end] : x->tokens.ids[end - 1];
		uint32_t found = find_or_add(g, level, left, right);
		if (!found)
			return -ENOMEM;
		row[end] = found - 1;
		uint32_t most = whole_levels(end);
		if (end >= x->said_from && level == (most < g->levels ? most : g->levels) &&
		    !note_next(g, x, end, found - 1))
			*clash = end - x->said_from + 1;
	}
	return 0;
}

/* What an entry says; *clash: 0, or the token from 1 where something else was said elsewhere. */
static int add_entry(struct grams *g, const struct script_entry *x, size_t *clash, struct err *e)
{
	uint32_t *row = calloc(x->tokens.count + 1, sizeof *row);
	int code = row ? 0 : -ENOMEM;
	for (uint32_t level = 0; level <= g->levels && !code; level++)
		code = add_level(g, x, level, row, clash);
	free(row);
	return code ? err_set(e, -code, "the script is too long for its model") : 0;
}

/* With g->levels; *clash: 0, or the entry from 1 that clashes with one before it, or with itself.
 */
static int add_all(struct grams *g, const struct script *s, size_t *clash, size_t *token,
		   struct err *e)
{
	*clash = 0;
	forget(g);
	for (size_t i = 0; i < s->count && !*clash; i++) {
		*token = 0;
		int code = add_entry(g, &s->entries[i], token, e);
		if (code)
			return code;
		*clash = *token ? i + 1 : 0;
	}
	return 0;
}

/* Halves were made before what they are of. */
static void inherit(struct grams *g)
{
	for (size_t i = 0; i < g->count; i++) {
		struct gram *x = &g->list[i];
		if (x->next == NEXT_UNKNOWN && x->level)
			x->next = g->list[x->right].next;
	}
}

int grams_make(struct grams *g, const struct script *s, struct err *e)
{
	size_t clash = 0, token = 0;
	g->place_count = (size_t)2 * GRAMS_MOST;
	g->places = calloc(g->place_count, sizeof *g->places);
	if (!g->places)
		return err_set(e, ENOMEM, "no memory for what a model knows");
	for (size_t i = 0; i < s->count; i++) {
		uint32_t level = whole_levels(s->entries[i].said_from);
		g->levels = level > g->levels ? level : g->levels;
	}
	int code = add_all(g, s, &clash, &token, e);
	while (!code && clash && g->levels < GRAMS_LEVELS) {
		g->levels++;
		code = add_all(g, s, &clash, &token, e);
	}
	if (!code && clash)
		code = err_set(
			e, EINVAL,
			"entry %zu of the script says something else at token %zu of its "
			"answer than is said elsewhere after the same tokens: make \"after\" "
			"longer (four fifths of its tokens count at least, of 256), or the "
			"words before that place different",
			clash, token);
	if (!code)
		inherit(g);
	return code;
}

void grams_free(struct grams *g)
{
	free(g->list);
	free(g->places);
	*g = (struct grams){0};
}
