/* Products of TQ and TC matrices for AVX-512 with AMX: avx512_tq_codes.h makes codes,
 * avx512amx_product.h has what tiles do with them. */
#if defined(__x86_64__)

#define AVX512_VNNI
#define AVX512_SIGNED

#include "kernels/avx512_tq_codes.h"
#include "kernels/avx512amx_product.h"
#include "kernels/tq_product.h"

/* Groups [g0, g0 + groups) of n tokens from `first` on. */
ALWAYS_INLINE void amx_gather_groups(struct amx_panel *to, const struct tq_product *p,
				     const uint32_t *tokens, size_t first, size_t n, size_t g0,
				     size_t groups)
{
	to->units = groups;
	to->tokens = product_panel_tokens(n);
	for (size_t t = 0; t < n; t++) {
		const size_t at = (tokens ? tokens[first + t] : first + t) * p->groups + g0;
		for (size_t g = 0; g < groups; g++) {
			const size_t i = g * to->tokens + t;
			memcpy(to->q + i * TQ_GROUP, p->x->q + (at + g) * TQ_GROUP, TQ_GROUP);
			to->a[i] = p->x->scale[at + g] * p->gain;
		}
	}
	for (size_t t = n; t < to->tokens; t++)
		for (size_t i = t; i < groups * to->tokens; i += to->tokens)
			to->a[i] = 0;
}

/* `groups` groups of 16 rows, whose first tile is `tile`. */
ALWAYS_INLINE void amx_make_groups(struct amx_band *to, const struct tq_product *p,
				   const uint8_t *tile, size_t groups, struct avx512_maker *m,
				   uint32_t bits, bool trellis)
{
	int8_t (*codes)[TILE_ROWS][4] = to->codes;

	for (size_t g = 0; g < groups; g++, tile += p->tile_bytes) {
		lanes_store(to->scale[g], LANES,
			    avx512_load_norms(tile + tq_slabs_bytes(bits), p->norms));
		avx512_begin_tile(m, tile, bits, trellis);
		for (size_t slab = 0; slab < SLABS; slab++) {
#pragma GCC unroll 4
			for (size_t i = 0; i < SLAB_PAIRS; i++, codes += 2) {
				const struct avx512_codes c = avx512_make_codes(
					m, tile + slab * tq_slab_bytes(bits), i, bits, trellis);
				_mm512_store_si512(codes[0], c.even);
				_mm512_store_si512(codes[1], c.odd);
			}
		}
	}
}

/* All rows by a panel: groups from g0 on of tokens from `first` on. */
ALWAYS_INLINE void amx_multiply_panel(const struct tq_product *p, const struct amx_panel *in,
				      size_t first, size_t n, size_t g0, struct avx512_maker *m,
				      uint32_t bits, bool trellis)
{
	const uint8_t *tile = p->w + g0 * p->tile_bytes;
	struct amx_band band;

	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS, tile += p->block_bytes) {
		const struct amx_results to = {
			.y = p->y + first * p->ldy + r,
			.ldy = p->ldy,
			.rows = p->rows - r,
			.tokens = n,
			.more = g0 > 0,
			.next = (uintptr_t)tile + p->block_bytes,
			.next_bytes = p->tile_bytes,
		};
		amx_make_groups(&band, p, tile, in->units, m, bits, trellis);
		avx512amx_add_128(&to, in, &band);
	}
}

ALWAYS_INLINE void amx_multiply_groups(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				       uint32_t row1, const struct input *x, const uint32_t *tokens,
				       size_t n, uint32_t bits, bool trellis)
{
	const struct tq_product p = tq_product_of(y, ldy, w, row0, row1, x);
	struct amx_panel in;
	struct avx512_maker m;

	avx512_make_maker(&m, bits, trellis);
	for (size_t first = 0, count; first < n; first += count) {
		count = n - first < AMX_TOKENS ? n - first : AMX_TOKENS;
		avx512amx_begin(TQ_GROUP, product_panel_last(count));
		for (size_t g0 = 0, groups; g0 < p.groups; g0 += groups) {
			const size_t most = AMX_COLUMNS / TQ_GROUP;
			groups = p.groups - g0 < most ? p.groups - g0 : most;
			amx_gather_groups(&in, &p, tokens, first, count, g0, groups);
			amx_multiply_panel(&p, &in, first, count, g0, &m, bits, trellis);
		}
	}
	avx512amx_end();
}

#define MULTIPLY(name, bits, trellis)                                                              \
	void avx512amx_multiply_##name(float *y, size_t ldy, const struct matrix *w,               \
				       uint32_t row0, uint32_t row1, const struct input *x,        \
				       const uint32_t *tokens, size_t n)                           \
	{                                                                                          \
		if (n < AMX_FEWEST_TQ)                                                                \
			avx512vnni_multiply_##name(y, ldy, w, row0, row1, x, tokens, n);           \
		else                                                                               \
			amx_multiply_groups(y, ldy, w, row0, row1, x, tokens, n, bits, trellis);   \
	}
MULTIPLY(tq2, 2, false)
MULTIPLY(tq3, 3, false)
MULTIPLY(tq4, 4, false)
MULTIPLY(tc2, 2, true)
MULTIPLY(tc3, 3, true)
MULTIPLY(tc4, 4, true)
#undef MULTIPLY

#endif
