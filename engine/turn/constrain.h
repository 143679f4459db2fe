/* Answers that are held to a form: params/format, params/grammar and params/tool_choice.
 *
 * A turn's place in its grammar follows the drawn tokens, not the drafts: each position is masked
 * by what was drawn before it. */
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

/* Called once it is known how the answer begins. Reads the text that the turn continues. -EINVAL,
 * -ENOTSUP, -E2BIG, -ENOMEM in words. */
int constrain_begin(struct turn_state *t, struct err *e);
/* Sets tokens that are not allowed next to minus infinity. -EIO: none is allowed. */
int constrain_logits(const struct turn_state *t, float *logits, const struct turn_scratch *x,
		     struct err *e);
/* Takes a drawn token that does not end the answer. *over: only the end is allowed next. */
int constrain_take(struct turn_state *t, uint32_t id, bool *over, struct err *e);
/* How many of these tokens the grammar allows one after the other. */
uint32_t constrain_drafts(const struct turn_state *t, const uint32_t *draft, uint32_t n);
/* The turn is over. Does nothing without a grammar. */
void constrain_end(struct constraint *c);

#endif
