/* A band of codes by a panel of tokens: avx512amx_product.h.
 *
 * Sums go from tiles to registers through memory, and each step of that takes some fifty cycles. So
 * four units are under way: while the sums of one are scaled and added, the next one's are stored,
 * the products of the one after it are made, and its successor is loaded. That takes two sets of
 * tiles. */
#if defined(__x86_64__)

#include "kernels/amx_tiles.h"
#include "kernels/avx512_lanes.h"
#include "kernels/avx512amx_product.h"

/* A unit's columns in one row of a tile, and the bytes of a tile of codes. */
ALWAYS_INLINE size_t amx_row_bytes(size_t unit)
{
	return unit < AMX_ROW_BYTES ? unit : AMX_ROW_BYTES;
}

void avx512amx_begin(size_t unit)
{
	const size_t bytes = amx_row_bytes(unit);
	struct amx_shapes s = {.palette = 1};

	/* Sums are tiles 0 and 1, inputs 2 and 3, codes 4 and 5. */
	for (size_t i = 0; i < 2; i++) {
		s.rows[i] = s.rows[2 + i] = AMX_ROWS;
		s.row_bytes[i] = s.row_bytes[4 + i] = AMX_ROW_BYTES;
		s.row_bytes[2 + i] = (uint16_t)bytes;
		s.rows[4 + i] = (uint8_t)(bytes / 4);
	}
	amx_begin(&s);
}

void avx512amx_end(void)
{
	amx_end();
}

/* ---- tiles ----
 *
 * Units take turns in two sets of tiles. A unit of two tiles of columns has the inputs and codes of
 * both sets. */

ALWAYS_INLINE void amx_load_unit(const int8_t *q, const int8_t (*codes)[TILE_ROWS][4], size_t unit,
				 bool second)
{
	const bool both = unit > AMX_ROW_BYTES;

	if (both || !second) {
		amx_load(2, q, unit);
		amx_load(4, codes, AMX_ROW_BYTES);
	}
	if (both || second) {
		amx_load(3, q + (both ? AMX_ROW_BYTES : 0), unit);
		amx_load(5, codes + (both ? AMX_ROW_BYTES / 4 : 0), AMX_ROW_BYTES);
	}
}

#define AMX_DOT(sums, x, codes)                          \
	do {                                             \
		if (unsigned_codes)                      \
			amx_dot_unsigned(sums, x, codes); \
		else                                     \
			amx_dot_signed(sums, x, codes);  \
	} while (0)

ALWAYS_INLINE void amx_dot_unit(size_t unit, bool unsigned_codes, bool second)
{
	const bool both = unit > AMX_ROW_BYTES;

	if (second) {
		amx_zero(1);
		if (both)
			AMX_DOT(1, 2, 4);
		AMX_DOT(1, 3, 5);
	} else {
		amx_zero(0);
		AMX_DOT(0, 2, 4);
		if (both)
			AMX_DOT(0, 3, 5);
	}
}
#undef AMX_DOT

ALWAYS_INLINE void amx_store_unit(int32_t (*to)[TILE_ROWS], bool second)
{
	if (second)
		amx_store(to, AMX_ROW_BYTES, 1);
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

#define AMX_LOAD(i, second)                                                        \
	do {                                                                       \
		if ((i) < units)                                                   \
			amx_load_unit(q + (i) * step, b->band->codes + (i) * k.unit / 4, \
				      k.unit, second);                             \
	} while (0)
#define AMX_DOT(i, second)                                                \
	do {                                                              \
		if ((i) < units)                                          \
			amx_dot_unit(k.unit, k.unsigned_codes, second);   \
	} while (0)
#define AMX_STORE(i, second)                                    \
	do {                                                    \
		if ((i) < units)                                \
			amx_store_unit(sums[second], second);   \
	} while (0)
/* Unit i, which is in the second set or not. */
#define AMX_STEP(i, second)                                                             \
	do {                                                                            \
		AMX_STORE((i) + 1, !(second));                                          \
		AMX_DOT((i) + 2, second);                                               \
		AMX_LOAD((i) + 3, !(second));                                           \
		prefetch_lines(b->next + (i) * b->next_bytes, b->next_bytes);           \
		amx_add_unit(y, sums[second], b->in->a + (i) * tokens + b->first,       \
			     b->in->sum + (i) * tokens + b->first, b->band->scale[i],   \
			     b->band->offset[i], count, k.offsets);                     \
	} while (0)

/* y[count] += all units; count and k are constants. */
ALWAYS_INLINE void amx_add_units(lanes y[AMX_ROWS], const struct amx_block *b, size_t count,
				 struct amx_kind k)
{
	_Alignas(64) int32_t sums[2][AMX_ROWS][TILE_ROWS];
	const size_t units = b->in->units, tokens = b->in->tokens, step = tokens * k.unit;
	const int8_t *q = b->in->q + b->first * k.unit;

	AMX_LOAD(0, false);
	AMX_DOT(0, false);
	AMX_LOAD(1, true);
	AMX_STORE(0, false);
	AMX_DOT(1, true);
	AMX_LOAD(2, false);
	for (size_t i = 0; i < units; i += 2) {
		AMX_STEP(i, false);
		if (i + 1 < units)
			AMX_STEP(i + 1, true);
	}
}
#undef AMX_LOAD
#undef AMX_DOT
#undef AMX_STORE
#undef AMX_STEP

/* The rows of `count` tokens from b->first on. */
ALWAYS_INLINE void amx_add_tokens(const struct amx_results *r, const struct amx_block *b,
				  size_t count, struct amx_kind k)
{
	float *const out = r->y + b->first * r->ldy;
	const size_t left = r->tokens - b->first;
	lanes y[AMX_ROWS];

#pragma GCC unroll 16
	for (size_t t = 0; t < count; t++)
		y[t] = r->more && t < left ? lanes_load(out + t * r->ldy, r->rows) : lanes_all(0);
	amx_add_units(y, b, count, k);
#pragma GCC unroll 16
	for (size_t t = 0; t < count; t++)
		if (t < left)
			lanes_store(out + t * r->ldy, r->rows, y[t]);
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
