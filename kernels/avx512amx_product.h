/* Products of many tokens with AMX tiles, for all formats; within kernels/ only.
 *
 * A unit is the columns of one exact sum: 32 of a block, 128 of TQ and TC. (With 16 columns tiles
 * take longer than vpdpbusd.) Tokens are gathered into a panel, and 16 rows' codes of all its
 * columns are made into a band. The product of both is added to the results. For each unit, tiles
 * make the sums of 16 tokens by 16 rows, which go through memory into registers whose lanes are
 * rows. The results of 16 tokens stay there for all units of the panel.
 *
 * Codes are signed bytes without an offset, or unsigned bytes for formats with unsigned codes of 8
 * bits. So sums begin at zero. */
#ifndef MOEFS_KERNELS_AVX512AMX_PRODUCT_H
#define MOEFS_KERNELS_AVX512AMX_PRODUCT_H

#include "kernels/amx_tiles.h"
#include "kernels/format.h"

enum {
	/* Least number of tokens. The table without AMX multiplies fewer, with codes that stay in
	 * registers. */
	AMX_FEWEST_BLOCK = 12,
	AMX_FEWEST_TQ = 6,
	AMX_TOKENS = 48,    /* most tokens of a panel */
	AMX_TOKENS_STEP = 4, /* tokens of a panel are a multiple; the added ones are ignored */
	AMX_COLUMNS = 512, /* of a panel: with a band it fits into the first-level cache */
	AMX_LEAST_UNIT = 32,
	AMX_UNITS = AMX_COLUMNS / AMX_LEAST_UNIT,
};

/* Some columns of some tokens, unit after unit: [units][tokens]. */
struct amx_panel {
	float a[AMX_UNITS * AMX_TOKENS];   /* scales */
	float sum[AMX_UNITS * AMX_TOKENS]; /* scale · (float)Σ q, for formats with offsets */
	size_t units, tokens;
	_Alignas(64) int8_t q[AMX_COLUMNS * AMX_TOKENS];
};

/* The same columns of 16 rows. */
struct amx_band {
	_Alignas(64) int8_t codes[AMX_COLUMNS / 4][TILE_ROWS][4];
	float scale[AMX_UNITS][TILE_ROWS];
	float offset[AMX_UNITS][TILE_ROWS]; /* for formats with offsets */
};

/* product_panel_tokens: the tokens of a panel for n tokens. product_panel_last: how many of them
 * are in the last tile if it is not full; else 0. */
static inline size_t product_panel_tokens(size_t n)
{
	return (n + AMX_TOKENS_STEP - 1) / AMX_TOKENS_STEP * AMX_TOKENS_STEP;
}
static inline size_t product_panel_last(size_t n)
{
	return product_panel_tokens(n) % AMX_ROWS;
}

/* y[tokens][rows] of a band by a panel. */
struct amx_results {
	float *y;
	size_t ldy;
	size_t rows, tokens; /* number that exist */
	bool more;	     /* add to y; else overwrite y */
	/* Source of the next band, prefetched meanwhile: bytes per unit. */
	uintptr_t next;
	size_t next_bytes;
};

typedef void amx_add_band_fn(const struct amx_results *to, const struct amx_panel *in,
			     const struct amx_band *band);
/* By the number of columns of a unit. */
amx_add_band_fn avx512amx_add_32, avx512amx_add_32_offsets, avx512amx_add_32_unsigned,
	avx512amx_add_128;

/* avx512amx_begin: call before the first of these functions, for units of `unit` columns and panels
 * whose last 16 tokens are only `last`, if that is fewer. Call avx512amx_end after the last. */
void avx512amx_begin(size_t unit, size_t last);
void avx512amx_end(void);

#endif
