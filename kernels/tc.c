/* The definition of TC: tables, what a stream means, which stream a group gets (tc.h).
 *
 * A state is the part of the window that the next weight still sees: the last window - bits bits of
 * the stream, the newest highest. A weight's window is its symbol above the state before it; the
 * state after it is the window without its oldest symbol's bits.
 *
 * The encoder is the Viterbi algorithm in whole numbers, so that any order of operations gives the
 * same bytes. Targets are the rotated weights in sixteenths of a code; what a code costs is its
 * squared distance to the target, less the target's square, which is the same for all. Where paths
 * cost the same the one whose dropped symbol is lower stands.
 *
 * A ring has no first state. Which one it passes between its last and its first weight is found
 * beforehand, on the 2 · TC_SEAM weights around that seam; then the best stream through it is
 * taken. The best of all rings would be better by less than a thousandth.
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
		.newest = {-13, 18, 12, -25, 11, -3, -4, 8, 11, 0, -15, 25, -17, 35, -35, -7},
		.before = {-28, -8, 22, 4, -25, 28, -6, 9, 25, -25, 6, -6, 24, 4, -2, -20},
		.gain = 0x1.e6c652p-9F, /* 1 / (23.80 · √128) */
	},
	{
		.bits = 3,
		.window = 7,
		.newest = {-4, -15, 17, 16, 10, -25, 4, 0, 30, 2, -26, 10, -8, -7, -17, 28},
		.before = {13, -11, -20, 20, 32, 5, -2, -37, -3, 26, 14, -14, -25, 4, -6, 12},
		.gain = 0x1.170724p-8F, /* 1 / (20.76 · √128) */
	},
	{
		.bits = 4,
		.window = 8,
		.newest = {3, 14, -3, 0, -13, 19, -4, 11, -26, 7, -8, 8, -12, -18, 4, 25},
		.before = {38, 19, 27, -19, 4, 1, -14, -4, -1, 15, -7, -25, -36, 11, -10, 8},
		.gain = 0x1.3bac8ep-8F, /* 1 / (18.35 · √128) */
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
	follow(p, x, TQ_GROUP - TC_SEAM, 2 * TC_SEAM);
	for (uint32_t s = 1; s < 1U << state_bits(p->book); s++)
		if (p->cost[s] < p->cost[state])
			state = s;
	for (size_t i = 2 * TC_SEAM; i-- > TC_SEAM;)
		state = state_before(p->book, state, p->dropped[i][state]);
	return state;
}

static void encode_group(uint8_t *packed, const int32_t x[TQ_GROUP], const struct tc_codebook *book)
{
	uint8_t symbol[TQ_GROUP];
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
	tq_pack(packed, symbol, book->bits);
}

void tc_encode(uint8_t *packed, const float *y, size_t groups, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	const float scale = TC_ONE / book->gain;

	for (size_t g = 0; g < groups; g++, y += TQ_GROUP, packed += tq_group_bytes(bits)) {
		int32_t x[TQ_GROUP];
		for (size_t t = 0; t < TQ_GROUP; t++)
			x[t] = (int32_t)rintf(
				fminf(fmaxf(y[tc_column(t)] * scale, -TC_MOST), TC_MOST));
		encode_group(packed, x, book);
	}
}

/* ---- rows ---- */

float tc_norm(float norm, const float y[TQ_GROUP], const uint8_t *packed, uint32_t bits)
{
	const float gain = tc_codebook(bits)->gain;
	int8_t code[TQ_GROUP];
	float c[TQ_GROUP];

	if (norm == 0)
		return 0;
	tc_codes(code, packed, bits);
	for (size_t i = 0; i < TQ_GROUP; i++)
		c[i] = code[i] * gain;
	return norm * (tq_dot(y, c) / tq_dot(c, c));
}

bool tc_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols, uint32_t bits)
{
	for (size_t g = 0; g < tq_groups(cols); g++, packed += tq_group_bytes(bits)) {
		float y[TQ_GROUP];
		tq_load_group(y, row + g * TQ_GROUP, cols - g * TQ_GROUP);
		const float norm = sqrtf(tq_dot(y, y)), divisor = norm == 0 ? 1 : norm;
		if (!isfinite(norm))
			return false;
		for (size_t i = 0; i < TQ_GROUP; i++)
			y[i] /= divisor;
		tq_rotate(y);
		tc_encode(packed, y, 1, bits);
		norms[g] = tc_norm(norm, y, packed, bits);
	}
	return true;
}
