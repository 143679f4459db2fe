/* Anthropic's /v1/messages: from a request's body to a struct wanted, and from a model's answer to
 * a stream of events or one message. Only anthropic_routes.c uses HTTP. */
#ifndef MOEFS_FS_GATEWAY_ANTHROPIC_ANTHROPIC_H
#define MOEFS_FS_GATEWAY_ANTHROPIC_ANTHROPIC_H

#include "fs/gateway/body/wanted.h"

struct dialog;

/* ---- the request: anthropic_read.c and anthropic_messages.c ---- */

/* Reads a body. count: for /v1/messages/count_tokens, which has no max_tokens. -EINVAL, -ENOTSUP;
 * -ENOENT: the thread to continue is not kept; -ENOMEM. Call wanted_free in every case. */
int anthropic_read(struct wanted *w, const json_object *body, bool count, struct err *e);
/* Reads the body's `system` and `messages`. Adds the names of tools in tool_reference blocks as
 * members of `referenced`. */
int anthropic_messages(struct dialog *t, const json_object *body, json_object *referenced,
		       struct err *e);

/* ---- the answer: anthropic_stream.c ---- */

enum anthropic_block { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT };

/* A message, streamed or built as a whole. Zero-initialised except for the first line. */
struct anthropic_answer {
	const char *id, *model, *request; /* borrowed; request: the request's id */
	bool streams;
	json_object *content; /* content of a message that is not streamed; owned */
	unsigned index;	      /* of the open block, or of the next one */
	enum anthropic_block open;
	struct text said; /* text of the open block, unless it is streamed */
	uint64_t sum;	  /* hash of the thoughts, for their signature */
	bool pinged;
};

/* Members of struct answer_format (wanted.h). `of` is a struct anthropic_answer. */
void anthropic_begin(void *of, const struct answer_ending *known, struct text *out);
void anthropic_thought(void *of, const char *text, size_t n, struct text *out);
void anthropic_text(void *of, const char *text, size_t n, struct text *out);
void anthropic_call(void *of, json_object *call, struct text *out);
void anthropic_end(void *of, const struct answer_ending *end, struct text *out);
void anthropic_fail(void *of, const struct problem *p, struct text *out);
void anthropic_ping(struct text *out);
void anthropic_free(struct anthropic_answer *a); /* frees its members */

#endif
