#include "engine/turn/draft_costs.h"

#include <stddef.h>

/* The most rows of each point; the last point also has all larger numbers. */
static const uint16_t draft_most_rows[DRAFT_COST_POINTS] = {1,	2,  3,	4,  5,	 6,   7,  8,  10,
							    12, 14, 16, 20, 24,	 28,  32, 40, 48,
							    56, 64, 80, 96, 112, 128, 160};
/* Weights of a new measurement: normally, and if it is the second in a row that is far above the
 * mean. */
static const double least_weight = 0.1, believed_weight = 0.5;
/* A measurement is far above the expected one if it exceeds it by this factor. */
static const double far_more = 1.5;
/* A guess, before anything is measured: the cost of one more row, relative to the mean cost of a
 * row; and the weight of the guess, in measured rows. */
static const double row_guess = 0.6, guess_rows = 2;

static size_t draft_costs_point(uint32_t rows)
{
	size_t i = 0;
	while (i + 1 < DRAFT_COST_POINTS && draft_most_rows[i] < rows)
		i++;
	return i;
}

static struct draft_cost draft_costs_first(const struct draft_costs *c)
{
	size_t i = 0;
	while (i + 1 < DRAFT_COST_POINTS && !c->of[i].seen)
		i++;
	return c->of[i];
}

/* The slope in seconds per row, beyond the last point or before the first. */
static double draft_costs_slope(const struct draft_costs *c, const struct draft_cost *p)
{
	struct draft_cost first = draft_costs_first(c);
	double guess = row_guess * p->seconds / p->rows;
	double seconds = first.seconds < p->seconds ? p->seconds - first.seconds : 0;
	return (seconds + guess_rows * guess) / (p->rows - first.rows + guess_rows);
}

double draft_costs_at(const struct draft_costs *c, uint32_t rows)
{
	struct draft_cost p = {0}, above = {0};
	for (size_t i = DRAFT_COST_POINTS; i-- > 0 && !(p.seen && p.rows <= rows);) {
		if (!c->of[i].seen)
			continue;
		above = p;
		p = c->of[i];
		if (above.seen && p.seconds > above.seconds)
			p.seconds = above.seconds;
	}
	if (!p.seen)
		return 0;
	if (p.rows <= rows && above.seen)
		return p.seconds +
		       (above.seconds - p.seconds) * (rows - p.rows) / (above.rows - p.rows);
	return p.seconds + (rows - p.rows) * draft_costs_slope(c, &p);
}

bool draft_costs_known(const struct draft_costs *c, uint32_t rows)
{
	enum { TIMES = 3 };
	return c->of[draft_costs_point(rows)].seen >= TIMES;
}

double draft_costs_count(struct draft_costs *c, uint32_t rows, double expected, double seconds,
			 bool believes)
{
	struct draft_cost *p = &c->of[draft_costs_point(rows)];
	double weight = 1.0 / (p->seen + 1);
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
