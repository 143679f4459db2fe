/* OpenAI's /v1/responses: from its body to what is wanted of a session, and from an answer to its
 * events or its response. Nothing here knows of HTTP or of files. */
#ifndef MOEFS_FS_GATEWAY_RESPONSES_RESPONSES_H
#define MOEFS_FS_GATEWAY_RESPONSES_RESPONSES_H

#include "fs/gateway/body/dialog.h"
#include "fs/gateway/body/wanted.h"

/* What earlier responses left: each gives a new reference, or NULL where it is not kept. */
struct responses_past {
	void *ctx;
	json_object *(*messages)(void *ctx, const char *response); /* up to its answer */
	json_object *(*item)(void *ctx, const char *item);
};

struct responses_asked {
	struct wanted wanted;
	/* The conversation without `instructions`, which are each request's own. */
	json_object *messages;
	json_object *input; /* its items, a list */
	json_object *echo;  /* what a response says of its request */
	/* By the name that the model knows a tool by: {"custom": true}, or the namespace and the
	 * name there. Plain functions are not in it. */
	json_object *names;
	bool store;
};

/* Zero-initialised before; freed by the caller whatever it returns. -ENOENT: what the request
 * goes on from is not kept; -EINVAL, -ENOTSUP in words; -ENOMEM. */
int responses_read(struct responses_asked *a, const json_object *body,
		   const struct responses_past *past, struct err *e);
void responses_asked_free(struct responses_asked *a);

/* Of it: items in their order. */
int responses_items(struct dialog *t, json_object *items, const struct responses_past *past,
		    struct err *e);
/* Items of a request, each with the type, id, status and parts that it has when it is read again;
 * id: of its response. NULL: out of memory. */
json_object *responses_items_said(json_object *items, const char *id,
				  const struct responses_past *past);
/* Of it: tools and tool_choice. */
int responses_tools(struct responses_asked *a, const json_object *body, struct err *e);
/* The list of those that are on offer, as a response says it, once responses_tools has taken them.
 * NULL: out of memory. */
json_object *responses_tools_said(const json_object *body);
/* The name that the model knows a namespace's tool by. False: too long. */
bool responses_tool_name(char *name, size_t size, const char *space, const char *of_space);

/* ---- the answer ---- */

enum responses_part { PART_NONE, PART_REASONING, PART_TEXT };

/* Zero-initialised but for the first five. */
struct responses_answer {
	const struct responses_asked *asked; /* borrowed, as the others */
	const char *id, *model;		     /* id: without what is before its _ */
	uint64_t created;		     /* seconds of the epoch */
	bool streams;
	uint64_t sequence;
	json_object *output; /* finished items; owned */
	enum responses_part open;
	struct text said;      /* of the open part */
	json_object *logprobs; /* of the open part, or the next one; NULL: none; owned */
	size_t logprobs_sent;  /* of them, with deltas */
	struct dialog dialog;  /* the answer as a message */
};

void responses_free(struct responses_answer *a);
/* Each adds to `out` what there is to send, events or nothing. */
void responses_begin(struct responses_answer *a, struct text *out);
void responses_thought(struct responses_answer *a, const char *text, size_t n, struct text *out);
void responses_text(struct responses_answer *a, const char *text, size_t n, struct text *out);
/* The likelihoods of the tokens of the text that comes next: a list, which is taken. */
void responses_logprobs(struct responses_answer *a, json_object *list);
/* A call as tool_calls.json has it; borrowed. */
void responses_call(struct responses_answer *a, json_object *call, struct text *out);
/* The last events. Returns the whole response, which is the caller's; NULL: out of memory. */
json_object *responses_end(struct responses_answer *a, const struct ending *end, struct text *out);
/* The last event of one that failed, and an event in place of any where none has begun. */
void responses_fail(struct responses_answer *a, const char *code, const char *message,
		    struct text *out);

/* The index in its response's output of an item that an answer here has named, and of which
 * response (without resp_). False: none here did. */
bool responses_item_place(const char *item, char *response, size_t size, unsigned *index);

#endif
