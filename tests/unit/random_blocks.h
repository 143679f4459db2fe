/* Random canonical bytes of matrices of blocks, with scales of usual size. */
#ifndef MOEFS_TESTS_UNIT_RANDOM_BLOCKS_H
#define MOEFS_TESTS_UNIT_RANDOM_BLOCKS_H

#include "kernels/block.h"
#include "tests/unit/random.h"

#include <string.h>

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

/* Fills only the scales, so that a test can choose the codes. */
static inline void random_scales(struct random *random, const struct shape *s, uint8_t *weights,
				 uint8_t *scales, uint8_t *biases)
{
	const size_t bytes = format_packed_bytes(s), block = format_block_bytes(s->format);
	const uint8_t *at;
	const size_t halves = block_halves(s->format, &at);

	for (size_t i = 0; i < bytes; i += block) {
		for (size_t h = 0; h < halves; h++)
			random_half(random, weights + i + at[h], false);
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
