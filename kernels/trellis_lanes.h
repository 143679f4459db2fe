/* TC's encoder on vectors, for every instruction set that has them; within kernels/ only.
 *
 * Lanes are groups, which go through the trellis side by side. Each lane performs the operations of
 * tc.c in 16-bit integers, so the bytes do not depend on the number of lanes. Included once by the
 * *_rotate.c of each table, after rotate_lanes.h. The table's lanes (avx2_lanes.h …) define vectors
 * of 16-bit integers:
 *
 *     TABLE(function)                   the function's name in this table
 *     shorts, SHORTS                    the type, and how many integers of 16 bits it holds
 *     shorts_load(p), shorts_store(p, v), shorts_all(i)
 *     shorts_add, _sub, _add_sat, _sub_sat, _min, _and, _or(a, b)
 *     shorts_left(v, n), shorts_right(v, n)     by a constant; unsigned
 *     shorts_units(p, stride)           loads eight from p, eight from p + stride …
 *     shorts_store_units(p, stride, v)  stores them the same way
 *     shorts_zip_low(a, b), shorts_zip_high(a, b)
 *                                       the lower, or upper, halves of each eight, interleaved
 *     shorts_low(a, b)                  a product's lower half
 *     shorts_fraction(a, b)             a · b / 2^15, rounded; not for twice INT16_MIN
 *     shorts_min_sum(best, v, w)        best = the minimum of best and v + w
 *     shorts_mask, mask_bit(v, n), mask_less(a, b), mask_equal(a, b)
 *     shorts_pick(mask, a, b)           lanes of a where the mask is set, else of b
 *     bytes16, make_bytes(p), shorts_look_up(bytes16, i)    the byte selected by each lane's i < 16
 *     ints, ints_none(), ints_store(p, v), ints_add_products(sum[2], a[2], b[2])
 *                                       exact sums of products: of each eight lanes, the first four
 *                                       in sum[0]
 *
 * A transition takes an addition and a minimum. Neither saturates, since only half of a processor's
 * units do saturating arithmetic. The path is not stored: on the way back, the few possible
 * previous states are compared again, for one state instead of all. The costs of each position that
 * this needs are on the calling thread's stack. With 64 states they would be half a megabyte, so
 * the ring is traced back in halves, and its first half is computed a second time. That takes a
 * third more time for 2 bits, and needs a stack frame little larger than that of the products. */
#ifndef MOEFS_KERNELS_TRELLIS_LANES_H
#define MOEFS_KERNELS_TRELLIS_LANES_H

#include "kernels/tc.h"

#include <math.h>
#include <string.h>

enum {
	TRELLIS_AT_ONCE = 8, /* states whose minima are computed together; limited by registers */
	UNITS = TQ_GROUP / TQ_UNIT,
	HALF_UNIT = TQ_UNIT / 2, /* positions whose symbols fit in 16 bits */
	BYTE_OFFSET = 128,	 /* added to table entries */
};

/* The number of bits of a state (a constant, like `bits`, where this is inlined), and of the bits
 * that it shares with the states that can follow it. */
ALWAYS_INLINE uint32_t trellis_state_bits(uint32_t bits)
{
	return bits == 2 ? 6 : 4;
}
ALWAYS_INLINE uint32_t trellis_shared_bits(uint32_t bits)
{
	return trellis_state_bits(bits) - bits;
}
/* Bounds of loops: a shift that a sanitizer checks would keep the loops from being unrolled. */
ALWAYS_INLINE uint32_t trellis_states(uint32_t bits)
{
	return bits == 2 ? 64 : 16;
}
ALWAYS_INLINE uint32_t trellis_symbols(uint32_t bits)
{
	return bits == 2 ? 4 : bits == 3 ? 8 : 16;
}
ALWAYS_INLINE uint32_t trellis_shares(uint32_t bits) /* number of values of the shared bits */
{
	return bits == 2 ? 16 : bits == 3 ? 2 : 1;
}

struct trellis {
	shorts transition[1 << TC_WINDOW_MOST]; /* by window: terms of two codes */
	shorts slope[TC_NIBBLE], place[TC_NIBBLE];
	shorts four_before[TC_NIBBLE];
	bytes16 newest, before; /* with the offset */
	const struct tc_codebook *book;
	float scale; /* of targets */
};

static void trellis_make(struct trellis *t, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	uint8_t newest[TC_NIBBLE], before[TC_NIBBLE];

	for (uint32_t w = 0; w < 1U << book->window; w++)
		t->transition[w] = shorts_all(tc_transition(book, w));
	for (size_t i = 0; i < TC_NIBBLE; i++) {
		t->slope[i] = shorts_all(tc_slope(book->newest[i]));
		t->place[i] = shorts_all((int16_t)(TC_ONE * book->before[i]));
		newest[i] = (uint8_t)(book->newest[i] + BYTE_OFFSET);
		before[i] = (uint8_t)(book->before[i] + BYTE_OFFSET);
		t->four_before[i] = shorts_all((int16_t)(4 * book->before[i]));
	}
	t->newest = make_bytes(newest);
	t->before = make_bytes(before);
	t->book = book;
	t->scale = TC_ONE / book->gain;
}

/* ---- one weight ---- */

/* A later state in the same half with the same `before`, so that the cheaper of both represents
 * both. NONE: there is none. MERGED: this is such a later state. */
enum { NONE = 64, MERGED };
ALWAYS_INLINE uint32_t trellis_other_before(uint32_t state, uint32_t bits)
{
	if (bits == 3)
		return state == 10 ? 15 : state == 15 ? MERGED : NONE;
	if (bits == 4)
		return state == 2 ? 4 : state == 4 ? MERGED : NONE;
	return NONE;
}

/* States with the same predecessors and the same `newest` have the same cost. */
ALWAYS_INLINE uint32_t trellis_first_newest(uint32_t state, uint32_t bits)
{
	return bits == 4 && state == 14 ? 10 : state;
}

/* States with the same predecessors: (first + i) << shared bits | q. */
struct trellis_reached {
	uint32_t q, first, count;
};

ALWAYS_INLINE void trellis_reach(shorts cost[TC_STATES], const shorts through[TC_STATES], shorts x,
				 const struct trellis *t, struct trellis_reached r, uint32_t bits)
{
	shorts best[TRELLIS_AT_ONCE];

#pragma GCC unroll 16
	for (uint32_t d = 0; d < trellis_symbols(bits); d++) {
		const uint32_t before = r.q << bits | d, other = trellis_other_before(before, bits);
		shorts from = through[before];
		if (other == MERGED)
			continue;
		if (other != NONE)
			from = shorts_min(from, through[other]);
#pragma GCC unroll 8
		for (uint32_t i = 0; i < r.count; i++) {
			const uint32_t state = (r.first + i) << trellis_shared_bits(bits) | r.q;
			const uint32_t window = state << bits | d;
			if (trellis_first_newest(state, bits) != state)
				continue;
			if (d == 0)
				best[i] = shorts_add(from, t->transition[window]);
			else
				shorts_min_sum(best[i], from, t->transition[window]);
		}
	}
#pragma GCC unroll 8
	for (uint32_t i = 0; i < r.count; i++) {
		const uint32_t state = (r.first + i) << trellis_shared_bits(bits) | r.q;
		const shorts slope = t->slope[state >> (trellis_state_bits(bits) - 4)];
		if (trellis_first_newest(state, bits) == state)
			cost[state] = shorts_add_sat(best[i], shorts_fraction(x, slope));
		else
			cost[state] = cost[trellis_first_newest(state, bits)];
	}
}

/* Costs of the states after a weight x; `through`: costs of the states before it, with the terms
 * of their oldest bits and x. */
ALWAYS_INLINE void trellis_step(shorts cost[TC_STATES], shorts through[TC_STATES], shorts x,
				const struct trellis *t, uint32_t bits)
{
#pragma GCC unroll 16
	for (uint32_t b = 0; b < TC_NIBBLE; b++) {
		const shorts distance = shorts_sub(x, t->place[b]);
		const shorts near = shorts_fraction(distance, distance);
#pragma GCC unroll 4
		for (uint32_t s = b; s < trellis_states(bits); s += TC_NIBBLE)
			through[s] = shorts_min(shorts_add_sat(cost[s], near),
						shorts_all(TC_THROUGH_MOST));
	}
#pragma GCC unroll 16
	for (uint32_t q = 0; q < trellis_shares(bits); q++) {
#pragma GCC unroll 2
		for (uint32_t first = 0; first < trellis_symbols(bits); first += TRELLIS_AT_ONCE) {
			const uint32_t count = bits == 2 ? 4 : TRELLIS_AT_ONCE;
			trellis_reach(cost, through, x, t,
				      (struct trellis_reached){q, first, count}, bits);
		}
	}
}

ALWAYS_INLINE void trellis_lower_costs(shorts cost[TC_STATES], uint32_t bits)
{
	shorts least = cost[0];

	for (uint32_t s = 1; s < trellis_states(bits); s++)
		least = shorts_min(least, cost[s]);
	least = shorts_sub_sat(least, shorts_all(TC_LEAST));
	for (uint32_t s = 0; s < trellis_states(bits); s++)
		cost[s] = shorts_sub_sat(cost[s], least);
}

/* ---- along the ring ---- */

/* The number of positions that are traced back at a time; at least those of a seam. */
ALWAYS_INLINE size_t trellis_stretch(uint32_t bits)
{
	return bits == 2 ? TQ_GROUP / 2 : TQ_GROUP;
}

/* The number of vectors of groups that are traced back in turns: tracing back is a chain in which
 * each step waits for the previous one. */
enum { TRELLIS_WAYS = 2 };
ALWAYS_INLINE uint32_t trellis_ways(uint32_t bits)
{
	return bits == 2 ? 1 : TRELLIS_WAYS;
}

struct trellis_path {
	int16_t x[TQ_GROUP][SHORTS]; /* targets in the order of the ring */
	shorts cost[TC_STATES];
	shorts through[]; /* [positions of a stretch][states] */
};

ALWAYS_INLINE size_t trellis_path_bytes(uint32_t bits)
{
	return sizeof(struct trellis_path) +
	       (sizeof(shorts) * trellis_stretch(bits) << trellis_state_bits(bits));
}

/* Follows n weights of the ring; keeps `through` from weight `kept` on. */
ALWAYS_INLINE void trellis_follow(struct trellis_path *p, size_t first, size_t n, size_t kept,
				  const struct trellis *t, uint32_t bits)
{
	for (size_t i = 0; i < n; i++) {
		shorts *const through =
			p->through + ((i < kept ? 0 : i - kept) << trellis_state_bits(bits));
		trellis_step(p->cost, through, shorts_load(p->x[(first + i) % TQ_GROUP]), t, bits);
		if (i % TC_LOWERED == TC_LOWERED - 1)
			trellis_lower_costs(p->cost, bits);
	}
}

/* The previous state without the symbol that was dropped. */
ALWAYS_INLINE shorts trellis_shifted(shorts state, uint32_t bits)
{
	const int16_t all = (1 << trellis_state_bits(bits)) - 1;
	return shorts_and(shorts_left(state, bits), shorts_all(all));
}

ALWAYS_INLINE shorts trellis_newest_symbol(shorts state, uint32_t bits)
{
	return shorts_right(state, trellis_shared_bits(bits));
}

/* The possible previous state that drops d; shared[i]: whether bit i of the shared bits is set. */
ALWAYS_INLINE shorts trellis_through_of(const shorts *through, const shorts_mask *shared,
					uint32_t d, uint32_t bits)
{
	shorts of[TC_STATES / 4];

	for (uint32_t q = 0; q < trellis_shares(bits); q++)
		of[q] = through[q << bits | d];
	for (uint32_t i = 0; i < trellis_shared_bits(bits); i++)
		for (uint32_t q = 0; q < 1U << trellis_shared_bits(bits) >> (i + 1); q++)
			of[q] = shorts_pick(shared[i], of[2 * q + 1], of[2 * q]);
	return of[0];
}

/* The `before` values of these states, four times. */
ALWAYS_INLINE shorts trellis_before_of(const struct trellis *t, const shorts_mask *shared,
				       uint32_t d, uint32_t bits)
{
	const uint32_t known =
		bits == 2 ? 2 : trellis_shared_bits(bits); /* shared bits that matter */
	shorts of[4];

	for (uint32_t q = 0; q < 1U << known; q++)
		of[q] = t->four_before[q << bits | d];
	for (uint32_t i = 0; i < known; i++)
		for (uint32_t q = 0; q < 1U << known >> (i + 1); q++)
			of[q] = shorts_pick(shared[i], of[2 * q + 1], of[2 * q]);
	return of[0];
}

/* Returns a state's predecessor. The costs leave out the common term of all paths, 2 a². */
ALWAYS_INLINE shorts trellis_came_from(const shorts *through, shorts state, shorts a,
				       const struct trellis *t, uint32_t bits)
{
	shorts best = shorts_all(0), dropped = shorts_all(0);
	shorts_mask shared[4];

	for (uint32_t i = 0; i < trellis_shared_bits(bits); i++)
		shared[i] = mask_bit(state, i);
#pragma GCC unroll 16
	for (uint32_t d = 0; d < trellis_symbols(bits); d++) {
		const shorts transition = shorts_low(a, trellis_before_of(t, shared, d, bits));
		const shorts cost =
			shorts_add(trellis_through_of(through, shared, d, bits), transition);
		if (d == 0) {
			best = cost;
		} else {
			dropped =
				shorts_pick(mask_less(cost, best), shorts_all((int16_t)d), dropped);
			best = shorts_min(best, cost);
		}
	}
	return shorts_or(trellis_shifted(state, bits), dropped);
}

/* The `newest` value of a state's window. */
ALWAYS_INLINE shorts trellis_newest_of(const struct trellis *t, shorts state, uint32_t bits)
{
	const shorts index = shorts_right(state, trellis_state_bits(bits) - 4);

	return shorts_sub(shorts_look_up(t->newest, index), shorts_all(BYTE_OFFSET));
}

/* ---- the seam ---- */

/* The cheapest state; of several the lowest. */
ALWAYS_INLINE shorts trellis_cheapest(const shorts cost[TC_STATES], uint32_t bits)
{
	shorts state = shorts_all(0), best = cost[0];

	for (uint32_t s = 1; s < trellis_states(bits); s++) {
		state = shorts_pick(mask_less(cost[s], best), shorts_all((int16_t)s), state);
		best = shorts_min(best, cost[s]);
	}
	return state;
}

/* The states between the ring's last weight and its first. */
ALWAYS_INLINE void trellis_find_seams(shorts state[TRELLIS_WAYS],
				      struct trellis_path *const path[TRELLIS_WAYS],
				      const struct trellis *t, uint32_t bits)
{
	const size_t seam = t->book->seam;

	for (uint32_t w = 0; w < trellis_ways(bits); w++) {
		for (uint32_t s = 0; s < trellis_states(bits); s++)
			path[w]->cost[s] = shorts_all(TC_LEAST);
		trellis_follow(path[w], TQ_GROUP - seam, 2 * seam, seam, t, bits);
		state[w] = trellis_cheapest(path[w]->cost, bits);
	}
	for (size_t i = seam; i-- > 0;)
#pragma GCC unroll 2
		for (uint32_t w = 0; w < trellis_ways(bits); w++)
			state[w] = trellis_came_from(
				path[w]->through + (i << trellis_state_bits(bits)), state[w],
				trellis_newest_of(t, state[w], bits), t, bits);
}

ALWAYS_INLINE void trellis_begin_at(struct trellis_path *p, shorts seam, uint32_t bits)
{
	for (uint32_t s = 0; s < trellis_states(bits); s++)
		p->cost[s] = shorts_pick(mask_equal(seam, shorts_all((int16_t)s)),
					 shorts_all(TC_LEAST), shorts_all(TC_FAR));
}

/* ---- back along the ring ---- */

/* SHORTS groups: their streams by halves of the ring's units, and the sums for tc_factor. */
struct trellis_streams {
	int16_t half[2 * UNITS][SHORTS];
	int32_t with_target[2][SHORTS / 2], with_itself[2][SHORTS / 2];
};

/* One chain of tracing back. */
struct trellis_way {
	shorts state, stream, code[2];
	ints with_target[2], with_itself[2];
};

/* Goes back over the weight at position i; `through` is kept from there on. */
ALWAYS_INLINE void trellis_trace_weight(struct trellis_way *w, const struct trellis_path *p,
					size_t i, size_t first, const struct trellis *t,
					uint32_t bits)
{
	const shorts low = shorts_all(TC_NIBBLE - 1), offset = shorts_all(BYTE_OFFSET);
	const shorts a = trellis_newest_of(t, w->state, bits);
	const shorts before = trellis_came_from(
		p->through + ((i - first) << trellis_state_bits(bits)), w->state, a, t, bits);
	const shorts b = shorts_look_up(t->before, shorts_and(before, low));

	w->stream = shorts_or(shorts_left(w->stream, bits), trellis_newest_symbol(w->state, bits));
	w->state = before;
	w->code[i % 2] = shorts_sub(shorts_add(a, b), offset);
	if (i % 2 == 0) {
		const shorts x[2] = {shorts_load(p->x[i]), shorts_load(p->x[i + 1])};
		ints_add_products(w->with_target, x, w->code);
		ints_add_products(w->with_itself, w->code, w->code);
	}
}

/* Goes back over the stretch that begins at a position. */
ALWAYS_INLINE void trellis_trace_back(struct trellis_streams out[TRELLIS_WAYS],
				      struct trellis_way way[TRELLIS_WAYS],
				      struct trellis_path *const path[TRELLIS_WAYS], size_t first,
				      const struct trellis *t, uint32_t bits)
{
	for (size_t h = (first + trellis_stretch(bits)) / HALF_UNIT; h-- > first / HALF_UNIT;) {
		for (uint32_t w = 0; w < trellis_ways(bits); w++)
			way[w].stream = shorts_all(0);
#pragma GCC unroll 4
		for (size_t i = HALF_UNIT; i-- > 0;)
#pragma GCC unroll 2
			for (uint32_t w = 0; w < trellis_ways(bits); w++)
				trellis_trace_weight(&way[w], path[w], h * HALF_UNIT + i, first, t,
						     bits);
		for (uint32_t w = 0; w < trellis_ways(bits); w++)
			shorts_store(out[w].half[h], way[w].stream);
	}
}

/* Goes back over the last stretch, then over each earlier one, whose costs are computed again from
 * the ring's beginning. */
ALWAYS_INLINE void trellis_follow_and_trace(struct trellis_streams out[TRELLIS_WAYS],
					    struct trellis_path *const path[TRELLIS_WAYS],
					    const shorts seam[TRELLIS_WAYS],
					    const struct trellis *t, uint32_t bits)
{
	struct trellis_way way[TRELLIS_WAYS];

	for (uint32_t w = 0; w < trellis_ways(bits); w++)
		way[w] = (struct trellis_way){.state = seam[w],
					      .with_target = {ints_none(), ints_none()},
					      .with_itself = {ints_none(), ints_none()}};
	for (size_t end = TQ_GROUP; end > 0; end -= trellis_stretch(bits)) {
		for (uint32_t w = 0; w < trellis_ways(bits); w++) {
			trellis_begin_at(path[w], seam[w], bits);
			trellis_follow(path[w], 0, end, end - trellis_stretch(bits), t, bits);
		}
		trellis_trace_back(out, way, path, end - trellis_stretch(bits), t, bits);
	}
	for (uint32_t w = 0; w < trellis_ways(bits); w++)
		for (size_t i = 0; i < 2; i++) {
			ints_store(out[w].with_target[i], way[w].with_target[i]);
			ints_store(out[w].with_itself[i], way[w].with_itself[i]);
		}
}

/* ---- targets ---- */

/* Transposes eight vectors, each a unit of one group, to the eight columns of the unit, each with
 * the eight groups; with more SHORTS the same in every 128 bits. */
ALWAYS_INLINE void trellis_turn(shorts v[TQ_UNIT])
{
#pragma GCC unroll 3
	for (size_t round = 0; round < 3; round++) {
		shorts w[TQ_UNIT];
#pragma GCC unroll 4
		for (size_t i = 0; i < TQ_UNIT / 2; i++) {
			w[2 * i] = shorts_zip_low(v[i], v[i + TQ_UNIT / 2]);
			w[2 * i + 1] = shorts_zip_high(v[i], v[i + TQ_UNIT / 2]);
		}
#pragma GCC unroll 8
		for (size_t i = 0; i < TQ_UNIT; i++)
			v[i] = w[i];
	}
}

static void trellis_make_targets(int16_t target[][TQ_GROUP], const float *y, size_t groups,
				 float scale)
{
	for (size_t g = 0; g < groups; g++, y += TQ_GROUP)
		for (size_t i = 0; i < TQ_GROUP; i++)
			target[g][i] = tc_target(y[i], scale);
}

/* For SHORTS groups. */
static void trellis_turn_targets(int16_t x[TQ_GROUP][SHORTS], const int16_t target[][TQ_GROUP])
{
	for (size_t t = 0; t < TQ_GROUP; t += TQ_UNIT) {
		shorts v[TQ_UNIT];
		for (size_t i = 0; i < TQ_UNIT; i++)
			v[i] = shorts_units(target[i] + tc_column(t), TQ_UNIT * TQ_GROUP);
		trellis_turn(v);
		for (size_t i = 0; i < TQ_UNIT; i++)
			shorts_store(x[t + i], v[i]);
	}
}

/* ---- bytes ---- */

/* The eight halves of units of a slab lie in the order of its packed bytes, group by group: byte u
 * of a slab's units is unit u · SLABS + slab of the ring. */
ALWAYS_INLINE void trellis_turn_streams(int16_t stream[SHORTS][2 * UNITS],
					const struct trellis_streams *from)
{
	for (size_t slab = 0; slab < SLABS; slab++) {
		shorts v[TQ_UNIT];
		for (size_t i = 0; i < TQ_UNIT; i++)
			v[i] = shorts_load(from->half[(i / 2 * SLABS + slab) * 2 + i % 2]);
		trellis_turn(v);
		for (size_t i = 0; i < TQ_UNIT; i++)
			shorts_store_units(&stream[i][slab * TQ_UNIT], TQ_UNIT * 2 * UNITS, v[i]);
	}
}

/* Stores units one after the other; each store but the last writes more bytes than the unit has. */
ALWAYS_INLINE void trellis_pack_units(uint8_t *packed, const int16_t half[2 * UNITS], uint32_t bits)
{
	for (size_t u = 0; u < UNITS; u++) {
		const uint32_t low = (uint16_t)half[2 * u], high = (uint16_t)half[2 * u + 1];
		const uint32_t unit = low | high << HALF_UNIT * bits;
		memcpy(packed + u * bits, &unit, u + 1 < UNITS ? sizeof unit : bits);
	}
}

ALWAYS_INLINE void trellis_take_out(uint8_t *packed, float *factor,
				    const struct trellis_streams *from, size_t groups,
				    uint32_t bits)
{
	int16_t stream[SHORTS][2 * UNITS];

	trellis_turn_streams(stream, from);
	for (size_t g = 0; g < groups; g++) {
		const size_t half = g / 4 % 2, at = g / 8 * 4 + g % 4;
		trellis_pack_units(packed + g * tq_group_bytes(bits), stream[g], bits);
		factor[g] = tc_factor(from->with_target[half][at], from->with_itself[half][at]);
	}
}

/* ---- together ---- */

enum { TRELLIS_TOGETHER = TRELLIS_WAYS * SHORTS };
ALWAYS_INLINE size_t trellis_together(uint32_t bits)
{
	return trellis_ways(bits) * SHORTS;
}

/* The number of groups, of those that are left, that are encoded together. */
ALWAYS_INLINE size_t trellis_part(size_t groups, size_t way)
{
	const size_t first = way * SHORTS;

	return groups < first ? 0 : groups - first < SHORTS ? groups - first : SHORTS;
}

ALWAYS_INLINE void trellis_encode_lanes(uint8_t *packed, float *factor,
					const int16_t target[][TQ_GROUP], size_t groups,
					const struct trellis *t, uint32_t bits)
{
	_Alignas(64) uint8_t memory[trellis_ways(bits)][trellis_path_bytes(bits)];
	struct trellis_path *path[TRELLIS_WAYS];
	struct trellis_streams out[TRELLIS_WAYS];
	shorts seam[TRELLIS_WAYS];

	for (uint32_t w = 0; w < trellis_ways(bits); w++) {
		path[w] = (struct trellis_path *)(void *)memory[w];
		trellis_turn_targets(path[w]->x, target + w * SHORTS);
	}
	trellis_find_seams(seam, path, t, bits);
	trellis_follow_and_trace(out, path, seam, t, bits);
	for (uint32_t w = 0; w < trellis_ways(bits); w++)
		trellis_take_out(packed + w * SHORTS * tq_group_bytes(bits), factor + w * SHORTS,
				 &out[w], trellis_part(groups, w), bits);
}

/* For up to together(bits) groups whose targets are ready. */
typedef void trellis_encode_fn(uint8_t *packed, float *factor, const int16_t target[][TQ_GROUP],
			       size_t groups, const struct trellis *t);

#define ENCODE(bits)                                                                       \
	static void trellis_encode_##bits(uint8_t *packed, float *factor,                  \
					  const int16_t target[][TQ_GROUP], size_t groups, \
					  const struct trellis *t)                         \
	{                                                                                  \
		trellis_encode_lanes(packed, factor, target, groups, t, bits);             \
	}
ENCODE(2)
ENCODE(3)
ENCODE(4)
#undef ENCODE

static trellis_encode_fn *const trellis_encoders[] = {trellis_encode_2, trellis_encode_3,
						      trellis_encode_4};

void TABLE(tc_encode)(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits)
{
	int16_t target[TRELLIS_TOGETHER][TQ_GROUP] = {{0}};
	struct trellis t;

	trellis_make(&t, bits);
	for (size_t g = 0; g < groups; g += trellis_together(bits)) {
		const size_t left = groups - g;
		const size_t count = left < trellis_together(bits) ? left : trellis_together(bits);
		trellis_make_targets(target, y + g * TQ_GROUP, count, t.scale);
		trellis_encoders[bits - 2](packed + g * tq_group_bytes(bits), factor + g, target,
					   count, &t);
	}
}

/* ---- rows ---- */

/* Computes the targets of a row's next groups; the row has `left` floats left. */
static bool trellis_normalise(int16_t target[][TQ_GROUP], float *norm, const float *x, size_t left,
			      size_t groups, float scale)
{
	float y[TQ_UNIT * TQ_GROUP];

	for (size_t g = 0; g < groups; g += TQ_UNIT) {
		const size_t count = groups - g < TQ_UNIT ? groups - g : TQ_UNIT;
		rotate_groups(y, norm + g, x + g * TQ_GROUP, left - g * TQ_GROUP, count);
		for (size_t i = 0; i < count; i++)
			if (!isfinite(norm[g + i]))
				return false;
		trellis_make_targets(target + g, y, count, scale);
	}
	return true;
}

bool TABLE(tc_quantise_row)(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			    uint32_t bits)
{
	const size_t groups = tq_groups(cols);
	int16_t target[TRELLIS_TOGETHER][TQ_GROUP] = {{0}};
	struct trellis t;

	trellis_make(&t, bits);
	for (size_t g = 0; g < groups; g += trellis_together(bits)) {
		const size_t left = groups - g, begin = g * TQ_GROUP;
		const size_t count = left < trellis_together(bits) ? left : trellis_together(bits);
		float norm[TRELLIS_TOGETHER], factor[TRELLIS_TOGETHER];
		if (!trellis_normalise(target, norm, row + begin, cols - begin, count, t.scale))
			return false;
		trellis_encoders[bits - 2](packed + g * tq_group_bytes(bits), factor, target, count,
					   &t);
		for (size_t i = 0; i < count; i++)
			norms[g + i] = norm[i] * factor[i];
	}
	return true;
}

#endif
