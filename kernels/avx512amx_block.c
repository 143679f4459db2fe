/* Products of matrices of blocks for AVX-512 with AMX: block_codes_lanes.h makes codes and scales,
 * avx512amx_product.h has what tiles do with them. */
#if defined(__x86_64__)

#include "kernels/avx512_lanes.h"
#include "kernels/avx512amx_product.h"

enum { BLOCK_WIDE_OFFSET = 0 };
#include "kernels/block_codes_lanes.h"

/* Codes of 8 bits without a sign, which are stored less 128. */
ALWAYS_INLINE bool amx_block_unsigned(const struct block_layout *l)
{
	return l->zero < 0;
}

/* ---- inputs ---- */

/* Blocks [b0, b0 + blocks) of a token: entry t of each. */
ALWAYS_INLINE void amx_gather_token(struct amx_panel *to, size_t t, const struct block_product *p,
				    size_t token, size_t b0, size_t blocks)
{
	const size_t at = token * p->blocks + b0;
	const int8_t *q = p->x->block.q + at * BLOCK;
	const float *scale = p->x->block.scale + at;
	const int16_t *sums = p->x->block.sum + at * HALVES;

	for (size_t b = 0, i = t; b < blocks; b++, i += to->tokens) {
		memcpy(to->q + i * BLOCK, q + b * BLOCK, BLOCK);
		to->a[i] = scale[b];
		if (p->l->offsets)
			to->sum[i] = scale[b] * (float)(sums[b * HALVES] + sums[b * HALVES + 1]);
	}
}

/* n tokens from `first` on. */
ALWAYS_INLINE void amx_gather_blocks(struct amx_panel *to, const struct block_product *p,
				     const uint32_t *tokens, size_t first, size_t n, size_t b0,
				     size_t blocks)
{
	to->units = blocks;
	to->tokens = product_panel_tokens(n);
	for (size_t t = 0; t < n; t++)
		amx_gather_token(to, t, p, tokens ? tokens[first + t] : first + t, b0, blocks);
	for (size_t t = n; t < to->tokens; t++)
		for (size_t i = t; i < to->units * to->tokens; i += to->tokens)
			to->a[i] = to->sum[i] = 0;
}

/* ---- codes ---- */

/* The meant numbers of a block of 16 rows. */
ALWAYS_INLINE void amx_store_codes(int8_t (*to)[TILE_ROWS][4], const uint8_t *planes,
				   const struct block_layout *l, lanes_words values)
{
	lanes_words code[WORDS];

	block_make_codes(code, planes, l, values);
	for (size_t k = 0; k < WORDS; k++) {
		if (amx_block_unsigned(l))
			code[k] = words_xor(code[k], words_all(UINT32_C(0x80808080)));
		else if (!l->values && l->zero)
			code[k] = _mm512_sub_epi8(code[k], _mm512_set1_epi8((int8_t)l->zero));
		_mm512_store_si512(to[k], code[k]);
	}
}

/* `blocks` blocks of 16 rows, whose first tile is `tile`. */
ALWAYS_INLINE void amx_make_blocks(struct amx_band *to, const struct block_product *p,
				   const uint8_t *tile, size_t blocks)
{
	const lanes_words values = p->l->values ? words_table(p->l->values) : words_all(0);

	for (size_t b0 = 0; b0 < blocks; b0 += p->tile_blocks, tile += p->tile_bytes)
		for (size_t b = 0; b < p->tile_blocks; b++) {
			const struct block_scale_lanes s =
				block_load_scales(p, tile + p->scales_at, 0, b);
			lanes_store(to->scale[b0 + b], LANES, s.scale[0]);
			if (p->l->offsets)
				lanes_store(to->offset[b0 + b], LANES, s.offset[0]);
			amx_store_codes(to->codes + (b0 + b) * WORDS,
					tile + b * layout_block_bytes(p->l), p->l, values);
		}
}

/* ---- products ---- */

/* All rows by a panel: blocks from b0 on of tokens from `first` on. */
ALWAYS_INLINE void amx_multiply_panel(const struct block_product *p, const struct amx_panel *in,
				      size_t first, size_t n, size_t b0, amx_add_band_fn *add)
{
	const uint8_t *tile = p->w + b0 / p->tile_blocks * p->tile_bytes;
	struct amx_band band;

	for (uint32_t r = 0; r < p->rows; r += TILE_ROWS, tile += p->rows_bytes) {
		const struct amx_results to = {
			.y = p->y + first * p->ldy + r,
			.ldy = p->ldy,
			.rows = p->rows - r,
			.tokens = n,
			.more = b0 > 0,
			.next = (uintptr_t)tile + p->rows_bytes,
			.next_bytes = p->tile_bytes / p->tile_blocks,
		};
		amx_make_blocks(&band, p, tile, in->units);
		add(&to, in, &band);
	}
}

ALWAYS_INLINE amx_add_band_fn *amx_add_of(const struct block_layout *l)
{
	return amx_block_unsigned(l) ? avx512amx_add_32_unsigned
	       : l->offsets	     ? avx512amx_add_32_offsets
				     : avx512amx_add_32;
}

/* l's members are constants where this is inlined. */
ALWAYS_INLINE void amx_multiply_blocks(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				       uint32_t row1, const struct input *x, const uint32_t *tokens,
				       size_t n, const struct block_layout *l)
{
	const struct block_product p = block_product_of(y, ldy, w, row0, row1, x, l);
	struct amx_panel in;

	for (size_t first = 0, count; first < n; first += count) {
		count = n - first < AMX_TOKENS ? n - first : AMX_TOKENS;
		avx512amx_begin(BLOCK, product_panel_last(count));
		for (size_t b0 = 0, blocks; b0 < p.blocks; b0 += blocks) {
			const size_t most = AMX_COLUMNS / BLOCK;
			blocks = p.blocks - b0 < most ? p.blocks - b0 : most;
			amx_gather_blocks(&in, &p, tokens, first, count, b0, blocks);
			amx_multiply_panel(&p, &in, first, count, b0, amx_add_of(l));
		}
	}
	avx512amx_end();
}

#define PRODUCT(name, format)                                                                     \
	void avx512amx_multiply_##name(float *y, size_t ldy, const struct matrix *w,              \
				       uint32_t row0, uint32_t row1, const struct input *x,       \
				       const uint32_t *tokens, size_t n)                          \
	{                                                                                         \
		if (n < AMX_FEWEST_BLOCK || block_layouts[format].by_16)                          \
			avx512vnni_multiply_##name(y, ldy, w, row0, row1, x, tokens, n);          \
		else                                                                              \
			amx_multiply_blocks(y, ldy, w, row0, row1, x, tokens, n,                  \
					    &block_layouts[format]);                              \
	}
BLOCK_FORMATS(PRODUCT)
#undef PRODUCT

#endif
