/* Scoring: a turn that computes how likely each token of a text is, and generates nothing
 * (session_score). Its rows are prompt rows with logits, computed with the session's lossy params.
 * Its context is dropped at the end. */
#ifndef MOEFS_ENGINE_TURN_SCORE_H
#define MOEFS_ENGINE_TURN_SCORE_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>

struct text_out;
struct turn_state;
struct turn_scratch;

struct score {	      /* of a turn */
	double sum;   /* of the log-probabilities */
	size_t count; /* tokens with a log-probability: all but the first */
};

/* -EINVAL: the text has no tokens; -EFBIG: more tokens than the context holds. */
int score_check_length(const struct turn_state *t, struct err *e);
/* Writes the line of the first token, which has no log-probability. -ENOMEM. */
int score_begin(const struct turn_state *t, struct text_out *to, struct err *e);
/* Takes the logits of a row, and writes the line of the token after it. -ENOMEM, -EIO. */
int score_take_row(struct turn_state *t, uint32_t row, const float *logits,
		   const struct turn_scratch *x, struct text_out *to, struct err *e);
/* Writes the lines `mean` and `perplexity` after the last row. -ENOMEM. */
int score_finish(const struct turn_state *t, struct text_out *to, struct err *e);

#endif
