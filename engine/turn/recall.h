/* Remembered answers (engine/prefixes/remember.h): answers a turn from disk, without computing.
 *
 * At temperature 0, or with a fixed seed, the answer of a turn is determined by its inputs. The key
 * contains all inputs: the ids of the rendered conversation, the model (weights, config, tokenizer,
 * arithmetic), the tools, the choices, and every param that can change the text or its
 * log-probabilities. Never looked up or remembered: turns whose numbers depend on the cache
 * (drop_missing, substitute), turns with an observer, background turns, scores and embeddings. Not
 * remembered: turns that failed or were stopped, and turns that use a context restored from a file.
 *
 * A remembered answer passes through the same splitter as a sampled one, token by token, so its
 * message, thoughts and calls are the same. The session's context does not change; the next turn
 * computes what is missing.
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

struct recall {		     /* of a turn; zero-initialised: the turn is not remembered */
	struct text_out key; /* empty: do not remember the turn */
	size_t ids;	     /* number of the turn's ids in the key */
	uint64_t weights;    /* the weights' sum in the key */
	bool found;	     /* the answer was found on disk */
};

/* The inputs that a key is made from. */
struct recall_asked {
	const struct model *model;
	uint64_t weights;
	const struct params *params;
	const struct dialogue *dialogue; /* for the tools and choices */
	const struct token_list *ids;
	/* ids and bytes of an answer that the turn continues */
	size_t rendered, given_thoughts, given;
	bool chat;
	int thinking;	    /* enum split_thinking */
	const char *prompt; /* [prompt_length], without chat */
	size_t prompt_length;
};

/* Whether a key determines the answer with these params. */
bool recall_may(const struct params *p);
/* Whether the answer is on disk. For session_plan. */
bool recall_knows(struct remember *r, uint32_t owner, const struct recall_asked *a);
/* Called when the turn is prepared: makes the key and looks for the answer. If it is found, the
 * event gets the answer and the turn is over. Blocks: reads the disk. After a failure the turn is
 * computed, except that -ENOMEM in the middle of an answer is an error. */
int recall_find(struct turn_state *t, struct turn_event *ev, struct err *e);
/* Remembers the session's finished answer. The run's lock is held. */
void recall_keep(struct turn_state *t, const char *finish);
void recall_free(struct recall *r);

#endif
