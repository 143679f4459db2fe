/* Keys that are made of several positions' keys: pools of `ratio` positions. The keys of an unfinished
 * pool are kept with the context, and every pool is made of what is kept, so the step in which a pool
 * is finished changes no bit. See layers.h.
 *
 * Means (Qwen 4): the mean of the keys. Weighed (GLM 5): a softmax over the pool's positions, for each
 * number by itself, of a gate plus a bias of the place in the pool; the sum of keys with these weights.
 * Overlapping (DeepSeek V4): the same over two pools' positions, where those of the pool before take
 * part with the first half of their projections, and the pool's own with the second; before the first
 * pool there is nothing. Then the norm, if there is one, and the rotation of the pool's first
 * position. */
#include "engine/cpu/layers.h"

#include <math.h>
#include <string.h>

enum { POOL_TILE = 16 }; /* numbers of a key that are made together */

struct pool pools_of_index(const struct config *c, const struct layer *l,
			   const struct layer_weights *w)
{
	const struct chooser *x = &c->chooser;
	bool weighed = x->entry == INDEX_POOLS;
	return (struct pool){
		.dim = x->dim,
		.ratio = x->ratio,
		.parts = x->overlaps ? 2 : 1,
		.past_at = l->past_at + config_past_part(c, l, PAST_NGRAMS),
		.past_width = config_past_part(c, l, PAST_INDEX),
		.entries_at = l->index_at,
		.bias = weighed ? weights_vector(w, TENSOR_INDEX_POOL_BIAS) : NULL,
		.norm = x->layer_norm ? NULL : weights_vector(w, TENSOR_INDEX_K_NORM),
	};
}

struct pool pools_of_entries(const struct config *c, const struct layer *l,
			     const struct layer_weights *w)
{
	return (struct pool){
		.dim = l->head_dim,
		.ratio = l->pool,
		.parts = l->pool_parts,
		.past_at = l->past_at + config_past_part(c, l, PAST_NGRAMS) +
			   config_past_part(c, l, PAST_INDEX),
		.past_width = config_past_part(c, l, PAST_ENTRIES),
		.entries_at = l->entries_at,
		.bias = weights_vector(w, TENSOR_ENTRY_BIAS),
		.norm = weights_vector(w, TENSOR_ENTRY_NORM),
	};
}

void pools_keep(const struct pool_place *p, const struct pool *o, const float *row)
{
	context_past_put(p->span->context, o->past_at, o->past_width, p->position, row);
}

/* key[dim] = the mean of the pool that ends at the position. */
static void pools_mean(const struct pool_place *p, const struct pool *o, float *key, float *row)
{
	memset(key, 0, o->dim * sizeof *key);
	for (uint32_t i = 0; i < o->ratio; i++) {
		context_past_get(p->span->context, o->past_at, o->past_width,
				 p->position + 1 + i - o->ratio, 0, o->dim, row);
		for (uint32_t d = 0; d < o->dim; d++)
			key[d] += row[d];
	}
	for (uint32_t d = 0; d < o->dim; d++)
		key[d] /= (float)o->ratio;
}

/* What takes part in some numbers of a pool's key. */
struct pool_tile {
	uint32_t positions;
	float keys[CONFIG_POOL_MOST][POOL_TILE], gates[CONFIG_POOL_MOST][POOL_TILE];
};

/* Numbers [first, first + n) of what takes part: of the pool before, if there is one and it does, and
 * of the pool itself, whose half of the projections is the last. */
static void pools_get(const struct pool_place *p, const struct pool *o, uint32_t first, uint32_t n,
		      struct pool_tile *t)
{
	const struct context *x = p->span->context;
	uint32_t pools = p->position + 1 > o->ratio ? o->parts : 1;
	size_t gates = (size_t)o->dim * o->parts, position = p->position + 1 - pools * o->ratio;
	t->positions = 0;
	for (uint32_t part = o->parts - pools; part < o->parts; part++)
		for (uint32_t i = 0; i < o->ratio; i++, position++, t->positions++) {
			size_t at = (size_t)part * o->dim + first;
			float *gate = t->gates[t->positions];
			context_past_get(x, o->past_at, o->past_width, position, at, n,
					 t->keys[t->positions]);
			context_past_get(x, o->past_at, o->past_width, position, gates + at, n,
					 gate);
			for (uint32_t d = 0; d < n; d++)
				gate[d] += o->bias[i * gates + at + d];
		}
}

/* key[dim] = the weighed sum of the pool. */
static void pools_weigh(const struct pool_place *p, const struct pool *o, float *key)
{
	const struct kernels *k = p->step->env->kernels;
	struct pool_tile t;
	float weight[CONFIG_POOL_MOST];
	for (uint32_t first = 0; first < o->dim; first += POOL_TILE) {
		uint32_t n = o->dim - first < POOL_TILE ? o->dim - first : POOL_TILE;
		pools_get(p, o, first, n, &t);
		for (uint32_t d = 0; d < n; d++) {
			float sum = 0;
			for (uint32_t i = 0; i < t.positions; i++)
				weight[i] = t.gates[i][d];
			k->softmax(weight, t.positions);
			for (uint32_t i = 0; i < t.positions; i++)
				sum = fmaf(weight[i], t.keys[i][d], sum);
			key[first + d] = sum;
		}
	}
}

/* Puts a pool's key into the context. */
static void pools_put(const struct pool_place *p, const struct pool *o, const float *key)
{
	const struct context *x = p->span->context;
	size_t columns = context_entry_columns(o->ratio),
	       column = context_entry_column(o->ratio, p->position);
	void *keys = context_entries(x, o->entries_at, p->position);
	for (size_t d = 0; d < o->dim; d++)
		if (x->type == KV_F32)
			((float *)keys)[d * columns + column] = key[d];
		else
			((uint16_t *)keys)[d * columns + column] = f16_from_f32(key[d]);
}

void pools_finish(const struct pool_place *p, const struct pool *o, float *scratch)
{
	const struct environment *env = p->step->env;
	const struct config *c = env->config;
	const struct rotation *r = &p->step->rotations[p->layer->rope];
	float *key = scratch, *rest = scratch + o->dim;
	if ((p->position + 1) % o->ratio)
		return;
	if (o->bias)
		pools_weigh(p, o, key);
	else
		pools_mean(p, o, key, rest);
	if (o->norm)
		env->kernels->rmsnorm(key, key, o->norm, o->dim, c->rms_eps);
	rotation_at(r, &c->rope[p->layer->rope], p->position + 1 - o->ratio, rest, rest + r->half);
	if (c->rotates_last)
		rotation_turn_pairs(key + o->dim - 2 * (size_t)r->half, rest, rest + r->half,
				    r->half, false);
	else
		env->kernels->rope(key, rest, rest + r->half, r->half);
	pools_put(p, o, key);
}

/* A key, and a row that takes part or the cosines and sines of its rotation. */
size_t pools_scratch(uint32_t dim)
{
	return 3 * (size_t)dim;
}
