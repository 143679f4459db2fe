/* An answer that is one of a list (params/format=choices): how likely each candidate is, and which
 * one is taken.
 *
 * A candidate's log-probability is that of its tokens where the answer begins, and of the token
 * that ends the turn behind them. Candidates that begin alike have those tokens in common: sorted
 * by their ids they are a tree, which is walked depth first. A step computes as many edges of the
 * tree as there is room for, in the step and in the contexts' budget, each in a fork of the context
 * that holds what comes before it. A fork is dropped as soon as nothing continues it.
 *
 * The turn begins as any other. With thoughts, its answer is drawn token by token until they end.
 * Then the ids up to where the answer begins are computed as a prompt's (turn.prompt_ids ends
 * there), and the logits of the last of them begin the walk.
 */
#ifndef MOEFS_ENGINE_TURN_CHOOSE_H
#define MOEFS_ENGINE_TURN_CHOOSE_H

#include "engine/compute/step.h"

struct turn_event;
struct turn_scratch;
struct turn_state;

enum { CHOOSE_EDGES = 64 }; /* most edges of one step, each with a context of its own */

struct choose_text { /* a candidate */
	const uint32_t *ids; /* [count], behind the common beginning */
	uint32_t count;
	uint32_t index; /* in the list that was written */
	double logprob; /* of the ids and the end */
};

/* A context that holds the beginnings of some candidates; shared by the edges that leave it. */
struct choose_node {
	struct context context;
	uint32_t holders;
};

/* Tokens [from, to) of texts [first, last), which have these and all before in common. */
struct choose_edge {
	struct choose_node *parent; /* holds the tokens before; NULL: the session's context does */
	uint32_t first, last, from, to;
	/* Sum of the log-probabilities of tokens [0, known]. `from` is less than `known` if the
	 * parent's memory was needed: then the tokens between are computed again. */
	double sum;
	uint32_t known;
	/* In a step: */
	struct choose_node *node; /* a fork of the parent */
	uint32_t row;		  /* of the turn's rows, its first one */
	bool done;
};

struct choose { /* of a turn; zero-initialised: the turn chooses nothing */
	enum choose_state {
		CHOOSE_NOTHING,
		CHOOSE_THINKS, /* tokens are drawn until the thoughts end */
		CHOOSE_BEGINS, /* the next logits drawn are those where the answer begins */
		CHOOSE_WALKS,
	} state;
	struct choose_text *texts; /* [count], ascending ids */
	uint32_t count;
	uint32_t *ids;	/* of all texts */
	uint32_t end;	/* the token that ends the turn */
	bool thought; /* thoughts have begun: there are no others */
	struct choose_edge *pending; /* [pending_count], the next one last */
	uint32_t pending_count, pending_room;
	struct choose_edge wave[CHOOSE_EDGES]; /* of the step at hand */
	uint32_t wave_count;
};

/* While the turn is prepared, when its ids are known. -EINVAL: there are no candidates, or one has
 * too many tokens; -EFBIG, -ENOMEM. */
int choose_begin(struct turn_state *t, struct err *e);
void choose_free(struct turn_state *t);
static inline bool choose_works(const struct choose *c)
{
	return c->state != CHOOSE_NOTHING;
}

/* Rows of edges that wait to be computed; 0: the turn is not walking, or has ended. */
size_t choose_left(const struct turn_state *t);
/* As turn_rows: adds edges of at most `room` rows in all. -ENOSPC: there is no room for one. */
int choose_rows(struct turn_state *t, uint32_t room, struct step_batch *b, struct err *e);
/* Whether the answer begins with thoughts: the model decides that itself, and its likeliest token,
 * *id, is the mark. Then this token is the answer's first. */
bool choose_thinks(struct turn_state *t, const float *logits, uint32_t *id);
/* Takes the logits where the answer begins: the walk begins. -EIO, -ENOMEM. */
int choose_take_first(struct turn_state *t, const float *logits, const struct turn_scratch *x,
		      struct err *e);
/* Takes a row of the walk. -EIO, -ENOMEM. */
int choose_take_row(struct turn_state *t, uint32_t row, const float *logits,
		    const struct turn_scratch *x, struct err *e);
/* After a drawn token: if the thoughts are over, the answer begins. */
int choose_after_token(struct turn_state *t, struct err *e);
/* The thoughts would end the answer or repeat themselves: ends them, and the answer begins. */
int choose_end_thoughts(struct turn_state *t, struct turn_event *ev, struct err *e);
/* A step begins: what the last one did not compute waits again. */
void choose_begin_step(struct turn_state *t);
/* After a step that ended well. *over: it was the last, and the event has the choice. -ENOMEM, -EIO.
 */
int choose_settle(struct turn_state *t, bool *over, struct turn_event *ev, struct err *e);
/* Gives up the contexts of the walk; what they held is computed again. Results stay. */
void choose_give_up(struct turn_state *t);

#endif
