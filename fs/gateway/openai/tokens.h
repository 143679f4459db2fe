/* From text to tokens and back, and how likely each is, by the tree's files that are asked. */
#ifndef MOEFS_FS_GATEWAY_OPENAI_TOKENS_H
#define MOEFS_FS_GATEWAY_OPENAI_TOKENS_H

#include "fs/gateway/request.h"

/* The ids of a text's tokens, as a list. */
int tokens_encode(const struct request *r, const char *model, const char *text, size_t size,
		  struct json_object **out, struct problem *p);
/* The text of a list of ids, added to `out`. */
int tokens_decode(const struct request *r, const char *model, struct json_object *ids,
		  struct text *out, struct problem *p);

struct scored {		  /* a token of a text */
	const char *text; /* its bytes, terminated */
	size_t size;
	double logprob;
	bool first; /* nothing stands before it, so that it has none */
};
/* Calls for each token of a text. */
int tokens_score(const struct request *r, const char *model, const char *text, size_t size,
		 void (*visit)(void *ctx, const struct scored *token), void *ctx,
		 struct problem *p);

#endif
