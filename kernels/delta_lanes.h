/* The recurrence of the gated delta net on vectors, for every instruction set that has them; within
 * kernels/ only.
 *
 * Lanes are columns. Each lane does the operations of scalar.c in the same order, so the bits do
 * not depend on the number of lanes. Included once by each table's file, after the lanes of its
 * instruction set (lanes.h) and DELTA_TILE_REGISTERS, the registers of columns of a tile.
 *
 * delta_steps first reads a stripe of the state row by row, as it lies in memory, to compute the
 * value found by the first token's key; short pieces of rows, far apart, would load at half the
 * speed. The steps then find the stripe in the second-level cache. A single token also goes row by
 * row: memory is the limit, and the state is read and written once. Several tokens go tile by
 * tile, while a tile of columns is in the first-level cache: arithmetic is the limit, four
 * instructions for seven operations, and a tile has enough sums to hide the latency of additions.
 */
#ifndef MOEFS_KERNELS_DELTA_LANES_H
#define MOEFS_KERNELS_DELTA_LANES_H

#include "kernels/kernels.h"

enum {
	DELTA_STRIPE = 128,			   /* columns that are read together, row by row */
	DELTA_TILE = DELTA_TILE_REGISTERS * LANES, /* columns that go through all tokens together */
	DELTA_AHEAD = 8192, /* bytes, over the end of a state into the next one */
};

/* A tile of the state, decayed for the current token. */
typedef float delta_tile_row[DELTA_TILE];

/* The value that token 0's key finds in the decayed state. columns, at most DELTA_STRIPE, is a
 * constant where this is inlined, except for the last columns of an odd number. */
ALWAYS_INLINE void delta_find(lanes *found, const struct delta *d, size_t column, size_t columns)
{
	const lanes decay = lanes_all(d->decay[0]);
	lanes sum[DELTA_STRIPE / LANES];

	for (size_t c = 0; c < columns; c += LANES)
		sum[c / LANES] = lanes_all(0);
	for (size_t i = 0; i < d->key_dim; i++) {
		const float *from = d->state + i * d->value_dim + column;
		const lanes k = lanes_all(d->k[i]);
		for (size_t c = 0; c < columns; c += LANES) {
			const lanes s = lanes_mul(lanes_load(from + c, columns - c), decay);
			sum[c / LANES] = lanes_fma(s, k, sum[c / LANES]);
			__builtin_prefetch((const void *)((uintptr_t)(from + c) + DELTA_AHEAD));
		}
	}
	for (size_t c = 0; c < columns; c += LANES)
		found[c / LANES] = sum[c / LANES];
}

/* Flags of a token. The first reads the state in memory, later ones read the tile. All but the
 * last write the decayed tile for the next token, and to `found` the value that its key finds, so
 * that a token takes one pass. The one that commits writes the state. */
enum { DELTA_FIRST = 1, DELTA_LAST = 2, DELTA_COMMIT = 4 };

/* Token t. columns as above; `which` is a constant. */
ALWAYS_INLINE void delta_step(lanes *found, delta_tile_row *tile, const struct delta *d, size_t t,
			      size_t column, size_t columns, unsigned which)
{
	const size_t next_t = which & DELTA_LAST ? t : t + 1;
	const float *q = d->q + t * d->key_stride, *k = d->k + t * d->key_stride;
	const float *next_k = d->k + next_t * d->key_stride;
	const lanes beta = lanes_all(d->beta[t * d->gate_stride]);
	const lanes decay = lanes_all(d->decay[t * d->gate_stride]);
	const lanes next_decay = lanes_all(d->decay[next_t * d->gate_stride]);
	lanes change[DELTA_STRIPE / LANES], out[DELTA_STRIPE / LANES], next[DELTA_STRIPE / LANES];

	for (size_t c = 0; c < columns; c += LANES) {
		const lanes v = lanes_load(d->v + t * d->value_stride + column + c, columns - c);
		change[c / LANES] = lanes_mul(lanes_sub(v, found[c / LANES]), beta);
		out[c / LANES] = next[c / LANES] = lanes_all(0);
	}
	for (size_t i = 0; i < d->key_dim; i++) {
		const lanes ki = lanes_all(k[i]), qi = lanes_all(q[i]), ni = lanes_all(next_k[i]);
		float *state = d->state + i * d->value_dim + column;
		for (size_t c = 0; c < columns; c += LANES) {
			lanes s = which & DELTA_FIRST
					  ? lanes_mul(lanes_load(state + c, columns - c), decay)
					  : lanes_load(tile[i] + c, LANES);
			s = lanes_fma(ki, change[c / LANES], s);
			out[c / LANES] = lanes_fma(s, qi, out[c / LANES]);
			if (which & DELTA_COMMIT)
				lanes_store(state + c, columns - c, s);
			if (!(which & DELTA_LAST)) {
				s = lanes_mul(s, next_decay);
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
				 size_t t, size_t column, size_t columns, unsigned which)
{
	if (t + 1 == d->commit)
		delta_step(found, tile, d, t, column, columns, which | DELTA_COMMIT);
	else
		delta_step(found, tile, d, t, column, columns, which);
}

ALWAYS_INLINE void delta_tile_steps(lanes *found, delta_tile_row *tile, const struct delta *d,
				    size_t column, size_t columns)
{
	delta_step_as(found, tile, d, 0, column, columns, DELTA_FIRST);
	for (size_t t = 1; t + 1 < d->n; t++)
		delta_step_as(found, tile, d, t, column, columns, 0);
	delta_step_as(found, tile, d, d->n - 1, column, columns, DELTA_LAST);
}

/* At least two tokens. Not inlined: a tile is large, and one token needs none. */
static __attribute__((noinline)) void delta_many_steps(lanes *found, const struct delta *d,
						       size_t column, size_t columns)
{
	_Alignas(64) delta_tile_row tile[DELTA_KEY_DIM];
	size_t c = 0;

	for (; columns - c >= DELTA_TILE; c += DELTA_TILE)
		delta_tile_steps(found + c / LANES, tile, d, column + c, DELTA_TILE);
	if (c < columns)
		delta_tile_steps(found + c / LANES, tile, d, column + c, columns - c);
}

ALWAYS_INLINE void delta_stripe_steps(const struct delta *d, size_t column, size_t columns)
{
	lanes found[DELTA_STRIPE / LANES];

	delta_find(found, d, column, columns);
	if (d->n == 1)
		delta_step_as(found, NULL, d, 0, column, columns, DELTA_FIRST | DELTA_LAST);
	else
		delta_many_steps(found, d, column, columns);
}

static void delta_steps(const struct delta *d, uint32_t col0, uint32_t col1)
{
	size_t column = col0;

	for (; col1 - column >= DELTA_STRIPE; column += DELTA_STRIPE)
		delta_stripe_steps(d, column, DELTA_STRIPE);
	if (column < col1)
		delta_stripe_steps(d, column, col1 - column);
}

#endif
