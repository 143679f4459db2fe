/* What OpenAI's endpoints have in common. */
#ifndef MOEFS_FS_GATEWAY_OPENAI_OPENAI_H
#define MOEFS_FS_GATEWAY_OPENAI_OPENAI_H

#include "fs/gateway/event_stream.h"
#include "fs/gateway/turn/turn.h"

#include <time.h>

enum { CHOICES_MOST = 16 };

/* The fields that say how a token is drawn and when an answer ends, as params of the wish. */
int openai_sampling(struct json_object *body, struct wish *w, struct problem *p);
/* Fields that are known and cannot be served, refused in words. */
int openai_refuse(struct json_object *body, struct problem *p);
/* How the answer ended, as finish_reason has it. */
const char *openai_finish(const struct usage *u);
/* Of all turns of a request; the prompt counts once. */
struct json_object *openai_usage(const struct usage *u, size_t count);
/* Lines of logprobs.jsonl, as a choice's logprobs. */
struct json_object *openai_logprobs(const struct text *lines, uint64_t top);
/* A call of tool_calls.json, with its arguments as a text; index: in a stream's delta, else -1. */
struct json_object *openai_call(struct json_object *call, int index);
/* The object around choices, which are taken: of a completion, or of a chunk of its stream. */
struct json_object *openai_frame(const char *id, const char *object, time_t created,
				 const char *model, struct json_object *choices);

/* ---- openai_stream.c ---- */

/* Of an event_stream. */
void openai_fail(void *of, const struct problem *p, struct text *out);
void openai_pause(void *of, struct text *out);

#endif
