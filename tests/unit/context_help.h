/* Computes contexts of one model directly, to check that a context continues bit for bit like a
 * freshly computed one, whatever was done to it. */
#ifndef MOEFS_TESTS_UNIT_CONTEXT_HELP_H
#define MOEFS_TESTS_UNIT_CONTEXT_HELP_H

#include "engine/admin/observe.h"
#include "session_help.h"

/* Parts of the texts: HEAD (a full block and part of the next) is the same in all texts; TAIL
 * differs. */
enum { HEAD = KV_BLOCK + 6, TAIL = 20 };

/* The loaded model; one at a time. */
extern struct test_model model;
extern struct model_view view;

/* Opens a fixture with its store. quant: a recipe for the exact mode; NULL: the default recipe.
 * False, after printing a sentence: the fixture is missing. */
bool contexts_load(const char *fixture, const char *quant);
/* The same with the checkpoint's own numbers, and keys and values as -o kv= says. */
bool contexts_load_kv(const char *fixture, const char *kv);
/* Fails the test where a context still holds memory. */
void contexts_unload(void);

void context_begin(struct context *x);
/* The HEAD + TAIL ids of the seed's text. */
void context_text(uint32_t seed, uint32_t text[HEAD + TAIL]);
size_t logits_bytes(void); /* of one position */
/* The logits of n positions more; malloc'ed. */
float *context_go_on(struct context *x, const uint32_t *tokens, uint32_t n);
/* Continues the context, which holds the beginning of the seed's text, up to `end`: it must
 * compute what a new context computes. */
void assert_goes_to(struct context *x, uint32_t seed, uint32_t end);
void assert_goes_on(struct context *x, uint32_t seed); /* to the text's end */

#endif
