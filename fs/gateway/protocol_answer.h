/* Runs a model for a request, and sends the answer in a protocol's format, in one piece or as a
 * stream. Anthropic's messages and OpenAI's responses share this. Chat completions and completions
 * do not use it, since they have several choices in one answer. */
#ifndef MOEFS_FS_GATEWAY_PROTOCOL_ANSWER_H
#define MOEFS_FS_GATEWAY_PROTOCOL_ANSWER_H

#include "fs/gateway/body/wanted.h"
#include "fs/gateway/http_request.h"

/* Answers a request. Takes `of`; `wanted` must live as long as `of`. */
enum MHD_Result answer_request(struct http_request *r, const struct answer_format *format, void *of,
			       const struct wanted *wanted);
/* Counts the tokens that the model would read, without an answer. -1: *p. */
int answer_tokens(struct http_request *r, const struct wanted *wanted, uint64_t *tokens,
		  struct problem *p);
/* Sets *p to the reason why a body was refused, and returns -1. */
int answer_problem(struct problem *p, const struct err *e);

#endif
