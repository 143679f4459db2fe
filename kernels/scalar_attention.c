/* The scalar table's attention: one token's look back over blocks of 64 positions.
 *
 * Online softmax: the running maximum m, sum of exponentials and weighted sum of values are
 * rescaled by exp(m_old - m_new) at each block, so no list of all scores is needed. Blocks are
 * those of the key-value memory, by absolute position, whatever chunk of the prompt the token came
 * in.
 */
#include "kernels/scalar.h"
#include "kernels/exp.h"

#include <math.h>

static void put(void *block, enum kv_type type, size_t at, float f)
{
	if (type == KV_F16)
		((uint16_t *)block)[at] = f32_to_f16(f);
	else
		((float *)block)[at] = f;
}

static float get(const void *block, enum kv_type type, size_t at)
{
	return type == KV_F16 ? f16_to_f32(((const uint16_t *)block)[at])
			      : ((const float *)block)[at];
}

void scalar_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		   uint32_t slot, const float *key, const float *value, uint32_t head_dim)
{
	for (size_t d = 0; d < head_dim; d++) {
		put(block, type, key_offset + d * KV_BLOCK + slot, key[d]);
		put(block, type, value_offset + (size_t)slot * head_dim + d, value[d]);
	}
}

struct softmax_state {
	float max, sum; /* over the blocks so far */
};

/* Takes `count` positions (1 … 64) of one block into out[head_dim] and the state. */
static void attend_block(float *out, struct softmax_state *s, const float *q,
			 const struct attention *a, const void *block, uint32_t count)
{
	float p[KV_BLOCK] = {0}, lane[DOT_LANES] = {0}, max = s->max;

	for (uint32_t j = 0; j < count; j++) {
		for (size_t d = 0; d < a->head_dim; d++)
			p[j] = fmaf(q[d], get(block, a->type, a->key_offset + d * KV_BLOCK + j),
				    p[j]);
		p[j] *= a->scale;
		max = p[j] > max ? p[j] : max;
	}
	for (uint32_t j = 0; j < count; j++) {
		p[j] = exp_f32(p[j] - max);
		lane[j % DOT_LANES] += p[j];
	}

	const float rescale = exp_f32(s->max - max); /* 0 at the first block */
	s->max = max;
	s->sum = fmaf(s->sum, rescale, sum_lanes(lane));
	for (size_t d = 0; d < a->head_dim; d++) {
		const size_t column = a->value_offset + d;
		out[d] *= rescale;
		for (size_t j = 0; j < count; j++)
			out[d] = fmaf(p[j], get(block, a->type, column + j * a->head_dim), out[d]);
	}
}

void scalar_attend(float *out, const float *q, const struct attention *a)
{
	for (uint32_t h = 0; h < a->heads; h++, out += a->head_dim, q += a->head_dim) {
		struct softmax_state s = {.max = -INFINITY, .sum = 0};
		for (size_t d = 0; d < a->head_dim; d++)
			out[d] = 0;
		for (uint32_t start = 0; start < a->length; start += KV_BLOCK) {
			const uint32_t left = a->length - start;
			attend_block(out, &s, q, a, a->blocks[start / KV_BLOCK],
				     left < KV_BLOCK ? left : KV_BLOCK);
		}
		for (size_t d = 0; d < a->head_dim; d++)
			out[d] /= s.sum;
	}
}

void scalar_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			  uint32_t n)
{
	struct attention look = *a;

	for (size_t t = 0; t < n; t++, look.length++)
		scalar_attend(out + t * stride, q + t * stride, &look);
}
