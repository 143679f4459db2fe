/* What so many rows at once take, learnt from what they took: rows of a step that several turns
 * share, or of a pass of the draft layer for several of them.
 *
 * Numbers of rows that are alike share a point, which is the fading mean of both their rows and
 * their seconds. Between two points cost is a line. No rows cost more than a greater number of
 * them: a single measurement may have been bad, and then it is too high. Beyond the last point cost
 * grows as it does from the first point to the last.
 *
 * For one thread.
 */
#ifndef MOEFS_ENGINE_TURN_DRAFT_COSTS_H
#define MOEFS_ENGINE_TURN_DRAFT_COSTS_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAFT_COST_POINTS = 25 };

struct draft_costs { /* zeroed: nothing is known yet */
	struct draft_cost {
		double rows, seconds; /* fading means */
		uint32_t seen;	      /* how often, as far as it matters; 0: not measured */
		bool far;	      /* the last was far more than the mean */
	} of[DRAFT_COST_POINTS];
};

/* Seconds of so many rows, at least 1; 0: nothing is known. */
double draft_costs_at(const struct draft_costs *c, uint32_t rows);
/* Whether they, or numbers of rows that are alike, were measured more than once or twice. */
bool draft_costs_known(const struct draft_costs *c, uint32_t rows);
/* Rows took `seconds`. What is far more than was expected (0: nothing was) counts as less, since
 * the step may have lost its processor for a while; with `believes` only until it happens again.
 * Returns the seconds that it counts as. */
double draft_costs_count(struct draft_costs *c, uint32_t rows, double expected, double seconds,
			 bool believes);

#endif
