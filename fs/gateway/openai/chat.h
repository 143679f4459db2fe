/* A chat completion from its request to its answer, in one piece (chat.c) or as a stream
 * (chat_stream.c). */
#ifndef MOEFS_FS_GATEWAY_OPENAI_CHAT_H
#define MOEFS_FS_GATEWAY_OPENAI_CHAT_H

#include "fs/gateway/openai/openai.h"

struct chat {
	struct gateway *gateway;
	int client;
	char id[48], model[256];
	time_t created;
	uint64_t top; /* top_logprobs */
	bool logprobs, include_usage;
	bool one_call;	    /* an answer ends with its first call */
	size_t count, over; /* choices; those that are complete */
	struct turn *turns[CHOICES_MOST];
	struct usage usage[CHOICES_MOST];
	struct choice {
		struct text output, thoughts, logprobs; /* in one piece; a stream keeps nothing */
		struct json_object *calls;		/* those of the tree */
		size_t call_count;
		bool begun, over;
	} choices[CHOICES_MOST];
	struct event_stream stream;
};

/* Reads what is asked, and begins its turns. On failure chat_end is still to be called. */
int chat_begin(struct request *r, struct chat *c, struct problem *p);
void chat_end(void *chat);
/* Whether this is the end of an answer that is to have one call: of the news that is left, and the
 * turn, which need not be over, is ended. What it cost is in usage[i]. */
bool chat_ends_with_call(struct chat *c, size_t i, struct news *n);
/* Reads tools and tool_choice into the wish. */
int chat_tools(struct json_object *body, struct wish *w, struct problem *p);
/* Begins to answer as a stream, or says why it cannot. The chat is given away. */
enum MHD_Result chat_stream(struct request *r, struct chat *c);

#endif
