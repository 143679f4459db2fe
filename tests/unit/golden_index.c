/* Choices of attention against golden numbers (golden_index.h). */
#include "golden_index.h"
#include "golden_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static uint32_t groups_of(const struct config *c)
{
	return c->chooser.groups ? c->chooser.groups : 1;
}

void golden_index_open(struct golden_index *x, const struct config *c, uint32_t tokens)
{
	*x = (struct golden_index){.config = c, .tokens = tokens};
	size_t lists = c->chooser.entry == INDEX_NONE ? 0 : (size_t)c->layers * groups_of(c);
	x->scores = calloc(lists * tokens * tokens + 1, sizeof *x->scores);
	x->chosen = calloc(lists * tokens * tokens + 1, sizeof *x->chosen);
	x->rows = calloc(lists + 1, sizeof *x->rows);
	assert_true(x->scores && x->chosen && x->rows);
}

void golden_index_close(struct golden_index *x)
{
	free(x->scores);
	free(x->chosen);
	free(x->rows);
}

static size_t row_of(const struct golden_index *x, uint32_t list, uint32_t position)
{
	return ((size_t)list * x->tokens + position) * x->tokens;
}

void golden_index_record(struct golden_index *x, enum tap_point point, uint32_t layer,
			 uint32_t position, uint32_t width, const float *row)
{
	if (position >= x->tokens)
		return;
	size_t at = row_of(x, layer, position);
	x->rows[layer] += point == TAP_INDEX_CHOICE;
	for (uint32_t i = 0; i < width; i++)
		if (point == TAP_INDEX_SCORES)
			x->scores[at + i] = row[i];
		else
			x->chosen[at + (uint32_t)row[i]] = true;
}

/* Whether a row sees a column of the golden choice: an entry, or a position. */
static bool sees(const struct golden_index *x, uint32_t list, uint32_t position, uint32_t column,
		 bool entries)
{
	const struct chooser *c = &x->config->chooser;
	uint32_t candidates = config_index_candidates(x->config, position + 1),
		 entry = entries ? column : column / c->ratio;
	if (entry < candidates)
		return x->chosen[row_of(x, list, position) + entry];
	if (entries) /* the block that the row is in */
		return c->entry == INDEX_BLOCKS && entry == candidates;
	return column <= position;
}

static void compare_choice(const struct golden_index *x, uint32_t list, uint32_t first,
			   const uint8_t *want, uint32_t columns, const char *name)
{
	bool entries = columns != x->tokens;
	for (uint32_t t = first; t < x->tokens; t++, want += columns)
		for (uint32_t k = 0; k < columns; k++)
			if (sees(x, list, t, k, entries) != want[k])
				fail_msg("%s: position %u, column %u: want %d", name, t, k,
					 want[k]);
}

/* A score is a sum whose parts cancel, and the first rows have few: their error is relative to what the
 * scores of all rows are like. */
static void compare_scores(const struct golden_index *x, uint32_t list, const float *want,
			   uint32_t columns, const char *name)
{
	double power = 0, count = 0;
	for (uint32_t t = 0; t < x->tokens; t++)
		for (uint32_t i = 0; i < config_index_candidates(x->config, t + 1); i++, count++)
			power += (double)want[(size_t)t * columns + i] * want[(size_t)t * columns + i];
	for (uint32_t t = 0; t < x->tokens; t++, want += columns) {
		const float *got = x->scores + row_of(x, list, t);
		double error = 0;
		uint32_t n = config_index_candidates(x->config, t + 1);
		for (uint32_t i = 0; i < n; i++)
			error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
		if (!(sqrt(error) <= 2e-5 * sqrt(power / count * n)))
			fail_msg("%s, row %u: error %.2e beside scores of %.2e", name, t,
				 sqrt(error), sqrt(power / count * n));
	}
}

static bool find(const struct golden *g, const char *pattern, uint32_t layer,
		 struct golden_tensor *t, char name[64])
{
	(void)snprintf(name, 64, "extra.%s.%u", pattern, layer);
	return golden_find(g, name, t);
}

static void compare_layer(const struct golden_index *x, const struct golden *g, uint32_t layer)
{
	struct golden_tensor t;
	char name[64];
	uint32_t groups = groups_of(x->config);
	bool found = find(g, "index_scores", layer, &t, name) ||
		     find(g, "block_scores", layer, &t, name);
	for (uint32_t i = 0; i < groups && found; i++)
		compare_scores(x, layer * groups + i,
			       (const float *)t.data + i * (t.count / groups),
			       (uint32_t)t.shape[t.dims - 1], name);
	assert_true(find(g, "select", layer, &t, name));
	for (uint32_t i = 0; i < groups; i++) {
		assert_int_equal(x->rows[layer * groups + i], x->tokens);
		compare_choice(x, layer * groups + i, 0,
			       (const uint8_t *)t.data + i * (t.count / groups),
			       (uint32_t)t.shape[t.dims - 1], name);
	}
}

void golden_index_compare(const struct golden_index *x, const struct golden *g)
{
	for (uint32_t layer = 0; layer < x->config->layers; layer++)
		if (x->config->layer[layer].index == INDEX_OWN)
			compare_layer(x, g, layer);
}

void golden_index_compare_last(const struct golden_index *x, const struct golden *g)
{
	struct golden_tensor t;
	char name[64];
	uint32_t groups = groups_of(x->config);
	for (uint32_t layer = 0; layer < x->config->layers; layer++) {
		if (x->config->layer[layer].index != INDEX_OWN)
			continue;
		assert_true(find(g, "select_long_last4", layer, &t, name));
		for (uint32_t i = 0; i < groups; i++)
			compare_choice(x, layer * groups + i, x->tokens - 4,
				       (const uint8_t *)t.data + i * (t.count / groups),
				       (uint32_t)t.shape[t.dims - 1], name);
	}
}
