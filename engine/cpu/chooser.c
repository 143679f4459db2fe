/* Which positions a layer of attention looks at, where it does not look at all: its index gives
 * scores to entries, and the best are chosen. See layers.h.
 *
 * A small attention of its own, without values: index queries of several heads meet one index key an
 * entry. The score of an entry is the sum over the heads of what is positive of q · k, weighed where
 * the family has weights (DeepSeek-AI 2025, sparse attention; Qwen 4; GLM 5). Or an entry is a block
 * of positions, as good as its best one, and each key-value head has a head of the index and a choice
 * of its own (MiniMax M3).
 *
 * Entries are chosen that are complete and before the token's own: whatever follows the last of them
 * is looked at, too (the rest of an unfinished pool, or the token's own block). So attention looks at
 *     the chosen entries' positions, ascending, and then [entries · ratio, length).
 * Index keys lie by columns in blocks of 64 positions, so a query reads them once, as they lie. */
#include "engine/cpu/layers.h"
#include "kernels/watch.h"

#include <math.h>
#include <string.h>

enum { SCORES_MOST = 1 << 20 }; /* floats of scores at a time, but at least one row's */
static const float layer_norm_eps = 1e-6F;

/* Scores of a token: of positions where blocks are made of them, else of entries. */
static size_t chooser_scores(const struct config *c)
{
	const struct chooser *x = &c->chooser;
	size_t each = config_pools(c) ? x->ratio : 1;
	return c->max_positions / each + KV_BLOCK; /* whole blocks */
}

void chooser_take(struct chooser_scratch *s, struct arena *arena, const struct config *c,
		  size_t rows)
{
	const struct chooser *x = &c->chooser;
	*s = (struct chooser_scratch){0};
	if (x->entry == INDEX_NONE)
		return;
	size_t one = chooser_scores(c) * x->groups, gated = x->entry == INDEX_POOLS ? 2 : 1,
	       parts = config_index_parts(c);
	size_t fit = SCORES_MOST / one;
	s->wave = (uint32_t)(fit > rows ? rows : fit ? fit : 1);
	s->pool_floats = config_pools(c) ? pools_scratch(x->dim) : 0;
	s->q = arena_take(arena, rows * x->heads * x->dim, sizeof *s->q);
	s->k = arena_take(arena, rows * parts, sizeof *s->k);
	s->gate = arena_take(arena, gated > 1 ? rows * parts : 0, sizeof *s->gate);
	s->kept = arena_take(arena, rows * parts * gated, sizeof *s->kept);
	s->weights = arena_take(arena, rows * x->heads, sizeof *s->weights);
	s->pools = arena_take(arena, rows * s->pool_floats, sizeof *s->pools);
	s->scores = arena_take(arena, s->wave * one, sizeof *s->scores);
}

void chooser_take_entries(struct chosen_entries *s, struct arena *arena, const struct config *c, size_t rows)
{
	const struct chooser *x = &c->chooser;
	*s = (struct chosen_entries){.groups = x->groups, .most = x->most};
	if (x->entry == INDEX_NONE)
		return;
	s->count = arena_take(arena, rows * x->groups, sizeof *s->count);
	s->entries = arena_take(arena, rows * x->groups * x->most, sizeof *s->entries);
}

void chooser_move_entries(struct chosen_entries *x, uint32_t to, uint32_t from, uint32_t n)
{
	size_t groups = x->groups, entries = groups * x->most;
	if (!x->count)
		return;
	memmove(x->count + to * groups, x->count + from * groups, n * groups * sizeof *x->count);
	memmove(x->entries + to * entries, x->entries + from * entries,
		n * entries * sizeof *x->entries);
}

struct chooser_task {
	struct chooser_scratch *scratch;
	const struct step *step;
	const struct layer_weights *weights;
	const struct layer *layer;
	struct pool pool;     /* where index keys are made of several positions */
	uint32_t number;      /* of the layer */
	uint32_t first, rows; /* of the wave */
	uint32_t blocks;      /* of the longest of its rows */
};

static struct pool_place chooser_place(const struct chooser_task *a, size_t t)
{
	const struct step_span *span = step_span_of(a->step, t);
	return (struct pool_place){a->step, span, a->layer, span->position + t - span->first};
}

/* ---- queries and keys ---- */

static void chooser_project(const struct chooser_task *a, struct activation *low)
{
	const struct chooser *x = &a->step->env->config->chooser;
	const struct chooser_scratch *s = a->scratch;
	const struct matrix *m = a->weights->m;
	struct product in[4] = {{s->k, &m[TENSOR_INDEX_K]}};
	const struct product q = {s->q, &m[TENSOR_INDEX_Q]};
	uint32_t count = 1;
	if (x->weighed)
		in[count++] = (struct product){s->weights, &m[TENSOR_INDEX_WEIGHTS]};
	if (x->entry == INDEX_POOLS)
		in[count++] = (struct product){s->gate, &m[TENSOR_INDEX_GATE]};
	if (!x->low)
		in[count++] = q;
	product_run(a->step->env, in, count, &a->step->scratch->normed, a->step->n);
	if (x->low)
		product_run(a->step->env, &q, 1, low, a->step->n);
}

/* Rotates the first numbers of a head, or the last. Of the first, pairs that are neighbours are put
 * half the rotated part apart, in queries and keys alike, so their products stay the same. */
static void chooser_rotate(const struct chooser_task *a, float *head, size_t t)
{
	const struct config *c = a->step->env->config;
	const struct rotation *r = &a->step->rotations[a->layer->rope];
	const float *cos = r->cos + t * r->half, *sin = r->sin + t * r->half;
	float apart[2 * INDEX_ROTATED];
	if (c->rotates_last) {
		rotation_turn_pairs(head + c->chooser.dim - 2 * (size_t)r->half, cos, sin, r->half,
				    false);
		return;
	}
	if (c->chooser.interleaved) {
		for (uint32_t i = 0; i < r->half; i++) {
			apart[i] = head[2 * i];
			apart[i + r->half] = head[2 * i + 1];
		}
		memcpy(head, apart, 2 * r->half * sizeof *head);
	}
	a->step->env->kernels->rope(head, cos, sin, r->half);
}

/* A norm with a mean and a bias (Ba et al. 2016), in double: short rows, and few. */
static void chooser_layer_norm(float *x, const float *weight, const float *bias, uint32_t n)
{
	double mean = 0, square = 0;
	for (uint32_t i = 0; i < n; i++)
		mean += x[i];
	mean /= n;
	for (uint32_t i = 0; i < n; i++)
		square += (x[i] - mean) * (x[i] - mean);
	double factor = 1 / sqrt(square / n + (double)layer_norm_eps);
	for (uint32_t i = 0; i < n; i++)
		x[i] = (float)((x[i] - mean) * factor) * weight[i] + bias[i];
}

/* Queries of a row, and the weights of its heads, with the scale of the scores. */
static void chooser_finish_queries(const struct chooser_task *a, size_t t)
{
	const struct config *c = a->step->env->config;
	const struct chooser *x = &c->chooser;
	const struct kernels *k = a->step->env->kernels;
	float *q = a->scratch->q + t * x->heads * x->dim, *weights = a->scratch->weights;
	/* Of blocks scores are taken as they are; else by the root of dim and, where heads are
	 * weighed, of their number. */
	double scale = x->entry == INDEX_BLOCKS ? 1 : 1 / sqrt(x->dim);
	scale *= x->weighed ? 1 / sqrt(x->heads) : 1;
	for (uint32_t h = 0; h < x->heads; h++, q += x->dim) {
		float *weight = weights + t * x->heads + h;
		*weight = (float)((x->weighed ? *weight : 1) * scale);
		if (x->norms)
			k->rmsnorm(q, q, weights_vector(a->weights, TENSOR_INDEX_Q_NORM), x->dim,
				   c->rms_eps);
		chooser_rotate(a, q, t);
	}
}

/* Puts the key of a row into its context, or keeps it until its pool is complete. */
static void chooser_place_key(const struct chooser_task *a, size_t t)
{
	const struct config *c = a->step->env->config;
	const struct chooser *x = &c->chooser;
	const struct kernels *k = a->step->env->kernels;
	const struct pool_place p = chooser_place(a, t);
	size_t parts = config_index_parts(c);
	float *key = a->scratch->k + t * parts;
	const float *norm = weights_vector(a->weights, TENSOR_INDEX_K_NORM);
	if (x->layer_norm)
		chooser_layer_norm(key, norm, weights_vector(a->weights, TENSOR_INDEX_K_BIAS),
				   x->dim);
	if (config_pools(c)) {
		size_t gated = x->entry == INDEX_POOLS ? 2 : 1;
		float *kept = a->scratch->kept + t * parts * gated;
		memcpy(kept, key, parts * sizeof *kept);
		if (gated > 1)
			memcpy(kept + parts, a->scratch->gate + t * parts, parts * sizeof *kept);
		pools_keep(&p, &a->pool, kept);
		return;
	}
	if (x->norms)
		k->rmsnorm(key, key, norm, x->dim, c->rms_eps);
	chooser_rotate(a, key, t);
	watch_kv_put(k, context_entries(p.span->context, a->layer->index_at, p.position),
		     p.span->context->type, 0, 0, p.position % KV_BLOCK, key, NULL, x->dim, 0);
}

static void chooser_place_rows(void *ctx, uint32_t begin, uint32_t end)
{
	for (size_t t = begin; t < end; t++) {
		chooser_finish_queries(ctx, t);
		chooser_place_key(ctx, t);
	}
}

static void chooser_finish_pools(void *ctx, uint32_t begin, uint32_t end)
{
	const struct chooser_task *a = ctx;
	for (size_t t = begin; t < end; t++) {
		const struct pool_place p = chooser_place(a, t);
		pools_finish(&p, &a->pool, a->scratch->pools + t * a->scratch->pool_floats);
	}
}

/* ---- scores ---- */

/* Blocks of index keys that are scored by one call. */
enum { SCORED_BLOCKS = 8 };

static float *chooser_scores_of(const struct chooser_task *a, uint32_t row, uint32_t group)
{
	const struct config *c = a->step->env->config;
	return a->scratch->scores +
	       ((size_t)row * c->chooser.groups + group) * chooser_scores(c);
}

/* Scores of one block's keys by a row; next: the block after it, or again the same. */
static void chooser_score_block(const struct chooser_task *a, uint32_t row, uint32_t block,
				uint32_t next)
{
	const struct config *c = a->step->env->config;
	const struct chooser *x = &c->chooser;
	const struct pool_place p = chooser_place(a, a->first + row);
	const struct index_keys keys = {
		.type = p.span->context->type,
		.dim = x->dim,
		.count = KV_BLOCK / (config_pools(c) ? x->ratio : 1),
		.keys = context_entries(p.span->context, a->layer->index_at,
					(size_t)block * KV_BLOCK),
		.next = context_entries(p.span->context, a->layer->index_at,
					(size_t)next * KV_BLOCK),
		.positive = x->entry != INDEX_BLOCKS,
	};
	size_t first = (size_t)(a->first + row) * x->heads;
	const struct index_queries q = {a->scratch->q + first * x->dim, a->scratch->weights + first,
					x->heads, x->groups};
	a->step->env->kernels->index_scores(chooser_scores_of(a, row, 0) + (size_t)block * keys.count,
					    chooser_scores(c), &keys, &q);
}

/* Items are (some blocks, row of the wave). */
static void chooser_score(void *ctx, uint32_t begin, uint32_t end)
{
	const struct chooser_task *a = ctx;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t row = i % a->rows, block = i / a->rows * SCORED_BLOCKS;
		uint32_t length = (uint32_t)chooser_place(a, a->first + row).position + 1;
		uint32_t last = (length + KV_BLOCK - 1) / KV_BLOCK;
		for (uint32_t n = 0; n < SCORED_BLOCKS && block < last; n++, block++)
			chooser_score_block(a, row, block, block + 1 < last ? block + 1 : block);
	}
}

/* A block is as good as its best position. Its scores take the place of the positions'. */
static void chooser_take_best(float *scores, uint32_t blocks, uint32_t ratio)
{
	for (uint32_t b = 0; b < blocks; b++) {
		float best = -INFINITY;
		for (uint32_t i = 0; i < ratio; i++)
			best = scores[(size_t)b * ratio + i] > best ? scores[(size_t)b * ratio + i]
								    : best;
		scores[b] = best;
	}
}

/* Items are (row of the wave, group). */
static void chooser_choose(void *ctx, uint32_t begin, uint32_t end)
{
	const struct chooser_task *a = ctx;
	const struct config *c = a->step->env->config;
	const struct chooser *x = &c->chooser;
	struct chosen_entries *to = &a->step->stream->chosen;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t row = i / x->groups, group = i % x->groups;
		size_t at = (size_t)a->first * x->groups + i;
		uint32_t length = (uint32_t)chooser_place(a, a->first + row).position + 1;
		uint32_t candidates = config_index_candidates(c, length);
		float *scores = chooser_scores_of(a, row, group);
		if (x->entry == INDEX_BLOCKS)
			chooser_take_best(scores, candidates, x->ratio);
		to->count[at] =
			chooser_best(scores, candidates, x->most, to->entries + at * x->most);
	}
}

/* Shows what each row of the wave found and took. */
static void chooser_tap(const struct chooser_task *a)
{
	const struct environment *env = a->step->env;
	const struct chooser *x = &env->config->chooser;
	const struct chosen_entries *chosen = &a->step->stream->chosen;
	for (uint32_t i = 0; i < a->rows * x->groups && env->tap; i++) {
		uint32_t row = i / x->groups, group = i % x->groups;
		size_t at = (size_t)a->first * x->groups + i;
		uint32_t position = (uint32_t)chooser_place(a, a->first + row).position,
			 layer = a->number * x->groups + group;
		float *scores = chooser_scores_of(a, row, group);
		env->tap(env->tap_ctx, TAP_INDEX_SCORES, layer, position, 1,
			 config_index_candidates(env->config, position + 1), scores);
		for (uint32_t e = 0; e < chosen->count[at]; e++)
			scores[e] = (float)chosen->entries[at * x->most + e];
		env->tap(env->tap_ctx, TAP_INDEX_CHOICE, layer, position, 1, chosen->count[at],
			 scores);
	}
}

/* ---- all of it ---- */

static void chooser_run_wave(struct chooser_task *a)
{
	const struct environment *env = a->step->env;
	const struct chooser *x = &env->config->chooser;
	uint32_t longest = 0;
	for (uint32_t t = 0; t < a->rows; t++) {
		uint32_t length = (uint32_t)chooser_place(a, a->first + t).position + 1;
		longest = length > longest ? length : longest;
	}
	uint32_t pieces = (longest + KV_BLOCK * SCORED_BLOCKS - 1) / (KV_BLOCK * SCORED_BLOCKS);
	threads_run(env->threads, pieces * a->rows, 1, chooser_score, a);
	threads_run(env->threads, a->rows * x->groups, 1, chooser_choose, a);
	chooser_tap(a);
}

void chooser_run(struct step *step, uint32_t layer, struct activation *low)
{
	struct chooser_scratch *s = &step->scratch->chooser;
	const struct environment *env = step->env;
	struct chooser_task a = {.scratch = s,
				 .step = step,
				 .weights = &env->weights->layer[layer],
				 .layer = &env->config->layer[layer],
				 .number = layer};
	if (a.layer->index == INDEX_SHARED)
		return;
	if (config_pools(env->config))
		a.pool = pools_of_index(env->config, a.layer, a.weights);
	chooser_project(&a, low);
	threads_run(env->threads, step->n, 1, chooser_place_rows, &a);
	if (config_pools(env->config))
		threads_run(env->threads, step->n, 8, chooser_finish_pools, &a);
	for (; a.first < step->n; a.first += a.rows) {
		uint32_t left = step->n - a.first;
		a.rows = left < s->wave ? left : s->wave;
		chooser_run_wave(&a);
	}
}
