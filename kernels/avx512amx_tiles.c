/* A band of codes by a panel of tokens: avx512amx_product.h.
 *
 * Sums go from tiles to registers through memory, and each step of that takes some fifty cycles. So
 * four units are under way: while the sums of one are scaled and added, the next one's are stored,
 * the products of the one after it are made, and its successor is loaded. The processor renames
 * tiles, so each may be loaded again at once.
 *
 * A tile takes a cycle for each row. So the last tokens, fewer than 16, have tiles of their own. */
#if defined(__x86_64__)

#include "kernels/amx_tiles.h"
#include "kernels/avx512_lanes.h"
#include "kernels/avx512amx_product.h"

/* A unit's columns in one row of a tile, and the bytes of a tile of codes. */
ALWAYS_INLINE size_t amx_row_bytes(size_t unit)
{
	return unit < AMX_ROW_BYTES ? unit : AMX_ROW_BYTES;
}

/* Tile 0 is sums, 1 and 2 inputs, 3 and 4 codes; 5, 6 and 7 sums and inputs of the last tokens. */
void avx512amx_begin(size_t unit, size_t last)
{
	const uint16_t bytes = (uint16_t)amx_row_bytes(unit);
	const uint8_t rows = AMX_ROWS, words = (uint8_t)(bytes / 4),
		      some = last ? (uint8_t)last : rows;
	const struct amx_shapes s = {
		.palette = 1,
		.row_bytes = {AMX_ROW_BYTES, bytes, bytes, AMX_ROW_BYTES, AMX_ROW_BYTES,
			      AMX_ROW_BYTES, bytes, bytes},
		.rows = {rows, rows, rows, words, words, some, some, some},
	};

	amx_begin(&s);
}

void avx512amx_end(void)
{
	amx_end();
}

/* ---- tiles; `last`: those of the last tokens. A unit has one or two tiles of columns. ---- */

ALWAYS_INLINE void amx_load_unit(const int8_t *q, const int8_t (*codes)[TILE_ROWS][4], size_t unit,
				 bool last)
{
	amx_load(3, codes, AMX_ROW_BYTES);
	if (last)
		amx_load(6, q, unit);
	else
		amx_load(1, q, unit);
	if (unit <= AMX_ROW_BYTES)
		return;
	amx_load(4, codes + AMX_ROW_BYTES / 4, AMX_ROW_BYTES);
	if (last)
		amx_load(7, q + AMX_ROW_BYTES, unit);
	else
		amx_load(2, q + AMX_ROW_BYTES, unit);
}

#define AMX_DOT(sums, x, codes)                           \
	do {                                              \
		if (unsigned_codes)                       \
			amx_dot_unsigned(sums, x, codes); \
		else                                      \
			amx_dot_signed(sums, x, codes);   \
	} while (0)

ALWAYS_INLINE void amx_dot_unit(size_t unit, bool unsigned_codes, bool last)
{
	if (last) {
		amx_zero(5);
		AMX_DOT(5, 6, 3);
		if (unit > AMX_ROW_BYTES)
			AMX_DOT(5, 7, 4);
	} else {
		amx_zero(0);
		AMX_DOT(0, 1, 3);
		if (unit > AMX_ROW_BYTES)
			AMX_DOT(0, 2, 4);
	}
}
#undef AMX_DOT

ALWAYS_INLINE void amx_store_unit(int32_t (*to)[TILE_ROWS], bool last)
{
	if (last)
		amx_store(to, AMX_ROW_BYTES, 5);
	else
		amx_store(to, AMX_ROW_BYTES, 0);
}

/* ---- registers ---- */

/* The sums of `count` tokens, scaled and added. */
ALWAYS_INLINE void amx_add_unit(lanes y[AMX_ROWS], const int32_t (*sums)[TILE_ROWS],
				const float *a, const float *sum, const float *scale,
				const float *offset, size_t count, bool offsets)
{
	const lanes s = lanes_load(scale, LANES), m = offsets ? lanes_load(offset, LANES) : s;

#pragma GCC unroll 16
	for (size_t t = 0; t < count; t++) {
		y[t] = lanes_fma(lanes_of_words(words_load(sums[t])), lanes_mul(s, lanes_all(a[t])),
				 y[t]);
		if (offsets)
			y[t] = lanes_fma(m, lanes_all(sum[t]), y[t]);
	}
}

/* ---- both ---- */

/* Up to 16 tokens of a panel by a band. */
struct amx_block {
	const struct amx_panel *in;
	const struct amx_band *band;
	size_t first; /* token of the panel */
	uintptr_t next; /* prefetched, so many bytes for each unit */
	size_t next_bytes;
};

/* The constants of a body. */
struct amx_kind {
	size_t unit;
	bool offsets, unsigned_codes;
};

/* y[count] += all units; count and k are constants. */
ALWAYS_INLINE void amx_add_units(lanes y[AMX_ROWS], const struct amx_block *b, size_t count,
				 struct amx_kind k)
{
	_Alignas(64) int32_t sums[2][AMX_ROWS][TILE_ROWS];
	const size_t units = b->in->units, tokens = b->in->tokens;
	const bool last = count < AMX_ROWS;
	const int8_t *q = b->in->q + b->first * k.unit;
	const int8_t (*codes)[TILE_ROWS][4] = b->band->codes;

	/* Step i adds unit i - 3. */
	for (size_t i = 0; i < units + 3; i++) {
		if (i >= 2 && i < units + 2)
			amx_store_unit(sums[i % 2], last);
		if (i >= 1 && i < units + 1)
			amx_dot_unit(k.unit, k.unsigned_codes, last);
		if (i < units)
			amx_load_unit(q + i * tokens * k.unit, codes + i * k.unit / 4, k.unit,
				      last);
		if (i < 3)
			continue;
		const size_t u = i - 3, at = u * tokens + b->first;
		prefetch_lines(b->next + u * b->next_bytes, b->next_bytes);
		amx_add_unit(y, sums[u % 2], b->in->a + at, b->in->sum + at, b->band->scale[u],
			     b->band->offset[u], count, k.offsets);
	}
}

/* The rows of `count` tokens from b->first on. */
ALWAYS_INLINE void amx_add_tokens(const struct amx_results *r, const struct amx_block *b,
				  size_t count, struct amx_kind k)
{
	float *const out = r->y + b->first * r->ldy;
	const size_t left = r->tokens - b->first;
	const lanes_mask rows = lanes_first(r->rows);
	lanes y[AMX_ROWS];

#pragma GCC unroll 16
	for (size_t t = 0; t < count; t++)
		y[t] = r->more && t < left ? _mm512_maskz_loadu_ps(rows, out + t * r->ldy)
					   : lanes_all(0);
	amx_add_units(y, b, count, k);
#pragma GCC unroll 16
	for (size_t t = 0; t < count; t++)
		if (t < left)
			_mm512_mask_storeu_ps(out + t * r->ldy, rows, y[t]);
}

ALWAYS_INLINE void amx_add_band(const struct amx_results *r, const struct amx_panel *in,
				const struct amx_band *band, struct amx_kind k)
{
	struct amx_block b = {in, band, 0, r->next, r->next_bytes};

	for (; b.first < in->tokens; b.first += AMX_ROWS, b.next_bytes = 0)
		switch (in->tokens - b.first) {
		case 4:
			amx_add_tokens(r, &b, 4, k);
			break;
		case 8:
			amx_add_tokens(r, &b, 8, k);
			break;
		case 12:
			amx_add_tokens(r, &b, 12, k);
			break;
		default:
			amx_add_tokens(r, &b, 16, k);
		}
}

#define ADD(name, ...)                                                                          \
	void avx512amx_add_##name(const struct amx_results *to, const struct amx_panel *in,     \
				  const struct amx_band *band)                                  \
	{                                                                                       \
		amx_add_band(to, in, band, (struct amx_kind){__VA_ARGS__});                     \
	}
ADD(32, 32, false, false)
ADD(32_offsets, 32, true, false)
ADD(32_unsigned, 32, true, true)
ADD(128, 128, false, false)
#undef ADD

#endif
