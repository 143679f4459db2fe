/* Predicts how long turns of a model take, from the turns that it has computed. For session_plan
 * (sessions_plan.c). */
#ifndef MOEFS_ENGINE_RUN_FORECAST_H
#define MOEFS_ENGINE_RUN_FORECAST_H

#include "engine/session.h"

#include <stdint.h>

/* A line y = a + b x fitted to measured points, where older points weigh less. Also keeps the mean
 * error of its predictions. Zero-initialised: no points. */
struct forecast_line {
	double weight, x, y, xx, xy; /* weighted sums over the points */
	double off;		     /* fading mean of the prediction error */
	uint32_t count;
};
void forecast_learn(struct forecast_line *l, double x, double y); /* adds a point; y > 0 */
/* Predicts *y at x, and how far off it may be. False: no points yet. */
bool forecast_at(const struct forecast_line *l, double x, double *y, double *off);

struct forecast { /* of a run; under the run's lock */
	/* x: prompt tokens that had to be computed; y: seconds from submit to the first token,
	 * without the waits in the queue and for the disk. */
	struct forecast_line first;
	struct forecast_line token;	 /* x is not used; y: seconds per token */
	double read_bytes, read_seconds; /* fading sums */
};

/* Adds the numbers of a turn that ended without error. The run's lock is held. */
void forecast_count(struct forecast *f, const struct session_stats *s);

#endif
