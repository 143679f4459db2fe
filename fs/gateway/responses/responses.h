/* OpenAI's /v1/responses: from a request's body to a struct wanted, and from a model's answer to a
 * stream of events or one response. Only responses_routes.c uses HTTP. */
#ifndef MOEFS_FS_GATEWAY_RESPONSES_RESPONSES_H
#define MOEFS_FS_GATEWAY_RESPONSES_RESPONSES_H

#include "fs/gateway/body/dialog.h"
#include "fs/gateway/body/wanted.h"

/* ---- the request: responses_read.c, responses_items.c, responses_tools.c ---- */

/* Finds earlier responses for a request. Each function returns a new reference; NULL: not kept. */
struct responses_past {
	void *ctx;
	json_object *(*messages)(void *ctx, const char *response); /* including its answer */
	json_object *(*item)(void *ctx, const char *item);
};

struct responses_asked {
	struct wanted wanted;
	/* The conversation without `instructions`, which apply only to their own request. */
	json_object *messages;
	json_object *input; /* the request's items, a list */
	json_object *echo;  /* the part of the request that a response repeats */
	/* By the name under which the model knows a tool: {"custom": true}, or the namespace and
	 * the name in it. Plain functions are not listed. */
	json_object *names;
	bool store;
};

/* *a must be zero-initialised. Call responses_asked_free in every case. -ENOENT: the response to
 * continue is not kept; -EINVAL; -ENOTSUP; -ENOMEM. */
int responses_read(struct responses_asked *a, const json_object *body,
		   const struct responses_past *past, struct err *e);
void responses_asked_free(struct responses_asked *a);

/* Adds the items of a request to a dialog, in order. */
int responses_items(struct dialog *t, json_object *items, const struct responses_past *past,
		    struct err *e);
/* A request's items in the form for GET: each with a type, an id, a status and parts. id: of the
 * response. NULL: out of memory. */
json_object *responses_items_shown(json_object *items, const char *id,
				   const struct responses_past *past);
/* Reads `tools` and `tool_choice`. */
int responses_tools(struct responses_asked *a, const json_object *body, struct err *e);
/* The offered tools, in the form in which a response repeats them. Call this after responses_tools.
 * NULL: out of memory. */
json_object *responses_tools_shown(const json_object *body);
/* The name under which the model knows a namespace's tool. False: it is too long. */
bool responses_tool_name(char *name, size_t size, const char *space, const char *of_space);

/* ---- the answer: responses_stream.c ---- */

enum responses_part { PART_NONE, PART_REASONING, PART_TEXT };

/* Zero-initialised except for the first four lines. */
struct responses_answer {
	const struct responses_asked *asked; /* borrowed, like the strings */
	const char *id, *model;		     /* id: without resp_ */
	uint64_t created;		     /* seconds of the epoch */
	bool streams;
	uint64_t sequence;
	json_object *output; /* finished items; owned */
	enum responses_part open;
	struct text said;      /* of the open part */
	json_object *logprobs; /* of the open or next part; NULL: none; owned */
	size_t logprobs_sent;  /* number of them already sent in deltas */
	struct dialog dialog;  /* the answer as a message */
};

/* Members of struct answer_format (wanted.h). `of` is a struct responses_answer. */
void responses_begin(void *of, const struct answer_ending *known, struct text *out);
void responses_thought(void *of, const char *text, size_t n, struct text *out);
void responses_text(void *of, const char *text, size_t n, struct text *out);
void responses_call(void *of, json_object *call, struct text *out);
void responses_fail(void *of, const struct problem *p, struct text *out);
/* Adds the logprobs of the next text; takes list. */
void responses_logprobs(struct responses_answer *a, json_object *list);
/* Adds the last events. Returns the whole response, which the caller then owns; NULL: out of
 * memory. */
json_object *responses_end(struct responses_answer *a, const struct answer_ending *end,
			   struct text *out);
void responses_free(struct responses_answer *a); /* frees its members */

/* Splits an item's id made here into the response's id (without resp_) and the item's index in its
 * output. False: the id was not made here. */
bool responses_item_place(const char *item, char *response, size_t size, unsigned *index);

/* ---- kept responses: responses_kept.c; any thread ----
 *
 * The newest responses, so that a request can continue one of them by its id. They are in this
 * process's memory, and their number and bytes are limited. Each key has its own. */

enum { RESPONSES_KEPT = 256, RESPONSES_BYTES = 64 << 20 };

enum kept_text {
	KEPT_RESPONSE, /* as sent */
	KEPT_MESSAGES, /* the conversation up to the answer, in the form of messages.json */
	KEPT_INPUT,    /* the items of the request */
	KEPT_TEXTS,
};

struct responses_kept;

/* NULL: out of memory. */
struct responses_kept *responses_kept_create(size_t most, size_t bytes);
void responses_kept_free(struct responses_kept *k); /* NULL is fine */
/* Keeps a response; id is without resp_; copies the objects. Without memory, or if the response is
 * larger than the total limit, it is not kept. */
void responses_kept_put(struct responses_kept *k, size_t key, const char *id,
			json_object *const texts[KEPT_TEXTS]);
/* A new object, or NULL. */
json_object *responses_kept_get(struct responses_kept *k, size_t key, const char *id,
				enum kept_text which);
bool responses_kept_remove(struct responses_kept *k, size_t key, const char *id);

#endif
