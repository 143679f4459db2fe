/* The grammars that a model's turns have asked for last, compiled and with their masks, and the
 * trees of its vocabulary: so that a session's next turn compiles nothing.
 *
 * A vocabulary of 152 K takes 9 MB, a grammar 1 MB as a rule and at most what grammar_machine.h and
 * GRAMMAR_MASK_BYTES allow. GRAMMARS_KEPT of them are kept beyond turns. For one thread, the
 * preparing one, except grammars_give_back; the grammars themselves are for any. */
#ifndef MOEFS_ENGINE_TURN_GRAMMARS_H
#define MOEFS_ENGINE_TURN_GRAMMARS_H

#include "engine/grammar/grammar.h"

enum { GRAMMARS_KEPT = 8, GRAMMAR_TREES = 4 };

struct model;

struct kept_grammar;
struct kept_tokens {		       /* of one form, and of conversations or of plain text */
	struct grammar_tokens *tokens; /* NULL: none */
	const struct split_form *writes;
	bool chat;
};
struct grammars {		    /* zero-initialise */
	struct kept_grammar *first; /* the last one used first */
	struct kept_tokens trees[GRAMMAR_TREES];
};
void grammars_free(struct grammars *g);
/* 64-bit words of a mask (grammar_mask). */
static inline size_t grammars_mask_words(uint32_t vocabulary)
{
	return (size_t)vocabulary * 2 / 64 + 2;
}

/* The vocabulary as a tree, for the tokens of answers in this form. */
int grammars_find_tokens(struct grammars *g, const struct model *m, const struct split_form *writes,
			 bool chat, const struct grammar_tokens **out, struct err *e);
/* The grammar that a request comes to, which stays until it is given back. tools[tools_n]: the text
 * of r->tools. -EINVAL, -ENOTSUP, -E2BIG, -ENOMEM in words that name the param. */
int grammars_take(struct grammars *g, const struct grammar_request *r, const char *tools,
		  size_t tools_n, const struct grammar_tokens *tokens, struct kept_grammar **out,
		  struct err *e);
void grammars_give_back(struct kept_grammar *k); /* any thread */
struct grammar *grammars_grammar(const struct kept_grammar *k);

#endif
