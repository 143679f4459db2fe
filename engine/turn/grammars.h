/* A cache of compiled grammars with their masks, and of trees of the vocabulary, so that the next
 * turn of a session compiles nothing.
 *
 * The tree of a vocabulary of 152 K takes 9 MB. A grammar usually takes 1 MB; grammar_machine.h and
 * GRAMMAR_MASK_BYTES bound it. GRAMMARS_KEPT unused grammars are kept. Only the preparing thread
 * may call these functions, except grammars_give_back. Any thread may use the grammars. */
#ifndef MOEFS_ENGINE_TURN_GRAMMARS_H
#define MOEFS_ENGINE_TURN_GRAMMARS_H

#include "engine/grammar/grammar.h"

enum { GRAMMARS_KEPT = 8, GRAMMAR_TREES = 4 };

struct model;

struct kept_grammar;
struct kept_tokens {		       /* for one form of answers, and for chat or plain text */
	struct grammar_tokens *tokens; /* NULL: none */
	const struct split_form *writes;
	bool chat;
};
struct grammars {		    /* zero-initialise */
	struct kept_grammar *first; /* most recently used first */
	struct kept_tokens trees[GRAMMAR_TREES];
};
void grammars_free(struct grammars *g);
/* 64-bit words of a mask (grammar_mask). */
static inline size_t grammars_mask_words(uint32_t vocabulary)
{
	return (size_t)vocabulary * 2 / 64 + 2;
}

/* Finds or makes the tree of the vocabulary for answers in this form. */
int grammars_find_tokens(struct grammars *g, const struct model *m, const struct split_form *writes,
			 bool chat, const struct grammar_tokens **out, struct err *e);
/* Finds or compiles the grammar of a request. It stays valid until grammars_give_back.
 * tools[tools_n]: the text of r->tools. -EINVAL, -ENOTSUP, -E2BIG, -ENOMEM; the sentence names the
 * param. */
int grammars_take(struct grammars *g, const struct grammar_request *r, const char *tools,
		  size_t tools_n, const struct grammar_tokens *tokens, struct kept_grammar **out,
		  struct err *e);
void grammars_give_back(struct kept_grammar *k); /* any thread */
struct grammar *grammars_grammar(const struct kept_grammar *k);

#endif
