/* Products of many tokens for the AVX-512 table without VNNI; included once by avx512_tq.h.
 *
 * Without VNNI codes take longer to make, so 16 rows' codes of a group are kept for all blocks of
 * tokens. With VNNI and VBMI they are made again for each block of 12 tokens, which is faster. */
#ifndef MOEFS_KERNELS_AVX512_TQ_KEPT_H
#define MOEFS_KERNELS_AVX512_TQ_KEPT_H

enum {
	KEPT_PAIRS = SLABS * SLAB_PAIRS,
	KEPT_TOKENS = 9, /* fewer tokens are multiplied without keeping codes */
};

/* One group of a block of tokens: its panel entries, and the tokens' results. */
struct avx512_kept {
	const struct avx512_panel *in;
	size_t at;
	float (*y)[TILE_ROWS];
	__m512 norms;
	struct avx512_codes codes[KEPT_PAIRS];
};

ALWAYS_INLINE void avx512_keep_codes(struct avx512_kept *k, const uint8_t *tile,
				     struct avx512_maker *m, uint32_t bits, bool trellis)
{
	avx512_begin_tile(m, tile, bits, trellis);
	for (size_t slab = 0; slab < SLABS; slab++) {
#pragma GCC unroll 4
		for (size_t i = 0; i < SLAB_PAIRS; i++)
			k->codes[slab * SLAB_PAIRS + i] = avx512_make_codes(
				m, tile + slab * tq_slab_bytes(bits), i, bits, trellis);
	}
}

/* Inlining makes count a constant, so that sums stay in registers. */
ALWAYS_INLINE void avx512_multiply_kept(const struct avx512_kept *k, size_t count, bool trellis)
{
	__m512i even[BLOCK_TOKENS], odd[BLOCK_TOKENS];

	avx512_start_sums(even, odd, k->in->start + k->at, count);
	for (size_t i = 0; i < KEPT_PAIRS; i++)
		avx512_add_pair(even, odd, k->in->q[k->at] + i * TQ_UNIT, k->codes[i], count,
				trellis);
	for (size_t t = 0; t < count; t++)
		_mm512_storeu_ps(k->y[t], avx512_add_group(_mm512_loadu_ps(k->y[t]),
							   _mm512_add_epi32(even[t], odd[t]),
							   k->norms, k->in->a[k->at + t]));
}

#define CASE(n)                                         \
	case n:                                         \
		avx512_multiply_kept(k, n, IS_TRELLIS); \
		break;
#define IS_TRELLIS false
static __attribute__((noinline)) void avx512_multiply_kept_tq(const struct avx512_kept *k,
							      size_t count)
{
	switch (count) {
		CASES_TO_12(CASE)
	}
}
#undef IS_TRELLIS
#define IS_TRELLIS true
static __attribute__((noinline)) void avx512_multiply_kept_tc(const struct avx512_kept *k,
							      size_t count)
{
	switch (count) {
		CASES_TO_12(CASE)
	}
}
#undef IS_TRELLIS
#undef CASE

/* Multiplies all groups of 16 rows by all tokens of the panel, in blocks of similar size. */
ALWAYS_INLINE void avx512_multiply_kept_groups(float y[][TILE_ROWS], const struct avx512_block *b,
					       struct avx512_maker *m, uint32_t bits, bool trellis)
{
	const uint8_t *tile = b->tile;
	const size_t tokens = b->in->tokens;

	for (size_t g = 0; g < b->in->groups; g++, tile += b->tile_bytes) {
		struct avx512_kept k = {
			.in = b->in,
			.at = g * tokens,
			.y = y,
			.norms = avx512_load_norms(tile + tq_slabs_bytes(bits), b->norms),
		};
		size_t left = tokens;

		prefetch_lines((uintptr_t)tile + b->ahead, b->tile_bytes);
		avx512_keep_codes(&k, tile, m, bits, trellis);
		for (size_t blocks = (left + BLOCK_TOKENS - 1) / BLOCK_TOKENS; blocks > 0;
		     blocks--) {
			const size_t count = (left + blocks - 1) / blocks;
			(trellis ? avx512_multiply_kept_tc : avx512_multiply_kept_tq)(&k, count);
			k.at += count;
			k.y += count;
			left -= count;
		}
	}
}

/* avx512_multiply_blocks, but keeping codes. */
ALWAYS_INLINE void avx512_multiply_kept_blocks(float *out, size_t ldy, size_t left, bool more,
					       const struct avx512_block *b, struct avx512_maker *m,
					       uint32_t bits, bool trellis)
{
	float y[PANEL_TOKENS][TILE_ROWS];

	for (size_t t = 0; t < b->in->tokens; t++)
		_mm512_storeu_ps(y[t],
				 more ? lanes_load(out + t * ldy, left) : _mm512_setzero_ps());
	avx512_multiply_kept_groups(y, b, m, bits, trellis);
	for (size_t t = 0; t < b->in->tokens; t++)
		lanes_store(out + t * ldy, left, _mm512_loadu_ps(y[t]));
}

#endif
