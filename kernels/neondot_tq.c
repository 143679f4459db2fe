/* Products of TQ matrices for NEON with the dot product instructions of ARMv8.2: four products of
 * bytes are added to each 32-bit lane, and lanes are rows.
 */
#if defined(__aarch64__)

enum { SUM_PARTS = 1 };

#include "kernels/neon_tq.h"

ALWAYS_INLINE struct sums add_products(struct sums sums, struct codes codes, int8x8_t q)
{
	const int32x4_t even = vdotq_lane_s32(sums.part[0], codes.even, q, 0);
	return (struct sums){{vdotq_lane_s32(even, codes.odd, q, 1)}};
}

ALWAYS_INLINE int32x4_t total(struct sums sums)
{
	return sums.part[0];
}

void neondot_multiply_tq2(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			  uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, 2);
}

void neondot_multiply_tq3(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			  uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, 3);
}

void neondot_multiply_tq4(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			  uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_tq(y, ldy, w, row0, row1, x, tokens, n, 4);
}

#endif
