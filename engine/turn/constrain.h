/* Constrained answers: params/format, params/grammar and params/tool_choice.
 *
 * A turn's position in its grammar advances with sampled tokens, not with drafts. The mask of each
 * position depends on the tokens sampled before it. */
#ifndef MOEFS_ENGINE_TURN_CONSTRAIN_H
#define MOEFS_ENGINE_TURN_CONSTRAIN_H

#include "engine/turn/grammars.h"

struct turn_state;
struct turn_scratch;

struct constraint {		   /* of a turn */
	struct kept_grammar *kept; /* NULL: the answer is not constrained */
	const struct grammar_tokens *tokens;
	struct spots at;
};

/* Call this once it is known how the answer begins. Advances the grammar over the text that the
 * turn continues. -EINVAL, -ENOTSUP, -E2BIG, -ENOMEM. */
int constrain_begin(struct turn_state *t, struct err *e);
/* Sets the logits of tokens that are not allowed next to minus infinity. -EIO: no token is allowed.
 */
int constrain_logits(const struct turn_state *t, float *logits, const struct turn_scratch *x,
		     struct err *e);
/* Advances the grammar by a sampled token that does not end the answer. *over: only the end is
 * allowed next. */
int constrain_take(struct turn_state *t, uint32_t id, bool *over, struct err *e);
/* How many of the n drafted tokens the grammar allows. */
uint32_t constrain_drafts(const struct turn_state *t, const uint32_t *draft, uint32_t n);
/* Call this when the turn is over. Does nothing without a grammar. */
void constrain_end(struct constraint *c);

#endif
