/* Products of TC matrices for NEON without dot product instructions. */
#if defined(__aarch64__)

#include "kernels/neon_sums.h"

#include "kernels/neon_tc_codes.h"

void neon_multiply_tc2(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	struct neon_maker m = neon_make_maker(2);
	neon_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, 2);
}

void neon_multiply_tc3(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	struct neon_maker m = neon_make_maker(3);
	neon_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, 3);
}

void neon_multiply_tc4(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	struct neon_maker m = neon_make_maker(4);
	neon_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, 4);
}

#endif
