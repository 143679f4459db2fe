/* params/logit_bias: numbers added to the logits of single tokens. Written as a line `ID BIAS` for
 * each token, with the meaning of the OpenAI interface: -100 bans the token. */
#ifndef MOEFS_ENGINE_SESSION_BIAS_H
#define MOEFS_ENGINE_SESSION_BIAS_H

#include "cache/err.h"
#include "engine/compute/sampler.h"

#include <stdbool.h>

enum { BIASES_MAX = 1024 };

struct bias {		       /* zero-initialised: no biases; freed by bias_free */
	struct token_bias *of; /* [count], in the order of the lines */
	size_t count;
};

/* Replaces the biases. -EINVAL: a line has another form, a token occurs twice, or all tokens are
 * banned; -ERANGE: a number beyond 100, a token outside the vocabulary, or too many lines. After an
 * error the old biases stay. */
int bias_set(struct bias *b, const char *text, uint32_t vocabulary, struct err *e);
/* The biases as text, malloc'ed, without a newline at the end; NULL: out of memory. */
char *bias_text(const struct bias *b);
bool bias_copy(struct bias *to, const struct bias *from); /* false: out of memory */
void bias_free(struct bias *b);

#endif
