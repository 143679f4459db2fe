/* Products of matrices of 16- and 32-bit floats on vectors, for every instruction set that has
 * them; within kernels/ only.
 *
 * A block of rows × tokens is computed together, so that a loaded vector is used several times.
 * Each sum still has its own 16 lanes, in the order of kernels.h, whatever the block. Included once
 * by the *_multiply.c of each table, after the lanes of its instruction set (lanes.h) and:
 *
 *     MULTIPLY_ROWS, MULTIPLY_TOKENS    most rows and tokens of a block
 *     multiply_rows(tokens)             rows of a block of `tokens` tokens
 *     MULTIPLY_AHEAD                    least distance in bytes at which rows are prefetched; 0: no
 *                                       prefetch
 *     MULTIPLY_CASES                    one of lanes.h's CASES, up to MULTIPLY_TOKENS
 */
#ifndef MOEFS_KERNELS_MULTIPLY_LANES_H
#define MOEFS_KERNELS_MULTIPLY_LANES_H

#include "kernels/prefetch.h"

/* Elements i … i + LANES - 1 of a stored row; if fewer are left, zeros after them. */
typedef lanes multiply_load_fn(const uint8_t *row, size_t i, size_t left);

ALWAYS_INLINE lanes multiply_load_f32(const uint8_t *row, size_t i, size_t left)
{
	return lanes_load((const float *)(const void *)row + i, left);
}

ALWAYS_INLINE lanes multiply_load_f16(const uint8_t *row, size_t i, size_t left)
{
	return lanes_load_f16((const uint16_t *)(const void *)row + i, left);
}

ALWAYS_INLINE lanes multiply_load_bf16(const uint8_t *row, size_t i, size_t left)
{
	return lanes_load_bf16((const uint16_t *)(const void *)row + i, left);
}

enum { STEP = DOT_REGISTERS * LANES, ROW_CHUNK = 16 };

/* The operands of one block of sums. */
struct multiply_block {
	const uint8_t *w; /* the first row */
	size_t row_bytes, element_bytes;
	const float *x[MULTIPLY_TOKENS];
	float *y[MULTIPLY_TOKENS]; /* of the first row */
	uint32_t k;
};

typedef lanes multiply_sums[MULTIPLY_ROWS][MULTIPLY_TOKENS][DOT_REGISTERS];

/* Adds 16 elements along k. If fewer are left, lanes past the end are unchanged: even adding a
 * product of zeros would turn a sum of -0 into +0. Inlining makes rows and tokens constants, here
 * and below, so that the sums stay in registers. */
ALWAYS_INLINE void multiply_step(multiply_sums sum, const uint8_t *const row[MULTIPLY_ROWS],
				 const float *const input[MULTIPLY_TOKENS], size_t i, size_t left,
				 size_t rows, size_t tokens, multiply_load_fn *load)
{
	for (size_t d = 0; d < DOT_REGISTERS; d++, i += LANES) {
		lanes w[MULTIPLY_ROWS];

		for (size_t r = 0; r < rows; r++)
			w[r] = load(row[r], i, left);
		for (size_t t = 0; t < tokens; t++) {
			const lanes x = lanes_load(input[t] + i, left);
			for (size_t r = 0; r < rows; r++) {
				lanes *s = &sum[r][t][d];
				*s = left >= STEP ? lanes_fma(w[r], x, *s)
						  : lanes_fma_some(w[r], x, *s, lanes_first(left));
			}
		}
	}
}

/* Adds the last columns, from i on, using copies with 16 columns. After the last column weights are
 * -0 (only the highest bit set, in every type) and inputs +0. Their product is -0, the only number
 * that leaves every sum unchanged. Masks would take registers from the loops before. */
ALWAYS_INLINE void multiply_rest(multiply_sums sum, const struct multiply_block *b, size_t i,
				 size_t rows, size_t tokens, multiply_load_fn *load)
{
	uint8_t w[MULTIPLY_ROWS][STEP * sizeof(float)] = {{0}};
	float x[MULTIPLY_TOKENS][STEP] = {{0}};
	const uint8_t *row[MULTIPLY_ROWS];
	const float *input[MULTIPLY_TOKENS];
	const size_t left = b->k - i, element = b->element_bytes;

	for (size_t r = 0; r < rows; r++) {
		row[r] = memcpy(w[r], b->w + r * b->row_bytes + i * element, left * element);
		for (size_t past = left; past < STEP; past++)
			w[r][(past + 1) * element - 1] = 0x80;
	}
	for (size_t t = 0; t < tokens; t++)
		input[t] = memcpy(x[t], b->x[t] + i, left * sizeof(float));
	multiply_step(sum, row, input, 0, STEP, rows, tokens, load);
}

/* Prefetches memory after the rows in its own order, although rows are read side by side. */
ALWAYS_INLINE void multiply_dots(const struct multiply_block *b, size_t rows, size_t tokens,
				 bool ahead, multiply_load_fn *load)
{
	multiply_sums sum;
	const uint8_t *row[MULTIPLY_ROWS];
	const uintptr_t next = (uintptr_t)b->w + (rows - 1) * b->row_bytes + MULTIPLY_AHEAD;
	const size_t line = CACHE_LINE / b->element_bytes;
	size_t i = 0;

	for (size_t r = 0; r < rows; r++) {
		row[r] = b->w + r * b->row_bytes;
		for (size_t t = 0; t < tokens; t++)
			for (size_t d = 0; d < DOT_REGISTERS; d++)
				sum[r][t][d] = lanes_all(0);
	}
	for (; ahead && i + line <= b->k; i += line) {
		prefetch_lines(next + i * b->element_bytes * rows, rows * CACHE_LINE);
		for (size_t part = 0; part < line; part += STEP)
			multiply_step(sum, row, b->x, i + part, STEP, rows, tokens, load);
	}
	for (; i + STEP <= b->k; i += STEP)
		multiply_step(sum, row, b->x, i, STEP, rows, tokens, load);
	if (i < b->k && DOT_REGISTERS == 1)
		multiply_step(sum, row, b->x, i, b->k - i, rows, tokens, load);
	else if (i < b->k)
		multiply_rest(sum, b, i, rows, tokens, load);
	for (size_t t = 0; t < tokens; t++)
		for (size_t r = 0; r < rows; r++)
			b->y[t][r] = lanes_dot(sum[r][t]);
}

/* Computes a block's rows, or one row. */
ALWAYS_INLINE void multiply_some(const struct multiply_block *b, size_t rows, size_t tokens,
				 bool ahead, multiply_load_fn *load)
{
#define CASE(n)                                                             \
	case n:                                                             \
		if (rows == 1)                                              \
			multiply_dots(b, 1, n, ahead, load);                \
		else                                                        \
			multiply_dots(b, multiply_rows(n), n, ahead, load); \
		break;
	switch (tokens) {
		MULTIPLY_CASES(CASE)
	}
#undef CASE
}

/* A chunk of rows stays in the cache for all tokens, which are divided into blocks of similar
 * size. */
ALWAYS_INLINE void multiply_floats(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				   uint32_t row1, const struct input *x, const uint32_t *tokens,
				   size_t n, multiply_load_fn *load, size_t element_bytes)
{
	const size_t blocks = (n + MULTIPLY_TOKENS - 1) / MULTIPLY_TOKENS;
	struct multiply_block b = {
		.row_bytes = x->k * element_bytes, .element_bytes = element_bytes, .k = x->k};

	for (uint32_t chunk = row0; chunk < row1; chunk += ROW_CHUNK) {
		const uint32_t end = row1 - chunk < ROW_CHUNK ? row1 : chunk + ROW_CHUNK;
		size_t t = 0;
		for (size_t left = blocks; left > 0; left--) {
			const size_t count = (n - t + left - 1) / left;
			for (size_t i = 0; i < count; i++)
				b.x[i] = x->f + (tokens ? tokens[t + i] : t + i) * x->k;
			for (uint32_t r = chunk; r < end;) {
				const uint32_t together = multiply_rows(count),
					       rows = end - r >= together ? together : 1;
				b.w = (const uint8_t *)w->data + r * b.row_bytes;
				for (size_t i = 0; i < count; i++)
					b.y[i] = y + (t + i) * ldy + r;
				if (MULTIPLY_AHEAD > 0 &&
				    t == 0) /* later tokens find the chunk in the cache */
					multiply_some(&b, rows, count, true, load);
				else
					multiply_some(&b, rows, count, false, load);
				r += rows;
			}
			t += count;
		}
	}
}

void TABLE(multiply_f32)(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, multiply_load_f32, 4);
}

void TABLE(multiply_f16)(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, multiply_load_f16, 2);
}

void TABLE(multiply_bf16)(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			  uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, multiply_load_bf16, 2);
}

#endif
