/* AVX2 products of 16- and 32-bit float matrices.
 *
 * A small block of rows × tokens is computed together, so that a loaded vector is used several
 * times; every one of its sums still has its own 16 lanes, in the order of kernels.h, whatever the
 * block.
 */
#if defined(__x86_64__)

#include "kernels/avx2_lanes.h"
#include "kernels/look_ahead.h"

#include <string.h>

typedef __m256 load8_fn(const uint8_t *row, size_t i); /* elements i … i+7 of a stored row */

ALWAYS_INLINE __m256 load8_f32(const uint8_t *row, size_t i)
{
	return _mm256_loadu_ps((const float *)(const void *)(row + i * 4));
}

ALWAYS_INLINE __m128i load8_u16(const uint8_t *row, size_t i)
{
	return _mm_loadu_si128((const __m128i *)(const void *)(row + i * 2));
}

ALWAYS_INLINE __m256 load8_f16(const uint8_t *row, size_t i)
{
	return _mm256_cvtph_ps(load8_u16(row, i));
}

ALWAYS_INLINE __m256 load8_bf16(const uint8_t *row, size_t i)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load8_u16(row, i)), 16));
}

enum { ROWS_MAX = 2, TOKENS_MAX = 3, ROW_CHUNK = 16 };

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

/* One step of 16 along k. Lanes that are not `in` keep their sums (NULL: all are in): even adding
 * a product of zeros would turn a sum of -0 into +0. */
ALWAYS_INLINE void step16(__m256 sum[ROWS_MAX][TOKENS_MAX][2], const uint8_t *const w[ROWS_MAX],
			  const float *const x[TOKENS_MAX], size_t i, const __m256 *in, size_t rows,
			  size_t tokens, load8_fn *load8)
{
	for (size_t half = 0; half < 2; half++) {
		__m256 wr[ROWS_MAX];
		for (size_t r = 0; r < rows; r++)
			wr[r] = load8(w[r], i + half * LANES);
		for (size_t t = 0; t < tokens; t++) {
			const __m256 xt = _mm256_loadu_ps(x[t] + i + half * LANES);
			for (size_t r = 0; r < rows; r++) {
				__m256 *s = &sum[r][t][half];
				const __m256 next = _mm256_fmadd_ps(wr[r], xt, *s);
				*s = in ? _mm256_blendv_ps(*s, next, in[half]) : next;
			}
		}
	}
}

/* The last columns, from i on, fewer than 16: in copies padded with zeros. rows and tokens are
 * constants where this is inlined, as below: the sums then stay in registers. */
ALWAYS_INLINE void step_rest(__m256 sum[ROWS_MAX][TOKENS_MAX][2], const uint8_t *const w[ROWS_MAX],
			     const struct block *b, size_t i, size_t rows, size_t tokens,
			     load8_fn *load8)
{
	uint8_t w_tail[ROWS_MAX][16 * sizeof(float)] = {{0}};
	float x_tail[TOKENS_MAX][16] = {{0}};
	const uint8_t *wt[ROWS_MAX];
	const float *xt[TOKENS_MAX];
	const size_t rest = b->k - i;
	const __m256 in[2] = {
		_mm256_castsi256_ps(lanes_first_ints(rest)),
		_mm256_castsi256_ps(lanes_first_ints(rest > 8 ? rest - 8 : 0)),
	};

	for (size_t r = 0; r < rows; r++)
		wt[r] = memcpy(w_tail[r], w[r] + i * b->element_bytes, rest * b->element_bytes);
	for (size_t t = 0; t < tokens; t++)
		xt[t] = memcpy(x_tail[t], b->x[t] + i, rest * sizeof(float));
	step16(sum, wt, xt, 0, in, rows, tokens, load8);
}

/* What comes after the rows is asked for in the order in which it lies, though rows are read side
 * by side. */
ALWAYS_INLINE void block_dots(const struct block *b, size_t rows, size_t tokens, bool ahead,
			      load8_fn *load8)
{
	__m256 sum[ROWS_MAX][TOKENS_MAX][2];
	const uint8_t *w[ROWS_MAX];
	const uintptr_t next = (uintptr_t)b->w + (rows - 1) * b->row_bytes + AHEAD;
	const size_t line = CACHE_LINE / b->element_bytes;
	size_t i = 0;

	for (size_t r = 0; r < rows; r++) {
		w[r] = b->w + r * b->row_bytes;
		for (size_t t = 0; t < tokens; t++)
			sum[r][t][0] = sum[r][t][1] = _mm256_setzero_ps();
	}
	for (; ahead && i + line <= b->k; i += line) {
		look_ahead(next + i * b->element_bytes * rows, rows * CACHE_LINE);
		for (size_t part = 0; part < line; part += 16)
			step16(sum, w, b->x, i + part, NULL, rows, tokens, load8);
	}
	for (; i + 16 <= b->k; i += 16)
		step16(sum, w, b->x, i, NULL, rows, tokens, load8);
	if (i < b->k)
		step_rest(sum, w, b, i, rows, tokens, load8);
	for (size_t t = 0; t < tokens; t++)
		for (size_t r = 0; r < rows; r++)
			b->y[t][r] = lanes_dot(sum[r][t]);
}

/* `rows` rows for 1 … 3 tokens: 2 of them together, then a single one. */
ALWAYS_INLINE void rows_dots(struct block *b, size_t rows, size_t tokens, bool ahead,
			     load8_fn *load8)
{
	while (rows > 0) {
		const size_t now = rows >= ROWS_MAX ? ROWS_MAX : 1;
#define CASE(n)                                                   \
	case n:                                                   \
		if (now == 1)                                     \
			block_dots(b, 1, n, ahead, load8);        \
		else                                              \
			block_dots(b, ROWS_MAX, n, ahead, load8); \
		break;
		switch (tokens) {
			CASES_TO_3(CASE)
		}
#undef CASE
		b->w += now * b->row_bytes;
		for (size_t t = 0; t < tokens; t++)
			b->y[t] += now;
		rows -= now;
	}
}

/* A chunk of rows stays in the cache while all tokens pass. */
ALWAYS_INLINE void multiply_floats(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				   uint32_t row1, const struct input *x, const uint32_t *tokens,
				   size_t n, load8_fn *load8, size_t element_bytes)
{
	const size_t row_bytes = x->k * element_bytes;
	const uint8_t *data = w->data;

	for (uint32_t r = row0; r < row1; r += ROW_CHUNK) {
		const size_t rows = row1 - r < ROW_CHUNK ? row1 - r : ROW_CHUNK;
		for (size_t t = 0; t < n; t += TOKENS_MAX) {
			const size_t count = n - t < TOKENS_MAX ? n - t : TOKENS_MAX;
			struct block b = {
				.w = data + r * row_bytes,
				.row_bytes = row_bytes,
				.element_bytes = element_bytes,
				.k = x->k,
			};
			for (size_t i = 0; i < count; i++) {
				b.x[i] = x->f + (tokens ? tokens[t + i] : t + i) * x->k;
				b.y[i] = y + (t + i) * ldy + r;
			}
			if (t == 0) /* others find the chunk in the cache */
				rows_dots(&b, rows, count, true, load8);
			else
				rows_dots(&b, rows, count, false, load8);
		}
	}
}

void avx2_multiply_f32(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load8_f32, 4);
}

void avx2_multiply_f16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
		       const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load8_f16, 2);
}

void avx2_multiply_bf16(float *y, size_t ldy, const struct matrix *w, uint32_t row0, uint32_t row1,
			const struct input *x, const uint32_t *tokens, size_t n)
{
	multiply_floats(y, ldy, w, row0, row1, x, tokens, n, load8_bf16, 2);
}

#endif
