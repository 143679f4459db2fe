/* Answers chosen from a list (params/format=choices): computes how likely each candidate is, and
 * chooses one.
 *
 * A candidate's log-probability is the sum over its tokens, from where the answer begins, and the
 * end-of-turn token after them. Candidates that begin with the same tokens share them: sorted by
 * ids, the candidates form a tree, which is walked depth first. A step computes as many edges of
 * the tree as the step and the context budget have room for. Each edge is computed in a fork of the
 * context that holds the tokens before it. A fork is dropped as soon as no edge continues it.
 *
 * The turn begins like any other. If the model thinks, the thoughts are sampled token by token.
 * Then the ids up to the beginning of the answer are computed like a prompt (turn.prompt_ids ends
 * there), and the walk begins with the logits of the last of these ids.
 */
#ifndef MOEFS_ENGINE_TURN_CHOOSE_H
#define MOEFS_ENGINE_TURN_CHOOSE_H

#include "engine/compute/step.h"

struct turn_event;
struct turn_scratch;
struct turn_state;

enum { CHOOSE_EDGES = 64 }; /* most edges per step, each with its own context */

struct choose_text {	     /* a candidate */
	const uint32_t *ids; /* [count], without the prompt */
	uint32_t count;
	uint32_t index; /* in the user's list */
	double logprob; /* of the ids and the end-of-turn token */
};

/* A context that holds the first tokens of some candidates; shared by the edges that continue it.
 */
struct choose_node {
	struct context context;
	uint32_t holders;
};

/* Tokens [from, to) of the texts [first, last), which share all tokens before `to`. */
struct choose_edge {
	/* holds the tokens before `from`; NULL: the session's context */
	struct choose_node *parent;
	uint32_t first, last, from, to;
	/* Sum of the log-probabilities of tokens [0, known]. `from` is less than `known` if the
	 * parent's context was given up; then tokens [from, known) are computed again. */
	double sum;
	uint32_t known;
	/* While the edge is in a step: */
	struct choose_node *node; /* a fork of the parent */
	uint32_t row;		  /* index of its first row among the turn's rows */
	bool done;
};

struct choose { /* of a turn; zero-initialised: not a turn with choices */
	enum choose_state {
		CHOOSE_NOTHING,
		CHOOSE_THINKS, /* thoughts are sampled */
		CHOOSE_BEGINS, /* the next logits are those of the answer's first token */
		CHOOSE_WALKS,
	} state;
	struct choose_text *texts; /* [count], ascending ids */
	uint32_t count;
	uint32_t *ids;		     /* of all texts */
	uint32_t end;		     /* the end-of-turn token */
	bool thought;		     /* the thoughts have begun; the model thinks only once */
	struct choose_edge *pending; /* [pending_count], a stack: the last edge is next */
	uint32_t pending_count, pending_room;
	struct choose_edge wave[CHOOSE_EDGES]; /* edges of the current step */
	uint32_t wave_count;
};

/* Called while the turn is prepared, once its ids are known. -EINVAL: there are no candidates, or a
 * candidate has too many tokens; -EFBIG, -ENOMEM. */
int choose_begin(struct turn_state *t, struct err *e);
void choose_free(struct turn_state *t);
static inline bool choose_works(const struct choose *c)
{
	return c->state != CHOOSE_NOTHING;
}

/* Rows of edges that are left to compute. 0: the turn is not walking, or has ended. */
size_t choose_left(const struct turn_state *t);
/* As turn_rows: adds edges with at most `room` rows in total. -ENOSPC: no edge fits into the
 * context budget. */
int choose_rows(struct turn_state *t, uint32_t room, struct step_batch *b, struct err *e);
/* Whether the answer begins with thoughts. This is so if the model may decide it and the most
 * probable token *id begins thoughts. This token is then the answer's first. */
bool choose_thinks(struct turn_state *t, const float *logits, uint32_t *id);
/* Takes the logits of the answer's first token and begins the walk. -EIO, -ENOMEM. */
int choose_take_first(struct turn_state *t, const float *logits, const struct turn_scratch *x,
		      struct err *e);
/* Takes the logits of a row of the walk. -EIO, -ENOMEM. */
int choose_take_row(struct turn_state *t, uint32_t row, const float *logits,
		    const struct turn_scratch *x, struct err *e);
/* Called after a sampled token: begins the answer if the thoughts are over. */
int choose_after_token(struct turn_state *t, struct err *e);
/* Called if the thoughts repeat themselves or would end the answer: ends the thoughts and begins
 * the answer. */
int choose_end_thoughts(struct turn_state *t, struct turn_event *ev, struct err *e);
/* Called when a step begins: edges that the last step did not compute become pending again. */
void choose_begin_step(struct turn_state *t);
/* Called after a step without error. *over: it was the last step, and the event has the choice.
 * -ENOMEM, -EIO.
 */
int choose_settle(struct turn_state *t, bool *over, struct turn_event *ev, struct err *e);
/* Frees the contexts of the walk. Their tokens are computed again; results stay. */
void choose_give_up(struct turn_state *t);

#endif
