/* params/logprobs: how likely the model found each token of an answer, before bias,
 * penalties, temperature and filters, as a line of JSON in the answer's log-probabilities:
 *
 *     {"token": " Paris", "id": 281, "logprob": -0.012345, "top_logprobs": [{"token": …}, …]}
 *
 * Every drawn token has a line, also those that a stop text cuts off, and the one that ends the
 * answer. In "token" the bytes of half a character are U+FFFD; "id" is exact. Only such tokens have
 * "bytes", a list of numbers. */
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

struct logprobs {      /* of a turn; zero-initialised: writes nothing */
	float *logits; /* [vocabulary], as the model gave them; NULL: params/logprobs is 0 */
	uint32_t vocabulary;
};

/* At the turn's beginning. */
int logprobs_begin(struct turn_state *t, struct turn_event *ev, struct err *e);
void logprobs_free(struct logprobs *l);
/* The model's own logits of the next position, before they are changed. */
void logprobs_keep(struct logprobs *l, const float *logits);
/* Writes the line of the token that was drawn there. -ENOMEM. */
int logprobs_tell(const struct turn_state *t, uint32_t id, const struct turn_scratch *x,
		  struct text_out *to, struct err *e);

#endif
