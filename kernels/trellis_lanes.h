/* TC's encoder on vectors, for every instruction set that has them; within kernels/ only.
 *
 * Lanes are groups, which go through the trellis side by side; each lane does what tc.c does, in
 * whole numbers of 16 bits, so the bytes are the same however many lanes there are. Included once
 * by the *_trellis.c of each table, which says before it what a vector is:
 *
 *     TABLE(function)                   the function's name in this table
 *     shorts, LANES                     the type, and how many integers of 16 bits it holds
 *     shorts_load(p), shorts_store(p, v), shorts_all(i)
 *     shorts_add, _sub, _add_sat, _sub_sat, _min, _and, _or(a, b)
 *     shorts_left(v, n), shorts_right(v, n)     by a constant; unsigned
 *     shorts_low(a, b)                  a product's lower half
 *     shorts_fraction(a, b)             a · b / 2^15, rounded; not for twice INT16_MIN
 *     shorts_min_sum(best, v, w)        best = the minimum of it and the saturated v + w, in memory
 *     mask, mask_bit(v, n), mask_less(a, b), mask_equal(a, b)
 *     shorts_pick(mask, a, b)           lanes of a where it holds, else of b
 *     bytes16, make_bytes(p), shorts_look_up(bytes16, i)    the byte that each lane's i < 16 names
 *     ints, ints_none(), ints_store(p, v), ints_add_products(sum[2], a, b)
 *                                       exact sums of products: of each eight lanes, the first four
 *                                       in sum[0]
 *
 * A transition takes an addition and a minimum. The way is not kept: going back, the few states
 * that a state can have come from are compared once more, of one state instead of all. What that
 * wants of each position lies on the stack of whatever thread this is. With 64 states that would
 * be half a megabyte, so the ring is traced back by halves, before which its beginning is followed
 * once more: a third more time for 2 bits, and a frame little larger than the products'.
 */
#ifndef MOEFS_KERNELS_TRELLIS_LANES_H
#define MOEFS_KERNELS_TRELLIS_LANES_H

#include "kernels/tc_tables.h"
#include "kernels/tq_tables.h"

#include <math.h>
#include <string.h>

enum {
	AT_ONCE = 8, /* states whose minima are sought together, while registers last */
	UNITS = TQ_GROUP / TQ_UNIT,
	HALF_UNIT = TQ_UNIT / 2, /* positions whose symbols fit in 16 bits */
	BYTE_OFFSET = 128,	 /* of looked up numbers */
};

/* Bits of a state, which is a constant as `bits` is wherever these are inlined, and those that it
 * shares with the states that can follow it. */
ALWAYS_INLINE uint32_t state_bits(uint32_t bits)
{
	return bits == 2 ? 6 : 4;
}
ALWAYS_INLINE uint32_t shared_bits(uint32_t bits)
{
	return state_bits(bits) - bits;
}
/* Bounds of loops: a shift among them that a sanitizer checks would keep them from being unrolled.
 */
ALWAYS_INLINE uint32_t states(uint32_t bits)
{
	return bits == 2 ? 64 : 16;
}
ALWAYS_INLINE uint32_t symbols(uint32_t bits)
{
	return bits == 2 ? 4 : bits == 3 ? 8 : 16;
}
ALWAYS_INLINE uint32_t shares(uint32_t bits) /* what shared bits can be */
{
	return bits == 2 ? 16 : bits == 3 ? 2 : 1;
}

struct trellis {
	shorts transition[1 << TC_WINDOW_MOST]; /* by window: what two codes have to do with each
						   other */
	shorts slope[TC_NIBBLE], place[TC_NIBBLE];
	bytes16 newest, before, twice_before; /* with the offset */
	const struct tc_codebook *book;
};

static void make_trellis(struct trellis *t, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	uint8_t newest[TC_NIBBLE], before[TC_NIBBLE], twice[TC_NIBBLE];

	for (uint32_t w = 0; w < 1U << book->window; w++)
		t->transition[w] = shorts_all(tc_transition(book, w));
	for (size_t i = 0; i < TC_NIBBLE; i++) {
		t->slope[i] = shorts_all(tc_slope(book->newest[i]));
		t->place[i] = shorts_all((int16_t)(TC_ONE * book->before[i]));
		newest[i] = (uint8_t)(book->newest[i] + BYTE_OFFSET);
		before[i] = (uint8_t)(book->before[i] + BYTE_OFFSET);
		twice[i] = (uint8_t)(2 * book->before[i] + BYTE_OFFSET);
	}
	t->newest = make_bytes(newest);
	t->before = make_bytes(before);
	t->twice_before = make_bytes(twice);
	t->book = book;
}

/* ---- one weight ---- */

/* States that are reached through the same ones: (first + i) << shared bits | q. */
struct reached {
	uint32_t q, first, count;
};

ALWAYS_INLINE void reach(shorts cost[TC_STATES], const shorts through[TC_STATES], shorts x,
			 const struct trellis *t, struct reached r, uint32_t bits)
{
	shorts best[AT_ONCE];

#pragma GCC unroll 16
	for (uint32_t d = 0; d < symbols(bits); d++) {
		const shorts from = through[r.q << bits | d];
#pragma GCC unroll 8
		for (uint32_t i = 0; i < r.count; i++) {
			const uint32_t state = (r.first + i) << shared_bits(bits) | r.q;
			const uint32_t window = state << bits | d;
			if (d == 0)
				best[i] = shorts_add_sat(from, t->transition[window]);
			else
				shorts_min_sum(best[i], from, t->transition[window]);
		}
	}
#pragma GCC unroll 8
	for (uint32_t i = 0; i < r.count; i++) {
		const uint32_t state = (r.first + i) << shared_bits(bits) | r.q;
		const shorts slope = t->slope[state >> (state_bits(bits) - 4)];
		cost[state] = shorts_add_sat(best[i], shorts_fraction(x, slope));
	}
}

/* Costs of the states after a weight x; `through` are those of the states before it, with what
 * their oldest bits have to do with x. */
ALWAYS_INLINE void step(shorts cost[TC_STATES], shorts through[TC_STATES], shorts x,
			const struct trellis *t, uint32_t bits)
{
	shorts near[TC_NIBBLE];

#pragma GCC unroll 16
	for (uint32_t b = 0; b < TC_NIBBLE; b++) {
		const shorts distance = shorts_sub(x, t->place[b]);
		near[b] = shorts_fraction(distance, distance);
	}
#pragma GCC unroll 64
	for (uint32_t s = 0; s < states(bits); s++)
		through[s] = shorts_add_sat(cost[s], near[s % TC_NIBBLE]);
#pragma GCC unroll 16
	for (uint32_t q = 0; q < shares(bits); q++) {
#pragma GCC unroll 2
		for (uint32_t first = 0; first < symbols(bits); first += AT_ONCE) {
			const uint32_t count = bits == 2 ? 4 : AT_ONCE;
			reach(cost, through, x, t, (struct reached){q, first, count}, bits);
		}
	}
}

ALWAYS_INLINE void lower_costs(shorts cost[TC_STATES], uint32_t bits)
{
	shorts least = cost[0];

	for (uint32_t s = 1; s < states(bits); s++)
		least = shorts_min(least, cost[s]);
	least = shorts_sub_sat(least, shorts_all(TC_LEAST));
	for (uint32_t s = 0; s < states(bits); s++)
		cost[s] = shorts_sub_sat(cost[s], least);
}

/* ---- a path ---- */

/* The ring is traced back so many positions at a time, no fewer than a seam has. */
ALWAYS_INLINE size_t stretch(uint32_t bits)
{
	return bits == 2 ? TQ_GROUP / 2 : TQ_GROUP;
}

struct path {
	int16_t x[TQ_GROUP][LANES]; /* targets in the order of the ring */
	shorts cost[TC_STATES];
	shorts through[]; /* [positions of a stretch][states] */
};

/* n weights of the ring; `through` is kept from the one that is `kept` behind the first. */
ALWAYS_INLINE void follow(struct path *p, size_t first, size_t n, size_t kept,
			  const struct trellis *t, uint32_t bits)
{
	for (size_t i = 0; i < n; i++) {
		shorts *const through =
			p->through + ((i < kept ? 0 : i - kept) << state_bits(bits));
		step(p->cost, through, shorts_load(p->x[(first + i) % TQ_GROUP]), t, bits);
		if (i % TC_LOWERED == TC_LOWERED - 1)
			lower_costs(p->cost, bits);
	}
}

/* The state before, but for the symbol that was dropped. */
ALWAYS_INLINE shorts shifted(shorts state, uint32_t bits)
{
	const int16_t all = (1 << state_bits(bits)) - 1;
	return shorts_and(shorts_left(state, bits), shorts_all(all));
}

ALWAYS_INLINE shorts newest_symbol(shorts state, uint32_t bits)
{
	return shorts_right(state, shared_bits(bits));
}

/* Of the states that can have come before, the one that drops d: shared[i] says whether bit i is
 * set of what is shared. */
ALWAYS_INLINE shorts through_of(const shorts *through, const mask *shared, uint32_t d,
				uint32_t bits)
{
	shorts of[TC_STATES / 4];

	for (uint32_t q = 0; q < shares(bits); q++)
		of[q] = through[q << bits | d];
	for (uint32_t i = 0; i < shared_bits(bits); i++)
		for (uint32_t q = 0; q < 1U << shared_bits(bits) >> (i + 1); q++)
			of[q] = shorts_pick(shared[i], of[2 * q + 1], of[2 * q]);
	return of[0];
}

/* A state and the one before it. */
ALWAYS_INLINE shorts came_from(const shorts *through, shorts state, const struct trellis *t,
			       uint32_t bits)
{
	const shorts base = shifted(state, bits);
	const shorts low = shorts_and(base, shorts_all(TC_NIBBLE - 1));
	const shorts index = shorts_right(state, state_bits(bits) - 4);
	const shorts offset = shorts_all(BYTE_OFFSET);
	const shorts a = shorts_sub(shorts_look_up(t->newest, index), offset);
	const shorts slope = shorts_add(a, a), less = shorts_sub(a, offset);
	shorts best = shorts_all(INT16_MAX), dropped = shorts_all(0);
	mask shared[4];

	for (uint32_t i = 0; i < shared_bits(bits); i++)
		shared[i] = mask_bit(state, i);
#pragma GCC unroll 16
	for (uint32_t d = 0; d < symbols(bits); d++) {
		const shorts symbol = shorts_all((int16_t)d);
		const shorts twice = shorts_look_up(t->twice_before, shorts_or(low, symbol));
		const shorts transition = shorts_low(slope, shorts_add(twice, less));
		const shorts cost =
			shorts_add_sat(through_of(through, shared, d, bits), transition);
		dropped = shorts_pick(mask_less(cost, best), symbol, dropped);
		best = shorts_min(best, cost);
	}
	return shorts_or(base, dropped);
}

ALWAYS_INLINE shorts seam_state(struct path *p, const struct trellis *t, uint32_t bits)
{
	const size_t seam = t->book->seam;
	shorts state = shorts_all(0), best;

	for (uint32_t s = 0; s < states(bits); s++)
		p->cost[s] = shorts_all(TC_LEAST);
	follow(p, TQ_GROUP - seam, 2 * seam, seam, t, bits);
	best = p->cost[0];
	for (uint32_t s = 1; s < states(bits); s++) {
		const mask less = mask_less(p->cost[s], best);
		state = shorts_pick(less, shorts_all((int16_t)s), state);
		best = shorts_min(best, p->cost[s]);
	}
	for (size_t i = seam; i-- > 0;)
		state = came_from(p->through + (i << state_bits(bits)), state, t, bits);
	return state;
}

ALWAYS_INLINE void begin_at(struct path *p, shorts seam, uint32_t bits)
{
	for (uint32_t s = 0; s < states(bits); s++)
		p->cost[s] = shorts_pick(mask_equal(seam, shorts_all((int16_t)s)),
					 shorts_all(TC_LEAST), shorts_all(TC_FAR));
}

/* ---- groups ---- */

/* Of LANES groups: their streams by halves of the ring's units, and the sums of tc_factor. */
struct encoded {
	uint16_t half[2 * UNITS][LANES];
	int32_t with_target[2][LANES / 2], with_itself[2][LANES / 2];
};

/* A way back along the ring. */
struct way {
	shorts state;
	ints with_target[2], with_itself[2];
};

/* Through the stretch that begins with a position. */
ALWAYS_INLINE void trace_back(struct encoded *out, struct way *w, const struct path *p,
			      size_t first, const struct trellis *t, uint32_t bits)
{
	const uint32_t above = state_bits(bits) - 4;
	const shorts offset = shorts_all(2 * BYTE_OFFSET), low = shorts_all(TC_NIBBLE - 1);
	shorts state = w->state;
	ints with_target[2] = {w->with_target[0], w->with_target[1]};
	ints with_itself[2] = {w->with_itself[0], w->with_itself[1]};

	for (size_t h = (first + stretch(bits)) / HALF_UNIT; h-- > first / HALF_UNIT;) {
		shorts stream = shorts_all(0);
		for (size_t i = (h + 1) * HALF_UNIT; i-- > h * HALF_UNIT;) {
			const shorts *const through =
				p->through + ((i - first) << state_bits(bits));
			const shorts before = came_from(through, state, t, bits);
			const shorts a = shorts_look_up(t->newest, shorts_right(state, above));
			const shorts b = shorts_look_up(t->before, shorts_and(before, low));
			const shorts code = shorts_sub(shorts_add(a, b), offset);
			ints_add_products(with_target, shorts_load(p->x[i]), code);
			ints_add_products(with_itself, code, code);
			stream = shorts_or(shorts_left(stream, bits), newest_symbol(state, bits));
			state = before;
		}
		shorts_store(out->half[h], stream);
	}
	*w = (struct way){
		state, {with_target[0], with_target[1]}, {with_itself[0], with_itself[1]}};
}

/* Back over the last stretch, and then, from the ring's beginning anew, over each before it. */
ALWAYS_INLINE void follow_and_trace(struct encoded *out, struct path *p, shorts seam,
				    const struct trellis *t, uint32_t bits)
{
	struct way w = {seam, {ints_none(), ints_none()}, {ints_none(), ints_none()}};

	for (size_t end = TQ_GROUP; end > 0; end -= stretch(bits)) {
		begin_at(p, seam, bits);
		follow(p, 0, end, end - stretch(bits), t, bits);
		trace_back(out, &w, p, end - stretch(bits), t, bits);
	}
	for (size_t i = 0; i < 2; i++) {
		ints_store(out->with_target[i], w.with_target[i]);
		ints_store(out->with_itself[i], w.with_itself[i]);
	}
}

/* Up to LANES groups; the other lanes are zeros. */
static void make_targets(int16_t x[TQ_GROUP][LANES], const float *y, size_t groups, float scale)
{
	if (groups < LANES)
		memset(x, 0, sizeof(int16_t[TQ_GROUP][LANES]));
	for (size_t g = 0; g < groups; g++, y += TQ_GROUP) {
		int16_t target[TQ_GROUP];
		for (size_t i = 0; i < TQ_GROUP; i++)
			target[i] = tc_target(y[i], scale);
		for (size_t t = 0; t < TQ_GROUP; t += TQ_UNIT) {
			const int16_t *const unit = target + tc_column(t);
			for (size_t i = 0; i < TQ_UNIT; i++)
				x[t + i][g] = unit[i];
		}
	}
}

ALWAYS_INLINE void take_out(uint8_t *packed, float *factor, const struct encoded *from,
			    size_t groups, uint32_t bits)
{
	for (size_t g = 0; g < groups; g++, packed += tq_group_bytes(bits)) {
		const size_t half = g / 4 % 2, at = g / 8 * 4 + g % 4;
		for (size_t u = 0; u < UNITS; u++) {
			const uint32_t unit =
				from->half[2 * u][g] | (uint32_t)from->half[2 * u + 1][g]
							       << HALF_UNIT * bits;
			memcpy(packed + tc_column(u * TQ_UNIT) / TQ_UNIT * bits, &unit, bits);
		}
		factor[g] = tc_factor(from->with_target[half][at], from->with_itself[half][at]);
	}
}

ALWAYS_INLINE void encode_lanes(uint8_t *packed, float *factor, const float *y, size_t groups,
				const struct trellis *t, uint32_t bits)
{
	_Alignas(64) uint8_t
		memory[sizeof(struct path) + (sizeof(shorts) * stretch(bits) << state_bits(bits))];
	struct path *const p = (struct path *)(void *)memory;
	struct encoded out;

	make_targets(p->x, y, groups, TC_ONE / t->book->gain);
	follow_and_trace(&out, p, seam_state(p, t, bits), t, bits);
	take_out(packed, factor, &out, groups, bits);
}

typedef void encode_fn(uint8_t *packed, float *factor, const float *y, size_t groups,
		       const struct trellis *t);

#define ENCODE(bits)                                                                             \
	static void encode_##bits(uint8_t *packed, float *factor, const float *y, size_t groups, \
				  const struct trellis *t)                                       \
	{                                                                                        \
		encode_lanes(packed, factor, y, groups, t, bits);                                \
	}
ENCODE(2)
ENCODE(3)
ENCODE(4)
#undef ENCODE

static encode_fn *const encoders[] = {encode_2, encode_3, encode_4};

void TABLE(tc_encode)(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits)
{
	struct trellis t;

	make_trellis(&t, bits);
	for (size_t g = 0; g < groups; g += LANES) {
		const size_t left = groups - g;
		encoders[bits - 2](packed + g * tq_group_bytes(bits), factor + g, y + g * TQ_GROUP,
				   left < LANES ? left : LANES, &t);
	}
}

/* ---- rows ---- */

bool TABLE(tc_quantise_row)(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			    uint32_t bits)
{
	const size_t groups = tq_groups(cols);
	struct trellis t;

	make_trellis(&t, bits);
	for (size_t g = 0; g < groups; g += LANES) {
		const size_t count = groups - g < LANES ? groups - g : LANES;
		float y[LANES][TQ_GROUP], norm[LANES], factor[LANES];
		for (size_t i = 0; i < count; i++) {
			const size_t begin = (g + i) * TQ_GROUP;
			norm[i] = tq_normalise(y[i], row + begin, cols - begin);
			if (!isfinite(norm[i]))
				return false;
		}
		encoders[bits - 2](packed + g * tq_group_bytes(bits), factor, y[0], count, &t);
		for (size_t i = 0; i < count; i++)
			norms[g + i] = norm[i] * factor[i];
	}
	return true;
}

#endif
