/* Scoring: a turn that asks how likely a text is, token by token, instead of what follows it
 * (session_score). It takes its place in the schedule as any other, chunk by chunk, by the rows
 * that prompts are computed with, and has the session's losses. What it computed is forgotten with
 * it. */
#ifndef MOEFS_ENGINE_SERVE_SCORE_H
#define MOEFS_ENGINE_SERVE_SCORE_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

struct score { /* of a turn */
	/* What each row of a step is given to (step.h), with the session. NULL: this is no score.
	 */
	int (*read)(void *session, uint32_t row, const float *logits, struct err *e);
	double sum;   /* of the log-probabilities */
	size_t count; /* of tokens that have one: all but the first */
};

/* As turn_step. */
bool score_step(struct session *s);

#endif
