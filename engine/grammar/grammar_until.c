/* Text up to a mark, and text without marks: expressions for what is usually a search (Knuth,
 * Morris and Pratt 1977).
 *
 * All marks begin with one character that occurs in none of them again. So after a part of a
 * mark, any other character is ordinary text or begins a mark. */
#include "engine/grammar/grammar_build.h"

#include <errno.h>
#include <string.h>

enum { MARKS_MAX = 16 };

struct marks {
	struct grammar_source *s;
	const char *at[MARKS_MAX];
	uint32_t count;
	bool characters; /* ordinary text is UTF-8; else any bytes */
};

static void until_add_mark(struct marks *m, const char *mark)
{
	bool once = !strchr(mark + 1, *mark) && *mark == (m->count ? *m->at[0] : *mark);
	for (const char *c = mark; *c; c++)
		once &= !m->characters || !(*c & 0x80);
	if (m->count == MARKS_MAX || !once)
		grammar_fail(m->s, EINVAL,
			     "internal error: \"%s\" cannot be searched for as a mark", mark);
	else
		m->at[m->count++] = mark;
}

/* Any character except those in `but`. With m->characters, the last ASCII character represents all
 * characters beyond ASCII. */
static uint32_t until_other_than(const struct marks *m, const bool but[256])
{
	uint32_t any = NOTHING, from = m->characters ? 1 : 0; /* no NUL in a text */
	uint32_t most = m->characters ? 127 : 255;
	for (uint32_t c = from; c <= most; c++) {
		if (but[c]) {
			from = c + 1;
			continue;
		}
		if (c == most || but[c + 1])
			any = expr_either(
				m->s, any,
				m->characters ? expr_characters(m->s, from, c == 127 ? 0x10ffff : c)
					      : expr_bytes(m->s, (uint8_t)from, (uint8_t)c));
	}
	return any;
}

/* Continuations after the marks' first character. */
enum part {
	PART_AGAIN, /* a part of a mark, then the first character again */
	PART_OTHER, /* a part of a mark, then a character that continues none */
	PART_ONLY,  /* a part of a mark */
};

static uint32_t until_part_at(const struct marks *m, const char *text, size_t n, enum part part)
{
	bool but[256] = {0};
	but[(uint8_t)*text] = true;
	if (part == PART_ONLY)
		return EMPTY;
	if (part == PART_AGAIN)
		return expr_text(m->s, text, 1);
	for (uint32_t i = 0; i < m->count; i++)
		if (!strncmp(m->at[i], text, n))
			but[(uint8_t)m->at[i][n]] = true;
	return until_other_than(m, but);
}

/* For each proper prefix of a mark; shared prefixes occur more than once and are one expression. */
static uint32_t until_parts(const struct marks *m, enum part part)
{
	uint32_t any = NOTHING;
	for (uint32_t i = 0; i < m->count; i++)
		for (size_t n = 1; m->at[i][n]; n++) {
			bool mark = false; /* another mark is all that was read */
			for (uint32_t k = 0; k < m->count; k++)
				mark |= !strncmp(m->at[k], m->at[i], n) && !m->at[k][n];
			if (mark)
				break;
			uint32_t before = expr_text(m->s, m->at[i] + 1, n - 1);
			uint32_t one = expr_then(m->s, before, until_part_at(m, m->at[i], n, part));
			any = expr_either(m->s, any, one);
		}
	return any;
}

/* The first character, and as often as it comes again, what was read before. */
static uint32_t until_first_of(const struct marks *m)
{
	uint32_t again = expr_repeat(m->s, until_parts(m, PART_AGAIN), 0, REPEAT_ENDLESS);
	return expr_then(m->s, expr_text(m->s, m->at[0], 1), again);
}

static uint32_t until_ordinary(const struct marks *m)
{
	bool but[256] = {0};
	but[(uint8_t)*m->at[0]] = true;
	uint32_t passed = expr_then(m->s, until_first_of(m), until_parts(m, PART_OTHER));
	return expr_repeat(m->s, expr_either(m->s, until_other_than(m, but), passed), 0,
			   REPEAT_ENDLESS);
}

uint32_t until_expr(struct grammar_source *s, const char *end, const char *const *others,
		    bool characters)
{
	struct marks m = {.s = s, .characters = characters};
	until_add_mark(&m, end);
	for (; others && *others; others++)
		until_add_mark(&m, *others);
	if (s->failed)
		return NOTHING;
	uint32_t last = expr_then(s, until_first_of(&m), expr_word(s, end + 1));
	return expr_then(s, until_ordinary(&m), last);
}

uint32_t until_without_expr(struct grammar_source *s, const char *const *words)
{
	struct marks m = {.s = s, .characters = true};
	for (; *words; words++)
		until_add_mark(&m, *words);
	if (s->failed)
		return NOTHING;
	uint32_t rest = expr_maybe(s, expr_then(s, until_first_of(&m), until_parts(&m, PART_ONLY)));
	return expr_then(s, until_ordinary(&m), rest);
}
