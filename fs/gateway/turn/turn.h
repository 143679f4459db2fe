/* A turn of a model: a session of its own in the tree, what goes into it, and what comes out as it
 * grows.
 *
 *     turn_begin     waits for a slot, makes the session `http-…` (or goes on with one that was
 * kept), writes messages, tools and params, and has it answered turns_wait     until something
 * came, the time is over, or the client has gone away turn_take      what came: thoughts, text,
 * calls; whether that was all, and if it failed turn_usage     once it is over: tokens, and how it
 * ended turn_end       on every way: stops what still works, and removes or keeps the session
 *
 * Used by one thread, that of the request. */
#ifndef MOEFS_FS_GATEWAY_TURN_TURN_H
#define MOEFS_FS_GATEWAY_TURN_TURN_H

#include "fs/gateway/problem.h"
#include "fs/gateway/request.h"

#include <stdint.h>

enum { WISH_PARAMS = 24 };

/* What is asked of a model, in the tree's own words. wish_free. */
struct wish {
	const char *model;	      /* its name in the tree; not its own */
	struct json_object *messages; /* as messages.json has them; NULL: there is a prompt */
	const char *asked; /* the request's field that they are; NULL: messages, or prompt */
	struct json_object *tools; /* as tools.json has them; NULL: none */
	const char
		*prompt; /* of bytes `prompt_size`, to go to the model as it stands; not its own */
	size_t prompt_size;
	bool logprobs; /* turn_take gives their lines */
	bool counts;   /* nothing is answered: it is for turn_tokens */
	bool beside;   /* another answer of the same request, which has its slot already */
	struct wish_param {
		const char *name, *field; /* in params/; in the request */
		char *value;
		bool advice; /* what the model cannot be told is left out */
	} params[WISH_PARAMS];
	size_t param_count;
};

/* field: what the client calls it, for a refusal. The value is written as it is. False: out of
 * memory, or too many. */
__attribute__((format(printf, 4, 5))) bool wish_param(struct wish *w, const char *name,
						      const char *field, const char *format, ...);
void wish_free(struct wish *w);

struct turn;

struct news { /* since it was last asked; news_free */
	struct text
		thoughts; /* whole characters, without the newline that the tree adds at the end */
	struct text output;
	struct text logprobs; /* whole lines of logprobs.jsonl; none of the token that ended the
				 answer */
	struct json_object
		*calls; /* a list as in tool_calls.json, of those that are new; NULL: none */
	bool over;	/* nothing more will come */
};

struct usage {
	uint64_t prompt, cached, output;
	uint32_t stop;	 /* the text of params/stop at which it stopped, from 1; 0: at none */
	char finish[16]; /* end, length, stop, stopped, tool_calls, error */
};

/* The model must exist. Refused in *p: what is wrong with the wish, PROBLEM_BUSY, PROBLEM_GONE. */
int turn_begin(struct turn **out, struct request *r, const struct wish *w, struct problem *p);
/* Of those that are not NULL. 0: something came, or the time (-1: forever) is over; -EPIPE: the
 * client has gone away. */
int turns_wait(struct turn *const *turns, size_t count, int client, int milliseconds);
/* -1: the turn has failed: *p says why, and *n has what came before. */
int turn_take(struct turn *t, struct news *n, struct problem *p);
void turn_usage(struct turn *t, struct usage *u);
/* How many tokens the model would read, of one that only counts. A model that is not loaded is,
 * since its tokenizer is needed. */
int turn_tokens(struct turn *t, int client, uint64_t *tokens, struct problem *p);
/* To be called before the last of an answer is given, so that who has read it finds the session
 * gone, or kept. NULL is fine. */
void turn_end(struct turn *t);
void news_free(struct news *n);

/* Whether this model exists, with a problem that lists those that do if not. */
int turn_model(const struct request *r, const char *model, struct problem *p);
/* Removes what gateways that were killed have left in the tree. */
void turns_clear(const struct gateway *g);

#endif
