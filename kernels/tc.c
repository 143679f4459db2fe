/* The definition of TC: tables, what a stream means, which stream a group gets (tc.h).
 *
 * A state is the part of the window that the next weight still sees: the last window - bits bits of
 * the stream, the newest highest. A weight's window is its symbol above the state before it; the
 * state after it is the window without its oldest symbol's bits.
 *
 * The encoder is the Viterbi algorithm in whole numbers, so that any order of operations gives the
 * same bytes. Targets are the rotated weights in sixteenths of a code; what a code costs is its
 * squared distance to the target, less the target's square, which is the same for all of them.
 * Where paths cost the same the one whose dropped symbol is lower stands.
 *
 * A ring has no first state. Which one it passes between its last and its first weight is found
 * beforehand, on the weights on both sides of that seam; then the best stream through it is
 * taken. The best of all rings would be better by less than half a hundredth.
 */
#include "kernels/tc_tables.h"
#include "kernels/tq_tables.h"

#include <math.h>
#include <string.h>

/* Found by Lloyd iterations with the encoder in the loop, on a Gaussian source, over whole numbers.
 * The relative squared errors of groups that are stored are .0803, .0227 and .00605. */
static const struct tc_codebook codebooks[] = {
	{
		.bits = 2,
		.window = 8,
		.seam = 24,
		.newest = {26, -24, -28, 9, -27, -7, 17, 30, -7, 24, -8, -15, 6, 2, -2, 3},
		.before = {-15, 19, -9, 7, 3, -22, 21, -5, -19, 10, 33, 0, 4, 23, -13, -35},
		.gain = 0x1.ec26bp-9F, /* 1 / (23.54 · √128) */
	},
	{
		.bits = 3,
		.window = 7,
		.seam = 16,
		.newest = {30, -3, 19, -27, -10, -12, -1, 15, -20, -13, -30, -1, 6, 7, 10, 26},
		.before = {7, -20, -32, 9, -1, 33, -10, 19, 5, -31, -11, 29, 17, -4, -18, 7},
		.gain = 0x1.0e6e2ep-8F, /* 1 / (21.42 · √128) */
	},
	{
		.bits = 4,
		.window = 8,
		.seam = 12,
		.newest = {18, -3, 15, -26, -8, -15, 3, 12, -13, -10, -20, -4, 6, 0, 10, 27},
		.before = {14, -19, -26, 3, -1, 34, -11, 24, -4, -37, -8, 18, 6, 10, -15, 2},
		.gain = 0x1.399f84p-8F, /* 1 / (18.47 · √128) */
	},
};

const struct tc_codebook *tc_codebook(uint32_t bits)
{
	return &codebooks[bits - 2];
}

/* ---- what bytes mean ---- */

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

/* ---- which bytes a group gets ---- */

/* The state's bits, and the symbol that was its newest. */
static uint32_t state_bits(const struct tc_codebook *book)
{
	return book->window - book->bits;
}

static uint8_t newest_symbol(const struct tc_codebook *book, uint32_t state)
{
	return (uint8_t)(state >> (state_bits(book) - book->bits));
}

/* The state before `state`, whose symbol `dropped` has since left. */
static uint32_t state_before(const struct tc_codebook *book, uint32_t state, uint32_t dropped)
{
	return (state << book->bits | dropped) & ((1U << state_bits(book)) - 1);
}

/* (16 code - x)² / 16, less x² / 16. */
static int32_t code_cost(int32_t code, int32_t x)
{
	return code * (TC_ONE * code - 2 * x);
}

/* Costs of states before and after a weight x; dropped[s] is the symbol that left on the cheapest
 * way to s. */
static void step(int32_t after[TC_STATES], uint8_t dropped[TC_STATES],
		 const int32_t before[TC_STATES], int32_t x, const struct tc_codebook *book)
{
	for (uint32_t s = 0; s < 1U << state_bits(book); s++) {
		after[s] = INT32_MAX;
		for (uint32_t d = 0; d < 1U << book->bits; d++) {
			const uint32_t window = s << book->bits | d;
			const int32_t cost = before[state_before(book, s, d)] +
					     code_cost(tc_code(book, window), x);
			if (cost < after[s]) {
				after[s] = cost;
				dropped[s] = (uint8_t)d;
			}
		}
	}
}

/* The trellis over some adjacent weights of the ring. */
struct path {
	const struct tc_codebook *book;
	int32_t cost[TC_STATES]; /* of the states after the last weight; of those before the first,
				    to begin with */
	uint8_t dropped[TQ_GROUP][TC_STATES];
};

static void follow(struct path *p, const int32_t *x, size_t first, size_t n)
{
	int32_t after[TC_STATES];

	for (size_t i = 0; i < n; i++) {
		step(after, p->dropped[i], p->cost, x[(first + i) % TQ_GROUP], p->book);
		memcpy(p->cost, after, sizeof after);
	}
}

/* Where the ring closes: the state between its last weight and its first. */
static uint32_t seam_state(struct path *p, const int32_t x[TQ_GROUP])
{
	uint32_t state = 0;

	memset(p->cost, 0, sizeof p->cost);
	follow(p, x, TQ_GROUP - p->book->seam, 2 * p->book->seam);
	for (uint32_t s = 1; s < 1U << state_bits(p->book); s++)
		if (p->cost[s] < p->cost[state])
			state = s;
	for (size_t i = 2 * p->book->seam; i-- > p->book->seam;)
		state = state_before(p->book, state, p->dropped[i][state]);
	return state;
}

static void encode_group(uint8_t symbol[TQ_GROUP], const int32_t x[TQ_GROUP],
			 const struct tc_codebook *book)
{
	struct path p = {.book = book};
	const uint32_t seam = seam_state(&p, x);
	uint32_t state = seam;

	for (uint32_t s = 0; s < TC_STATES; s++)
		p.cost[s] = s == seam ? 0 : TC_FAR;
	follow(&p, x, 0, TQ_GROUP);
	for (size_t t = TQ_GROUP; t-- > 0;) {
		symbol[tc_column(t)] = newest_symbol(book, state);
		state = state_before(book, state, p.dropped[t][state]);
	}
}

/* Both sums are exact. */
static float least_squares(const int32_t x[TQ_GROUP], const int8_t code[TQ_GROUP])
{
	int32_t with_target = 0, with_itself = 0;

	for (size_t t = 0; t < TQ_GROUP; t++) {
		const int32_t c = code[tc_column(t)];
		with_target += x[t] * c;
		with_itself += c * c;
	}
	return tc_factor(with_target, with_itself);
}

void tc_encode(uint8_t *packed, float *factor, const float *y, size_t groups, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);

	for (size_t g = 0; g < groups; g++, y += TQ_GROUP, packed += tq_group_bytes(bits)) {
		uint8_t symbol[TQ_GROUP];
		int8_t code[TQ_GROUP];
		int32_t x[TQ_GROUP];
		for (size_t t = 0; t < TQ_GROUP; t++)
			x[t] = tc_target(y[tc_column(t)], TC_ONE / book->gain);
		encode_group(symbol, x, book);
		tq_pack(packed, symbol, bits);
		tc_codes(code, packed, bits);
		factor[g] = least_squares(x, code);
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
