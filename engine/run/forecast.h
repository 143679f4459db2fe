/* How long turns take, learnt from those that a model has computed: for the plan of the next one
 * (sessions_plan.c). */
#ifndef MOEFS_ENGINE_RUN_FORECAST_H
#define MOEFS_ENGINE_RUN_FORECAST_H

#include "engine/session.h"

#include <stdint.h>

/* A fading line y = a + b x through what was measured, and how far off it was before each new
 * point; zero-initialised: nothing was measured. */
struct forecast_line {
	double weight, x, y, xx, xy; /* weighted sums */
	double off;		     /* fading mean of the distance */
	uint32_t count;
};
void forecast_learn(struct forecast_line *l, double x, double y); /* y: more than 0 */
/* False: nothing was measured. */
bool forecast_at(const struct forecast_line *l, double x, double *y, double *off);

struct forecast { /* a run's; under its lock */
	/* Over the tokens that a prompt had to compute: seconds from submit to the first token, less
	 * those that it waited in the queue and for the disk. */
	struct forecast_line first;
	struct forecast_line token; /* over nothing: seconds of a token */
	double read_bytes, read_seconds; /* fading sums */
};

/* The run's lock is held: a turn has ended well. */
void forecast_count(struct forecast *f, const struct session_stats *s);

#endif
