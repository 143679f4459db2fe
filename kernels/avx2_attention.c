/* AVX2 attention: lanes are positions while scores are computed, dimensions while values are
 * summed.
 *
 * Several query heads share a block of keys and values, so blocks are the outer loop and each
 * block is read from the cache by all heads of a chunk. Heads do not influence each other.
 */
#if defined(__x86_64__)

#include "kernels/avx2.h"

enum {
	HEADS_AT_ONCE = 16,
	SCORES = KV_BLOCK / AVX2_LANES, /* registers of scores */
	COLUMNS = 8,			/* registers of value sums */
};

typedef __m256 load8_fn(const void *block, size_t at); /* elements at … at+7 */

ALWAYS_INLINE __m256 load8_f32(const void *block, size_t at)
{
	return _mm256_loadu_ps((const float *)block + at);
}

ALWAYS_INLINE __m256 load8_f16(const void *block, size_t at)
{
	const uint16_t *p = (const uint16_t *)block + at;
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

ALWAYS_INLINE float load1(const void *block, enum kv_type type, size_t at)
{
	return type == KV_F16 ? _cvtsh_ss(((const uint16_t *)block)[at])
			      : ((const float *)block)[at];
}

void avx2_kv_put(void *block, enum kv_type type, size_t key_offset, size_t value_offset,
		 uint32_t slot, const float *key, const float *value, uint32_t head_dim)
{
	const size_t key_at = key_offset + slot;
	const size_t value_at = value_offset + (size_t)slot * head_dim;

	if (type == KV_F32) {
		float *out = block;
		for (size_t d = 0; d < head_dim; d++)
			out[key_at + d * KV_BLOCK] = key[d];
		memcpy(out + value_at, value, head_dim * sizeof *value);
		return;
	}
	uint16_t *out = block;
	for (size_t d = 0; d < head_dim; d++) {
		out[key_at + d * KV_BLOCK] = _cvtss_sh(key[d], _MM_FROUND_TO_NEAREST_INT);
		out[value_at + d] = _cvtss_sh(value[d], _MM_FROUND_TO_NEAREST_INT);
	}
}

struct softmax_state {
	float max, sum; /* over the blocks so far */
};

/* Scaled scores of all 64 positions of a block; those past `count` are -infinity. */
ALWAYS_INLINE void scores(__m256 s[SCORES], const float *q, const struct attention *a,
			  const void *block, size_t count, load8_fn *load8)
{
	const __m256 scale = _mm256_set1_ps(a->scale), lowest = _mm256_set1_ps(-INFINITY);

	for (size_t i = 0; i < SCORES; i++)
		s[i] = _mm256_setzero_ps();
	for (size_t d = 0; d < a->head_dim; d++) {
		const __m256 qd = _mm256_set1_ps(q[d]);
		const size_t row = a->key_offset + d * KV_BLOCK;
		for (size_t i = 0; i < SCORES; i++)
			s[i] = _mm256_fmadd_ps(qd, load8(block, row + i * AVX2_LANES), s[i]);
	}
	for (size_t i = 0; i < SCORES; i++) {
		const size_t begin = i * AVX2_LANES;
		const size_t valid = count > begin ? count - begin : 0;
		const __m256 in = _mm256_castsi256_ps(first_lanes(valid < 8 ? valid : 8));
		s[i] = _mm256_blendv_ps(lowest, _mm256_mul_ps(s[i], scale), in);
	}
}

/* Turns scores into probabilities p[64] relative to the new maximum; returns the factor by which
 * earlier sums shrink. */
ALWAYS_INLINE float probabilities(float p[KV_BLOCK], struct softmax_state *state,
				  const __m256 s[SCORES], size_t count)
{
	__m256 max8 = _mm256_set1_ps(state->max);
	__m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};

	for (size_t i = 0; i < SCORES; i++)
		max8 = _mm256_max_ps(s[i], max8); /* of a NaN and max: max */
	const float max = max_lane(max8);
	for (size_t i = 0; i < SCORES; i++) {
		const size_t begin = i * AVX2_LANES;
		const size_t valid = count > begin ? count - begin : 0;
		const __m256 in = _mm256_castsi256_ps(first_lanes(valid < 8 ? valid : 8));
		/* Masked again, for the case that max itself is -infinity. */
		const __m256 e = _mm256_and_ps(exp8(_mm256_sub_ps(s[i], _mm256_set1_ps(max))), in);
		_mm256_storeu_ps(p + begin, e);
		lanes[i % 2] = _mm256_add_ps(lanes[i % 2], e);
	}
	const float rescale = exp_f32(state->max - max);
	state->max = max;
	state->sum = fmaf(state->sum, rescale, sum_dot_lanes(lanes[0], lanes[1]));
	return rescale;
}

/* out[8 · registers] = out · rescale + Σ p[j] · value[j]; registers is a constant where inlined. */
ALWAYS_INLINE void sum_columns(float *out, const float p[KV_BLOCK], float rescale,
			       const void *block, size_t at, size_t stride, size_t count,
			       size_t registers, load8_fn *load8)
{
	__m256 sum[COLUMNS];

	for (size_t i = 0; i < registers; i++)
		sum[i] = _mm256_mul_ps(_mm256_loadu_ps(out + i * AVX2_LANES),
				       _mm256_set1_ps(rescale));
	for (size_t j = 0; j < count; j++) {
		const __m256 pj = _mm256_set1_ps(p[j]);
		for (size_t i = 0; i < registers; i++) {
			const __m256 v = load8(block, at + j * stride + i * AVX2_LANES);
			sum[i] = _mm256_fmadd_ps(pj, v, sum[i]);
		}
	}
	for (size_t i = 0; i < registers; i++)
		_mm256_storeu_ps(out + i * AVX2_LANES, sum[i]);
}

ALWAYS_INLINE void sum_values(float *out, const float p[KV_BLOCK], float rescale,
			      const struct attention *a, const void *block, size_t count,
			      load8_fn *load8)
{
	const size_t dim = a->head_dim, wide = (size_t)COLUMNS * AVX2_LANES;
	size_t d = 0;

	for (; d + wide <= dim; d += wide)
		sum_columns(out + d, p, rescale, block, a->value_offset + d, dim, count, COLUMNS,
			    load8);
	for (; d + AVX2_LANES <= dim; d += AVX2_LANES)
		sum_columns(out + d, p, rescale, block, a->value_offset + d, dim, count, 1, load8);
	for (; d < dim; d++) {
		float sum = out[d] * rescale;
		for (size_t j = 0; j < count; j++)
			sum = fmaf(p[j], load1(block, a->type, a->value_offset + j * dim + d), sum);
		out[d] = sum;
	}
}

ALWAYS_INLINE void attend_heads(float *out, const float *q, const struct attention *a, size_t heads,
				load8_fn *load8)
{
	const size_t dim = a->head_dim;
	struct softmax_state state[HEADS_AT_ONCE];

	for (size_t h = 0; h < heads; h++)
		state[h] = (struct softmax_state){.max = -INFINITY, .sum = 0};
	memset(out, 0, heads * dim * sizeof *out);

	for (size_t start = 0; start < a->length; start += KV_BLOCK) {
		const void *block = a->blocks[start / KV_BLOCK];
		const size_t left = a->length - start, count = left < KV_BLOCK ? left : KV_BLOCK;
		for (size_t h = 0; h < heads; h++) {
			__m256 s[SCORES];
			float p[KV_BLOCK];
			scores(s, q + h * dim, a, block, count, load8);
			const float rescale = probabilities(p, &state[h], s, count);
			sum_values(out + h * dim, p, rescale, a, block, count, load8);
		}
	}
	for (size_t h = 0; h < heads; h++)
		for (size_t d = 0; d < dim; d++)
			out[h * dim + d] /= state[h].sum;
}

void avx2_attend(float *out, const float *q, const struct attention *a)
{
	for (size_t h = 0; h < a->heads; h += HEADS_AT_ONCE) {
		const size_t heads = a->heads - h < HEADS_AT_ONCE ? a->heads - h : HEADS_AT_ONCE;
		const size_t at = h * a->head_dim;
		if (a->type == KV_F16)
			attend_heads(out + at, q + at, a, heads, load8_f16);
		else
			attend_heads(out + at, q + at, a, heads, load8_f32);
	}
}

void avx2_attend_tokens(float *out, const float *q, size_t stride, const struct attention *a,
			uint32_t n)
{
	struct attention look = *a;

	for (size_t t = 0; t < n; t++, look.length++)
		avx2_attend(out + t * stride, q + t * stride, &look);
}

#endif
