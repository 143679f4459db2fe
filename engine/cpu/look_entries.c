/* Attention that looks at a window and, before it, at entries that are made of several positions each:
 * all complete ones, or those that an index chose. Keys of both, which are their values, too, are copied
 * into blocks of their own, as columns and as rows, entries first, at which the kernels look as they
 * look at a context's. So a row's sums depend on what it looks at alone. Blocks in which two rows of a
 * context see the same entries are copied once. See layers.h. */
#include "engine/cpu/layers.h"
#include "kernels/watch.h"

#include <string.h>

enum { ENTRIES_FLOATS = 1 << 22, ENTRIES_ROWS = 4 }; /* of copies at a time, but at least one row */

/* Blocks for all that a row looks at. */
static size_t look_entries_blocks(const struct config *c)
{
	size_t most = 0;
	for (uint32_t i = 0; i < c->layers; i++) {
		const struct layer *l = &c->layer[i];
		size_t entries = l->index == INDEX_OWN ? c->chooser.most
				 : l->pool	       ? c->max_positions / l->pool
						       : 0;
		if (l->pool && entries + l->window > most)
			most = entries + l->window;
	}
	return (most + KV_BLOCK - 1) / KV_BLOCK;
}

void look_entries_take(struct chosen_scratch *s, struct arena *arena, const struct config *c,
		       size_t rows)
{
	size_t blocks = look_entries_blocks(c), one = 2 * blocks * c->head_dim * KV_BLOCK;
	size_t fit = one ? ENTRIES_FLOATS / one : 1;
	fit = fit < 1 ? 1 : fit < ENTRIES_ROWS ? fit : ENTRIES_ROWS;
	s->rows = (uint32_t)(rows < fit ? rows : fit);
	s->blocks = arena_take(arena, s->rows * blocks, sizeof *s->blocks);
	s->memory = arena_take(arena, s->rows * one, sizeof *s->memory);
}

struct entries_task {
	struct chosen_scratch *scratch;
	const struct look *look;
	uint32_t first, rows; /* of the wave */
	uint32_t blocks;      /* that a row has room for */
	uint32_t groups;      /* of heads that are computed together */
};

/* ---- what a row looks at ---- */

struct entries_list {
	const uint32_t *chosen; /* [count]; NULL: the first count entries */
	uint32_t count;
	uint32_t from, length; /* of the window: its first position, and in all with the entries */
};

static struct entries_list look_entries_list(const struct look *look, size_t t)
{
	const struct layer *l = look->layer;
	const struct chosen_entries *x = &look->step->stream->chosen;
	const struct step_span *span = step_span_of(look->step, t);
	uint32_t end = span->position + (uint32_t)(t - span->first) + 1;
	struct entries_list list = {.count = end / l->pool,
				    .from = end > l->window ? end - l->window : 0};
	if (l->index == INDEX_OWN) {
		list.chosen = x->entries + t * x->most;
		list.count = x->count[t];
	}
	list.length = list.count + end - list.from;
	return list;
}

/* ---- copying ---- */

/* Where a key lies: number d is `at` + d · columns elements from the beginning of a block. */
struct entries_key {
	const void *block;
	size_t at, columns;
};

static struct entries_key look_entries_key(const struct look *look, const struct context *x,
					   const struct entries_list *list, uint32_t i)
{
	const struct layer *l = look->layer;
	if (i >= list->count) {
		uint32_t position = list->from + i - list->count;
		return (struct entries_key){context_blocks_of(x, l)[position / KV_BLOCK],
					    context_key_offset(x->type, l, 0) + position % KV_BLOCK,
					    KV_BLOCK};
	}
	size_t entry = list->chosen ? list->chosen[i] : i, last = (entry + 1) * l->pool - 1;
	return (struct entries_key){context_entries(x, l->entries_at, last),
				    context_entry_column(l->pool, last),
				    context_entry_columns(l->pool)};
}

/* Into [dim][64], and behind that into [64][dim]. */
#define LOOK_ENTRIES_COPY(element)                                               \
	for (size_t d = 0, at = k->at; d < dim; d++, at += k->columns) {         \
		element one = ((const element *)k->block)[at];                   \
		((element *)to)[d * KV_BLOCK + slot] = one;                      \
		((element *)to)[dim * KV_BLOCK + slot * dim + d] = one;          \
	}
static void look_entries_copy(void *to, size_t slot, const struct entries_key *k, enum kv_type type,
			      size_t dim)
{
	if (type == KV_F32) {
		LOOK_ENTRIES_COPY(float)
	} else {
		LOOK_ENTRIES_COPY(uint16_t)
	}
}

/* The first row of the wave whose block holds the same: all entries up to its end are seen by both, and
 * nothing is chosen. */
static uint32_t look_entries_copied_by(const struct entries_task *a, uint32_t row, uint32_t end)
{
	const struct step *s = a->look->step;
	uint32_t first = row;
	while (first && a->look->layer->index != INDEX_OWN &&
	       s->span_of[a->first + first - 1] == s->span_of[a->first + row] &&
	       look_entries_list(a->look, a->first + first - 1).count >= end)
		first--;
	return look_entries_list(a->look, a->first + row).count >= end ? first : row;
}

/* Items are (row of the wave, block). */
static void look_entries_gather(void *ctx, uint32_t begin, uint32_t end)
{
	const struct entries_task *a = ctx;
	const struct look *look = a->look;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t row = i / a->blocks, block = i % a->blocks, first = block * KV_BLOCK;
		uint32_t by = look_entries_copied_by(a, row, first + KV_BLOCK);
		const struct context *x = step_span_of(look->step, a->first + row)->context;
		struct entries_list list = look_entries_list(look, a->first + row);
		void *to = a->scratch->memory +
			   ((size_t)by * a->blocks + block) * 2 * look->head_dim * KV_BLOCK;
		a->scratch->blocks[i] = to;
		for (uint32_t n = 0; n < KV_BLOCK && first + n < list.length && by == row; n++) {
			struct entries_key key = look_entries_key(look, x, &list, first + n);
			look_entries_copy(to, n, &key, x->type, look->head_dim);
		}
	}
}

/* ---- looking ---- */

/* Items are (row of the wave, group of heads). */
static void look_entries_attend(void *ctx, uint32_t begin, uint32_t end)
{
	const struct entries_task *a = ctx;
	const struct look *look = a->look;
	const struct environment *env = look->step->env;
	uint32_t heads = env->config->heads;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t row = i / a->groups, head = i % a->groups * look->group;
		size_t t = a->first + row, at = (t * heads + head) * look->head_dim;
		const struct attention x = {
			.type = step_span_of(look->step, t)->context->type,
			.head_dim = look->head_dim,
			.latent_dim = look->latent_dim,
			.latent_rows = true,
			.value_offset = (size_t)look->head_dim * KV_BLOCK,
			.heads = heads - head < look->group ? heads - head : look->group,
			.length = look_entries_list(look, t).length,
			.scale = env->config->attention_scale,
			.blocks = a->scratch->blocks + (size_t)row * a->blocks,
			.sinks = look->sinks ? look->sinks + head : NULL,
		};
		watch_attend(env->kernels, look->out + at, look->q + at,
			     (size_t)heads * look->head_dim, &x, 1);
	}
}

void look_entries_run(struct chosen_scratch *s, const struct look *look)
{
	const struct environment *env = look->step->env;
	struct entries_task a = {.scratch = s, .look = look};
	a.blocks = (uint32_t)look_entries_blocks(env->config);
	a.groups = (env->config->heads + look->group - 1) / look->group;
	for (; a.first < look->step->n; a.first += a.rows) {
		uint32_t left = look->step->n - a.first;
		a.rows = left < s->rows ? left : s->rows;
		threads_run(env->threads, a.rows * a.blocks, 1, look_entries_gather, &a);
		threads_run(env->threads, a.rows * a.groups, 1, look_entries_attend, &a);
	}
}
