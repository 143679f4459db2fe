/* The gated delta net on vectors, for every instruction set that has them; within kernels/ only.
 *
 * Every operation is done lane by lane, lanes are columns, channels or elements, and operations are
 * those of scalar_delta.c in the same order, so the bits are the same however many lanes there are.
 * Included once by the *_delta.c of each table, which says before it what a vector is:
 *
 *     TABLE(function)                   the function's name in this table
 *     lanes, LANES                      the type, and how many floats it holds (at most 16)
 *     lanes_load(p, left)               up to LANES of the `left` floats at p, zeros behind them
 *     lanes_store(p, left, v)           the same way; nothing behind them is touched
 *     lanes_all(f), lanes_negative(v)   f in every lane; -v
 *     lanes_add, _sub, _mul, _div(a, b), lanes_fma(a, b, c)      a · b + c
 *     lanes_exp(v)                      exp_f32 of exp.h
 *     lanes_dot(sum)                    the tree of kernels.h over 16 / LANES registers
 *     TILE_REGISTERS                    of columns that tokens go through together
 *
 * delta_steps first reads a stripe of the state row by row, as it lies in memory, for what the
 * first token's key finds; short pieces of rows, far apart, would come at half the speed. The steps
 * then find it in the second cache. One token takes its step row by row too: memory is its limit,
 * and the state goes through it once in each direction. Many take a tile of columns through all of
 * them while it lies in the first cache: arithmetic is their limit, four instructions for seven
 * operations, and a tile has sums enough to cover the time that an addition takes.
 */
#ifndef MOEFS_KERNELS_DELTA_LANES_H
#define MOEFS_KERNELS_DELTA_LANES_H

#include "kernels/delta_norm.h"
#include "kernels/kernels.h"

/* ---- vectors ---- */

static lanes sigmoid(lanes x)
{
	const lanes one = lanes_all(1);
	return lanes_div(one, lanes_add(one, lanes_exp(lanes_negative(x))));
}

static lanes silu(lanes x)
{
	return lanes_div(x, lanes_add(lanes_all(1), lanes_exp(lanes_negative(x))));
}

void TABLE(sigmoid_mul)(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i += LANES) {
		const size_t left = n - i;
		const lanes gate = sigmoid(lanes_load(x + i, left));
		lanes_store(y + i, left, lanes_mul(lanes_load(y + i, left), gate));
	}
}

/* width is a constant where this is inlined. */
ALWAYS_INLINE void convolve(float *y, const float *w, const float *const *taps, uint32_t width,
			    size_t channels, size_t c0, size_t c1)
{
	for (size_t c = c0; c < c1; c += LANES) {
		const size_t left = c1 - c;
		lanes sum = lanes_all(0);
		for (size_t i = 0; i < width; i++)
			sum = lanes_fma(lanes_load(w + i * channels + c, left),
					lanes_load(taps[i] + c, left), sum);
		lanes_store(y + c, left, silu(sum));
	}
}

void TABLE(conv_silu)(float *y, const float *w, const float *const *taps, uint32_t width,
		      uint32_t channels, uint32_t c0, uint32_t c1)
{
#define CASE(n)                                            \
	case n:                                            \
		convolve(y, w, taps, n, channels, c0, c1); \
		break;
	switch (width) {
		CASES_TO_8(CASE)
	}
#undef CASE
}

void TABLE(l2norm)(float *y, const float *x, uint32_t n, float eps, float scale)
{
	enum { REGISTERS = 16 / LANES };
	lanes sum[REGISTERS];

	for (size_t r = 0; r < REGISTERS; r++)
		sum[r] = lanes_all(0);
	for (size_t i = 0; i < n; i += LANES) {
		/* A zero's square leaves a sum of squares as it is, so lanes past the end do no
		 * harm. */
		const lanes v = lanes_load(x + i, n - i);
		lanes *at = &sum[i / LANES % REGISTERS];
		*at = lanes_fma(v, v, *at);
	}
	const lanes factor = lanes_all(l2norm_factor(lanes_dot(sum), eps, scale));
	for (size_t i = 0; i < n; i += LANES)
		lanes_store(y + i, n - i, lanes_mul(lanes_load(x + i, n - i), factor));
}

/* ---- the recurrence ---- */

enum {
	STRIPE = 128,		       /* columns that are read together, row by row */
	TILE = TILE_REGISTERS * LANES, /* columns that go through all tokens together */
	FETCH_AHEAD = 8192,	       /* bytes, over the end of a state into the next one */
};

/* A tile of the state, faded for the token at hand. */
typedef float tile_row[TILE];

/* What token 0's key finds in the faded state. columns, at most STRIPE, is a constant where this is
 * inlined, but for the last columns of an odd number. */
ALWAYS_INLINE void find(lanes *found, const struct delta *d, size_t column, size_t columns)
{
	const lanes decay = lanes_all(d->decay[0]);
	lanes sum[STRIPE / LANES];

	for (size_t c = 0; c < columns; c += LANES)
		sum[c / LANES] = lanes_all(0);
	for (size_t i = 0; i < d->key_dim; i++) {
		const float *from = d->state + i * d->value_dim + column;
		const lanes k = lanes_all(d->k[i]);
		for (size_t c = 0; c < columns; c += LANES) {
			const lanes s = lanes_mul(lanes_load(from + c, columns - c), decay);
			sum[c / LANES] = lanes_fma(s, k, sum[c / LANES]);
			__builtin_prefetch((const void *)((uintptr_t)(from + c) + FETCH_AHEAD));
		}
	}
	for (size_t c = 0; c < columns; c += LANES)
		found[c / LANES] = sum[c / LANES];
}

/* Which of the tokens it is: the first comes upon the state as it lies, any later one upon the
 * tile; all but the last leave in the tile what the next one comes upon, and in found what its key
 * finds there, so that a token takes one pass; the one that commits leaves the state. */
enum { FIRST = 1, LAST = 2, COMMIT = 4 };

/* Token t. columns as above; `which` is a constant. */
ALWAYS_INLINE void step(lanes *found, tile_row *tile, const struct delta *d, size_t t,
			size_t column, size_t columns, unsigned which)
{
	const size_t next_t = which & LAST ? t : t + 1;
	const float *q = d->q + t * d->key_stride, *k = d->k + t * d->key_stride;
	const float *next_k = d->k + next_t * d->key_stride;
	const lanes beta = lanes_all(d->beta[t * d->gate_stride]);
	const lanes decay = lanes_all(d->decay[t * d->gate_stride]);
	const lanes next_decay = lanes_all(d->decay[next_t * d->gate_stride]);
	lanes change[STRIPE / LANES], out[STRIPE / LANES], next[STRIPE / LANES];

	for (size_t c = 0; c < columns; c += LANES) {
		const lanes v = lanes_load(d->v + t * d->value_stride + column + c, columns - c);
		change[c / LANES] = lanes_mul(lanes_sub(v, found[c / LANES]), beta);
		out[c / LANES] = next[c / LANES] = lanes_all(0);
	}
	for (size_t i = 0; i < d->key_dim; i++) {
		const lanes ki = lanes_all(k[i]), qi = lanes_all(q[i]), ni = lanes_all(next_k[i]);
		float *state = d->state + i * d->value_dim + column;
		for (size_t c = 0; c < columns; c += LANES) {
			lanes s = which & FIRST
					  ? lanes_mul(lanes_load(state + c, columns - c), decay)
					  : lanes_load(tile[i] + c, LANES);
			s = lanes_fma(ki, change[c / LANES], s);
			out[c / LANES] = lanes_fma(s, qi, out[c / LANES]);
			if (which & COMMIT)
				lanes_store(state + c, columns - c, s);
			if (!(which & LAST)) {
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

/* step with a constant for `which`, which says all but COMMIT. */
ALWAYS_INLINE void step_as(lanes *found, tile_row *tile, const struct delta *d, size_t t,
			   size_t column, size_t columns, unsigned which)
{
	if (t + 1 == d->commit)
		step(found, tile, d, t, column, columns, which | COMMIT);
	else
		step(found, tile, d, t, column, columns, which);
}

ALWAYS_INLINE void tile_steps(lanes *found, tile_row *tile, const struct delta *d, size_t column,
			      size_t columns)
{
	step_as(found, tile, d, 0, column, columns, FIRST);
	for (size_t t = 1; t + 1 < d->n; t++)
		step_as(found, tile, d, t, column, columns, 0);
	step_as(found, tile, d, d->n - 1, column, columns, LAST);
}

/* At least two tokens. Not in line: a tile is large, and one token needs none. */
static __attribute__((noinline)) void many_steps(lanes *found, const struct delta *d, size_t column,
						 size_t columns)
{
	_Alignas(64) tile_row tile[DELTA_KEY_DIM];
	size_t c = 0;

	for (; columns - c >= TILE; c += TILE)
		tile_steps(found + c / LANES, tile, d, column + c, TILE);
	if (c < columns)
		tile_steps(found + c / LANES, tile, d, column + c, columns - c);
}

ALWAYS_INLINE void stripe_steps(const struct delta *d, size_t column, size_t columns)
{
	lanes found[STRIPE / LANES];

	find(found, d, column, columns);
	if (d->n == 1)
		step_as(found, NULL, d, 0, column, columns, FIRST | LAST);
	else
		many_steps(found, d, column, columns);
}

void TABLE(delta_steps)(const struct delta *d, uint32_t col0, uint32_t col1)
{
	size_t column = col0;

	for (; col1 - column >= STRIPE; column += STRIPE)
		stripe_steps(d, column, STRIPE);
	if (column < col1)
		stripe_steps(d, column, col1 - column);
}

#endif
