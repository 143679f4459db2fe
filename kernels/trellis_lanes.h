/* TC's encoder on vectors, for every instruction set that has them; within kernels/ only.
 *
 * Lanes are groups, which go through the trellis side by side; each lane does what tc.c does, in
 * whole numbers, so the bytes are the same however many lanes there are. Included once by the
 * *_trellis.c of each table, which says before it what a vector is:
 *
 *     TABLE(function)                   the function's name in this table
 *     ints, LANES                       the type, and how many integers of 32 bits it holds
 *     ints_load(p), ints_store(p, v), ints_all(i)
 *     ints_add, _min, _and, _or(a, b), ints_left(v, n), ints_right(v, n) by a constant, unsigned,
 *     ints_right_each(v, counts)        by what each lane says
 *     ints_if_negative(v, a, b)         lanes of a where v's are negative, else of b
 *     factor, make_factor(i), ints_times(v, factor)      v and i of 16 bits
 *     constant, make_constant(i), ints_of(constant)      what memory holds of a number to add
 *     ints_min_sum(best, v, constant)   best = the minimum of it and v + constant
 *     bytes16, make_bytes(p), ints_look_up(bytes16, i)   the byte of 16 that each lane's i names
 *
 * What a code costs, c (16 c - 2 x) with c = a + b, is a constant of the transition, 16 c², and two
 * products of the weight: -2 x b, which is added to the cost of the state that is left, and -2 x a,
 * to that of the state that is reached. So a transition takes an addition and a minimum. All costs
 * are shifted to the left by a symbol, and a transition's constant has the symbol that it drops
 * below: the minimum then knows its way, and ties go to the lower symbol.
 *
 * Ways back are kept as 2 or 4 bits for each state, in words of 32, and followed in vectors too.
 */
#ifndef MOEFS_KERNELS_TRELLIS_LANES_H
#define MOEFS_KERNELS_TRELLIS_LANES_H

#include "kernels/tc_tables.h"
#include "kernels/tq_tables.h"

#include <math.h>
#include <string.h>

enum {
	AT_ONCE = 8, /* states whose minima are sought together, while registers last */
	WORDS = 4,   /* of ways back, at most, after one weight */
	UNITS = TQ_GROUP / TQ_UNIT,
	BYTE_OFFSET = 128, /* of looked up codes */
};

/* What follows from the number of bits, which is a constant wherever these are inlined. */
ALWAYS_INLINE uint32_t state_bits(uint32_t bits)
{
	return bits == 2 ? 6 : 4;
}
ALWAYS_INLINE uint32_t way_bits(uint32_t bits)
{
	return bits == 2 ? 2 : 4;
}
ALWAYS_INLINE uint32_t ways_of_word(uint32_t bits)
{
	return 32 / way_bits(bits);
}
ALWAYS_INLINE uint32_t words(uint32_t bits)
{
	return (1U << state_bits(bits)) / ways_of_word(bits);
}

struct trellis {
	constant transition[TQ_GROUP * 2]; /* by window */
	factor newest[TC_NIBBLE], before[TC_NIBBLE];
	bytes16 newest_bytes, before_bytes;
	const struct tc_codebook *book;
};

static void make_trellis(struct trellis *t, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	uint8_t newest[TC_NIBBLE], before[TC_NIBBLE];

	for (uint32_t w = 0; w < 1U << book->window; w++) {
		const int32_t c = tc_code(book, w), dropped = (int32_t)(w % (1U << bits));
		t->transition[w] = make_constant(TC_ONE * c * c * (1 << bits) + dropped);
	}
	for (size_t i = 0; i < TC_NIBBLE; i++) {
		t->newest[i] = make_factor(-2 * book->newest[i] * (1 << bits));
		t->before[i] = make_factor(-2 * book->before[i] * (1 << bits));
		newest[i] = (uint8_t)(book->newest[i] + BYTE_OFFSET);
		before[i] = (uint8_t)(book->before[i] + BYTE_OFFSET);
	}
	t->newest_bytes = make_bytes(newest);
	t->before_bytes = make_bytes(before);
	t->book = book;
}

/* ---- one weight ---- */

/* The states whose way comes through the same states, `count` of them from the first: state
 * first + i is (first + i) << shared bits | q. */
struct reached {
	uint32_t q, first, count;
};

/* Their costs and their ways. */
ALWAYS_INLINE void reach(ints cost[TC_STATES], ints *way, const ints through[TC_STATES], ints x,
			 const struct trellis *t, struct reached r, uint32_t bits)
{
	const uint32_t shared = state_bits(bits) - bits, symbols = 1U << bits;
	const ints symbol = ints_all((int32_t)symbols - 1), costs = ints_all(-(int32_t)symbols);
	ints best[AT_ONCE], word = *way;

#pragma GCC unroll 16
	for (uint32_t d = 0; d < symbols; d++) {
		const ints from = through[r.q << bits | d];
#pragma GCC unroll 8
		for (uint32_t i = 0; i < r.count; i++) {
			const uint32_t window = ((r.first + i) << shared | r.q) << bits | d;
			if (d == 0)
				best[i] = ints_add(from, ints_of(t->transition[window]));
			else
				ints_min_sum(best[i], from, t->transition[window]);
		}
	}
#pragma GCC unroll 8
	for (uint32_t i = 0; i < r.count; i++) {
		const uint32_t s = (r.first + i) << shared | r.q;
		const uint32_t place = (r.q << bits | (r.first + i)) % ways_of_word(bits);
		const factor newest = t->newest[s >> (state_bits(bits) - 4)];
		word = ints_or(word, ints_left(ints_and(best[i], symbol), place * way_bits(bits)));
		cost[s] = ints_add(ints_and(best[i], costs), ints_times(x, newest));
	}
	*way = word;
}

ALWAYS_INLINE void step(ints cost[TC_STATES], ints way[WORDS], ints x, const struct trellis *t,
			uint32_t bits)
{
	const uint32_t shared = state_bits(bits) - bits, symbols = 1U << bits;
	ints through[TC_STATES], before[TC_NIBBLE];

#pragma GCC unroll 16
	for (uint32_t b = 0; b < TC_NIBBLE; b++)
		before[b] = ints_times(x, t->before[b]);
#pragma GCC unroll 64
	for (uint32_t s = 0; s < 1U << state_bits(bits); s++)
		through[s] = ints_add(cost[s], before[s % TC_NIBBLE]);
#pragma GCC unroll 4
	for (uint32_t w = 0; w < words(bits); w++)
		way[w] = ints_all(0);
#pragma GCC unroll 16
	for (uint32_t q = 0; q < 1U << shared; q++) {
#pragma GCC unroll 2
		for (uint32_t first = 0; first < symbols; first += AT_ONCE) {
			const uint32_t count = symbols < AT_ONCE ? symbols : AT_ONCE;
			ints *const word = &way[(q << bits | first) / ways_of_word(bits)];
			reach(cost, word, through, x, t, (struct reached){q, first, count}, bits);
		}
	}
}

/* ---- a path ---- */

struct path {
	ints cost[TC_STATES];
	ints way[TQ_GROUP][WORDS];
	int32_t x[TQ_GROUP][LANES]; /* targets in the order of the ring */
};

/* n weights of the ring; ways are kept from the one that is `kept` behind the first. */
ALWAYS_INLINE void follow(struct path *p, size_t first, size_t n, size_t kept,
			  const struct trellis *t, uint32_t bits)
{
	for (size_t i = 0; i < n; i++) {
		ints *const way = p->way[i < kept ? 0 : i - kept];
		step(p->cost, way, ints_load(p->x[(first + i) % TQ_GROUP]), t, bits);
	}
}

/* The state before, but for the symbol that was dropped. */
ALWAYS_INLINE ints shifted(ints state, uint32_t bits)
{
	const int32_t mask = (1 << state_bits(bits)) - 1;
	return ints_and(ints_left(state, bits), ints_all(mask));
}

ALWAYS_INLINE ints newest_symbol(ints state, uint32_t bits)
{
	return ints_right(state, state_bits(bits) - bits);
}

/* The symbol that was dropped on the way to `state`. Ways lie in the order of `reach`: by what a
 * state shares with others, then by its newest symbol. */
ALWAYS_INLINE ints dropped_at(const ints way[WORDS], ints state, uint32_t bits)
{
	const ints place = ints_or(shifted(state, bits), newest_symbol(state, bits));
	const ints in_word = ints_and(place, ints_all((int32_t)ways_of_word(bits) - 1));
	const uint32_t shift = bits == 2 ? 1 : 2; /* way_bits as a power of two */
	/* The bits above become signs: of two words one counts, of four two. */
	const uint32_t top = bits == 2 ? 5 : 3;
	const ints high = ints_left(place, 31 - top), low = ints_left(place, 32 - top);
	ints word;

	if (bits == 2)
		word = ints_if_negative(high, ints_if_negative(low, way[3], way[2]),
					ints_if_negative(low, way[1], way[0]));
	else
		word = ints_if_negative(high, way[1], way[0]);
	return ints_and(ints_right_each(word, ints_left(in_word, shift)),
			ints_all((1 << bits) - 1));
}

ALWAYS_INLINE ints seam_state(struct path *p, const struct trellis *t, uint32_t bits)
{
	const size_t seam = t->book->seam;
	ints state = ints_all(0), best;

	for (uint32_t s = 0; s < 1U << state_bits(bits); s++)
		p->cost[s] = ints_all(0);
	follow(p, TQ_GROUP - seam, 2 * seam, seam, t, bits);
	best = p->cost[0];
	for (uint32_t s = 1; s < 1U << state_bits(bits); s++) {
		const ints less = ints_sub(p->cost[s], best);
		state = ints_if_negative(less, ints_all((int32_t)s), state);
		best = ints_min(best, p->cost[s]);
	}
	for (size_t i = seam; i-- > 0;)
		state = ints_or(shifted(state, bits), dropped_at(p->way[i], state, bits));
	return state;
}

ALWAYS_INLINE void begin_at(struct path *p, ints seam, uint32_t bits)
{
	const ints far = ints_all(TC_FAR * (1 << bits)), none = ints_all(0);

	for (uint32_t s = 0; s < 1U << state_bits(bits); s++) {
		const ints other = ints_xor(seam, ints_all((int32_t)s));
		p->cost[s] = ints_if_negative(ints_sub(other, ints_all(1)), none, far);
	}
}

/* ---- groups ---- */

/* Of LANES groups: streams by the ring's units, and the sums of tc_factor. */
struct encoded {
	uint32_t unit[UNITS][LANES];
	int32_t with_target[LANES], with_itself[LANES];
};

ALWAYS_INLINE void trace_back(struct encoded *out, const struct path *p, ints state,
			      const struct trellis *t, uint32_t bits)
{
	const uint32_t above = state_bits(bits) - 4;
	const ints offset = ints_all(-2 * BYTE_OFFSET), low = ints_all(TC_NIBBLE - 1);
	ints with_target = ints_all(0), with_itself = ints_all(0);

	for (size_t u = UNITS; u-- > 0;) {
		ints stream = ints_all(0);
		for (size_t i = (u + 1) * TQ_UNIT; i-- > u * TQ_UNIT;) {
			const ints before =
				ints_or(shifted(state, bits), dropped_at(p->way[i], state, bits));
			const ints newest = ints_right(state, above);
			const ints sum =
				ints_add(ints_look_up(t->newest_bytes, newest),
					 ints_look_up(t->before_bytes, ints_and(before, low)));
			const ints code = ints_add(sum, offset);
			with_target = ints_add(with_target, ints_product(ints_load(p->x[i]), code));
			with_itself = ints_add(with_itself, ints_product(code, code));
			stream = ints_or(ints_left(stream, bits), newest_symbol(state, bits));
			state = before;
		}
		ints_store((int32_t *)out->unit[u], stream);
	}
	ints_store(out->with_target, with_target);
	ints_store(out->with_itself, with_itself);
}

/* Up to LANES groups; the other lanes are zeros. */
static void make_targets(int32_t x[TQ_GROUP][LANES], const float *y, size_t groups, float scale)
{
	if (groups < LANES)
		memset(x, 0, sizeof(int32_t[TQ_GROUP][LANES]));
	for (size_t g = 0; g < groups; g++, y += TQ_GROUP) {
		int32_t target[TQ_GROUP];
		for (size_t i = 0; i < TQ_GROUP; i++)
			target[i] = tc_target(y[i], scale);
		for (size_t t = 0; t < TQ_GROUP; t++)
			x[t][g] = target[tc_column(t)];
	}
}

ALWAYS_INLINE void encode_lanes(uint8_t *packed, float *factor_of, const float *y, size_t groups,
				const struct trellis *t, uint32_t bits)
{
	struct encoded out;
	struct path p;

	make_targets(p.x, y, groups, TC_ONE / t->book->gain);
	const ints seam = seam_state(&p, t, bits);
	begin_at(&p, seam, bits);
	follow(&p, 0, TQ_GROUP, 0, t, bits);
	trace_back(&out, &p, seam, t, bits);

	for (size_t g = 0; g < groups; g++, packed += tq_group_bytes(bits)) {
		for (size_t u = 0; u < UNITS; u++)
			memcpy(packed + tc_column(u * TQ_UNIT) / TQ_UNIT * bits, &out.unit[u][g],
			       bits);
		factor_of[g] = tc_factor(out.with_target[g], out.with_itself[g]);
	}
}

typedef void encode_fn(uint8_t *packed, float *factor_of, const float *y, size_t groups,
		       const struct trellis *t);

#define ENCODE(bits)                                                                 \
	static void encode_##bits(uint8_t *packed, float *factor_of, const float *y, \
				  size_t groups, const struct trellis *t)            \
	{                                                                            \
		encode_lanes(packed, factor_of, y, groups, t, bits);                 \
	}
ENCODE(2)
ENCODE(3)
ENCODE(4)
#undef ENCODE

static encode_fn *const encoders[] = {encode_2, encode_3, encode_4};

void TABLE(tc_encode)(uint8_t *packed, float *factor_of, const float *y, size_t groups,
		      uint32_t bits)
{
	struct trellis t;

	make_trellis(&t, bits);
	for (size_t g = 0; g < groups; g += LANES) {
		const size_t left = groups - g;
		encoders[bits - 2](packed + g * tq_group_bytes(bits), factor_of + g,
				   y + g * TQ_GROUP, left < LANES ? left : LANES, &t);
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
		float y[LANES][TQ_GROUP], norm[LANES], factor_of[LANES];
		for (size_t i = 0; i < count; i++) {
			const size_t begin = (g + i) * TQ_GROUP;
			norm[i] = tq_normalise(y[i], row + begin, cols - begin);
			if (!isfinite(norm[i]))
				return false;
		}
		encoders[bits - 2](packed + g * tq_group_bytes(bits), factor_of, y[0], count, &t);
		for (size_t i = 0; i < count; i++)
			norms[g + i] = norm[i] * factor_of[i];
	}
	return true;
}

#endif
