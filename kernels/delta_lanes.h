/* The recurrences of delta.h on vectors, for every instruction set that has them; within kernels/
 * only.
 *
 * Lanes are columns. Each lane performs the operations of scalar.c in the same order, so the bits
 * do not depend on the number of lanes. Included once by each table's file, after the lanes of its
 * instruction set (lanes.h) and DELTA_TILE_REGISTERS (registers of columns of a tile) and
 * DELTA_ADD_TOKENS.
 *
 * delta_steps first reads a stripe of the state row by row, in the order of memory, to compute the
 * value found by the first token's key. (Short pieces of rows, far apart, would load at half the
 * speed.) The steps then find the stripe in the second-level cache. A single token also goes row by
 * row: memory is the limit, and the state is read and written once. Several tokens go tile by tile,
 * while a tile of columns is in the first-level cache: arithmetic is the limit, with four
 * instructions for seven operations, and a tile has enough sums to hide the latency of additions.
 * If values are only added (DELTA_ADDS), nothing has to be found before, so a row goes through
 * DELTA_ADD_TOKENS tokens while it is in registers.
 */
#ifndef MOEFS_KERNELS_DELTA_LANES_H
#define MOEFS_KERNELS_DELTA_LANES_H

#include "kernels/kernels.h"

enum {
	DELTA_STRIPE = 128,			   /* columns that are read together, row by row */
	DELTA_TILE = DELTA_TILE_REGISTERS * LANES, /* columns that go through all tokens together */
	DELTA_AHEAD = 8192, /* bytes prefetched, across the end of a state into the next one */
};

/* A tile of the state, decayed for the current token. */
typedef float delta_tile_row[DELTA_TILE];

/* The value that token 0's key finds in the decayed state. `columns` is at most DELTA_STRIPE.
 * Inlining makes it a constant, except for the last columns of an odd number. */
ALWAYS_INLINE void delta_find(lanes *found, const struct delta *d, size_t column, size_t columns,
			      enum delta_rule rule)
{
	const lanes all = lanes_all(d->decay[0]);
	lanes sum[DELTA_STRIPE / LANES];

	for (size_t c = 0; c < columns; c += LANES)
		sum[c / LANES] = lanes_all(0);
	for (size_t i = 0; i < d->key_dim; i++) {
		const float *from = d->state + i * d->value_dim + column;
		const lanes k = lanes_all(d->k[i]);
		const lanes decay = rule == DELTA_REPLACES_BY_ROW ? lanes_all(d->decay[i]) : all;
		for (size_t c = 0; c < columns; c += LANES) {
			const lanes s = lanes_mul(lanes_load(from + c, columns - c), decay);
			sum[c / LANES] = lanes_fma(s, k, sum[c / LANES]);
			__builtin_prefetch((const void *)((uintptr_t)(from + c) + DELTA_AHEAD));
		}
	}
	for (size_t c = 0; c < columns; c += LANES)
		found[c / LANES] = sum[c / LANES];
}

/* Flags of a token. The first token reads the state from memory, later ones read the tile. All but
 * the last write the decayed tile for the next token, and the value that its key finds to `found`,
 * so that a token takes one pass. The token with DELTA_COMMIT writes the state. */
enum { DELTA_FIRST = 1, DELTA_LAST = 2, DELTA_COMMIT = 4 };

/* Computes token t. columns: as in delta_find; `which` and `rule` are constants. */
ALWAYS_INLINE void delta_step(lanes *found, delta_tile_row *tile, const struct delta *d, size_t t,
			      size_t column, size_t columns, unsigned which, enum delta_rule rule)
{
	const bool by_row = rule == DELTA_REPLACES_BY_ROW;

	const size_t next_t = which & DELTA_LAST ? t : t + 1;
	const float *q = d->q + t * d->key_stride, *k = d->k + t * d->key_stride;
	const float *next_k = d->k + next_t * d->key_stride;
	const float *decays = d->decay + t * d->decay_stride;
	const float *next_decays = d->decay + next_t * d->decay_stride;
	const lanes beta = lanes_all(d->beta[t * d->beta_stride]);
	const lanes decay = lanes_all(decays[0]), next_decay = lanes_all(next_decays[0]);
	lanes change[DELTA_STRIPE / LANES], out[DELTA_STRIPE / LANES], next[DELTA_STRIPE / LANES];

	for (size_t c = 0; c < columns; c += LANES) {
		const lanes v = lanes_load(d->v + t * d->value_stride + column + c, columns - c);
		change[c / LANES] = lanes_mul(lanes_sub(v, found[c / LANES]), beta);
		out[c / LANES] = next[c / LANES] = lanes_all(0);
	}
	for (size_t i = 0; i < d->key_dim; i++) {
		const lanes ki = lanes_all(k[i]), qi = lanes_all(q[i]), ni = lanes_all(next_k[i]);
		const lanes fades = by_row ? lanes_all(decays[i]) : decay;
		const lanes next_fades = by_row ? lanes_all(next_decays[i]) : next_decay;
		float *state = d->state + i * d->value_dim + column;
		for (size_t c = 0; c < columns; c += LANES) {
			lanes s = which & DELTA_FIRST
					  ? lanes_mul(lanes_load(state + c, columns - c), fades)
					  : lanes_load(tile[i] + c, LANES);
			s = lanes_fma(ki, change[c / LANES], s);
			out[c / LANES] = lanes_fma(s, qi, out[c / LANES]);
			if (which & DELTA_COMMIT)
				lanes_store(state + c, columns - c, s);
			if (!(which & DELTA_LAST)) {
				s = lanes_mul(s, next_fades);
				lanes_store(tile[i] + c, LANES, s);
				next[c / LANES] = lanes_fma(s, ni, next[c / LANES]);
			}
		}
	}
	for (size_t c = 0; c < columns; c += LANES) {
		float *to = d->out + t * d->out_stride + column + c;
		lanes_store(to, columns - c, out[c / LANES]);
		found[c / LANES] = next[c / LANES];
	}
}

/* delta_step with a constant `which`, without DELTA_COMMIT. */
ALWAYS_INLINE void delta_step_as(lanes *found, delta_tile_row *tile, const struct delta *d,
				 size_t t, size_t column, size_t columns, unsigned which,
				 enum delta_rule rule)
{
	if (t + 1 == d->commit)
		delta_step(found, tile, d, t, column, columns, which | DELTA_COMMIT, rule);
	else
		delta_step(found, tile, d, t, column, columns, which, rule);
}

/* ---- only adding ---- */

/* Computes tokens t to t + n - 1, n at most DELTA_ADD_TOKENS. Nothing has to be found before, so a
 * row of the tile goes through all of them while it is in registers. n is a constant, columns as in
 * delta_find. Only the last of these tokens may commit. */
ALWAYS_INLINE void delta_add_tokens(delta_tile_row *tile, const struct delta *d, size_t t, size_t n,
				    size_t column, size_t columns)
{
	const bool first = t == 0, commit = t + n == d->commit, last = t + n == d->n;
	lanes decay[DELTA_ADD_TOKENS], change[DELTA_ADD_TOKENS][DELTA_STRIPE / LANES];
	lanes out[DELTA_ADD_TOKENS][DELTA_STRIPE / LANES];

	for (size_t u = 0; u < n; u++) {
		const lanes beta = lanes_all(d->beta[(t + u) * d->beta_stride]);
		const float *v = d->v + (t + u) * d->value_stride + column;
		decay[u] = lanes_all(d->decay[(t + u) * d->decay_stride]);
		for (size_t c = 0; c < columns; c += LANES) {
			change[u][c / LANES] = lanes_mul(lanes_load(v + c, columns - c), beta);
			out[u][c / LANES] = lanes_all(0);
		}
	}
	for (size_t i = 0; i < d->key_dim; i++) {
		float *state = d->state + i * d->value_dim + column;
		for (size_t c = 0; c < columns; c += LANES) {
			lanes s = first ? lanes_load(state + c, columns - c)
					: lanes_load(tile[i] + c, LANES);
			for (size_t u = 0; u < n; u++) {
				const size_t at = (t + u) * d->key_stride + i;
				s = lanes_mul(s, decay[u]);
				s = lanes_fma(lanes_all(d->k[at]), change[u][c / LANES], s);
				out[u][c / LANES] =
					lanes_fma(s, lanes_all(d->q[at]), out[u][c / LANES]);
			}
			if (commit)
				lanes_store(state + c, columns - c, s);
			if (!last)
				lanes_store(tile[i] + c, LANES, s);
		}
	}
	for (size_t u = 0; u < n; u++)
		for (size_t c = 0; c < columns; c += LANES)
			lanes_store(d->out + (t + u) * d->out_stride + column + c, columns - c,
				    out[u][c / LANES]);
}

ALWAYS_INLINE void delta_tile_adds(delta_tile_row *tile, const struct delta *d, size_t column,
				   size_t columns)
{
	for (size_t t = 0, n; t < d->n; t += n) {
		const size_t left = (t < d->commit ? d->commit : d->n) - t;
		n = left < DELTA_ADD_TOKENS ? 1 : DELTA_ADD_TOKENS;
		if (n == 1)
			delta_add_tokens(tile, d, t, 1, column, columns);
		else
			delta_add_tokens(tile, d, t, DELTA_ADD_TOKENS, column, columns);
	}
}

/* ---- all tokens ---- */

ALWAYS_INLINE void delta_tile_steps(lanes *found, delta_tile_row *tile, const struct delta *d,
				    size_t column, size_t columns, enum delta_rule rule)
{
	if (rule == DELTA_ADDS) {
		delta_tile_adds(tile, d, column, columns);
		return;
	}
	delta_step_as(found, tile, d, 0, column, columns, DELTA_FIRST, rule);
	for (size_t t = 1; t + 1 < d->n; t++)
		delta_step_as(found, tile, d, t, column, columns, 0, rule);
	delta_step_as(found, tile, d, d->n - 1, column, columns, DELTA_LAST, rule);
}

ALWAYS_INLINE void delta_tiles_steps(lanes *found, const struct delta *d, size_t column,
				     size_t columns, enum delta_rule rule)
{
	_Alignas(64) delta_tile_row tile[DELTA_KEY_DIM];
	size_t c = 0;

	for (; columns - c >= DELTA_TILE; c += DELTA_TILE)
		delta_tile_steps(found + c / LANES, tile, d, column + c, DELTA_TILE, rule);
	if (c < columns)
		delta_tile_steps(found + c / LANES, tile, d, column + c, columns - c, rule);
}

/* Computes one token completely, or finds the value of the first of several. */
ALWAYS_INLINE void delta_one_step(lanes *found, const struct delta *d, size_t column,
				  size_t columns, enum delta_rule rule)
{
	if (rule != DELTA_ADDS)
		delta_find(found, d, column, columns, rule);
	if (d->n > 1)
		return;
	if (rule == DELTA_ADDS)
		delta_add_tokens(NULL, d, 0, 1, column, columns);
	else
		delta_step_as(found, NULL, d, 0, column, columns, DELTA_FIRST | DELTA_LAST, rule);
}

/* For each rule two functions: one for at least two tokens, not inlined, since a tile is large and
 * a single token needs none; and one for all columns. */
#define DELTA_STEPS_BY(rule, name)                                                               \
	static __attribute__((noinline)) void delta_many_##name(                                 \
		lanes *found, const struct delta *d, size_t column, size_t columns)              \
	{                                                                                        \
		delta_tiles_steps(found, d, column, columns, rule);                              \
	}                                                                                        \
	static void delta_steps_##name(const struct delta *d, uint32_t col0, uint32_t col1)      \
	{                                                                                        \
		lanes found[DELTA_STRIPE / LANES];                                               \
		for (size_t column = col0; column < col1; column += DELTA_STRIPE) {              \
			const size_t left = col1 - column;                                       \
			if (left >= DELTA_STRIPE)                                                \
				delta_one_step(found, d, column, DELTA_STRIPE, rule);            \
			else                                                                     \
				delta_one_step(found, d, column, left, rule);                    \
			if (d->n > 1)                                                            \
				delta_many_##name(found, d, column,                              \
						  left < DELTA_STRIPE ? left : DELTA_STRIPE);    \
		}                                                                                \
	}
DELTA_STEPS_BY(DELTA_REPLACES, replaces)
DELTA_STEPS_BY(DELTA_REPLACES_BY_ROW, replaces_by_row)
DELTA_STEPS_BY(DELTA_ADDS, adds)
#undef DELTA_STEPS_BY

static void delta_steps(const struct delta *d, uint32_t col0, uint32_t col1)
{
	static void (*const rules[DELTA_RULES])(const struct delta *, uint32_t, uint32_t) = {
		delta_steps_replaces, delta_steps_replaces_by_row, delta_steps_adds};
	rules[d->rule](d, col0, col1);
}

#endif
