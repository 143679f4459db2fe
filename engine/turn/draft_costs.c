#include "engine/turn/draft_costs.h"

#include <stddef.h>

/* The most rows of each point; more than the last are like the last. */
static const uint16_t draft_most_rows[DRAFT_COST_POINTS] = {1,	2,  3,	4,  5,	 6,   7,  8,  10,
							    12, 14, 16, 20, 24,	 28,  32, 40, 48,
							    56, 64, 80, 96, 112, 128, 160};
/* Fading: of a mean that is known, and of what is far more than it and happens again. */
static const double least_weight = 0.1, believed_weight = 0.5;
/* Times what was expected. */
static const double far_more = 1.5;
/* What one row more costs, in rows of the mean cost, before anything is known of it; and as how
 * many measured rows that counts. */
static const double row_guess = 0.6, guess_rows = 2;

static struct draft_cost *draft_costs_point(struct draft_costs *c, uint32_t rows)
{
	size_t i = 0;
	while (i + 1 < DRAFT_COST_POINTS && draft_most_rows[i] < rows)
		i++;
	return &c->of[i];
}

/* Seconds of one row more, from the first point and the last. */
static double draft_costs_slope(const struct draft_cost *first, const struct draft_cost *last)
{
	double guess = row_guess * last->seconds / last->rows;
	return (last->seconds - first->seconds + guess_rows * guess) /
	       (last->rows - first->rows + guess_rows);
}

double draft_costs_at(const struct draft_costs *c, uint32_t rows)
{
	struct draft_cost first = {0}, below = {0};
	for (size_t i = 0; i < DRAFT_COST_POINTS; i++) {
		struct draft_cost at = c->of[i];
		if (!at.seen)
			continue;
		if (first.seen && at.seconds < below.seconds)
			at.seconds = below.seconds;
		if (at.rows >= rows && first.seen)
			return below.seconds + (at.seconds - below.seconds) * (rows - below.rows) /
						       (at.rows - below.rows);
		if (!first.seen)
			first = at;
		if (at.rows >= rows)
			break;
		below = at;
	}
	/* Before the first point, or after the last. */
	struct draft_cost from = below.seen ? below : first;
	return from.seen ? from.seconds + (rows - from.rows) * draft_costs_slope(&first, &from) : 0;
}

double draft_costs_count(struct draft_costs *c, uint32_t rows, double seconds, bool believes)
{
	struct draft_cost *p = draft_costs_point(c, rows);
	double expected = draft_costs_at(c, rows), weight = 1.0 / (p->seen + 1);
	bool far = expected > 0 && seconds > far_more * expected, again = far && p->far;
	p->far = far;
	if (weight < least_weight)
		weight = least_weight;
	else
		p->seen++;
	if (again && believes)
		weight = weight < believed_weight ? believed_weight : weight;
	else if (far)
		seconds = far_more * expected;
	p->rows += weight * (rows - p->rows);
	p->seconds += weight * (seconds - p->seconds);
	return seconds;
}
