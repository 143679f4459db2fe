/* A text that goes on: from its request (completion_asked.c) by its choices (completion_choice.c)
 * to its answer, in one piece or as a stream (completions.c). */
#ifndef MOEFS_FS_GATEWAY_OPENAI_COMPLETION_H
#define MOEFS_FS_GATEWAY_OPENAI_COMPLETION_H

#include "fs/gateway/openai/openai.h"

#include <time.h>

struct completion {
	struct request *request;
	const char *model;
	time_t created;
	uint64_t n, tokens, top;
	bool echo, logprobs, include_usage;
	size_t prompts, count, over;
	struct text prompt[CHOICES_MOST];
	struct turn *turns[CHOICES_MOST];
	struct usage usage[CHOICES_MOST];
	struct part {
		struct text text, lines;
		bool begun, over;
	} parts[CHOICES_MOST];
	struct event_stream stream;
	char id[48], name[256];
};

/* Reads what is asked, and begins its turns. On failure completion_end is still to be called. */
int completion_begin(struct completion *c, struct problem *p);
void completion_end(void *completion);

/* The object around choices, which are taken. */
struct json_object *completion_frame(const struct completion *c, struct json_object *choices);
/* Adds a choice of a text and its lines of log-probabilities; echo: behind its prompt. finish NULL:
 * it goes on. */
int completion_choice(struct completion *c, struct json_object *choices, size_t i, bool echo,
		      const struct text *text, const struct text *lines, const char *finish,
		      struct problem *p);
struct json_object *completion_usage(const struct completion *c);
/* News of a choice: text and lines grow by it. */
int completion_take(struct completion *c, size_t i, struct text *text, struct text *lines,
		    struct problem *p);

#endif
