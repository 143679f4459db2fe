/* The AVX-512 products of TQ and TC matrices, with VNNI and VBMI (AVX512_VNNI) and without;
 * included once by avx512_tq.c and by avx512vnni_tq.c.
 *
 * avx512_tq_codes.h makes registers of codes whose 32-bit lanes are rows. Each meets one 32-bit
 * word of the input in all lanes at once, so nothing is ever summed across lanes. Codes may have an
 * offset that makes them unsigned; the sums begin with the offset's part.
 *
 * Codes are multiplied as they are made, and not kept: storing and loading them takes about as long
 * as making them again for the next 12 tokens. One token's input is read in place. Several tokens
 * are gathered first, in a panel of groups × tokens that stays in the cache for all rows of the
 * call, and multiplied in blocks of at most 12, so that their sums and the tables stay in
 * registers. (Without VNNI codes are kept for many tokens: avx512_tq_kept.h.)
 *
 * Inlining makes `bits`, `trellis` (whether the format is TC) and the numbers of units and pairs
 * constants. */
#ifndef MOEFS_KERNELS_AVX512_TQ_H
#define MOEFS_KERNELS_AVX512_TQ_H

#include "kernels/avx512_tq_codes.h"
#include "kernels/tq_product.h"

enum {
	BLOCK_TOKENS = 12,	  /* tokens multiplied together */
	TWO_SUMS_TOKENS = 3,	  /* up to this, a block has two sums per token */
	PANEL_TOKENS = 48,	  /* tokens gathered together */
	PANEL_GROUPS = 384,	  /* most groups in a panel, over all its tokens: 48 KiB */
	AHEAD = 8192,		  /* bytes prefetched, also past the end of a matrix */
};

ALWAYS_INLINE int32_t avx512_load_word(const int8_t *q)
{
	int32_t four;
	memcpy(&four, q, sizeof four);
	return four;
}

/* Σ q */
ALWAYS_INLINE int32_t avx512_sum_of_group(const int8_t q[TQ_GROUP])
{
	const __m512i ones = _mm512_set1_epi8(1);
	const __m512i pairs =
		_mm512_add_epi16(_mm512_maddubs_epi16(ones, _mm512_loadu_si512(q)),
				 _mm512_maddubs_epi16(ones, _mm512_loadu_si512(q + 64)));
	return _mm512_reduce_add_epi32(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

/* ---- codes times an input: sums[16] += codes[16][4] · q[4] ---- */

#ifdef AVX512_VNNI
ALWAYS_INLINE __m512i avx512_add_products(__m512i sums, __m512i codes, int32_t q, bool trellis)
{
	(void)trellis;
	return _mm512_dpbusd_epi32(sums, codes, _mm512_set1_epi32(q));
}
#else
/* TC's codes are so small that no sum of two products saturates. TQ's codes are multiplied as
 * magnitudes, by inputs that get the codes' signs. Values that depend only on the codes are
 * computed once for all tokens. With an offset codebook vpmaddubsw would saturate. */
ALWAYS_INLINE __m512i avx512_add_products(__m512i sums, __m512i codes, int32_t q, bool trellis)
{
	const __m512i x = _mm512_set1_epi32(q);
	__m512i pairs;

	if (trellis) {
		pairs = _mm512_maddubs_epi16(codes, x);
	} else {
		const __m512i zero = _mm512_setzero_si512();
		const __m512i signed_x =
			_mm512_mask_sub_epi8(x, _mm512_movepi8_mask(codes), zero, x);
		pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(codes), signed_x);
	}
	return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#endif

/* The initial value of all sums of a group for this input. */
ALWAYS_INLINE int32_t avx512_first_sum(const int8_t q[TQ_GROUP], bool trellis)
{
	const int32_t offset = trellis ? AVX512_TC_OFFSET : AVX512_TQ_OFFSET;
	return offset ? -offset * avx512_sum_of_group(q) : 0;
}

/* y = fmaf((float)I, norm · a, y) */
ALWAYS_INLINE __m512 avx512_add_group(__m512 y, __m512i dots, __m512 norms, float a)
{
	return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), _mm512_mul_ps(norms, _mm512_set1_ps(a)),
			       y);
}

/* ---- one token ---- */

/* Multiplies groups [g0, g0 + count) of all rows by one token; start[g]: the initial sums of a
 * group. */
ALWAYS_INLINE void avx512_multiply_one(const struct tq_product *p, size_t token, size_t g0,
				       size_t count, const int32_t *start, struct avx512_maker *m,
				       uint32_t bits, bool trellis)
{
	const int8_t *q = p->x->q + (token * p->groups + g0) * TQ_GROUP;
	const float *scale = p->x->scale + token * p->groups + g0;

	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		const uint8_t *tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes;
		const size_t left = p->rows - r;
		__m512 y = g0 ? lanes_load(p->y + r, left) : _mm512_setzero_ps();
		for (size_t g = 0; g < count; g++, tile += p->tile_bytes) {
			/* Four sums, so that no addition waits for the previous one. */
			__m512i even[2] = {_mm512_set1_epi32(start[g])}, odd[2] = {{0}};
			prefetch_lines((uintptr_t)tile + AHEAD, p->tile_bytes);
			avx512_begin_tile(m, tile, bits, trellis);
			for (size_t slab = 0; slab < SLABS; slab++) {
				const uint8_t *planes = tile + slab * tq_slab_bytes(bits);
				const int8_t *in = q + g * TQ_GROUP + slab * TQ_SLAB;
#pragma GCC unroll 4
				for (size_t i = 0; i < SLAB_PAIRS; i++, in += TQ_UNIT) {
					const struct avx512_codes c =
						avx512_make_codes(m, planes, i, bits, trellis);
					__m512i *e = &even[i % 2], *o = &odd[i % 2];
					*e = avx512_add_products(*e, c.even, avx512_load_word(in),
								 trellis);
					*o = avx512_add_products(*o, c.odd,
								 avx512_load_word(in + 4), trellis);
				}
			}
			const __m512i dots = _mm512_add_epi32(_mm512_add_epi32(even[0], odd[0]),
							      _mm512_add_epi32(even[1], odd[1]));
			y = avx512_add_group(
				y, dots, avx512_load_norms(tile + tq_slabs_bytes(bits), p->norms),
				scale[g] * p->gain);
		}
		lanes_store(p->y + r, left, y);
	}
}

ALWAYS_INLINE void avx512_multiply_token(const struct tq_product *p, size_t token,
					 struct avx512_maker *m, uint32_t bits, bool trellis)
{
	int32_t start[PANEL_GROUPS];

	for (size_t g0 = 0; g0 < p->groups; g0 += PANEL_GROUPS) {
		const size_t left = p->groups - g0;
		const size_t count = left < PANEL_GROUPS ? left : PANEL_GROUPS;
		const int8_t *q = p->x->q + (token * p->groups + g0) * TQ_GROUP;
		for (size_t g = 0; g < count; g++, q += TQ_GROUP)
			start[g] = avx512_first_sum(q, trellis);
		avx512_multiply_one(p, token, g0, count, start, m, bits, trellis);
	}
}

/* ---- several tokens ---- */

/* Some groups of some tokens, group after group: [groups][tokens]. */
struct avx512_panel {
	_Alignas(64) int8_t q[PANEL_GROUPS][TQ_GROUP];
	int32_t start[PANEL_GROUPS]; /* initial value of the sums */
	float a[PANEL_GROUPS];	     /* scale · gain */
	size_t tokens, groups;
};

ALWAYS_INLINE void avx512_gather(struct avx512_panel *to, const struct tq_product *p,
				 const uint32_t *tokens, size_t first, size_t g0, bool trellis)
{
	for (size_t t = 0; t < to->tokens; t++) {
		const size_t at = (tokens ? tokens[first + t] : first + t) * p->groups + g0;
		for (size_t g = 0; g < to->groups; g++) {
			const int8_t *q = p->x->q + (at + g) * TQ_GROUP;
			const size_t i = g * to->tokens + t;
			memcpy(to->q[i], q, TQ_GROUP);
			to->start[i] = avx512_first_sum(q, trellis);
			to->a[i] = p->x->scale[at + g] * p->gain;
		}
	}
}

/* A block of a panel's tokens, and 16 rows to multiply. */
struct avx512_block {
	const struct avx512_panel *in;
	const uint8_t *tile;	  /* the tile of the panel's first group */
	size_t first;		  /* token in the panel */
	size_t tile_bytes, ahead; /* ahead: bytes prefetched; 0: none */
	enum norm_type norms;
};

ALWAYS_INLINE void avx512_start_sums(__m512i even[BLOCK_TOKENS], __m512i odd[BLOCK_TOKENS],
				     const int32_t *start, size_t count)
{
	for (size_t t = 0; t < count; t++) {
		even[t] = _mm512_set1_epi32(start[t]);
		odd[t] = _mm512_setzero_si512();
	}
}

/* q: the words of the first token. Few tokens have two sums each, so that no addition waits for the
 * previous one. */
ALWAYS_INLINE void avx512_add_pair(__m512i even[BLOCK_TOKENS], __m512i odd[BLOCK_TOKENS],
				   const int8_t *q, struct avx512_codes c, size_t count,
				   bool trellis)
{
	__m512i *second = count > TWO_SUMS_TOKENS ? even : odd;

	for (size_t t = 0; t < count; t++)
		even[t] = avx512_add_products(even[t], c.even, avx512_load_word(q + t * TQ_GROUP),
					      trellis);
	for (size_t t = 0; t < count; t++)
		second[t] = avx512_add_products(second[t], c.odd,
						avx512_load_word(q + t * TQ_GROUP + 4), trellis);
}

/* y[count][16 rows] += all groups of the panel. Inlining makes count a constant, so that sums stay
 * in registers. */
ALWAYS_INLINE void avx512_multiply_groups(__m512 y[BLOCK_TOKENS], const struct avx512_block *b,
					  struct avx512_maker *m, size_t count, uint32_t bits,
					  bool trellis)
{
	const uint8_t *tile = b->tile;

	for (size_t g = 0; g < b->in->groups; g++, tile += b->tile_bytes) {
		const size_t at = g * b->in->tokens + b->first;
		const int8_t *q = b->in->q[at];
		__m512i even[BLOCK_TOKENS], odd[BLOCK_TOKENS];
		if (b->ahead)
			prefetch_lines((uintptr_t)tile + b->ahead, b->tile_bytes);
		avx512_start_sums(even, odd, b->in->start + at, count);
		avx512_begin_tile(m, tile, bits, trellis);
		for (size_t slab = 0; slab < SLABS; slab++, q += TQ_SLAB) {
#pragma GCC unroll 4
			for (size_t i = 0; i < SLAB_PAIRS; i++)
				avx512_add_pair(even, odd, q + i * TQ_UNIT,
						avx512_make_codes(m,
								  tile + slab * tq_slab_bytes(bits),
								  i, bits, trellis),
						count, trellis);
		}
		const __m512 norms = avx512_load_norms(tile + tq_slabs_bytes(bits), b->norms);
		for (size_t t = 0; t < count; t++)
			y[t] = avx512_add_group(y[t], _mm512_add_epi32(even[t], odd[t]), norms,
						b->in->a[at + t]);
	}
}

/* Writes out[count]: the rows of the block's tokens, of which `left` exist. more: out has the sums
 * of earlier groups. */
ALWAYS_INLINE void avx512_multiply_tokens(float *out, size_t ldy, size_t left, bool more,
					  const struct avx512_block *b, struct avx512_maker *m,
					  size_t count, uint32_t bits, bool trellis)
{
	__m512 y[BLOCK_TOKENS];

	for (size_t t = 0; t < count; t++)
		y[t] = more ? lanes_load(out + t * ldy, left) : _mm512_setzero_ps();
	avx512_multiply_groups(y, b, m, count, bits, trellis);
	for (size_t t = 0; t < count; t++)
		lanes_store(out + t * ldy, left, y[t]);
}

/* Multiplies 16 rows by all tokens of a panel, in blocks of similar size; out: the first
 * token's. */
ALWAYS_INLINE void avx512_multiply_blocks(float *out, size_t ldy, size_t left, bool more,
					  struct avx512_block *b, struct avx512_maker *m,
					  uint32_t bits, bool trellis)
{
	size_t tokens = b->in->tokens, blocks = (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;

	for (; blocks > 0; blocks--, b->ahead = 0) {
		const size_t count = (tokens + blocks - 1) / blocks;
		float *y = out + b->first * ldy;
#define CASE(n)                                                                     \
	case n:                                                                     \
		avx512_multiply_tokens(y, ldy, left, more, b, m, n, bits, trellis); \
		break;
		switch (count) {
			CASES_TO_12(CASE)
		}
#undef CASE
		b->first += count;
		tokens -= count;
	}
}

#ifndef AVX512_VNNI
#include "kernels/avx512_tq_kept.h"
#endif

ALWAYS_INLINE void avx512_multiply_panel(const struct tq_product *p, const struct avx512_panel *in,
					 size_t first, size_t g0, struct avx512_maker *m,
					 uint32_t bits, bool trellis)
{
	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		struct avx512_block b = {
			.in = in,
			.tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes,
			.tile_bytes = p->tile_bytes,
			.ahead = in->groups == p->groups ? AHEAD : p->block_bytes,
			.norms = p->norms,
		};
		float *out = p->y + first * p->ldy + r;
#ifndef AVX512_VNNI
		if (in->tokens >= KEPT_TOKENS) {
			avx512_multiply_kept_blocks(out, p->ldy, p->rows - r, g0 > 0, &b, m, bits,
						    trellis);
			continue;
		}
#endif
		avx512_multiply_blocks(out, p->ldy, p->rows - r, g0 > 0, &b, m, bits, trellis);
	}
}

ALWAYS_INLINE void avx512_multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				      uint32_t row1, const struct input *x, const uint32_t *tokens,
				      size_t n, struct avx512_maker *m, uint32_t bits, bool trellis)
{
	const struct tq_product p = tq_product_of(y, ldy, w, row0, row1, x);

	if (n == 1) {
		avx512_multiply_token(&p, tokens ? tokens[0] : 0, m, bits, trellis);
		return;
	}
	for (size_t first = 0; first < n; first += PANEL_TOKENS) {
		struct avx512_panel in;
		in.tokens = n - first < PANEL_TOKENS ? n - first : PANEL_TOKENS;
		for (size_t g0 = 0; g0 < p.groups; g0 += in.groups) {
			const size_t most = PANEL_GROUPS / in.tokens, left = p.groups - g0;
			in.groups = left < most ? left : most;
			avx512_gather(&in, &p, tokens, first, g0, trellis);
			avx512_multiply_panel(&p, &in, first, g0, m, bits, trellis);
		}
	}
}

#define MULTIPLY(name, bits, trellis)                                                             \
	void TABLE(multiply_##name)(float *y, size_t ldy, const struct matrix *w, uint32_t row0,  \
				    uint32_t row1, const struct input *x, const uint32_t *tokens, \
				    size_t n)                                                     \
	{                                                                                         \
		struct avx512_maker m;                                                            \
		avx512_make_maker(&m, bits, trellis);                                             \
		avx512_multiply_tq(y, ldy, w, row0, row1, x, tokens, n, &m, bits, trellis);       \
	}
MULTIPLY(tq2, 2, false)
MULTIPLY(tq3, 3, false)
MULTIPLY(tq4, 4, false)
MULTIPLY(tc2, 2, true)
MULTIPLY(tc3, 3, true)
MULTIPLY(tc4, 4, true)
#undef MULTIPLY

#endif
