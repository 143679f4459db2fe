/* Has a model answer what a request wants, and sends the answer in a protocol's format, in one
 * piece or as a stream. Anthropic's messages and OpenAI's responses share this; chat completions
 * and completions have several choices in one answer, and do not use it. */
#ifndef MOEFS_FS_GATEWAY_PROTOCOL_ANSWER_H
#define MOEFS_FS_GATEWAY_PROTOCOL_ANSWER_H

#include "fs/gateway/body/wanted.h"
#include "fs/gateway/http_request.h"

/* Answers a request. `of` is taken; `wanted` must live as long as `of`. */
enum MHD_Result answer_request(struct http_request *r, const struct answer_format *format, void *of,
			       const struct wanted *wanted);
/* How many tokens the model would read. Nothing is answered. -1: *p. */
int answer_tokens(struct http_request *r, const struct wanted *wanted, uint64_t *tokens,
		  struct problem *p);
/* Sets *p to why a body was refused, and returns -1. */
int answer_problem(struct problem *p, const struct err *e);

#endif
