/* Shared by OpenAI's endpoints: fields of bodies, parts of answers, and tokens of texts. */
#ifndef MOEFS_FS_GATEWAY_OPENAI_OPENAI_H
#define MOEFS_FS_GATEWAY_OPENAI_OPENAI_H

#include "fs/gateway/reply.h"
#include "fs/gateway/turn/turn.h"

#include <regex.h>
#include <time.h>

enum { CHOICES_MOST = 16 };

/* ---- requests: openai.c ---- */

/* openai_model reads `model`. openai_refuse refuses fields that are known but not supported. -1:
 * *p. */
int openai_model(struct http_request *r, const char **model, struct problem *p);
int openai_refuse(json_object *body, struct problem *p);
/* Reads the fields about sampling and the end of an answer into params of the wish. */
int openai_sampling(json_object *body, struct turn_wish *w, struct problem *p);

/* ---- chat completions' requests: chat_read.c ---- */

struct chat_asked {
	const char *model; /* borrowed from the body */
	uint64_t n, top;   /* choices; top_logprobs */
	bool logprobs, include_usage, stream;
	bool one_call; /* an answer ends with its first call */
};

/* Reads a body into *a and *w. Call turn_wish_free in every case. */
int chat_read(struct http_request *r, struct chat_asked *a, struct turn_wish *w, struct problem *p);
/* Converts `messages` to a new list *out in the form of messages.json, without the lines of system
 * texts that match `ignored` (NULL: with all lines). */
int chat_messages(json_object *messages, const regex_t *ignored, json_object **out,
		  struct problem *p);
/* Reads tools and tool_choice into the wish. */
int chat_tools(json_object *body, struct turn_wish *w, struct problem *p);

/* ---- answers: openai.c ---- */

/* How an answer ended, in the form of finish_reason. */
const char *openai_finish(const struct usage *u);
/* Usage of all turns of a request; the prompt counts once. */
json_object *openai_usage(const struct usage *u, size_t count);
/* A choice's logprobs, from lines of logprobs.jsonl. */
json_object *openai_logprobs(const struct text *lines, uint64_t top);
/* A call from tool_calls.json, with its arguments as a string. */
json_object *openai_call(json_object *call);
/* A completion, or a chunk of its stream. Takes choices. */
json_object *openai_frame(const char *id, const char *object, time_t created, const char *model,
			  json_object *choices);
/* Members of struct event_stream. */
void openai_fail(void *of, const struct problem *p, struct text *out);
void openai_pause(void *of, struct text *out);

/* ---- tokens of texts, from the tree's files: openai_tokens.c ---- */

/* Makes a list of the ids of a text's tokens. */
int tokens_encode(const struct http_request *r, const char *model, const char *text, size_t size,
		  json_object **out, struct problem *p);
/* Adds the text of a list of ids to `out`. */
int tokens_decode(const struct http_request *r, const char *model, json_object *ids,
		  struct text *out, struct problem *p);

/* Adds the answer of embed.npy to texts, each of which ends in a NUL byte. */
int tokens_embed(const struct http_request *r, const char *model, const struct text *texts,
		 struct text *out, struct problem *p);

struct scored_token {	  /* a token of a text */
	const char *text; /* its bytes, terminated */
	size_t size;
	double logprob;
	bool first; /* the first of the text, without a logprob */
};
/* Calls `visit` for each token of a text. */
int tokens_score(const struct http_request *r, const char *model, const char *text, size_t size,
		 void (*visit)(void *ctx, const struct scored_token *token), void *ctx,
		 struct problem *p);

#endif
