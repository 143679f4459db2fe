/* Answers that are held to a form: params/format, params/grammar and params/tool_choice.
 *
 * A turn's place in its grammar follows the tokens that stand in its answer, so drafts have no part
 * in it: each position is masked by what was drawn before it. */
#ifndef MOEFS_ENGINE_TURN_CONSTRAIN_H
#define MOEFS_ENGINE_TURN_CONSTRAIN_H

#include "engine/turn/grammars.h"

struct turn_state;
struct turn_scratch;

struct constraint {		   /* of a turn */
	struct kept_grammar *kept; /* NULL: the answer is free */
	const struct grammar_tokens *tokens;
	struct spots at;
};

/* Once it is known how the answer begins. What the turn continues is read first. -EINVAL, -ENOTSUP,
 * -E2BIG, -ENOMEM in words. */
int constrain_begin(struct turn_state *t, struct err *e);
/* What may not be drawn next gets minus infinity. -EIO: nothing may. */
int constrain_logits(const struct turn_state *t, float *logits, const struct turn_scratch *x,
		     struct err *e);
/* A token was drawn that does not end the answer. *over: nothing but its end may follow. */
int constrain_take(struct turn_state *t, uint32_t id, bool *over, struct err *e);
/* How many of these may stand one after the other, as far as the form is concerned. */
uint32_t constrain_drafts(const struct turn_state *t, const uint32_t *draft, uint32_t n);
/* The turn is over; nothing, where it has none. */
void constrain_end(struct constraint *c);

#endif
