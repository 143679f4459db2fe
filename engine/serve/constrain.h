/* Answers that are held to a form: params/format, params/grammar and params/tool_choice.
 *
 * A model keeps the trees of its vocabulary and the grammars that were asked for last, with their
 * masks, so that a session's next turn compiles nothing. All of it is the generation thread's; a
 * vocabulary of 152 K takes 9 MB, a grammar 1 MB as a rule and at most what grammar_machine.h and
 * GRAMMAR_MASK_BYTES allow. What is kept beyond turns is CONSTRAINTS_KEPT grammars.
 *
 * A turn's place in its grammar follows the tokens that stand in its answer, so drafts have no
 * part in it: each position is masked by what was drawn before it. */
#ifndef MOEFS_ENGINE_SERVE_CONSTRAIN_H
#define MOEFS_ENGINE_SERVE_CONSTRAIN_H

#include "engine/grammar/grammar.h"

enum { CONSTRAINTS_KEPT = 8, CONSTRAINT_TREES = 4 };

struct model;
struct session;

struct kept_grammar;
struct kept_tokens {		       /* of one form, and of conversations or of plain text */
	struct grammar_tokens *tokens; /* NULL: none */
	const struct split_form *writes;
	bool chat;
};
struct constraints {		    /* of a model; zero-initialise */
	struct kept_grammar *first; /* the last one used first */
	struct kept_tokens trees[CONSTRAINT_TREES];
	uint64_t *mask;
};
void constraints_free(struct constraints *c);

struct constraint {		   /* of a turn */
	struct kept_grammar *kept; /* NULL: it is free */
	const struct grammar_tokens *tokens;
	struct spots at;
};

/* Once it is known how the answer begins. With what the turn goes on with, which is read first.
 * -EINVAL, -ENOTSUP, -E2BIG, -ENOMEM in words. */
int constrain_begin(struct session *s, struct err *e);
/* What may not be drawn next gets minus infinity. -EIO: nothing may. */
int constrain_logits(struct session *s, float *logits, struct err *e);
/* A token was drawn that does not end the answer. *over: nothing but its end may follow. */
int constrain_take(struct session *s, uint32_t id, bool *over, struct err *e);
/* How many of these may stand one after the other, as far as the form is concerned. */
uint32_t constrain_drafts(struct session *s, const uint32_t *draft, uint32_t n);
/* The turn is over; nothing, where it has none. */
void constrain_end(struct constraint *c);

#endif
