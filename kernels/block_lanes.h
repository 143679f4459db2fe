/* Products of matrices of blocks on vectors, for every instruction set that has them; within
 * kernels/ only. Lanes are rows. Included once by the file of each table that has block products,
 * after the lanes of its instruction set, which define the needs of block_codes_lanes.h and
 *
 *     BLOCK_JOINT                     registers of rows that meet a token together
 *
 * The including file defines before:
 *
 *     block_dot(sum, code, from, q, count, most, joint)
 *                                     sum[j] += code[j][from + k] · q, four bytes of q for each of
 *                                     count codes k, for joint registers j. Codes are 0 … most; or
 *                                     signed bytes if most is 128; or, if most is 127, signed bytes
 *                                     that are never -128, with one token
 *     BLOCK_WIDE_OFFSET               added to signed codes if block_dot needs unsigned bytes
 *
 * A block's codes are made once, 8 registers for each LANES rows, and stay in registers while they
 * are multiplied by the tokens. One token's 32 bytes are broadcast four by four, so nothing is ever
 * summed across lanes. Tokens are first gathered into a panel that stays in the second-level cache
 * for all rows of the call. The panel also has values that depend only on the inputs: the initial
 * sums, and the factors of offsets. */
#ifndef MOEFS_KERNELS_BLOCK_LANES_H
#define MOEFS_KERNELS_BLOCK_LANES_H

#include "kernels/block_codes_lanes.h"
#include "kernels/prefetch.h"

enum {
	BLOCK_PARTS = TILE_ROWS / LANES,
	BLOCK_ROWS = BLOCK_JOINT > BLOCK_PARTS ? TILE_ROWS *BLOCK_JOINT / BLOCK_PARTS
					       : TILE_ROWS, /* taken together */
	BLOCK_PANEL_TOKENS = 48,			    /* tokens gathered together */
	BLOCK_PANEL_ENTRIES = 2048, /* most blocks of a panel, over all its tokens */
	/* Bytes to prefetch ahead for one token, and for many tokens, which spend longer on each
	 * block. */
	BLOCK_AHEAD_OF_ONE = 8192,
	BLOCK_AHEAD_OF_MANY = 4096,
};

/* ---- inputs ---- */

/* Blocks of tokens, block after block: [blocks][tokens]. */
struct block_panel {
	const int8_t *q; /* [entries][32] */
	int32_t start[BLOCK_PANEL_ENTRIES][HALVES];
	float a[BLOCK_PANEL_ENTRIES], sum[BLOCK_PANEL_ENTRIES][HALVES];
	size_t tokens, blocks;
	_Alignas(64) int8_t copy[BLOCK_PANEL_ENTRIES][BLOCK];
};

/* The offset between the multiplied numbers and the weights. */
ALWAYS_INLINE int block_zero(const struct block_layout *l)
{
	return l->zero + (l->wide ? BLOCK_WIDE_OFFSET : 0);
}

/* Fills entry i with block b of a token. */
ALWAYS_INLINE void block_gather_entry(struct block_panel *to, size_t i,
				      const struct block_product *p, size_t token, size_t b)
{
	const size_t at = token * p->blocks + b;
	const int16_t *sums = p->x->block.sum + at * HALVES;
	const int zero = block_zero(p->l);
	const float a = p->x->block.scale[at];

	to->a[i] = a;
	for (size_t h = 0; h < 1U + p->l->by_16; h++) {
		const int32_t sum = p->l->by_16 ? sums[h] : sums[0] + sums[1];
		if (zero)
			to->start[i][h] = -zero * sum;
		if (p->l->offsets)
			to->sum[i][h] = a * (float)sum;
	}
}

ALWAYS_INLINE void block_gather(struct block_panel *to, const struct block_product *p,
				const uint32_t *tokens, size_t first, size_t b0)
{
	for (size_t t = 0; t < to->tokens; t++) {
		const size_t token = tokens ? tokens[first + t] : first + t;
		const int8_t *q = p->x->block.q + (token * p->blocks + b0) * BLOCK;
		for (size_t b = 0; b < to->blocks; b++) {
			const size_t i = b * to->tokens + t;
			block_gather_entry(to, i, p, token, b0 + b);
			if (to->tokens > 1)
				memcpy(to->copy[i], q + b * BLOCK, BLOCK);
		}
		to->q = to->tokens > 1 ? to->copy[0] : q;
	}
}

/* ---- products ---- */

/* Part `part` of block b of a tile. */
ALWAYS_INLINE void block_make_part(lanes_words code[WORDS], struct block_scale_lanes *s,
				   const struct block_product *p, const uint8_t *tile, size_t b,
				   size_t part, lanes_words table)
{
	*s = block_load_scales(p, tile + p->scales_at, part * LANES, b);
	block_make_codes(code, tile + b * layout_block_bytes(p->l) + part * LANES * 4, p->l, table);
}

/* layout_most for one token: looked-up values are never -128. */
ALWAYS_INLINE int block_most_alone(const struct block_layout *l)
{
	return l->wide && l->values ? INT8_MAX : layout_most(l);
}

/* Adds to y the products of joint parts with entry i. */
ALWAYS_INLINE void block_add(lanes y[], const struct block_layout *l, lanes_words code[][WORDS],
			     const struct block_scale_lanes s[], const struct block_panel *in,
			     size_t i, int most, size_t joint)
{
	const int8_t *q = in->q + i * BLOCK;
	const lanes a = lanes_all(in->a[i]);

	for (size_t h = 0; h < 1U + l->by_16; h++) {
		lanes_words sum[BLOCK_JOINT];
		for (size_t j = 0; j < joint; j++)
			sum[j] = words_all(block_zero(l) ? (uint32_t)in->start[i][h] : 0);
		block_dot(sum, code, h * WORDS / HALVES, q + h * HALF_BLOCK,
			  l->by_16 ? WORDS / HALVES : WORDS, most, joint);
		for (size_t j = 0; j < joint; j++)
			y[j] = lanes_fma(lanes_of_words(sum[j]), lanes_mul(s[j].scale[h], a), y[j]);
		for (size_t j = 0; l->offsets && j < joint; j++)
			y[j] = lanes_fma(s[j].offset[h], lanes_all(in->sum[i][h]), y[j]);
	}
}

/* Loads up to 16 results of adjacent rows. */
ALWAYS_INLINE void block_load_rows(lanes y[BLOCK_PARTS], const float *from, size_t n)
{
	float some[TILE_ROWS] = {0};

	if (n < TILE_ROWS) {
		memcpy(some, from, n * sizeof *from);
		from = some;
	}
	for (size_t part = 0; part < BLOCK_PARTS; part++)
		y[part] = lanes_load(from + part * LANES, LANES);
}

ALWAYS_INLINE void block_store_rows(float *to, size_t n, const lanes y[BLOCK_PARTS])
{
	float some[TILE_ROWS];
	float *at = n < TILE_ROWS ? some : to;

	for (size_t part = 0; part < BLOCK_PARTS; part++)
		lanes_store(at + part * LANES, LANES, y[part]);
	if (n < TILE_ROWS)
		memcpy(to, some, n * sizeof *to);
}

/* Prefetches as many bytes as a block has, for one token. There is so much work per cache line, and
 * scales lie so far from codes, that the processor's prefetcher detects too few lines. */
ALWAYS_INLINE void block_prefetch(const struct block_product *p, const uint8_t *tile, size_t b)
{
	const size_t bytes = p->tile_bytes / p->tile_blocks;

	prefetch_lines((uintptr_t)tile + b * bytes + BLOCK_AHEAD_OF_ONE, bytes);
}

/* block_prefetch for `bands` times 16 rows that are multiplied by a panel's tokens: block b of the
 * panel, whose first tile is `tile`. After the last block it prefetches the first block of the next
 * bands. */
ALWAYS_INLINE void block_prefetch_bands(const struct block_product *p, const uint8_t *tile,
					size_t b, size_t blocks, size_t bands)
{
	const size_t bytes = p->tile_bytes / p->tile_blocks, end = blocks * bytes;
	size_t at = b * bytes + BLOCK_AHEAD_OF_MANY;

	if (at >= end)
		at += bands * p->rows_bytes - end;
	for (size_t band = 0; band < bands; band++)
		prefetch_lines((uintptr_t)tile + band * p->rows_bytes + at, bytes);
}

/* Multiplies 16 rows by one token; codes are used as they are made. */
ALWAYS_INLINE void block_multiply_one(lanes y[BLOCK_PARTS], const struct block_product *p,
				      const uint8_t *tile, const struct block_panel *in,
				      lanes_words table)
{
	for (size_t b0 = 0; b0 < in->blocks; b0 += p->tile_blocks, tile += p->tile_bytes) {
		for (size_t b = 0; b < p->tile_blocks; b++) {
			block_prefetch(p, tile, b);
			for (size_t part = 0; part < BLOCK_PARTS; part++) {
				lanes_words code[1][WORDS];
				struct block_scale_lanes s;
				block_make_part(code[0], &s, p, tile, b, part, table);
				block_add(&y[part], p->l, code, &s, in, b0 + b,
					  block_most_alone(p->l), 1);
			}
		}
	}
}

/* Results of some rows for a panel's tokens: token t's results begin at at[t * stride]. */
struct block_results {
	float *at;
	size_t stride;
};

/* Multiplies block b of the tiles of `bands` times 16 rows by the tokens of a panel, whose entries
 * for b begin at `entry`. Adds the products to `from`, and writes the sums to `to`. */
ALWAYS_INLINE void block_multiply_many(struct block_results to, struct block_results from,
				       const struct block_product *p, const uint8_t *tile, size_t b,
				       const struct block_panel *in, size_t entry,
				       lanes_words table, size_t bands)
{
	const size_t parts = bands * BLOCK_PARTS, joint = BLOCK_JOINT < parts ? BLOCK_JOINT : parts;

	for (size_t first = 0; first < parts; first += joint) {
		lanes_words code[BLOCK_JOINT][WORDS];
		struct block_scale_lanes s[BLOCK_JOINT];
		for (size_t j = 0; j < joint; j++)
			block_make_part(code[j], &s[j], p,
					tile + (first + j) / BLOCK_PARTS * p->rows_bytes, b,
					(first + j) % BLOCK_PARTS, table);
		for (size_t t = 0; t < in->tokens; t++) {
			const float *before = from.at + t * from.stride + first * LANES;
			float *after = to.at + t * to.stride + first * LANES;
			lanes sums[BLOCK_JOINT];
			for (size_t j = 0; j < joint; j++)
				sums[j] = lanes_load(before + j * LANES, LANES);
			block_add(sums, p->l, code, s, in, entry + t, layout_most(p->l), joint);
			for (size_t j = 0; j < joint; j++)
				lanes_store(after + j * LANES, LANES, sums[j]);
		}
	}
}

/* Copies the results of n rows. */
ALWAYS_INLINE void block_copy_results(struct block_results to, struct block_results from, size_t n,
				      size_t tokens)
{
	for (size_t t = 0; t < tokens; t++)
		memcpy(to.at + t * to.stride, from.at + t * from.stride, n * sizeof *to.at);
}

/* Multiplies `bands` times 16 rows, of which n exist, by a panel's tokens. Writes to out, or if
 * `more` adds to the sums of earlier panels in out. Between the first block and the last, sums lie
 * side by side: results of tokens in out are so far apart that their lines evict each other from
 * the cache, and storing them all after the last block took as long as two blocks. */
ALWAYS_INLINE void block_multiply_bands(struct block_results out, size_t n,
					const struct block_product *p, const uint8_t *tile,
					const struct block_panel *in, bool more, lanes_words table,
					size_t bands)
{
	_Alignas(64) float sums[BLOCK_PANEL_TOKENS][BLOCK_ROWS], zeros[BLOCK_ROWS] = {0};
	const struct block_results near = {sums[0], BLOCK_ROWS}, none = {zeros, 0};
	const struct block_results whole = n == bands * TILE_ROWS ? out : near;
	const struct block_results begin = more ? whole : none;

	if (more && n < bands * TILE_ROWS)
		block_copy_results(near, out, n, in->tokens);
	for (size_t entry = 0, b0 = 0; b0 < in->blocks; b0 += p->tile_blocks) {
		const uint8_t *at = tile + b0 / p->tile_blocks * p->tile_bytes;
		for (size_t b = 0; b < p->tile_blocks; b++, entry += in->tokens) {
			const bool first = b0 + b == 0, last = b0 + b + 1 == in->blocks;
			block_prefetch_bands(p, tile, b0 + b, in->blocks, bands);
			if (first || last)
				block_multiply_many(last ? whole : near, first ? begin : near, p,
						    at, b, in, entry, table, bands);
			else /* the same, but faster: `near` is a constant */
				block_multiply_many(near, near, p, at, b, in, entry, table, bands);
		}
	}
	if (n < bands * TILE_ROWS)
		block_copy_results(out, near, n, in->tokens);
}

ALWAYS_INLINE void block_multiply_panel(const struct block_product *p, const struct block_panel *in,
					size_t first, size_t b0)
{
	const lanes_words table = block_load_table(p->l);
	const uint8_t *tile = p->w + b0 / p->tile_blocks * p->tile_bytes;
	size_t rows = in->tokens == 1 ? TILE_ROWS : BLOCK_ROWS;

	for (uint32_t r = 0; r < p->rows; r += rows, tile += rows / TILE_ROWS * p->rows_bytes) {
		const size_t left = p->rows - r, n = left < rows ? left : rows;
		float *out = p->y + first * p->ldy + r;
		lanes y[BLOCK_PARTS];

		if (in->tokens > 1) {
			const struct block_results to = {out, p->ldy};
			if (n > TILE_ROWS)
				block_multiply_bands(to, n, p, tile, in, b0 > 0, table,
						     BLOCK_ROWS / TILE_ROWS);
			else
				block_multiply_bands(to, n, p, tile, in, b0 > 0, table, 1);
			continue;
		}
		for (size_t part = 0; part < BLOCK_PARTS; part++)
			y[part] = lanes_all(0);
		if (b0)
			block_load_rows(y, out, n);
		block_multiply_one(y, p, tile, in, table);
		block_store_rows(out, n, y);
	}
}

/* Inlining makes l's members constants. */
ALWAYS_INLINE void block_multiply(float *y, size_t ldy, const struct matrix *w, uint32_t row0,
				  uint32_t row1, const struct input *x, const uint32_t *tokens,
				  size_t n, const struct block_layout *l)
{
	const struct block_product p = block_product_of(y, ldy, w, row0, row1, x, l);
	struct block_panel in;

	for (size_t first = 0; first < n; first += in.tokens) {
		in.tokens = n - first < BLOCK_PANEL_TOKENS ? n - first : BLOCK_PANEL_TOKENS;
		for (size_t b0 = 0; b0 < p.blocks; b0 += in.blocks) {
			const size_t most =
				BLOCK_PANEL_ENTRIES / in.tokens / p.tile_blocks * p.tile_blocks;
			in.blocks = p.blocks - b0 < most ? p.blocks - b0 : most;
			block_gather(&in, &p, tokens, first, b0);
			block_multiply_panel(&p, &in, first, b0);
		}
	}
}

/* Sanitizers take minutes to compile a body per format. In their builds all formats share one body
 * without constants. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ONE_BODY 1
#elif defined(__has_feature)
#define ONE_BODY (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define ONE_BODY 0
#endif

#if ONE_BODY
static __attribute__((noinline)) void block_multiply_any(float *y, size_t ldy,
							 const struct matrix *w, uint32_t row0,
							 uint32_t row1, const struct input *x,
							 const uint32_t *tokens, size_t n,
							 const struct block_layout *l)
{
	block_multiply(y, ldy, w, row0, row1, x, tokens, n, l);
}
#define block_multiply block_multiply_any
#endif

#define PRODUCT(name, format)                                                                     \
	void TABLE(multiply_##name)(float *y, size_t ldy, const struct matrix *w, uint32_t row0,  \
				    uint32_t row1, const struct input *x, const uint32_t *tokens, \
				    size_t n)                                                     \
	{                                                                                         \
		block_multiply(y, ldy, w, row0, row1, x, tokens, n, &block_layouts[format]);      \
	}
BLOCK_FORMATS(PRODUCT)
#undef PRODUCT

#endif
