/* Steps of one context, computed directly. */
#ifndef MOEFS_TESTS_UNIT_FORWARD_HELP_H
#define MOEFS_TESTS_UNIT_FORWARD_HELP_H

#include "engine/compute/forward.h"

/* Computes n rows at the context's next positions: those of a prompt, or an answer's token and the
 * drafts after it. `all` receives each row's logits; NULL: forward.logits the last one's. */
int test_step(struct forward *f, struct context *x, const uint32_t *tokens, uint32_t n, float *all,
	      struct err *e);
int test_verify(struct forward *f, struct context *x, const uint32_t *tokens, uint32_t n,
		float *all, struct err *e);
/* Adds such rows to a batch. */
int test_add(struct step_batch *b, struct context *x, const uint32_t *tokens, uint32_t n,
	     enum row_kind kind, bool logits, struct err *e);

/* Stops the steps above; and a tap that requests a stop after the states of a given number of
 * spans. */
extern uint32_t test_states_left;
extern _Atomic bool test_stopped;
void test_stop_at_state(void *ctx, enum tap_point point, uint32_t layer, uint32_t position,
			uint32_t n, uint32_t width, const float *rows);

#endif
