/* Turns whose answer is remembered (engine/prefixes/remember.h): the answer is given again without
 * computing.
 *
 * A turn at temperature 0, or with a set seed, is a function of what goes into it. The key has all
 * of that: the ids of the rendered conversation, the model (its weights, its config, its tokenizer,
 * how it computes), the tools, the choices, and each param that can change the text or what comes
 * with it. Not remembered, and not looked for: turns whose numbers depend on what is in the cache
 * (drop_missing, substitute), turns with an observer or in the background, scores and vectors. Not
 * remembered: turns that failed or were stopped, and turns of a session that was restored from a
 * file and still uses what that file says was computed.
 *
 * A remembered answer goes through the same splitter as one that is drawn, token by token, so its
 * message, its thoughts and its calls are the same. The session's context stays as it was: the next
 * turn computes what is missing of it.
 */
#ifndef MOEFS_ENGINE_TURN_RECALL_H
#define MOEFS_ENGINE_TURN_RECALL_H

#include "engine/prefixes/remember.h"

struct dialogue;
struct model;
struct params;
struct session;
struct token_list;
struct turn_event;
struct turn_state;

struct recall {		     /* of a turn; zero-initialised: nothing is remembered */
	struct text_out key; /* empty: the turn is not to be remembered */
	size_t ids;	     /* of the turn, in the key */
	uint64_t weights;    /* of which the key is */
	bool found;	     /* the turn's answer was remembered */
};

/* What a key is made of. */
struct recall_asked {
	const struct model *model;
	uint64_t weights;
	const struct params *params;
	const struct dialogue *dialogue; /* for its tools and choices */
	const struct token_list *ids;
	size_t rendered, given_thoughts, given; /* ids and bytes of an answer that is gone on with */
	bool chat;
	int thinking;	    /* enum split_thinking */
	const char *prompt; /* [prompt_length], without chat */
	size_t prompt_length;
};

/* Whether the answer to what a session asks follows from what a key has. */
bool recall_may(const struct params *p);
/* Whether the answer is there, for plans. */
bool recall_knows(struct remember *r, uint32_t owner, const struct recall_asked *a);
/* When the turn is prepared: makes the key, looks for the answer, and if there is one, gives it to
 * the event, and the turn is over. Blocks for the disk. Whatever fails here means that the turn is
 * computed, but for -ENOMEM in words in the middle of an answer. */
int recall_find(struct turn_state *t, struct turn_event *ev, struct err *e);
/* The run's lock is held, and the session has its answer: keeps it. */
void recall_keep(struct turn_state *t, const char *finish);
void recall_free(struct recall *r);

#endif
