/* The definition of TC: tables, decoding of a stream, choice of the stream for a group (tc.h).
 *
 * A state is the part of the window that the next weight shares: the last window - bits bits of
 * the stream, the newest highest. A weight's window is its symbol above the previous state; the
 * next state is the window without the bits of its oldest symbol.
 *
 * The encoder is the Viterbi algorithm in whole numbers of 16 bits that saturate (tc.h), in
 * a fixed order, so that the bytes are the same everywhere. This rounding adds at most a
 * thousandth to the error. Of paths with equal cost the one with the lower dropped symbol is kept.
 *
 * A ring has no first state. The state between its last and its first weight is chosen beforehand,
 * from the weights on both sides of that seam; then the best stream through this state is taken.
 * The best of all rings would have an error lower by less than half a per cent. */
#include "kernels/tc.h"
#include "kernels/tq.h"

#include <math.h>
#include <string.h>

/* Found by Lloyd iterations with the encoder in the loop, on a Gaussian source, over whole
 * numbers. The relative squared errors of stored groups are .0792, .0219 and .00592. */
static const struct tc_codebook codebooks[] = {
	{
		.bits = 2,
		.window = 8,
		.seam = 24,
		.newest = {25, -25, -29, 8, -28, -8, 16, 29, -8, 23, -9, -16, 5, 1, -3, 2},
		.before = {-14, 20, -8, 8, 4, -21, 22, -4, -18, 11, 34, 1, 5, 24, -12, -34},
		.gain = 0x1.ec26bp-9F, /* 1 / (23.54 · √128) */
	},
	{
		.bits = 3,
		.window = 7,
		.seam = 16,
		.newest = {4, -20, 12, -5, -3, -12, -13, 0, -5, 19, -22, 8, -33, -30, 22, 32},
		.before = {13, -9, -2, -18, -30, 21, 5, 31, 30, 8, -13, -4, 12, 2, 19, -13},
		.gain = 0x1.141a18p-8F, /* 1 / (20.98 · √128) */
	},
	{
		.bits = 4,
		.window = 8,
		.seam = 12,
		.newest = {-22, 31, -31, -1, 22, -17, -7, -12, 16, 7, 3, 10, -4, -10, 3, 13},
		.before = {7, -8, -2, 1, -2, -11, -6, 16, -20, 5, 32, -25, 11, -32, -15, 21},
		.gain = 0x1.39f68cp-8F, /* 1 / (18.45 · √128) */
	},
};

const struct tc_codebook *tc_codebook(uint32_t bits)
{
	return &codebooks[bits - 2];
}

/* ---- decoding ---- */

void tc_codes(int8_t code[TQ_GROUP], const uint8_t *packed, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	const size_t symbols = (book->window + bits - 1) / bits; /* that a window touches */
	uint8_t symbol[TQ_GROUP];
	uint32_t window = 0;

	tq_unpack(symbol, packed, bits);
	for (size_t t = TQ_GROUP - symbols; t < 2 * TQ_GROUP; t++) {
		const size_t column = tc_column(t % TQ_GROUP);
		window = window >> bits | (uint32_t)symbol[column] << (book->window - bits);
		if (t >= TQ_GROUP)
			code[column] = (int8_t)tc_code(book, window);
	}
}

/* ---- encoding ---- */

/* The state's bits, and the symbol that was its newest. */
static uint32_t tc_state_bits(const struct tc_codebook *book)
{
	return book->window - book->bits;
}

static uint8_t tc_newest_symbol(const struct tc_codebook *book, uint32_t state)
{
	return (uint8_t)(state >> (tc_state_bits(book) - book->bits));
}

/* The state before `state`, whose symbol `dropped` has since left. */
static uint32_t tc_state_before(const struct tc_codebook *book, uint32_t state, uint32_t dropped)
{
	return (state << book->bits | dropped) & ((1U << tc_state_bits(book)) - 1);
}

static int16_t tc_saturated(int32_t i)
{
	return (int16_t)(i > INT16_MAX ? INT16_MAX : i < INT16_MIN ? INT16_MIN : i);
}

/* a · b / 2^15, to the nearest, halves upwards. */
static int32_t tc_fraction(int32_t a, int32_t b)
{
	return (a * b + (1 << 14)) >> 15;
}

/* Costs of states before and after a weight x; dropped[s] is the symbol that was dropped on the
 * cheapest path to s. */
static void tc_step(int16_t after[TC_STATES], uint8_t dropped[TC_STATES],
		    const int16_t before[TC_STATES], int32_t x, const struct tc_codebook *book)
{
	int16_t through[TC_STATES];

	for (uint32_t s = 0; s < 1U << tc_state_bits(book); s++) {
		const int32_t distance = x - TC_ONE * book->before[s % TC_NIBBLE];
		const int32_t cost = before[s] + tc_fraction(distance, distance);
		through[s] = (int16_t)(cost < TC_THROUGH_MOST ? cost : TC_THROUGH_MOST);
	}
	for (uint32_t s = 0; s < 1U << tc_state_bits(book); s++) {
		int32_t best = INT32_MAX;
		for (uint32_t d = 0; d < 1U << book->bits; d++) {
			const int32_t cost = through[tc_state_before(book, s, d)] +
					     tc_transition(book, s << book->bits | d);
			if (cost < best) {
				best = cost;
				dropped[s] = (uint8_t)d;
			}
		}
		const int8_t a = book->newest[s >> (tc_state_bits(book) - 4)];
		after[s] = tc_saturated(best + tc_fraction(x, tc_slope(a)));
	}
}

static void tc_lower_costs(int16_t cost[TC_STATES], const struct tc_codebook *book)
{
	int16_t least = INT16_MAX;

	for (uint32_t s = 0; s < 1U << tc_state_bits(book); s++)
		least = cost[s] < least ? cost[s] : least;
	least = tc_saturated(least - TC_LEAST);
	for (uint32_t s = 0; s < 1U << tc_state_bits(book); s++)
		cost[s] = tc_saturated(cost[s] - least);
}

/* The trellis over some adjacent weights of the ring. */
struct tc_path {
	const struct tc_codebook *book;
	int16_t cost[TC_STATES]; /* of the states after the last weight; of those before the first,
				    to begin with */
	uint8_t dropped[TQ_GROUP][TC_STATES];
};

static void tc_follow(struct tc_path *p, const int16_t *x, size_t first, size_t n)
{
	int16_t after[TC_STATES] = {0};

	for (size_t i = 0; i < n; i++) {
		tc_step(after, p->dropped[i], p->cost, x[(first + i) % TQ_GROUP], p->book);
		memcpy(p->cost, after, sizeof after);
		if (i % TC_LOWERED == TC_LOWERED - 1)
			tc_lower_costs(p->cost, p->book);
	}
}

/* Where the ring closes: the state between its last weight and its first. */
static uint32_t tc_seam_state(struct tc_path *p, const int16_t x[TQ_GROUP])
{
	uint32_t state = 0;

	for (uint32_t s = 0; s < TC_STATES; s++)
		p->cost[s] = TC_LEAST;
	tc_follow(p, x, TQ_GROUP - p->book->seam, 2 * p->book->seam);
	for (uint32_t s = 1; s < 1U << tc_state_bits(p->book); s++)
		if (p->cost[s] < p->cost[state])
			state = s;
	for (size_t i = 2 * p->book->seam; i-- > p->book->seam;)
		state = tc_state_before(p->book, state, p->dropped[i][state]);
	return state;
}

/* Returns the factor. */
static float tc_encode_group(uint8_t symbol[TQ_GROUP], const int16_t x[TQ_GROUP],
			     const struct tc_codebook *book)
{
	struct tc_path p = {.book = book};
	const uint32_t seam = tc_seam_state(&p, x);
	uint32_t state = seam;
	int32_t with_target = 0, with_itself = 0;

	for (uint32_t s = 0; s < TC_STATES; s++)
		p.cost[s] = s == seam ? TC_LEAST : TC_FAR;
	tc_follow(&p, x, 0, TQ_GROUP);
	for (size_t t = TQ_GROUP; t-- > 0;) {
		const uint32_t dropped = p.dropped[t][state];
		const int32_t code = tc_code(book, state << book->bits | dropped);
		with_target += x[t] * code;
		with_itself += code * code;
		symbol[tc_column(t)] = tc_newest_symbol(book, state);
		state = tc_state_before(book, state, dropped);
	}
	return tc_factor(with_target, with_itself);
}

void tc_encode(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);

	for (size_t g = 0; g < groups; g++, y += TQ_GROUP, packed += tq_group_bytes(bits)) {
		uint8_t symbol[TQ_GROUP];
		int16_t x[TQ_GROUP];
		for (size_t t = 0; t < TQ_GROUP; t++)
			x[t] = tc_target(y[tc_column(t)], TC_ONE / book->gain);
		factor[g] = tc_encode_group(symbol, x, book);
		tq_pack(packed, symbol, bits);
	}
}

/* ---- rows ---- */

bool tc_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols, uint32_t bits)
{
	for (size_t g = 0; g < tq_groups(cols); g++, packed += tq_group_bytes(bits)) {
		float y[TQ_GROUP], factor;
		tq_load_group(y, row + g * TQ_GROUP, cols - g * TQ_GROUP);
		const float norm = sqrtf(tq_dot(y, y)), divisor = norm == 0 ? 1 : norm;
		if (!isfinite(norm))
			return false;
		for (size_t i = 0; i < TQ_GROUP; i++)
			y[i] /= divisor;
		tq_rotate(y);
		tc_encode(packed, &factor, y, 1, bits);
		norms[g] = norm * factor;
	}
	return true;
}
