/* The definition of TC's encoder with known costs of errors (tc_errors.h): the scalar reference. */
#include "kernels/tc_errors.h"

#include <math.h>
#include <string.h>

void tc_levels(float level[TQ_GROUP], const uint8_t symbol[TQ_GROUP], uint32_t bits)
{
	const struct tc_codebook *book = tc_codebook(bits);

	for (size_t i = 0; i < TQ_GROUP; i++)
		level[i] = book->gain * (float)tc_code(book, tc_window_at(symbol, i, bits));
}

/* ---- choosing ---- */

struct tc_errors_trellis {
	uint32_t bits, states;
	float value[1 << TC_WINDOW_MOST]; /* by window: the weight that it stands for */
};

/* The state before `state`, from which the symbol `dropped` has left since. */
static uint32_t tc_errors_before(const struct tc_errors_trellis *t, uint32_t state,
				 uint32_t dropped)
{
	return (state << t->bits | dropped) & (t->states - 1);
}

/* The cheapest way to each state: after[s] is its cost, dropped[s] its step. aimed[p] is what the
 * path to each state before aims at. */
static void tc_errors_step(const struct tc_errors_trellis *t, float after[TC_STATES],
			   uint8_t dropped[TC_STATES], const float before[TC_STATES],
			   const float aimed[TC_STATES], float cost)
{
	for (uint32_t s = 0; s < t->states; s++) {
		after[s] = INFINITY;
		dropped[s] = 0;
		for (uint32_t d = 0; d < 1U << t->bits; d++) {
			const uint32_t p = tc_errors_before(t, s, d);
			const float off = aimed[p] - t->value[s << t->bits | d];
			const float all = fmaf(cost * off, off, before[p]);
			if (all < after[s]) {
				after[s] = all;
				dropped[s] = (uint8_t)d;
			}
		}
	}
}

/* The state between the last weight and the first. */
static uint32_t tc_errors_seam(const struct tc_errors_trellis *t, const struct tc_group *g,
			       const float target[TQ_GROUP])
{
	const uint32_t seam = tc_codebook(t->bits)->seam;
	uint8_t dropped[TQ_GROUP][TC_STATES];
	float cost[TC_STATES] = {0}, after[TC_STATES], aimed[TC_STATES];
	uint32_t state = 0;

	for (uint32_t i = 0; i < 2 * seam; i++) {
		const uint32_t at = (TQ_GROUP - seam + i) % TQ_GROUP;
		for (uint32_t s = 0; s < t->states; s++)
			aimed[s] = target[at];
		tc_errors_step(t, after, dropped[i], cost, aimed, g->cost[at]);
		memcpy(cost, after, sizeof cost);
	}
	for (uint32_t s = 1; s < t->states; s++)
		if (cost[s] < cost[state])
			state = s;
	for (uint32_t i = 2 * seam; i-- > seam;)
		state = tc_errors_before(t, state, dropped[i][state]);
	return state;
}

/* The best path to each state, and what each path aims at for the weights to come. */
struct tc_errors_paths {
	float cost[TC_STATES];
	float aimed[TC_STATES][TQ_GROUP];
};

static void tc_errors_extend(const struct tc_errors_trellis *t, const struct tc_group *g,
			     float weight, size_t at, struct tc_errors_paths *to,
			     const struct tc_errors_paths *from, uint8_t dropped[TC_STATES])
{
	float aimed[TC_STATES];

	for (uint32_t s = 0; s < t->states; s++)
		aimed[s] = from->aimed[s][at];
	tc_errors_step(t, to->cost, dropped, from->cost, aimed, g->cost[at]);
	for (uint32_t s = 0; s < t->states; s++) {
		const float *before = from->aimed[tc_errors_before(t, s, dropped[s])];
		const float error = weight - t->value[s << t->bits | dropped[s]];
		for (size_t j = at + 1; j < TQ_GROUP; j++)
			to->aimed[s][j] = fmaf(error, g->upper[at * g->stride + j], before[j]);
	}
}

void tc_choose(uint8_t symbol[TQ_GROUP], const struct tc_group *g, const float weight[TQ_GROUP],
	       const float aimed[TQ_GROUP], const float target[TQ_GROUP], float norm)
{
	const struct tc_codebook *book = tc_codebook(g->bits);
	struct tc_errors_trellis t = {g->bits, 1U << (book->window - g->bits), {0}};
	struct tc_errors_paths paths[2];
	uint8_t dropped[TQ_GROUP][TC_STATES];

	for (uint32_t w = 0; w < 1U << book->window; w++)
		t.value[w] = norm * book->gain * (float)tc_code(book, w);
	uint32_t state = tc_errors_seam(&t, g, target);
	for (uint32_t s = 0; s < t.states; s++) {
		paths[0].cost[s] = s == state ? 0 : INFINITY;
		memcpy(paths[0].aimed[s], aimed, sizeof paths[0].aimed[s]);
	}
	for (size_t i = 0; i < TQ_GROUP; i++)
		tc_errors_extend(&t, g, weight[i], i, &paths[(i + 1) % 2], &paths[i % 2],
				 dropped[i]);
	for (size_t i = TQ_GROUP; i-- > 0;) {
		symbol[i] = (uint8_t)(state >> (book->window - 2 * g->bits)); /* the newest one */
		state = tc_errors_before(&t, state, dropped[i][state]);
	}
}

/* ---- improving ---- */

/* How much less a group would cost if the weights at a position and after it changed so. */
static float tc_errors_gain(const struct tc_group *g, const float pull[TQ_GROUP], size_t at,
			    const float change[TC_TOUCHED])
{
	const uint32_t count = tc_touched(g->bits);
	float gain = 0;

	for (uint32_t i = 0; i < count; i++) {
		const float *row = g->pairs + (at + i) % TQ_GROUP * TQ_GROUP;
		float with = 2 * pull[(at + i) % TQ_GROUP];
		for (uint32_t j = 0; j < count; j++)
			with = fmaf(-row[(at + j) % TQ_GROUP], change[j], with);
		gain = fmaf(change[i], with, gain);
	}
	return gain;
}

/* What a symbol at a position would change. */
static void tc_errors_changes(const struct tc_codebook *book, const uint8_t symbol[TQ_GROUP],
			      size_t at, uint32_t other, float factor, float change[TC_TOUCHED])
{
	for (uint32_t i = 0; i < tc_touched(book->bits); i++) {
		const uint32_t now = tc_window_at(symbol, at + i, book->bits);
		const uint32_t then = now ^ tc_symbol_part(symbol[at], i, book->bits) ^
				      tc_symbol_part(other, i, book->bits);
		change[i] = factor * (float)(tc_code(book, then) - tc_code(book, now));
	}
}

bool tc_improve(uint8_t symbol[TQ_GROUP], float pull[TQ_GROUP], const struct tc_group *g,
		float norm, float least)
{
	const struct tc_codebook *book = tc_codebook(g->bits);
	const float factor = norm * book->gain;
	bool changed = false;

	for (size_t at = 0; at < TQ_GROUP; at++) {
		float change[TC_TOUCHED], most = least;
		uint8_t best = symbol[at];
		for (uint32_t s = 0; s < 1U << g->bits; s++) {
			tc_errors_changes(book, symbol, at, s, factor, change);
			const float gain = tc_errors_gain(g, pull, at, change);
			if (gain > most) {
				most = gain;
				best = (uint8_t)s;
			}
		}
		if (best == symbol[at])
			continue;
		tc_errors_changes(book, symbol, at, best, factor, change);
		for (uint32_t i = 0; i < tc_touched(g->bits); i++)
			for (size_t j = 0; j < TQ_GROUP; j++)
				pull[j] = fmaf(-change[i],
					       g->pairs[(at + i) % TQ_GROUP * TQ_GROUP + j],
					       pull[j]);
		symbol[at] = best;
		changed = true;
	}
	return changed;
}
