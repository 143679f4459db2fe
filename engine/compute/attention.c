/* Grouped-query softmax attention with rotary positions over a session's key-value blocks
 * (Vaswani et al. 2017; Ainslie et al. 2023; Su et al. 2021). */
#include "engine/compute/forward.h"

#include <string.h>

struct attend {
	struct forward *f;
	struct context *x;
	const struct layer_weights *weights;
	uint32_t state, n; /* state: of the layer (config.h) */
};

/* RMSNorm where the family has it, of each head or of all as one, then the rotation. */
static void finish_heads(const struct forward *f, float *heads, uint32_t count, const float *norm,
			 uint32_t t)
{
	const struct config *c = f->config;
	uint32_t dim = c->head_dim, half = c->rotary_dim / 2;
	if (c->head_norms == HEAD_NORMS_TOGETHER)
		f->kernels->rmsnorm(heads, heads, norm, count * dim, c->rms_eps);
	for (uint32_t h = 0; h < count; h++, heads += dim) {
		if (c->head_norms == HEAD_NORMS_EACH)
			f->kernels->rmsnorm(heads, heads, norm, dim, c->rms_eps);
		f->kernels->rope(heads, f->rope_cos + (size_t)t * half,
				 f->rope_sin + (size_t)t * half, half);
	}
}

/* A token's rows of q where each head has its query and then its gate. */
static void part_queries(const struct forward *f, uint32_t t)
{
	const struct config *c = f->config;
	size_t dim = c->head_dim, width = c->heads * dim;
	const float *from = f->projected_q + 2 * width * t;
	float *q = f->q + width * t, *gate = f->query_gate + width * t;
	for (size_t h = 0; h < c->heads; h++, from += 2 * dim) {
		memcpy(q + h * dim, from, dim * sizeof *q);
		memcpy(gate + h * dim, from + dim, dim * sizeof *gate);
	}
}

/* Keys of tokens [begin, end) made ready and put into their blocks, with their values. */
static void place_keys(void *ctx, uint32_t begin, uint32_t end)
{
	const struct attend *a = ctx;
	const struct forward *f = a->f;
	const struct config *c = f->config;
	size_t kv_width = (size_t)c->kv_heads * c->head_dim;
	for (uint32_t t = begin; t < end; t++) {
		float *k = f->k + t * kv_width, *v = f->v + t * kv_width;
		finish_heads(f, k, c->kv_heads, weights_vector(a->weights, TENSOR_K_NORM), t);
		size_t position = a->x->tokens.count + t;
		void *block = (void *)a->x->blocks[position / KV_BLOCK];
		for (uint32_t h = 0; h < c->kv_heads; h++)
			f->kernels->kv_put(block, a->x->type, context_key_offset(a->x, a->state, h),
					   context_value_offset(a->x, a->state, h),
					   position % KV_BLOCK, k + (size_t)h * c->head_dim,
					   v + (size_t)h * c->head_dim, c->head_dim);
	}
}

/* The same, and their queries made ready. */
static void place_tokens(void *ctx, uint32_t begin, uint32_t end)
{
	const struct attend *a = ctx;
	const struct forward *f = a->f;
	const struct config *c = f->config;
	for (uint32_t t = begin; t < end; t++) {
		if (c->query_gate)
			part_queries(f, t);
		float *q = f->q + (size_t)t * c->heads * c->head_dim;
		finish_heads(f, q, c->heads, weights_vector(a->weights, TENSOR_Q_NORM), t);
	}
	place_keys(ctx, begin, end);
}

/* What the heads from `offset` on have found, for n tokens, times the sigmoid of their gates. */
static void apply_gate(const struct forward *f, size_t offset, uint32_t n)
{
	const struct config *c = f->config;
	size_t stride = (size_t)c->heads * c->head_dim;
	uint32_t width = c->heads / c->kv_heads * c->head_dim;
	for (uint32_t t = 0; t < n; t++, offset += stride)
		f->kernels->sigmoid_mul(f->attended.f + offset, f->query_gate + offset, width);
}

/* Tokens that attend together: enough to share what is read of keys and values, few enough that the
 * last ones of a chunk, which look back furthest, do not keep one thread longer than the others. */
enum { ATTEND_TOKENS = 16 };

/* Items are (tokens, key-value head): no token's sum is ever split, so threads cannot change it. */
static void attend_items(void *ctx, uint32_t begin, uint32_t end)
{
	const struct attend *a = ctx;
	const struct forward *f = a->f;
	const struct config *c = f->config;
	uint32_t group = c->heads / c->kv_heads;
	size_t stride = (size_t)c->heads * c->head_dim;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t t = i / c->kv_heads * ATTEND_TOKENS, h = i % c->kv_heads;
		uint32_t n = a->n - t < ATTEND_TOKENS ? a->n - t : ATTEND_TOKENS;
		size_t offset = t * stride + (size_t)h * group * c->head_dim;
		struct attention look = {
			.type = a->x->type,
			.head_dim = c->head_dim,
			.heads = group,
			.length = (uint32_t)a->x->tokens.count + t + 1,
			.scale = c->attention_scale,
			.blocks = a->x->blocks,
			.key_offset = context_key_offset(a->x, a->state, h),
			.value_offset = context_value_offset(a->x, a->state, h),
		};
		f->kernels->attend_tokens(f->attended.f + offset, f->q + offset, stride, &look, n);
		if (c->query_gate)
			apply_gate(f, offset, n);
	}
}

void attention_keys(struct forward *f, struct context *x, uint32_t layer, uint32_t n)
{
	const struct config *c = f->config;
	const struct layer_weights *l = &f->weights->layer[layer];
	uint32_t width = c->kv_heads * c->head_dim;
	const struct product kv[] = {{f->k, &l->m[TENSOR_K]}, {f->v, &l->m[TENSOR_V]}};
	forward_multiply(f, kv, 2, &f->normed, n);
	forward_add_bias(f, f->k, weights_vector(l, TENSOR_K_BIAS), n, width);
	forward_add_bias(f, f->v, weights_vector(l, TENSOR_V_BIAS), n, width);
	struct attend a = {f, x, l, c->layer[layer].state, n};
	threads_run(f->threads, n, 1, place_keys, &a);
}

void attention_run(struct forward *f, struct context *x, uint32_t layer, uint32_t n)
{
	const struct config *c = f->config;
	const struct layer_weights *l = &f->weights->layer[layer];
	uint32_t q_width = l->m[TENSOR_Q].shape.rows, kv_width = c->kv_heads * c->head_dim;
	const struct product qkv[] = {{f->projected_q, &l->m[TENSOR_Q]},
				      {f->k, &l->m[TENSOR_K]},
				      {f->v, &l->m[TENSOR_V]}};
	forward_multiply(f, qkv, 3, &f->normed, n);
	forward_add_bias(f, f->projected_q, weights_vector(l, TENSOR_Q_BIAS), n, q_width);
	forward_add_bias(f, f->k, weights_vector(l, TENSOR_K_BIAS), n, kv_width);
	forward_add_bias(f, f->v, weights_vector(l, TENSOR_V_BIAS), n, kv_width);

	struct attend a = {f, x, l, c->layer[layer].state, n};
	uint32_t runs = (n - 1) / ATTEND_TOKENS + 1;
	threads_run(f->threads, n, 1, place_tokens, &a);
	uint64_t seen = (uint64_t)(x->tokens.count + n) * (n < ATTEND_TOKENS ? n : ATTEND_TOKENS);
	uint64_t work = seen * 2 * c->head_dim * (c->heads / c->kv_heads);
	threads_run(f->threads, runs * c->kv_heads, forward_grain(f, runs * c->kv_heads, work),
		    attend_items, &a);
	activation_changed(&f->attended);

	forward_multiply(f, &(struct product){f->up, &l->m[TENSOR_O]}, 1, &f->attended, n);
	forward_add_bias(f, f->up, weights_vector(l, TENSOR_O_BIAS), n, c->hidden_size);
}
