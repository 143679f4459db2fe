/* Scoring: a turn that asks how likely a text is, token by token, instead of what follows it
 * (session_score). Its rows are those of a prompt, with logits, and have the session's losses. Its
 * context is dropped at its end. */
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
	size_t count; /* of tokens that have one: all but the first */
};

/* -EINVAL, -EFBIG: the text has no tokens, or more than the context. */
int score_check_length(const struct turn_state *t, struct err *e);
/* Writes the line of the first token, which has no probability. -ENOMEM. */
int score_begin(const struct turn_state *t, struct text_out *to, struct err *e);
/* The logits of a row of the step tell how likely the token after it was: writes that token's line.
 * -ENOMEM, -EIO. */
int score_take_row(struct turn_state *t, uint32_t row, const float *logits,
		   const struct turn_scratch *x, struct text_out *to, struct err *e);
/* After the last row: writes the sums. -ENOMEM. */
int score_finish(const struct turn_state *t, struct text_out *to, struct err *e);

#endif
