/* Products of many tokens by AMX tiles, of whatever format; within kernels/ only.
 *
 * A unit is the columns of one exact sum: 32 of a block, 128 of TQ and TC. (With 16 columns tiles
 * take longer than vpdpbusd.) Tokens are gathered into a panel, 16 rows' codes of all its columns
 * are made into a band, and the product of both is added to the results: for each unit tiles make
 * the sums of 16 tokens by 16 rows, which go through memory into registers whose lanes are rows.
 * There the results of 16 tokens stay for all units of the panel.
 *
 * Codes are the meant numbers, as signed bytes; those of 8 bits without a sign are unsigned. So
 * sums begin at zero. */
#ifndef MOEFS_KERNELS_AVX512AMX_PRODUCT_H
#define MOEFS_KERNELS_AVX512AMX_PRODUCT_H

#include "kernels/amx_tiles.h"
#include "kernels/format.h"

enum {
	/* Tokens; the table without AMX multiplies fewer, by codes that stay in registers. */
	AMX_FEWEST_BLOCK = 12,
	AMX_FEWEST_TQ = 6,
	AMX_TOKENS = 48,    /* of a panel */
	AMX_TOKENS_STEP = 4, /* a panel has a multiple of these: the others give no results */
	AMX_COLUMNS = 512, /* of a panel: with a band it fits the first-level cache */
	AMX_LEAST_UNIT = 32,
	AMX_UNITS = AMX_COLUMNS / AMX_LEAST_UNIT,
};

/* Some columns of some tokens, unit after unit: [units][tokens]. */
struct amx_panel {
	float a[AMX_UNITS * AMX_TOKENS];   /* scales */
	float sum[AMX_UNITS * AMX_TOKENS]; /* scale · (float)Σ q, of formats with offsets */
	size_t units, tokens;
	_Alignas(64) int8_t q[AMX_COLUMNS * AMX_TOKENS];
};

/* The same columns of 16 rows. */
struct amx_band {
	_Alignas(64) int8_t codes[AMX_COLUMNS / 4][TILE_ROWS][4];
	float scale[AMX_UNITS][TILE_ROWS];
	float offset[AMX_UNITS][TILE_ROWS]; /* of formats with offsets */
};

/* The tokens of a panel for n, and how many of them are the last. */
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
	size_t rows, tokens; /* that exist */
	bool more;	     /* added to y; else y is what this product gives */
	/* What the next band is made of, prefetched meanwhile: bytes for each unit. */
	uintptr_t next;
	size_t next_bytes;
};

typedef void amx_add_band_fn(const struct amx_results *to, const struct amx_panel *in,
			     const struct amx_band *band);
/* By the columns of a unit. */
amx_add_band_fn avx512amx_add_32, avx512amx_add_32_offsets, avx512amx_add_32_unsigned,
	avx512amx_add_128;

/* Before the first of these for units of so many columns and panels whose last 16 tokens are only
 * so many, if they are fewer; and after the last. */
void avx512amx_begin(size_t unit, size_t last);
void avx512amx_end(void);

#endif
