/* Rounding to a trellis (kernels/tc.h): the Viterbi algorithm where each path carries what its own
 * errors ask of the weights to come (per-survivor processing: Raheli, Polydoros and Tzou 1995).
 *
 * Where the ring closes is found beforehand on the weights on both sides of that seam, as tc.c
 * does it, but with what errors cost there. */
#include "engine/convert/rounding_codes.h"
#include "kernels/tc.h"

#include <math.h>
#include <string.h>

enum { STATES = 64, WINDOWS = 256, TOUCHED = 4 }; /* at most; weights that a symbol has a part in */

/* ---- the trellis ---- */

struct trellis {
	uint32_t bits, states, window;
	uint32_t seam;
	float level[WINDOWS];
};

static void begin(struct trellis *t, uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);
	*t = (struct trellis){bits, 1U << (book->window - bits), book->window, book->seam, {0}};
	for (uint32_t w = 0; w < 1U << t->window; w++)
		t->level[w] = (float)tc_code(book, w) * book->gain;
}

/* The state before `state`, of which the symbol `dropped` has since left. */
static uint32_t state_before(const struct trellis *t, uint32_t state, uint32_t dropped)
{
	return (state << t->bits | dropped) & (t->states - 1);
}

static uint8_t newest_symbol(const struct trellis *t, uint32_t state)
{
	return (uint8_t)(state >> (t->window - 2 * t->bits));
}

/* The cheapest way to each state, given what each state before it is aimed at. */
static void step(const struct trellis *t, float after[STATES], uint8_t dropped[STATES],
		 const float before[STATES], const float aimed[STATES], float norm, float cost)
{
	for (uint32_t s = 0; s < t->states; s++) {
		after[s] = INFINITY;
		dropped[s] = 0;
		for (uint32_t d = 0; d < 1U << t->bits; d++) {
			uint32_t p = state_before(t, s, d);
			float off = aimed[p] - norm * t->level[s << t->bits | d];
			float all = before[p] + cost * off * off;
			if (all < after[s]) {
				after[s] = all;
				dropped[s] = (uint8_t)d;
			}
		}
	}
}

/* ---- choosing ---- */

/* The state between the last weight and the first. */
static uint32_t seam_state(const struct trellis *t, const struct group *g, float norm)
{
	uint8_t dropped[TQ_GROUP][STATES];
	float cost[STATES] = {0}, after[STATES], aimed[STATES];
	uint32_t state = 0;
	for (uint32_t i = 0; i < 2 * t->seam; i++) {
		uint32_t at = (TQ_GROUP - t->seam + i) % TQ_GROUP;
		for (uint32_t s = 0; s < t->states; s++)
			aimed[s] = g->target[at];
		step(t, after, dropped[i], cost, aimed, norm, g->cost[at]);
		memcpy(cost, after, sizeof cost);
	}
	for (uint32_t s = 1; s < t->states; s++)
		if (cost[s] < cost[state])
			state = s;
	for (uint32_t i = 2 * t->seam; i-- > t->seam;)
		state = state_before(t, state, dropped[i][state]);
	return state;
}

/* What the paths to each state aim at, of the weights to come. */
struct paths {
	float cost[STATES];
	float aimed[STATES][TQ_GROUP];
};

static void extend(const struct trellis *t, const struct group *g, float norm, size_t at,
		   struct paths *to, const struct paths *from, uint8_t dropped[STATES])
{
	float aimed[STATES];
	for (uint32_t s = 0; s < t->states; s++)
		aimed[s] = from->aimed[s][at];
	step(t, to->cost, dropped, from->cost, aimed, norm, g->cost[at]);
	for (uint32_t s = 0; s < t->states; s++) {
		size_t next = at + 1, left = TQ_GROUP - next;
		const float *before = from->aimed[state_before(t, s, dropped[s])];
		float error = g->weight[at] - norm * t->level[s << t->bits | dropped[s]];
		memcpy(to->aimed[s] + next, before + next, left * sizeof *before);
		g->kernels->add_scaled(to->aimed[s] + next, error, g->upper + at * g->stride + next,
				       left);
	}
}

static void read_levels(const struct trellis *t, struct coded *c)
{
	uint32_t symbols = (t->window + t->bits - 1) / t->bits, window = 0;
	for (uint32_t i = TQ_GROUP - symbols; i < 2 * TQ_GROUP; i++) {
		window = window >> t->bits | (uint32_t)c->symbol[i % TQ_GROUP]
						     << (t->window - t->bits);
		if (i >= TQ_GROUP)
			c->level[i - TQ_GROUP] = t->level[window];
	}
}

void rounding_tc_choose(const struct group *g, float norm, struct coded *c)
{
	struct trellis t;
	struct paths paths[2];
	uint8_t dropped[TQ_GROUP][STATES];
	begin(&t, g->bits);
	uint32_t seam = seam_state(&t, g, norm), state = seam;
	for (uint32_t s = 0; s < t.states; s++) {
		paths[0].cost[s] = s == seam ? 0 : INFINITY;
		for (size_t i = 0; i < TQ_GROUP; i++)
			paths[0].aimed[s][i] = g->weight[i] + g->brought[i];
	}
	for (size_t i = 0; i < TQ_GROUP; i++)
		extend(&t, g, norm, i, &paths[(i + 1) % 2], &paths[i % 2], dropped[i]);
	for (size_t i = TQ_GROUP; i-- > 0;) {
		c->symbol[i] = newest_symbol(&t, state);
		state = state_before(&t, state, dropped[i][state]);
	}
	read_levels(&t, c);
}

/* ---- once more ---- */

/* The levels of the weights that the symbol at a position has a part in, from that one on. */
static void levels_at(const struct trellis *t, const struct coded *c, uint32_t at, uint32_t count,
		      float level[TOUCHED])
{
	uint32_t window = 0;
	for (uint32_t i = TQ_GROUP + at - count; i < TQ_GROUP + at + count; i++) {
		window = window >> t->bits | (uint32_t)c->symbol[i % TQ_GROUP]
						     << (t->window - t->bits);
		if (i >= TQ_GROUP + at)
			level[i - TQ_GROUP - at] = t->level[window];
	}
}

/* How much less the group would cost with these levels. */
static double gain_of(const struct group *g, const struct coded *c, const float pull[TQ_GROUP],
		      uint32_t at, uint32_t count, const float level[TOUCHED])
{
	float change[TOUCHED];
	double gain = 0;
	for (uint32_t i = 0; i < count; i++)
		change[i] = c->norm * (level[i] - c->level[(at + i) % TQ_GROUP]);
	for (uint32_t i = 0; i < count; i++) {
		const float *row = g->pairs + (size_t)((at + i) % TQ_GROUP) * TQ_GROUP;
		gain += 2 * (double)change[i] * pull[(at + i) % TQ_GROUP];
		for (uint32_t j = 0; j < count; j++)
			gain -= (double)change[i] * change[j] * row[(at + j) % TQ_GROUP];
	}
	return gain;
}

static void take(const struct group *g, struct coded *c, float pull[TQ_GROUP], uint32_t at,
		 uint32_t count, const float level[TOUCHED])
{
	for (uint32_t i = 0; i < count; i++) {
		size_t p = (at + i) % TQ_GROUP;
		g->kernels->add_scaled(pull, c->norm * (c->level[p] - level[i]),
				       g->pairs + p * TQ_GROUP, TQ_GROUP);
		c->level[p] = level[i];
	}
}

bool rounding_tc_sweep(const struct group *g, struct coded *c)
{
	struct trellis t;
	float pull[TQ_GROUP] = {0};
	bool changed = false;
	begin(&t, g->bits);
	uint32_t count = (t.window + t.bits - 1) / t.bits;
	double least = 1e-6 * fabs(c->cost); /* what is less may be nothing */
	for (size_t i = 0; i < TQ_GROUP; i++)
		g->kernels->add_scaled(pull, g->target[i] - c->norm * c->level[i],
				       g->pairs + i * TQ_GROUP, TQ_GROUP);
	for (uint32_t at = 0; at < TQ_GROUP; at++) {
		float level[TOUCHED], best_level[TOUCHED];
		uint8_t now = c->symbol[at], best = now;
		double most = least;
		for (uint32_t symbol = 0; symbol < 1U << t.bits; symbol++) {
			c->symbol[at] = (uint8_t)symbol;
			levels_at(&t, c, at, count, level);
			double gain = gain_of(g, c, pull, at, count, level);
			if (symbol != now && gain > most) {
				most = gain;
				best = (uint8_t)symbol;
				memcpy(best_level, level, sizeof level);
			}
		}
		c->symbol[at] = best;
		if (best == now)
			continue;
		take(g, c, pull, at, count, best_level);
		changed = true;
	}
	return changed;
}
