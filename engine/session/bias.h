/* params/logit_bias: what a session adds to the logits of single tokens, and its text: a line `ID
 * BIAS` for each, as the OpenAI interface means it. -100 bans the token. */
#ifndef MOEFS_ENGINE_SESSION_BIAS_H
#define MOEFS_ENGINE_SESSION_BIAS_H

#include "cache/err.h"
#include "engine/compute/sampler.h"

#include <stdbool.h>

enum { BIASES_MAX = 1024 };

struct bias {		       /* zero-initialise: none; freed by bias_free */
	struct token_bias *of; /* in the order in which they were written */
	size_t count;
};

/* Replaces the biases. -EINVAL: lines of another form, a token twice, or every token banned;
 * -ERANGE: a number beyond 100, a token that is not in the vocabulary, too many lines. In words;
 * the old biases stay. */
int bias_set(struct bias *b, const char *text, uint32_t vocabulary, struct err *e);
/* malloc'ed, without a newline at its end; NULL: out of memory. */
char *bias_text(const struct bias *b);
bool bias_copy(struct bias *to, const struct bias *from); /* false: out of memory */
void bias_free(struct bias *b);

#endif
