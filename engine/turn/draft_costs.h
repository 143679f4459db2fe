/* Learns how long n rows at once take, from measurements. The rows are those of a step that several
 * turns share, or of a pass of the draft layer for several turns.
 *
 * Similar numbers of rows share a point, whose rows and seconds are fading means. Between two
 * points the cost is interpolated linearly. n rows never cost more than a larger number of rows,
 * since a bad measurement is always too high. Beyond the last point, the cost grows with the slope
 * from the first point to the last.
 *
 * For one thread.
 */
#ifndef MOEFS_ENGINE_TURN_DRAFT_COSTS_H
#define MOEFS_ENGINE_TURN_DRAFT_COSTS_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAFT_COST_POINTS = 25 };

struct draft_costs { /* zero-initialised: nothing is known yet */
	struct draft_cost {
		double rows, seconds; /* fading means */
		uint32_t seen;	      /* number of measurements, up to a small maximum; 0: none */
		bool far;	      /* the last measurement was far above the mean */
	} of[DRAFT_COST_POINTS];
};

/* Seconds that `rows` rows (at least 1) take; 0: nothing is known. */
double draft_costs_at(const struct draft_costs *c, uint32_t rows);
/* Whether this or a similar number of rows was measured more than once or twice. */
bool draft_costs_known(const struct draft_costs *c, uint32_t rows);
/* Adds a measurement: `rows` rows took `seconds`. expected: the prediction, or 0. A measurement far
 * above the prediction counts as less, since the step may have lost its processor for a while. With
 * `believes`, a second such measurement in a row counts in full. Returns the seconds that were
 * counted. */
double draft_costs_count(struct draft_costs *c, uint32_t rows, double expected, double seconds,
			 bool believes);

#endif
