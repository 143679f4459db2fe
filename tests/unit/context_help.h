/* Contexts of one model, computed directly: whatever became of a context, it goes on to the bit as
 * one that was computed afresh. */
#ifndef MOEFS_TESTS_CONTEXT_HELP_H
#define MOEFS_TESTS_CONTEXT_HELP_H

#include "engine/serve/observe.h"
#include "session_help.h"

/* Of the texts: a full block and one that is begun, alike in all; and then each one's own. */
enum { HEAD = KV_BLOCK + 6, TAIL = 20 };

/* The model that is loaded, of which there is one at a time. */
extern struct test_model model;
extern struct model_view view;

/* A fixture with its store; quant: NULL, the default recipe, else this one in the exact mode.
 * False: it is missing, and the reader knows. */
bool contexts_load(const char *fixture, const char *quant);
/* Fails the test where a context still holds memory. */
void contexts_unload(void);

void context_begin(struct context *x);
/* The ids of the seed's text, as many as HEAD and TAIL. */
void context_text(uint32_t seed, uint32_t text[HEAD + TAIL]);
size_t logits_bytes(void); /* of one position */
/* The logits of n positions more; malloc'ed. */
float *context_go_on(struct context *x, const uint32_t *tokens, uint32_t n);
/* The context, which holds less than the seed's text, computes it up to `end` as a new one does. */
void assert_goes_to(struct context *x, uint32_t seed, uint32_t end);
void assert_goes_on(struct context *x, uint32_t seed); /* to the text's end */

#endif
