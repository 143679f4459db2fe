/* NEON products of 16- and 32-bit float matrices.
 *
 * A block of 2 rows × 3 tokens is computed together, so that a loaded vector is used several times;
 * every one of its sums still has its own four registers of lanes, in the order of kernels.h,
 * whatever the block.
 */
#if defined(__aarch64__)

#include "kernels/neon_lanes.h"

/* Elements i … i+3 of a stored row. */
typedef float32x4_t load4_fn(const uint8_t *row, size_t i);

ALWAYS_INLINE float32x4_t load4_f32(const uint8_t *row, size_t i)
{
	return vld1q_f32((const float *)(const void *)row + i);
}

ALWAYS_INLINE float32x4_t load4_f16(const uint8_t *row, size_t i)
{
	return lanes_load_f16((const uint16_t *)(const void *)row + i, LANES);
}

ALWAYS_INLINE float32x4_t load4_bf16(const uint8_t *row, size_t i)
{
	const uint16x4_t upper = vld1_u16((const uint16_t *)(const void *)row + i);
	return vreinterpretq_f32_u32(vshll_n_u16(upper, 16));
}

/* 24 registers of sums; weights and inputs need 5 more. */
enum { ROWS_MAX = 2, TOKENS_MAX = 3, STEP = DOT_REGISTERS * LANES, ROW_CHUNK = 16 };

/* Where the operands of one block of sums lie. */
struct block {
	const uint8_t *w; /* the first row */
	size_t row_bytes, element_bytes;
	const float *x[TOKENS_MAX];
	float *y[TOKENS_MAX]; /* of the first row */
	uint32_t k;
};

/* The last columns of a block, fewer than 16, where 16 can be read. Weights behind them are -0 and
 * inputs +0: their product is -0, the one number that changes no sum when it is added (+0 would
 * turn a sum of -0 into +0). */
struct tail {
	_Alignas(16) uint8_t w[ROWS_MAX][STEP * sizeof(float)];
	float x[TOKENS_MAX][STEP];
	struct block b;
};

typedef float32x4_t sums[ROWS_MAX][TOKENS_MAX][DOT_REGISTERS];

/* 16 elements along k. rows and tokens are constants where this is inlined, here and below: the
 * sums then stay in registers. */
ALWAYS_INLINE void step(sums sum, const struct block *b, size_t i, size_t rows, size_t tokens,
			load4_fn *load4)
{
	for (size_t d = 0; d < DOT_REGISTERS; d++, i += LANES) {
		float32x4_t w[ROWS_MAX];

		for (size_t r = 0; r < rows; r++)
			w[r] = load4(b->w + r * b->row_bytes, i);
		for (size_t t = 0; t < tokens; t++) {
			const float32x4_t x = vld1q_f32(b->x[t] + i);
			for (size_t r = 0; r < rows; r++)
				sum[r][t][d] = vfmaq_f32(sum[r][t][d], w[r], x);
		}
	}
}

/* The columns from i on; -0 has the upper bit alone in every type. */
ALWAYS_INLINE void copy_tail(struct tail *to, const struct block *b, size_t i, size_t rows,
			     size_t tokens)
{
	const size_t left = b->k - i, element = b->element_bytes;

	memset(to, 0, sizeof *to);
	for (size_t r = 0; r < rows; r++) {
		memcpy(to->w[r], b->w + r * b->row_bytes + i * element, left * element);
		for (size_t past = left; past < STEP; past++)
			to->w[r][(past + 1) * element - 1] = 0x80;
	}
	for (size_t t = 0; t < tokens; t++)
		to->b.x[t] = memcpy(to->x[t], b->x[t] + i, left * sizeof(float));
	to->b.w = to->w[0];
	to->b.row_bytes = sizeof to->w[0];
}

ALWAYS_INLINE void block_dots(const struct block *b, size_t rows, size_t tokens, load4_fn *load4)
{
	const uint32_t whole = b->k - b->k % STEP;
	sums sum;

	for (size_t r = 0; r < rows; r++)
		for (size_t t = 0; t < tokens; t++)
			for (size_t d = 0; d < DOT_REGISTERS; d++)
				sum[r][t][d] = vdupq_n_f32(0);
	for (size_t i = 0; i < whole; i += STEP)
		step(sum, b, i, rows, tokens, load4);
	if (whole < b->k) {
		struct tail tail;
		copy_tail(&tail, b, whole, rows, tokens);
		step(sum, &tail.b, 0, rows, tokens, load4);
	}
	for (size_t t = 0; t < tokens; t++)
		for (size_t r = 0; r < rows; r++)
			b->y[t][r] = lanes_dot(sum[r][t]);
}

/* 2 rows or one. */
ALWAYS_INLINE void rows_dots(const struct block *b, size_t rows, size_t tokens, load4_fn *load4)
{
#define CASE(n)                                            \
	case n:                                            \
		if (rows == ROWS_MAX)                      \
			block_dots(b, ROWS_MAX, n, load4); \
		else                                       \
			block_dots(b, 1, n, load4);        \
		break;
	switch (tokens) {
		CASES_TO_3(CASE)
	}
#undef CASE
}

/* A chunk of rows stays in the cache while all tokens pass, in blocks of as equal a size as can be.
 */
ALWAYS_INLINE void multiply_floats(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				   uint32_t row1, const struct input *x, const uint32_t *tokens,
				   size_t n, load4_fn *load4, size_t element_bytes)
{
	const size_t blocks = (n + TOKENS_MAX - 1) / TOKENS_MAX;
	struct block b = {
		.row_bytes = x->k * element_bytes, .element_bytes = element_bytes, .k = x->k};

	for (uint32_t chunk = row0; chunk < row1; chunk += ROW_CHUNK) {
		const uint32_t end = row1 - chunk < ROW_CHUNK ? row1 : chunk + ROW_CHUNK;
		size_t t = 0;
		for (size_t left = blocks; left > 0; left--) {
			const size_t count = (n - t + left - 1) / left;
			for (size_t i = 0; i < count; i++)
				b.x[i] = x->f + (tokens ? tokens[t + i] : t + i) * x->k;
			for (uint32_t r = chunk; r < end;) {
				const uint32_t rows = end - r >= ROWS_MAX ? ROWS_MAX : 1;
				b.w = (const uint8_t *)w->data + r * b.row_bytes;
				for (size_t i = 0; i < count; i++)
					b.y[i] = y + (t + i) * ldy + r;
				rows_dots(&b, rows, count, load4);
				r += rows;
			}
			t += count;
		}
	}
}

void neon_multiply_f32(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load4_f32, 4);
}

void neon_multiply_f16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load4_f16, 2);
}

void neon_multiply_bf16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load4_bf16, 2);
}

#endif
