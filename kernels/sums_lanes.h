/* Sums of products of float matrices on vectors (add_products of kernels.h); within kernels/ only.
 * A tile of sums stays in registers while the products are added. */
#ifndef MOEFS_KERNELS_SUMS_LANES_H
#define MOEFS_KERNELS_SUMS_LANES_H

#include "kernels/watch.h"

enum { SUMS_VECTORS = 3, SUMS_ROWS = LANES == 8 ? 4 : 8 };

/* Inlining makes `rows` and `vectors` constants. `left`: columns, unless all vectors are whole. */
ALWAYS_INLINE void sums_tile(float *y, size_t ldy, const struct add_products *p, const float *a,
			     const float *b, size_t left, size_t rows, size_t vectors)
{
	lanes sum[SUMS_ROWS][SUMS_VECTORS];

	for (size_t r = 0; r < rows; r++)
		for (size_t v = 0; v < vectors; v++)
			sum[r][v] = lanes_load(y + r * ldy + v * LANES, left - v * LANES);
	for (size_t t = 0; t < p->n; t++) {
		lanes factor[SUMS_VECTORS];
#pragma GCC unroll 3
		for (size_t v = 0; v < vectors; v++)
			factor[v] = lanes_load(b + t * p->ldb + v * LANES, left - v * LANES);
#pragma GCC unroll 8
		for (size_t r = 0; r < rows; r++) {
			const lanes by = lanes_all(a[r * p->a_row + t * p->a_step]);
#pragma GCC unroll 3
			for (size_t v = 0; v < vectors; v++)
				sum[r][v] = lanes_fma(by, factor[v], sum[r][v]);
		}
	}
	for (size_t r = 0; r < rows; r++)
		for (size_t v = 0; v < vectors; v++)
			lanes_store(y + r * ldy + v * LANES, left - v * LANES, sum[r][v]);
}

/* Computes columns [0, left) of all rows, at most SUMS_VECTORS vectors. */
ALWAYS_INLINE void sums_columns(float *y, size_t ldy, const struct add_products *p, const float *b,
				size_t left, size_t vectors)
{
	size_t r = 0;

	for (; r + SUMS_ROWS <= p->rows; r += SUMS_ROWS)
		sums_tile(y + r * ldy, ldy, p, p->a + r * p->a_row, b, left, SUMS_ROWS, vectors);
	for (; r < p->rows; r++)
		sums_tile(y + r * ldy, ldy, p, p->a + r * p->a_row, b, left, 1, vectors);
}

UNWATCHED static void sums_add_products(float *y, size_t ldy, const struct add_products *p)
{
	enum { WIDTH = SUMS_VECTORS * LANES };
	size_t c = 0;

	for (; c + WIDTH <= p->cols; c += WIDTH)
		sums_columns(y + c, ldy, p, p->b + c, WIDTH, SUMS_VECTORS);
	for (; c < p->cols; c += LANES)
		sums_columns(y + c, ldy, p, p->b + c,
			     p->cols - c < LANES ? p->cols - c : LANES, 1);
}

#endif
