/* Anthropic's /v1/messages: from its body to what is wanted of a session, and from an answer to its
 * events or its message. Nothing here knows of HTTP or of files. */
#ifndef MOEFS_FS_GATEWAY_ANTHROPIC_ANTHROPIC_H
#define MOEFS_FS_GATEWAY_ANTHROPIC_ANTHROPIC_H

#include "fs/gateway/body/wanted.h"

struct dialog;

/* count: for /v1/messages/count_tokens, which has no max_tokens. -EINVAL and -ENOTSUP in words,
 * -ENOENT for a thread to continue, -ENOMEM. Freed by the caller whatever it returns. */
int anthropic_read(struct wanted *w, const json_object *body, bool count, struct err *e);

/* Of it: `system` and `messages`; which tools tool_reference blocks have named goes to
 * `referenced`, an object with their names. */
int anthropic_messages(struct dialog *t, const json_object *body, json_object *referenced,
		       struct err *e);
/* Of it: `tools` and `tool_choice`. */
int anthropic_tools(struct wanted *w, const json_object *body, json_object *referenced,
		    struct err *e);

/* ---- the answer ---- */

enum anthropic_block { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT };

/* A message that is streamed, or put together. Zero-initialised but for the first two. */
struct anthropic_answer {
	const char *id, *model; /* borrowed */
	bool streams;
	json_object *content; /* of a message that is not streamed; owned */
	unsigned index;	      /* of the block that is open, or comes next */
	enum anthropic_block open;
	struct text said; /* of the open block, where it is not streamed */
	uint64_t sum;	  /* of the thoughts, for their signature */
	bool pinged;
};

void anthropic_free(struct anthropic_answer *a);
/* Each adds to `out` what there is to send, events or nothing. Before all else; what is known of
 * the tokens by then (finish is not looked at). */
void anthropic_begin(struct anthropic_answer *a, const struct ending *known, struct text *out);
void anthropic_thought(struct anthropic_answer *a, const char *text, size_t n, struct text *out);
void anthropic_text(struct anthropic_answer *a, const char *text, size_t n, struct text *out);
/* A call as tool_calls.json has it; borrowed. */
void anthropic_call(struct anthropic_answer *a, json_object *call, struct text *out);
/* The last events, or the message. */
void anthropic_end(struct anthropic_answer *a, const struct ending *end, struct text *out);
void anthropic_ping(struct text *out);

#endif
