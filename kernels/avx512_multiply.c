/* AVX-512 products of 16- and 32-bit float matrices.
 *
 * A block of rows × tokens is computed together, so that a loaded vector is used several times;
 * every one of its sums still has its own register of 16 lanes, in the order of kernels.h, whatever
 * the block.
 */
#if defined(__x86_64__)

#include "kernels/avx512_lanes.h"
#include "kernels/look_ahead.h"

/* Elements i … i+15 of a stored row; if fewer than 16 are left, zeros behind them. */
typedef __m512 load16_fn(const uint8_t *row, size_t i, size_t left);

ALWAYS_INLINE __m512 load16_f32(const uint8_t *row, size_t i, size_t left)
{
	const float *p = (const float *)(const void *)(row + i * 4);
	return left >= LANES ? _mm512_loadu_ps(p) : lanes_load(p, left);
}

ALWAYS_INLINE __m256i load16_u16(const uint8_t *row, size_t i, size_t left)
{
	const void *p = row + i * 2;
	return left >= LANES ? _mm256_loadu_si256(p)
				    : _mm256_maskz_loadu_epi16(lanes_first(left), p);
}

ALWAYS_INLINE __m512 load16_f16(const uint8_t *row, size_t i, size_t left)
{
	return _mm512_cvtph_ps(load16_u16(row, i, left));
}

ALWAYS_INLINE __m512 load16_bf16(const uint8_t *row, size_t i, size_t left)
{
	const __m512i wide = _mm512_cvtepu16_epi32(load16_u16(row, i, left));
	return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* 24 sums, 4 weights and an input stay in registers. Few tokens wait for memory, which gives most
 * when little is read side by side. */
enum { ROWS_MAX = 4, ROWS_OF_FEW = 2, FEW_TOKENS = 4, TOKENS_MAX = 6, ROW_CHUNK = 16 };

/* How far before its use a row's byte is asked for, at least: 96 lines. */
enum { AHEAD = 6144 };

/* Where the operands of one block of sums lie. */
struct block {
	const uint8_t *w; /* the first row */
	size_t row_bytes, element_bytes;
	const float *x[TOKENS_MAX];
	float *y[TOKENS_MAX]; /* of the first row */
	uint32_t k;
};

/* One step along k, of `left` lanes if there are fewer than 16. The other lanes keep their sums:
 * even adding a product of zeros would turn a sum of -0 into +0. */
ALWAYS_INLINE void step(__m512 sum[ROWS_MAX][TOKENS_MAX], const struct block *b, size_t i,
			size_t left, size_t rows, size_t tokens, load16_fn *load16)
{
	__m512 w[ROWS_MAX];

	for (size_t r = 0; r < rows; r++)
		w[r] = load16(b->w + r * b->row_bytes, i, left);
	for (size_t t = 0; t < tokens; t++) {
		const __m512 x = load16_f32((const uint8_t *)b->x[t], i, left);
		for (size_t r = 0; r < rows; r++)
			sum[r][t] = left >= LANES ? _mm512_fmadd_ps(w[r], x, sum[r][t])
							 : _mm512_mask3_fmadd_ps(w[r], x, sum[r][t],
										 lanes_first(left));
	}
}

/* rows and tokens are constants where this is inlined: the sums then stay in registers. What comes
 * after the rows is asked for in the order in which it lies, though rows are read side by side. */
ALWAYS_INLINE void block_dots(const struct block *b, size_t rows, size_t tokens, bool ahead,
			      load16_fn *load16)
{
	__m512 sum[ROWS_MAX][TOKENS_MAX];
	const uintptr_t next = (uintptr_t)b->w + (rows - 1) * b->row_bytes + AHEAD;
	const size_t line = CACHE_LINE / b->element_bytes;
	size_t i = 0;

	for (size_t r = 0; r < rows; r++)
		for (size_t t = 0; t < tokens; t++)
			sum[r][t] = _mm512_setzero_ps();
	for (; ahead && i + line <= b->k; i += line) {
		look_ahead(next + i * b->element_bytes * rows, rows * CACHE_LINE);
		for (size_t part = 0; part < line; part += LANES)
			step(sum, b, i + part, LANES, rows, tokens, load16);
	}
	for (; i + LANES <= b->k; i += LANES)
		step(sum, b, i, LANES, rows, tokens, load16);
	if (i < b->k)
		step(sum, b, i, b->k - i, rows, tokens, load16);
	for (size_t t = 0; t < tokens; t++)
		for (size_t r = 0; r < rows; r++)
			b->y[t][r] = lanes_dot(&sum[r][t]);
}

ALWAYS_INLINE uint32_t rows_together(size_t tokens)
{
	return tokens <= FEW_TOKENS ? ROWS_OF_FEW : ROWS_MAX;
}

/* As many rows as go together, or one. */
ALWAYS_INLINE void rows_dots(const struct block *b, size_t rows, size_t tokens, bool ahead,
			     load16_fn *load16)
{
#define CASE(n)                                                            \
	case n:                                                            \
		if (rows == 1)                                             \
			block_dots(b, 1, n, ahead, load16);                \
		else                                                       \
			block_dots(b, rows_together(n), n, ahead, load16); \
		break;
	switch (tokens) {
		CASES_TO_6(CASE)
	}
#undef CASE
}

/* A chunk of rows stays in the cache while all tokens pass, in blocks of as equal a size as can be.
 */
ALWAYS_INLINE void multiply_floats(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				   uint32_t row1, const struct input *x, const uint32_t *tokens,
				   size_t n, load16_fn *load16, size_t element_bytes)
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
				const uint32_t together = rows_together(count),
					       rows = end - r >= together ? together : 1;
				b.w = (const uint8_t *)w->data + r * b.row_bytes;
				for (size_t i = 0; i < count; i++)
					b.y[i] = y + (t + i) * ldy + r;
				if (t == 0) /* others find the chunk in the cache */
					rows_dots(&b, rows, count, true, load16);
				else
					rows_dots(&b, rows, count, false, load16);
				r += rows;
			}
			t += count;
		}
	}
}

void avx512_multiply_f32(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load16_f32, 4);
}

void avx512_multiply_f16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			 const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load16_f16, 2);
}

void avx512_multiply_bf16(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
			  uint32_t row1, const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load16_bf16, 2);
}

#endif
