/* The scalar table's attention: one token's look back over blocks of 64 positions.
 *
 * Online softmax: the running maximum m, sum of exponentials and weighted sum of values are
 * rescaled by exp(m_old - m_new) at each block, so no list of all scores is needed. Blocks are
 * those of the key-value memory, by absolute position, whatever chunk of the prompt the token came
 * in.
 */
#include "kernels/attention.h"
#include "kernels/scalar.h"

#include <math.h>

static void scalar_put_element(void *block, enum kv_type type, size_t at, float f)
{
	if (type == KV_F16)
		((uint16_t *)block)[at] = f16_from_f32(f);
	else
		((float *)block)[at] = f;
}

static float scalar_element(const void *block, enum kv_type type, size_t at)
{
	return type == KV_F16 ? f16_to_f32(((const uint16_t *)block)[at])
			      : ((const float *)block)[at];
}

void scalar_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		   uint32_t slot, const float *key, const float *value, uint32_t head_dim)
{
	for (size_t d = 0; d < head_dim; d++) {
		scalar_put_element(block, type, key_offset + d * KV_BLOCK + slot, key[d]);
		if (value)
			scalar_put_element(block, type, value_offset + (size_t)slot * head_dim + d,
					   value[d]);
	}
}

struct scalar_softmax_state {
	float max, sum; /* over the blocks so far */
};

/* Element d of the value at slot j. */
static float scalar_value_element(const struct attention *a, const void *block, size_t j, size_t d)
{
	const size_t at = a->latent_dim ? a->key_offset + d * KV_BLOCK + j
					: a->value_offset + j * a->head_dim + d;
	return scalar_element(block, a->type, at);
}

/* Takes positions [from, to) of one block, at least one, into out and the state. */
static void scalar_attend_block(float *out, struct scalar_softmax_state *s, const float *q,
				const struct attention *a, const void *block, uint32_t from,
				uint32_t to)
{
	float p[KV_BLOCK] = {0}, lane[SCALAR_DOT_LANES] = {0}, max = s->max;

	for (uint32_t j = from; j < to; j++) {
		for (size_t d = 0; d < a->head_dim; d++)
			p[j] = fmaf(
				q[d],
				scalar_element(block, a->type, a->key_offset + d * KV_BLOCK + j),
				p[j]);
		p[j] *= a->scale;
		max = p[j] > max ? p[j] : max;
	}
	for (uint32_t j = from; j < to; j++) {
		p[j] = scalar_exp(p[j] - max);
		lane[j % SCALAR_DOT_LANES] += p[j];
	}

	const float rescale = scalar_exp(s->max - max); /* 0 at the first block without a sink */
	s->max = max;
	s->sum = fmaf(s->sum, rescale, scalar_sum_lanes(lane));
	for (size_t d = 0; d < attention_value_dim(a); d++) {
		out[d] *= rescale;
		for (size_t j = from; j < to; j++)
			out[d] = fmaf(p[j], scalar_value_element(a, block, j, d), out[d]);
	}
}

void scalar_attend(float *out, const float *q, const struct attention *a)
{
	const uint32_t dim = attention_value_dim(a), first = (uint32_t)attention_from(a, a->length);
	for (uint32_t h = 0; h < a->heads; h++, out += dim, q += a->head_dim) {
		struct scalar_softmax_state s = {attention_first_max(a, h), attention_first_sum(a)};
		for (size_t d = 0; d < dim; d++)
			out[d] = 0;
		for (uint32_t start = first / KV_BLOCK * KV_BLOCK; start < a->length;
		     start += KV_BLOCK) {
			const uint32_t left = a->length - start;
			scalar_attend_block(out, &s, q, a, a->blocks[start / KV_BLOCK],
					    first > start ? first - start : 0,
					    left < KV_BLOCK ? left : KV_BLOCK);
		}
		for (size_t d = 0; d < dim; d++)
			out[d] /= s.sum;
	}
}

void scalar_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			  uint32_t n)
{
	struct attention look = *a;

	for (size_t t = 0; t < n; t++, look.length++)
		scalar_attend(out + attention_out(a, t * stride), q + t * stride, &look);
}
