/* The body of the AVX-512 products of TQ and TC matrices, with and without VNNI and VBMI.
 *
 * A slab's planes are registers whose 32-bit lanes are rows. Each becomes registers of codes, for
 * four columns each, and each of these meets one 32-bit word of the input in all lanes at once:
 * nothing is ever summed across lanes. Codes are made in pairs, of the indices 2j and 2j + 1 of
 * each unit. What differs between formats and instruction sets the file that includes this one
 * defines: how codes are made of planes, how they are multiplied, and where sums begin.
 *
 * One token is multiplied as the codes are made, at the speed of memory. Several tokens are
 * gathered first, a panel of GROUPS × tokens that stays in the second-level cache for all rows of
 * the call; codes are then made once per group of 16 rows, and blocks of at most 12 tokens are
 * multiplied by them. 12 sums, 2 codes and the constants stay in registers.
 */
#ifndef MOEFS_KERNELS_AVX512_TQ_H
#define MOEFS_KERNELS_AVX512_TQ_H

#include "kernels/avx512_lanes.h"
#include "kernels/prefetch.h"
#include "kernels/tq_product.h"

enum {
	SLAB_PAIRS = TQ_UNIT / 2, /* of registers of codes */
	PAIRS = SLABS * SLAB_PAIRS,
	BLOCK_TOKENS = 12,  /* multiplied together */
	PANEL_TOKENS = 48,  /* gathered together */
	PANEL_GROUPS = 384, /* groups in a panel, of all its tokens: 48 KiB */
	SELECT = 0xca, /* vpternlog: bits of the second where the first has them set, else of the
			  third */
};

struct avx512_codes {
	__m512i even, odd;
};

/* To be defined by whoever includes this; pair and bits are always constants.
 * What makes codes: codebooks, and what it has to know of the codes before. */
struct avx512_maker;
ALWAYS_INLINE void avx512_begin_tile(struct avx512_maker *m, const uint8_t *tile, uint32_t bits);
/* Codes 2 · pair and 2 · pair + 1 of the slab whose planes begin there: of a tile all of them, one
 * pair after the other. */
ALWAYS_INLINE struct avx512_codes avx512_make_codes(struct avx512_maker *m, const uint8_t *slab,
						    size_t pair, uint32_t bits);
/* sums[16] += codes[16][4] · q[4] */
ALWAYS_INLINE __m512i avx512_add_products(__m512i sums, __m512i codes, int32_t q);
/* What all the sums of a group with this input begin with. */
ALWAYS_INLINE int32_t avx512_first_sum(const int8_t q[TQ_GROUP]);

ALWAYS_INLINE int32_t avx512_load_word(const int8_t *q)
{
	int32_t four;
	memcpy(&four, q, sizeof four);
	return four;
}

ALWAYS_INLINE __m512i avx512_load_plane(const uint8_t *slab, size_t plane)
{
	return _mm512_loadu_si512(slab + plane * PLANE_BYTES);
}

/* In each byte `here` bits of low's from `shift` on, above them the lowest of high's. */
ALWAYS_INLINE __m512i avx512_across(__m512i low, size_t shift, __m512i high, size_t here)
{
	const __m512i low_mask = _mm512_set1_epi8((int8_t)((1 << here) - 1));
	return _mm512_ternarylogic_epi32(low_mask, _mm512_srli_epi16(low, (unsigned)shift),
					 _mm512_slli_epi16(high, (unsigned)here), SELECT);
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

ALWAYS_INLINE __m512 avx512_load_norms(const uint8_t *p, enum norm_type type)
{
	return type == NORM_F16
		       ? _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p))
		       : _mm512_loadu_ps(p);
}

/* y = fmaf((float)I, norm · a, y) */
ALWAYS_INLINE __m512 avx512_add_group(__m512 y, __m512i dots, __m512 norms, float a)
{
	return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), _mm512_mul_ps(norms, _mm512_set1_ps(a)),
			       y);
}

/* ---- one token ---- */

enum { AHEAD_OF_ONE = 8192 }; /* bytes, over the end of a matrix too */

/* Groups [g0, g0 + count) of all rows; start[g] is where the sums of a group begin. */
ALWAYS_INLINE void avx512_multiply_one(const struct tq_product *p, size_t token, size_t g0,
				       size_t count, const int32_t *start, struct avx512_maker *m,
				       uint32_t bits)
{
	const int8_t *q = p->x->q + (token * p->groups + g0) * TQ_GROUP;
	const float *scale = p->x->scale + token * p->groups + g0;

	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		const uint8_t *tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes;
		const size_t left = p->rows - r;
		__m512 y = g0 ? lanes_load(p->y + r, left) : _mm512_setzero_ps();
		for (size_t g = 0; g < count; g++, tile += p->tile_bytes) {
			/* Four sums, so that none waits for the one before it. */
			__m512i even[2] = {_mm512_set1_epi32(start[g])}, odd[2] = {{0}};
			prefetch_lines((uintptr_t)tile + AHEAD_OF_ONE, p->tile_bytes);
			avx512_begin_tile(m, tile, bits);
			for (size_t slab = 0; slab < SLABS; slab++) {
				const uint8_t *planes = tile + slab * tq_slab_bytes(bits);
				const int8_t *in = q + g * TQ_GROUP + slab * TQ_SLAB;
#pragma GCC unroll 4
				for (size_t i = 0; i < SLAB_PAIRS; i++, in += TQ_UNIT) {
					const struct avx512_codes c =
						avx512_make_codes(m, planes, i, bits);
					__m512i *e = &even[i % 2], *o = &odd[i % 2];
					*e = avx512_add_products(*e, c.even, avx512_load_word(in));
					*o = avx512_add_products(*o, c.odd,
								 avx512_load_word(in + 4));
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
					 struct avx512_maker *m, uint32_t bits)
{
	int32_t start[PANEL_GROUPS];

	for (size_t g0 = 0; g0 < p->groups; g0 += PANEL_GROUPS) {
		const size_t left = p->groups - g0;
		const size_t count = left < PANEL_GROUPS ? left : PANEL_GROUPS;
		const int8_t *q = p->x->q + (token * p->groups + g0) * TQ_GROUP;
		for (size_t g = 0; g < count; g++, q += TQ_GROUP)
			start[g] = avx512_first_sum(q);
		avx512_multiply_one(p, token, g0, count, start, m, bits);
	}
}

/* ---- several tokens ---- */

/* Some groups of some tokens, group after group: [groups][tokens]. */
struct avx512_panel {
	_Alignas(64) int8_t q[PANEL_GROUPS][TQ_GROUP];
	int32_t start[PANEL_GROUPS]; /* of the sums */
	float a[PANEL_GROUPS];	     /* scale · gain */
	size_t tokens, groups;
};

ALWAYS_INLINE void avx512_gather(struct avx512_panel *to, const struct tq_product *p,
				 const uint32_t *tokens, size_t first, size_t g0)
{
	for (size_t t = 0; t < to->tokens; t++) {
		const size_t at = (tokens ? tokens[first + t] : first + t) * p->groups + g0;
		for (size_t g = 0; g < to->groups; g++) {
			const int8_t *q = p->x->q + (at + g) * TQ_GROUP;
			const size_t i = g * to->tokens + t;
			memcpy(to->q[i], q, TQ_GROUP);
			to->start[i] = avx512_first_sum(q);
			to->a[i] = p->x->scale[at + g] * p->gain;
		}
	}
}

/* One group of a block of tokens: its panel entries, and the tokens' results y[count][16]. */
struct avx512_token_block {
	const struct avx512_panel *in;
	size_t at;
	float (*y)[TILE_ROWS];
	__m512 norms;
};

ALWAYS_INLINE void avx512_start_sums(__m512i sums[BLOCK_TOKENS], const struct avx512_token_block *b,
				     size_t count)
{
	for (size_t t = 0; t < count; t++)
		sums[t] = _mm512_set1_epi32(b->in->start[b->at + t]);
}

ALWAYS_INLINE void avx512_add_pair(__m512i sums[BLOCK_TOKENS], const struct avx512_token_block *b,
				   size_t pair, struct avx512_codes c, size_t count)
{
	const int8_t *q = b->in->q[b->at] + pair * TQ_UNIT;

	for (size_t t = 0; t < count; t++)
		sums[t] = avx512_add_products(sums[t], c.even, avx512_load_word(q + t * TQ_GROUP));
	for (size_t t = 0; t < count; t++)
		sums[t] =
			avx512_add_products(sums[t], c.odd, avx512_load_word(q + t * TQ_GROUP + 4));
}

ALWAYS_INLINE void avx512_finish_sums(const __m512i sums[BLOCK_TOKENS],
				      const struct avx512_token_block *b, size_t count)
{
	for (size_t t = 0; t < count; t++)
		_mm512_storeu_ps(b->y[t], avx512_add_group(_mm512_loadu_ps(b->y[t]), sums[t],
							   b->norms, b->in->a[b->at + t]));
}

ALWAYS_INLINE void avx512_unpack(struct avx512_codes codes[PAIRS], const uint8_t *tile,
				 struct avx512_maker *m, uint32_t bits)
{
	avx512_begin_tile(m, tile, bits);
	for (size_t slab = 0; slab < SLABS; slab++) {
#pragma GCC unroll 4
		for (size_t i = 0; i < SLAB_PAIRS; i++)
			codes[slab * SLAB_PAIRS + i] =
				avx512_make_codes(m, tile + slab * tq_slab_bytes(bits), i, bits);
	}
}

/* count is a constant where this is inlined, so that sums stay in registers. */
ALWAYS_INLINE void avx512_multiply_tokens(const struct avx512_token_block *b,
					  const struct avx512_codes codes[PAIRS], size_t count)
{
	__m512i sums[BLOCK_TOKENS];

	avx512_start_sums(sums, b, count);
	for (size_t i = 0; i < PAIRS; i++)
		avx512_add_pair(sums, b, i, codes[i], count);
	avx512_finish_sums(sums, b, count);
}

static __attribute__((noinline)) void avx512_multiply_block(const struct avx512_token_block *b,
							    const struct avx512_codes codes[PAIRS],
							    size_t count)
{
#define CASE(n)                                      \
	case n:                                      \
		avx512_multiply_tokens(b, codes, n); \
		break;
	switch (count) {
		CASES_TO_12(CASE)
	}
#undef CASE
}

/* 16 rows by all tokens of the panel, in blocks of as equal a size as can be. */
ALWAYS_INLINE void avx512_multiply_tiles(float y[][TILE_ROWS], const struct avx512_panel *in,
					 const uint8_t *tile, const struct tq_product *p,
					 struct avx512_maker *m, uint32_t bits)
{
	for (size_t g = 0; g < in->groups; g++, tile += p->tile_bytes) {
		struct avx512_codes codes[PAIRS];
		struct avx512_token_block b = {
			.in = in,
			.at = g * in->tokens,
			.y = y,
			.norms = avx512_load_norms(tile + tq_slabs_bytes(bits), p->norms),
		};
		size_t left = in->tokens;

		prefetch_lines((uintptr_t)tile + p->block_bytes,
			       p->tile_bytes); /* of the next rows */
		avx512_unpack(codes, tile, m, bits);
		for (size_t blocks = (left + BLOCK_TOKENS - 1) / BLOCK_TOKENS; blocks > 0;
		     blocks--) {
			const size_t count = (left + blocks - 1) / blocks;
			avx512_multiply_block(&b, codes, count);
			b.at += count;
			b.y += count;
			left -= count;
		}
	}
}

ALWAYS_INLINE void avx512_multiply_panel(const struct tq_product *p, const struct avx512_panel *in,
					 size_t first, size_t g0, struct avx512_maker *m,
					 uint32_t bits)
{
	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS) {
		const uint8_t *tile = p->w + r / TILE_ROWS * p->block_bytes + g0 * p->tile_bytes;
		const size_t left = p->rows - r;
		float *out = p->y + first * p->ldy + r, y[PANEL_TOKENS][TILE_ROWS];

		for (size_t t = 0; t < in->tokens; t++)
			_mm512_storeu_ps(y[t], g0 ? lanes_load(out + t * p->ldy, left)
						  : _mm512_setzero_ps());
		avx512_multiply_tiles(y, in, tile, p, m, bits);
		for (size_t t = 0; t < in->tokens; t++)
			lanes_store(out + t * p->ldy, left, _mm512_loadu_ps(y[t]));
	}
}

ALWAYS_INLINE void avx512_multiply_tq(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				      uint32_t row1, const struct input *x, const uint32_t *tokens,
				      size_t n, struct avx512_maker *m, uint32_t bits)
{
	const struct tq_product p = tq_product_of(y, ldy, w, row0, row1, x);

	if (n == 1) {
		avx512_multiply_token(&p, tokens ? tokens[0] : 0, m, bits);
		return;
	}
	for (size_t first = 0; first < n; first += PANEL_TOKENS) {
		struct avx512_panel in;
		in.tokens = n - first < PANEL_TOKENS ? n - first : PANEL_TOKENS;
		for (size_t g0 = 0; g0 < p.groups; g0 += in.groups) {
			const size_t most = PANEL_GROUPS / in.tokens, left = p.groups - g0;
			in.groups = left < most ? left : most;
			avx512_gather(&in, &p, tokens, first, g0);
			avx512_multiply_panel(&p, &in, first, g0, m, bits);
		}
	}
}

#endif
