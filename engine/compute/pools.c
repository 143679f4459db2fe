/* Index keys that are made of several positions' keys: pools of `ratio` positions. The keys of an
 * unfinished pool are kept with the context, and every pool is made of what is kept, so the step in
 * which a pool is finished changes no bit. See layers.h.
 *
 * Means (Qwen 4): the mean of the keys, its norm, rotated at the pool's first position. Weighed (GLM
 * 5): a softmax over the pool's positions, for each number by itself, of a gate plus a bias of the
 * place in the pool; the sum of keys with these weights. */
#include "engine/compute/layers.h"

#include <math.h>
#include <string.h>

/* Where the keys, and behind each its gate, are kept. */
static size_t pools_past_at(const struct config *c, const struct layer *l)
{
	return l->past_at + (l->ngrams ? config_stream_width(c) : 0);
}

static size_t pools_past_width(const struct config *c)
{
	return (size_t)c->chooser.dim * (c->chooser.entry == INDEX_POOLS ? 2 : 1);
}

void pools_keep(const struct pool_place *p, const float *key)
{
	const struct config *c = p->step->env->config;
	context_past_put(p->span->context, pools_past_at(c, p->layer), pools_past_width(c),
			 p->position, key);
}

static void pools_get(const struct pool_place *p, size_t position, float *row)
{
	const struct config *c = p->step->env->config;
	context_past_get(p->span->context, pools_past_at(c, p->layer), pools_past_width(c),
			 position, 0, pools_past_width(c), row);
}

/* key[dim] = the mean of the pool that ends at the position. */
static void pools_mean(const struct pool_place *p, float *key, float *row)
{
	const struct chooser *x = &p->step->env->config->chooser;
	memset(key, 0, x->dim * sizeof *key);
	for (uint32_t i = 0; i < x->ratio; i++) {
		pools_get(p, p->position + 1 + i - x->ratio, row);
		for (uint32_t d = 0; d < x->dim; d++)
			key[d] += row[d];
	}
	for (uint32_t d = 0; d < x->dim; d++)
		key[d] /= (float)x->ratio;
}

/* key[dim] = the weighed sum of the pool; bias[ratio][dim]. */
static void pools_weigh(const struct pool_place *p, const float *bias, float *key, float *row)
{
	const struct chooser *x = &p->step->env->config->chooser;
	size_t width = pools_past_width(p->step->env->config);
	float gates[POOL_MOST];
	for (uint32_t i = 0; i < x->ratio; i++)
		pools_get(p, p->position + 1 + i - x->ratio, row + i * width);
	for (uint32_t d = 0; d < x->dim; d++) {
		for (uint32_t i = 0; i < x->ratio; i++)
			gates[i] = row[i * width + x->dim + d] + bias[i * x->dim + d];
		p->step->env->kernels->softmax(gates, x->ratio);
		key[d] = 0;
		for (uint32_t i = 0; i < x->ratio; i++)
			key[d] = fmaf(gates[i], row[i * width + d], key[d]);
	}
}

/* Puts a pool's key into the context, as column number `at` of its block. */
static void pools_put(const struct pool_place *p, const float *key)
{
	const struct config *c = p->step->env->config;
	const struct context *x = p->span->context;
	size_t columns = KV_BLOCK / c->chooser.ratio,
	       column = p->position % KV_BLOCK / c->chooser.ratio;
	void *keys = context_index_keys(x, p->layer, p->position);
	for (size_t d = 0; d < c->chooser.dim; d++)
		if (x->type == KV_F32)
			((float *)keys)[d * columns + column] = key[d];
		else
			((uint16_t *)keys)[d * columns + column] = f16_from_f32(key[d]);
}

void pools_finish(const struct pool_place *p, const struct layer_weights *w, float *scratch)
{
	const struct environment *env = p->step->env;
	const struct config *c = env->config;
	const struct rotation *r = &p->step->rotations[p->layer->rope];
	float *key = scratch, *rest = scratch + c->chooser.dim;
	if ((p->position + 1) % c->chooser.ratio)
		return;
	if (c->chooser.entry == INDEX_MEANS) {
		pools_mean(p, key, rest);
		env->kernels->rmsnorm(key, key, weights_vector(w, TENSOR_INDEX_K_NORM),
				      c->chooser.dim, c->rms_eps);
		rotation_at(r, &c->rope[p->layer->rope], p->position + 1 - c->chooser.ratio, rest,
			    rest + r->half);
		env->kernels->rope(key, rest, rest + r->half, r->half);
	} else {
		pools_weigh(p, weights_vector(w, TENSOR_INDEX_POOL_BIAS), key, rest);
	}
	pools_put(p, key);
}

size_t pools_scratch(const struct config *c)
{
	const struct chooser *x = &c->chooser;
	size_t most = x->dim * (1 + (x->entry == INDEX_POOLS ? 2 * (size_t)x->ratio : 1));
	return config_pools(c) ? most + 2 * x->dim : 0;
}
