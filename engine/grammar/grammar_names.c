/* Names of properties that are none of those that a schema has, character by character. */
#include "engine/grammar/grammar_schema.h"

#include "engine/json/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 256 };

static int by_name(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static int by_from(const void *one, const void *other)
{
	const struct char_range *a = one, *b = other;
	return (a->from > b->from) - (a->from < b->from);
}

static uint32_t any_characters(struct grammar_source *s)
{
	static const struct char_range all[] = {{0, 0x10ffff}};
	return expr_repeat(s, spelled_characters(s, all, 1, SPELL_JSON), 0, REPEAT_ENDLESS);
}

static uint32_t other_rest(struct grammar_source *s, const char *const *names, uint32_t first,
			   uint32_t end, size_t at);

/* The names, which ascend, from first to end by their next characters, which go to `next`; returns
 * how many. */
static uint32_t branches(struct grammar_source *s, const char *const *names, uint32_t first,
			 uint32_t end, size_t at, struct char_range *next, uint32_t *any)
{
	uint32_t count = 0;
	while (first < end && !s->failed) {
		size_t length;
		uint32_t c = utf8_decode(names[first] + at, &length), same = first + 1;
		while (same < end && !strncmp(names[same] + at, names[first] + at, length))
			same++;
		next[count] = (struct char_range){c, c};
		uint32_t spelled = spelled_characters(s, &next[count++], 1, SPELL_JSON);
		uint32_t rest = other_rest(s, names, first, same, at + length);
		*any = expr_either(s, *any, expr_then(s, spelled, rest));
		first = same;
	}
	qsort(next, count, sizeof *next, by_from);
	return count;
}

/* Any character but these, which it writes over. */
static uint32_t any_but(struct grammar_source *s, struct char_range *r, uint32_t count)
{
	uint32_t from = 0, left = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t c = r[i].from;
		if (c > from)
			r[left++] = (struct char_range){from, c - 1};
		from = c + 1;
	}
	r[left++] = (struct char_range){from, 0x10ffff};
	return spelled_characters(s, r, left, SPELL_JSON);
}

/* The rest of a name, with its quote, that goes on otherwise than those from first to end do, which
 * agree in their bytes before `at`. Characters have one spelling here, so that no name has two. */
static uint32_t other_rest(struct grammar_source *s, const char *const *names, uint32_t first,
			   uint32_t end, size_t at)
{
	uint32_t quote = expr_bytes(s, '"', '"'), any = NOTHING;
	if (at > NAME_MAX_BYTES)
		return source_fail(s, E2BIG, "schema: the name of a property is too long");
	struct char_range *next = malloc((end - first + (size_t)1) * sizeof *next);
	if (!next)
		return source_fail(s, ENOMEM, "out of memory for a schema");
	if (first < end && !names[first][at])
		first++;
	else
		any = quote;
	uint32_t count = branches(s, names, first, end, at, next, &any);
	uint32_t other = any_but(s, next, count);
	free(next);
	return expr_either(s, any, expr_then(s, expr_then(s, other, any_characters(s)), quote));
}

uint32_t schema_other_name(struct grammar_source *s, const char **names, uint32_t count)
{
	qsort(names, count, sizeof *names, by_name);
	uint32_t rest = other_rest(s, names, 0, count, 0);
	return expr_then(s, expr_bytes(s, '"', '"'), rest);
}
