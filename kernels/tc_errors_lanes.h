/* tc_choose and tc_improve of tc_errors.h on vectors, for every instruction set that has them;
 * within kernels/ only.
 *
 * Lanes are states of the trellis while symbols are chosen, and symbols while they are improved.
 * Sixteen lanes are DOT_REGISTERS registers. Included once by the *_rotate.c of each table. In
 * addition to lanes.h it uses these definitions of the table's lanes:
 *
 *     lanes_less(a, b)                 a mask: a < b
 *     lanes_pick(mask, a, b)           lanes of a where the mask is set, else of b
 *     lanes_ints_load(p), lanes_ints_store(p, v), lanes_ints_pick(mask, a, b), lanes_ints_xor(a, b)
 *     lanes_mask_is(v, n)              a mask: lanes of v that are n
 *     lanes_look_up(table, i)          of sixteen floats, those with the indices in i */
#ifndef MOEFS_KERNELS_TC_ERRORS_LANES_H
#define MOEFS_KERNELS_TC_ERRORS_LANES_H

#include "kernels/tc_errors.h"

#include <math.h>
#include <string.h>

enum { ERRORS_R = DOT_REGISTERS, ERRORS_BLOCKS = TC_STATES / 16, ERRORS_SYMBOLS = 16 };

/* Constants, like `bits`, where this is inlined. */
ALWAYS_INLINE uint32_t errors_blocks(uint32_t bits)
{
	return bits == 2 ? 4 : 1;
}
ALWAYS_INLINE uint32_t errors_symbols(uint32_t bits)
{
	return bits == 2 ? 4 : bits == 3 ? 8 : 16;
}

/* A state for each lane of each block. With 64 states, block b has those whose lowest two bits are
 * b: then the states before, which differ in these, are one lane of all blocks. */
struct errors_lanes {
	lanes of[ERRORS_BLOCKS][ERRORS_R];
};
ALWAYS_INLINE uint32_t errors_state(uint32_t block, uint32_t lane, uint32_t bits)
{
	return bits == 2 ? lane << 2 | block : lane;
}
ALWAYS_INLINE uint32_t errors_place(uint32_t state, uint32_t bits)
{
	return bits == 2 ? (state & 3) << 4 | state >> 2 : state;
}

struct errors_trellis {
	/* By the symbol that is dropped: the weight that each state's window stands for. */
	struct errors_lanes value[ERRORS_SYMBOLS];
	/* The lane of the state before: by block with 64 states, else by the symbol. */
	lanes_ints from[ERRORS_SYMBOLS][ERRORS_R];
	int32_t dropped[TQ_GROUP][TC_STATES]; /* the symbol, or with 16 states the state before */
	struct errors_lanes aimed[TQ_GROUP];
	struct errors_lanes cost;
};

ALWAYS_INLINE void errors_make(struct errors_trellis *t, float factor, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	float value[16];
	int32_t from[16];

	for (uint32_t d = 0; d < errors_symbols(bits); d++)
		for (uint32_t b = 0; b < errors_blocks(bits); b++) {
			for (uint32_t l = 0; l < 16; l++)
				value[l] = factor *
					   (float)tc_code(book, errors_state(b, l, bits) << bits | d);
			for (uint32_t r = 0; r < ERRORS_R; r++)
				t->value[d].of[b][r] = lanes_load(value + r * LANES, LANES);
		}
	for (uint32_t i = 0; i < (bits == 2 ? errors_blocks(bits) : errors_symbols(bits)); i++) {
		for (uint32_t l = 0; l < 16; l++)
			from[l] = (int32_t)(bits == 2 ? errors_state(i, l, bits) & 15
						      : (l << bits | i) & 15);
		for (uint32_t r = 0; r < ERRORS_R; r++)
			t->from[i][r] = lanes_ints_load(from + r * LANES);
	}
}

/* Finds the cheapest way to each state, and the level of the weight at its last step. */
ALWAYS_INLINE void errors_step(struct errors_trellis *t, const struct errors_lanes *aimed,
			       int32_t *dropped, struct errors_lanes *stands, float weight_cost,
			       uint32_t bits)
{
	const lanes cost = lanes_all(weight_cost);
	const struct errors_lanes before = t->cost;

	for (uint32_t b = 0; b < errors_blocks(bits); b++)
		for (uint32_t r = 0; r < ERRORS_R; r++) {
			lanes best = lanes_all(INFINITY), value = best;
			lanes_ints step = lanes_ints_all(0);
#pragma GCC unroll 16
			for (uint32_t d = 0; d < errors_symbols(bits); d++) {
				const uint32_t block = bits == 2 ? d : 0, i = bits == 2 ? b : d;
				const lanes_ints from = t->from[i][r];
				const lanes v = t->value[d].of[b][r];
				const lanes off =
					lanes_sub(lanes_look_up(aimed->of[block], from), v);
				const lanes all = lanes_fma(lanes_mul(cost, off), off,
							    lanes_look_up(before.of[block], from));
				const lanes_mask less = lanes_less(all, best);
				const lanes_ints here =
					bits == 2 ? lanes_ints_all((int32_t)d) : from;
				if (d == 0) {
					value = v;
					step = here;
					best = lanes_pick(less, all, best);
					continue;
				}
				best = lanes_pick(less, all, best);
				value = lanes_pick(less, v, value);
				step = lanes_ints_pick(less, here, step);
			}
			t->cost.of[b][r] = best;
			stands->of[b][r] = value;
			lanes_ints_store(dropped + b * 16 + r * LANES, step);
		}
}

ALWAYS_INLINE uint32_t errors_before(uint32_t state, const int32_t *dropped, uint32_t bits)
{
	const uint32_t step = (uint32_t)dropped[errors_place(state, bits)];
	return bits == 2 ? (state << 2 | step) & 63 : step;
}

ALWAYS_INLINE void errors_set(struct errors_lanes *to, float f, uint32_t bits)
{
	for (uint32_t b = 0; b < errors_blocks(bits); b++)
		for (uint32_t r = 0; r < ERRORS_R; r++)
			to->of[b][r] = lanes_all(f);
}

ALWAYS_INLINE uint32_t errors_seam(struct errors_trellis *t, const struct tc_group *g,
				   const float target[TQ_GROUP], uint32_t bits)
{
	const uint32_t seam = tc_codebook(bits)->seam;
	struct errors_lanes aimed, stands;
	float cost[TC_STATES];
	uint32_t state = 0;

	errors_set(&t->cost, 0, bits);
	for (uint32_t i = 0; i < 2 * seam; i++) {
		const uint32_t at = (TQ_GROUP - seam + i) % TQ_GROUP;
		errors_set(&aimed, target[at], bits);
		errors_step(t, &aimed, t->dropped[i], &stands, g->cost[at], bits);
	}
	for (uint32_t b = 0; b < errors_blocks(bits); b++)
		for (uint32_t r = 0; r < ERRORS_R; r++)
			lanes_store(cost + b * 16 + r * LANES, LANES, t->cost.of[b][r]);
	for (uint32_t s = 1; s < 16 * errors_blocks(bits); s++)
		if (cost[errors_place(s, bits)] < cost[errors_place(state, bits)])
			state = s;
	for (uint32_t i = 2 * seam; i-- > seam;)
		state = errors_before(state, t->dropped[i], bits);
	return state;
}

/* Updates the values that each path aims at, for a later position: those of the path that it
 * continues, corrected for the new error. */
ALWAYS_INLINE void errors_follow(struct errors_lanes *aimed, const struct errors_trellis *t,
				 const struct errors_lanes *error, const int32_t *dropped,
				 lanes upper, uint32_t bits)
{
	const struct errors_lanes before = *aimed;

	for (uint32_t b = 0; b < errors_blocks(bits); b++)
		for (uint32_t r = 0; r < ERRORS_R; r++) {
			const lanes_ints step = lanes_ints_load(dropped + b * 16 + r * LANES);
			lanes from;
			if (bits == 2) {
				from = lanes_look_up(before.of[0], t->from[b][r]);
				for (uint32_t d = 1; d < 4; d++)
					from = lanes_pick(
						lanes_mask_is(step, (int32_t)d),
						lanes_look_up(before.of[d], t->from[b][r]), from);
			} else {
				from = lanes_look_up(before.of[0], step);
			}
			aimed->of[b][r] = lanes_fma(error->of[b][r], upper, from);
		}
}

ALWAYS_INLINE void errors_choose(uint8_t symbol[TQ_GROUP], const struct tc_group *g,
				 const float weight[TQ_GROUP], const float aimed[TQ_GROUP],
				 const float target[TQ_GROUP], float norm, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	struct errors_trellis t;
	struct errors_lanes error;
	float begin[TC_STATES];

	errors_make(&t, norm * book->gain, bits);
	uint32_t state = errors_seam(&t, g, target, bits);
	for (uint32_t s = 0; s < 16 * errors_blocks(bits); s++)
		begin[errors_place(s, bits)] = s == state ? 0 : INFINITY;
	for (uint32_t b = 0; b < errors_blocks(bits); b++)
		for (uint32_t r = 0; r < ERRORS_R; r++)
			t.cost.of[b][r] = lanes_load(begin + b * 16 + r * LANES, LANES);
	for (size_t i = 0; i < TQ_GROUP; i++)
		errors_set(&t.aimed[i], aimed[i], bits);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const float *upper = g->upper + i * g->stride;
		errors_step(&t, &t.aimed[i], t.dropped[i], &error, g->cost[i], bits);
		for (uint32_t b = 0; b < errors_blocks(bits); b++)
			for (uint32_t r = 0; r < ERRORS_R; r++)
				error.of[b][r] = lanes_sub(lanes_all(weight[i]), error.of[b][r]);
		for (size_t j = i + 1; j < TQ_GROUP; j++)
			errors_follow(&t.aimed[j], &t, &error, t.dropped[i], lanes_all(upper[j]),
				      bits);
	}
	for (size_t i = TQ_GROUP; i-- > 0;) {
		symbol[i] = (uint8_t)(state >> (book->window - 2 * bits));
		state = errors_before(state, t.dropped[i], bits);
	}
}

void TABLE(tc_choose)(uint8_t symbol[TQ_GROUP], const struct tc_group *g,
				const float weight[TQ_GROUP], const float aimed[TQ_GROUP],
				const float target[TQ_GROUP], float norm)
{
	if (g->bits == 2)
		errors_choose(symbol, g, weight, aimed, target, norm, 2);
	else if (g->bits == 3)
		errors_choose(symbol, g, weight, aimed, target, norm, 3);
	else
		errors_choose(symbol, g, weight, aimed, target, norm, 4);
}

/* ---- improving ---- */

/* Of each number of positions after a symbol's own: the parts of the window that each symbol sets,
 * as they look up the codebook's two tables. */
struct errors_improver {
	lanes newest[ERRORS_R], before[ERRORS_R];
	lanes_ints high[TC_TOUCHED][ERRORS_R], low[TC_TOUCHED][ERRORS_R];
	lanes change[TC_TOUCHED][ERRORS_R], gain[ERRORS_R];
	float factor;
};

ALWAYS_INLINE void errors_make_improver(struct errors_improver *m, float factor, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	float newest[TC_NIBBLE], before[TC_NIBBLE];
	int32_t high[16], low[16];

	m->factor = factor;
	for (size_t i = 0; i < TC_NIBBLE; i++) {
		newest[i] = book->newest[i];
		before[i] = book->before[i];
	}
	for (uint32_t r = 0; r < ERRORS_R; r++) {
		m->newest[r] = lanes_load(newest + r * LANES, LANES);
		m->before[r] = lanes_load(before + r * LANES, LANES);
	}
	for (uint32_t i = 0; i < tc_touched(bits); i++) {
		for (uint32_t s = 0; s < 16; s++) { /* lanes past the last symbol repeat it */
			const uint32_t part =
				tc_symbol_part(s % errors_symbols(bits), i, bits);
			high[s] = (int32_t)(part >> (book->window - 4));
			low[s] = (int32_t)(part % TC_NIBBLE);
		}
		for (uint32_t r = 0; r < ERRORS_R; r++) {
			m->high[i][r] = lanes_ints_load(high + r * LANES);
			m->low[i][r] = lanes_ints_load(low + r * LANES);
		}
	}
}

/* Fills m->change and m->gain for each symbol at a position. window: the present windows of the
 * positions that the symbol affects. */
ALWAYS_INLINE void errors_weigh(struct errors_improver *m, const struct tc_group *g,
				const float pull[TQ_GROUP], size_t at, uint32_t symbol,
				const uint32_t window[TC_TOUCHED], uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);

#pragma GCC unroll 4
	for (uint32_t i = 0; i < tc_touched(bits); i++) {
		const uint32_t rest = window[i] ^ tc_symbol_part(symbol, i, bits);
		const lanes_ints high = lanes_ints_all((int32_t)(rest >> (book->window - 4)));
		const lanes_ints low = lanes_ints_all((int32_t)(rest % TC_NIBBLE));
		const lanes now = lanes_all((float)tc_code(book, window[i]));
		for (uint32_t r = 0; r < ERRORS_R; r++) {
			const lanes code = lanes_add(
				lanes_look_up(m->newest, lanes_ints_xor(high, m->high[i][r])),
				lanes_look_up(m->before, lanes_ints_xor(low, m->low[i][r])));
			m->change[i][r] = lanes_mul(lanes_all(m->factor), lanes_sub(code, now));
		}
	}
	for (uint32_t r = 0; r < ERRORS_R; r++) {
		lanes gain = lanes_all(0);
#pragma GCC unroll 4
		for (uint32_t i = 0; i < tc_touched(bits); i++) {
			const float *row = g->pairs + (at + i) % TQ_GROUP * TQ_GROUP;
			lanes with = lanes_all(2 * pull[(at + i) % TQ_GROUP]);
#pragma GCC unroll 4
			for (uint32_t j = 0; j < tc_touched(bits); j++)
				with = lanes_fma(lanes_all(-row[(at + j) % TQ_GROUP]),
						 m->change[j][r], with);
			gain = lanes_fma(m->change[i][r], with, gain);
		}
		m->gain[r] = gain;
	}
}

/* The symbol with the largest gain above `least`, or the present one. */
ALWAYS_INLINE uint8_t errors_best(const struct errors_improver *m, uint8_t now, float least,
				  uint32_t bits)
{
	float gain[16], most = least;
	lanes all = m->gain[0];
	uint8_t best = now;

	for (uint32_t r = 1; r < ERRORS_R; r++)
		all = lanes_raise(all, m->gain[r], lanes_first(LANES));
	if (!(lanes_largest(all) > least))
		return now;
	for (uint32_t r = 0; r < ERRORS_R; r++)
		lanes_store(gain + r * LANES, LANES, m->gain[r]);
	for (uint32_t s = 0; s < errors_symbols(bits); s++)
		if (gain[s] > most) {
			most = gain[s];
			best = (uint8_t)s;
		}
	return best;
}

/* pull = pull - change · the row of pairs, for each position that the symbol affects. */
ALWAYS_INLINE void errors_change_pull(float pull[TQ_GROUP], const struct errors_improver *m,
				      const struct tc_group *g, size_t at, uint8_t symbol,
				      uint32_t bits)
{
	for (uint32_t i = 0; i < tc_touched(bits); i++) {
		const float *row = g->pairs + (at + i) % TQ_GROUP * TQ_GROUP;
		float change[16];
		for (uint32_t r = 0; r < ERRORS_R; r++)
			lanes_store(change + r * LANES, LANES, m->change[i][r]);
		const lanes by = lanes_all(-change[symbol]);
		for (size_t j = 0; j < TQ_GROUP; j += LANES)
			lanes_store(pull + j, LANES,
				    lanes_fma(by, lanes_load(row + j, LANES),
					      lanes_load(pull + j, LANES)));
	}
}

ALWAYS_INLINE bool errors_improve(uint8_t symbol[TQ_GROUP], float pull[TQ_GROUP],
				  const struct tc_group *g, float norm, float least, uint32_t bits)
{
	const uint32_t count = tc_touched(bits);
	struct errors_improver m;
	uint32_t window[TC_TOUCHED];
	bool changed = false;

	errors_make_improver(&m, norm * tc_codebook(bits)->gain, bits);
	for (uint32_t i = 0; i < count; i++)
		window[i] = tc_window_at(symbol, i, bits);
	for (size_t at = 0; at < TQ_GROUP; at++) {
		const uint8_t now = symbol[at];
		errors_weigh(&m, g, pull, at, now, window, bits);
		const uint8_t best = errors_best(&m, now, least, bits);
		if (best != now) {
			errors_change_pull(pull, &m, g, at, best, bits);
			symbol[at] = best;
			changed = true;
			for (uint32_t i = 1; i < count; i++)
				window[i] ^= tc_symbol_part(now, i, bits) ^
					     tc_symbol_part(best, i, bits);
		}
		for (uint32_t i = 0; i + 1 < count; i++)
			window[i] = window[i + 1];
		window[count - 1] = tc_window_at(symbol, at + count, bits);
	}
	return changed;
}

bool TABLE(tc_improve)(uint8_t symbol[TQ_GROUP], float pull[TQ_GROUP],
				 const struct tc_group *g, float norm, float least)
{
	if (g->bits == 2)
		return errors_improve(symbol, pull, g, norm, least, 2);
	if (g->bits == 3)
		return errors_improve(symbol, pull, g, norm, least, 3);
	return errors_improve(symbol, pull, g, norm, least, 4);
}

#endif
