/* An answer on its way to a client, in the manner of its protocol: in one piece or as a stream.
 * What Anthropic's messages and OpenAI's responses have in common. */
#ifndef MOEFS_FS_GATEWAY_ANSWERING_H
#define MOEFS_FS_GATEWAY_ANSWERING_H

#include "fs/gateway/turn/turn.h"
#include "fs/gateway/body/wanted.h"

/* What a protocol does with what comes; each adds to `out` what is to be sent. In a stream these
 * are events; else nothing but what `end` adds, which is the body. */
struct manner {
	void (*begin)(void *of, const struct ending *known, struct text *out);
	void (*thought)(void *of, const char *text, size_t n, struct text *out);
	void (*text)(void *of, const char *text, size_t n, struct text *out);
	void (*call)(void *of, struct json_object *call, struct text *out);
	/* Lines of logprobs.jsonl, before the text that they are of; where they are wanted. */
	void (*logprobs)(void *of, const struct text *lines);
	void (*end)(void *of, const struct ending *end, struct text *out);
	void (*fail)(void *of, const struct problem *p, struct text *out); /* streams alone */
	void (*pause)(struct text *out); /* once it has begun, while nothing comes */
	void (*free)(void *of);
};

/* Has `wanted` answered, in its stream or not. `of` is given away, and `wanted` must live as long.
 */
enum MHD_Result answer_request(struct request *r, const struct manner *manner, void *of,
			       const struct wanted *wanted);
/* How many tokens the model would read, and nothing more. -1: *p. */
int answer_tokens(struct request *r, const struct wanted *wanted, uint64_t *tokens,
		  struct problem *p);
/* As a wish; w borrows from it, but for what wish_free frees. -1: *p. */
int wanted_wish(struct request *r, const struct wanted *wanted, struct wish *w, struct problem *p);
/* What a body was refused for. Returns -1. */
int problem_of(struct problem *p, const struct err *e);

#endif
