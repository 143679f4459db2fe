/* params/logprobs: how likely the model found each token of an answer, before bias,
 * penalties, temperature and filters, as a line of JSON in the answer's log-probabilities:
 *
 *     {"token": " Paris", "id": 281, "logprob": -0.012345, "top_logprobs": [{"token": …}, …]}
 *
 * Every sampled token has a line, also tokens that a stop text cuts off and the token that ends the
 * answer. A token may be part of a character: then "token" has U+FFFD in its place, and "bytes"
 * lists its bytes. "id" is always exact. */
#ifndef MOEFS_ENGINE_TURN_LOGPROBS_H
#define MOEFS_ENGINE_TURN_LOGPROBS_H

#include "cache/err.h"

#include <stdint.h>

struct text_out;
struct turn_state;
struct turn_event;
struct turn_scratch;

enum { LOGPROB_SIZE = 32 };
/* Prints six digits after the point, and no sign if they are all 0. */
void logprob_print(char text[LOGPROB_SIZE], double logprob);

struct logprobs {      /* of a turn; zero-initialised: writes no lines */
	float *logits; /* [vocabulary], unchanged by sampling; NULL: params/logprobs is 0 */
	uint32_t vocabulary;
};

/* Call this at the beginning of the turn. */
int logprobs_begin(struct turn_state *t, struct turn_event *ev, struct err *e);
void logprobs_free(struct logprobs *l);
/* Copies the model's logits for the next token, before bias and penalties change them. */
void logprobs_keep(struct logprobs *l, const float *logits);
/* Writes the line of the token sampled from these logits. -ENOMEM. */
int logprobs_tell(const struct turn_state *t, uint32_t id, const struct turn_scratch *x,
		  struct text_out *to, struct err *e);

#endif
