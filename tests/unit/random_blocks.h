/* Random canonical bytes of matrices of blocks, with scales that are not out of the way. */
#ifndef MOEFS_TESTS_RANDOM_BLOCKS_H
#define MOEFS_TESTS_RANDOM_BLOCKS_H

#include "kernels/format.h"
#include "tests/unit/random.h"

#include <string.h>

/* Where a block's halves are; 0xff: there is none. */
struct halves_at {
	uint8_t first, second;
};

static inline struct halves_at halves_of(enum format f)
{
	static const struct halves_at at[FORMAT_COUNT] = {
		[FORMAT_Q8_0] = {0, 0xff},   [FORMAT_Q4_0] = {0, 0xff},
		[FORMAT_Q4_1] = {0, 2},	     [FORMAT_Q5_0] = {0, 0xff},
		[FORMAT_Q5_1] = {0, 2},	     [FORMAT_Q2_K] = {80, 82},
		[FORMAT_Q3_K] = {108, 0xff}, [FORMAT_Q4_K] = {0, 2},
		[FORMAT_Q5_K] = {0, 2},	     [FORMAT_Q6_K] = {208, 0xff},
		[FORMAT_IQ4_NL] = {0, 0xff}, [FORMAT_IQ4_XS] = {0, 0xff},
		[FORMAT_IQ3_S] = {0, 0xff},
	};
	return f >= FORMAT_Q8_0 && f <= FORMAT_IQ3_S ? at[f] : (struct halves_at){0xff, 0xff};
}

static inline void random_half(struct random *random, uint8_t *to, bool bf16)
{
	float f;
	random_normal(random, &f, 1);
	const uint16_t half = bf16 ? bf16_from_f32(f) : f16_from_f32(f);
	memcpy(to, &half, sizeof half);
}

/* Affine scales or biases. */
static inline void random_norms(struct random *random, const struct shape *s, uint8_t *to,
				size_t bytes)
{
	for (size_t i = 0; s->norms == NORM_F32 && i < bytes; i += sizeof(float)) {
		float f;
		random_normal(random, &f, 1);
		memcpy(to + i, &f, sizeof f);
	}
	for (size_t i = 0; s->norms != NORM_F32 && i < bytes; i += sizeof(uint16_t))
		random_half(random, to + i, s->norms == NORM_BF16);
}

/* Fills the scales; codes stay as they are, so that a test may choose them. */
static inline void random_scales(struct random *random, const struct shape *s, uint8_t *weights,
				 uint8_t *scales, uint8_t *biases)
{
	const size_t bytes = format_packed_bytes(s), block = format_block_bytes(s->format);
	const struct halves_at at = halves_of(s->format);

	for (size_t i = 0; i < bytes; i += block) {
		if (at.first != 0xff)
			random_half(random, weights + i + at.first, false);
		if (at.second != 0xff)
			random_half(random, weights + i + at.second, false);
		if (s->format == FORMAT_MXFP4_GGUF)
			weights[i] = (uint8_t)(120 + random_u32(random) % 12);
	}
	for (size_t i = 0; s->format == FORMAT_MXFP4 && i < format_norm_bytes(s); i++)
		scales[i] = (uint8_t)(120 + random_u32(random) % 12);
	if (format_affine_bits(s->format)) {
		random_norms(random, s, scales, format_norm_bytes(s));
		random_norms(random, s, biases, format_bias_bytes(s));
	}
}

static inline void random_blocks(struct random *random, const struct shape *s, uint8_t *weights,
				 uint8_t *scales, uint8_t *biases)
{
	for (size_t i = 0; i < format_packed_bytes(s); i++)
		weights[i] = (uint8_t)random_u32(random);
	random_scales(random, s, weights, scales, biases);
}

#endif
