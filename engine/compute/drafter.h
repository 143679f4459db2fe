/* Drafts by a model's own draft layer (draft_layer.h) along a text that grows, is edited and taken
 * back.
 *
 * The layer attends to a row for each position of the text: what the model has made of the position
 * and the token that follows it. The row of the last position waits for that token, so its hidden
 * state is kept; rows of an answer are kept waiting as long as nothing is drafted, and their keys
 * and values are then computed together, since one pass for each token would cost more than it may.
 * A prompt's are computed chunk by chunk. Where even that is not worth its time, only the last few
 * hidden states are kept, and rows begin with them when something is drafted after all.
 *
 * A draft begins with the row of the last position and goes on with rows of the layer's own output,
 * which are forgotten afterwards: what is verified gets rows from what the model made of it.
 *
 * Where the text goes back to a copy of a recurrent state, the hidden state of the position before
 * is beside it (context_note), and the rows before it stand. Where that is not known, or where the
 * text went on unfollowed, the rows begin anew from there: positions are relative, and a draft that
 * knows less is worse and harms no text.
 *
 * All memory is counted against the context budget; without it, nothing is drafted.
 * For one thread at a time, like the context that is followed.
 */
#ifndef MOEFS_ENGINE_COMPUTE_DRAFTER_H
#define MOEFS_ENGINE_COMPUTE_DRAFTER_H

#include "engine/compute/draft_layer.h"

/* Rows that may wait; and that do, at most and at least, where the text is not followed. */
enum { DRAFTER_ROWS = 32, DRAFTER_MOST_LAST = 16, DRAFTER_LAST = 8 };

struct drafter {
	struct context keys; /* of the draft layer; row i is the text's position first + i */
	size_t first;
	size_t rows;	  /* of these, without a draft's own */
	float *hidden;	  /* [DRAFTER_ROWS][hidden size]: of the positions after these; NULL */
	uint32_t waiting; /* how many */
	uint32_t width;	  /* the hidden size */
	bool resting;	  /* until the next drafter_begin: it failed, or gave way */
};

void drafter_init(struct drafter *d, struct context_budget *budget, const struct config *c,
		  enum kv_type type);
/* Forgets everything and gives its memory back. */
void drafter_drop(struct drafter *d);
void drafter_free(struct drafter *d);
/* What it takes beside a full context (context_full_bytes). */
uint64_t drafter_full_bytes(const struct config *c, enum kv_type type, uint32_t positions);

/* A turn begins: the text is what x holds, all of which may be less than before. */
void drafter_begin(struct drafter *d, struct context *x);
/* Gives its memory to who needs it more, and drafts no more in this turn; false: it had none. */
bool drafter_yield(struct drafter *d);

/* Before a step whose first token is `next`. Room for its rows: if `keys`, those that wait are
 * computed if need be, or at once before a prompt's, and it returns how many were; else the first
 * are forgotten. Like all that follows, it works in the forward pass's scratch. */
uint32_t drafter_make_room(struct drafter *d, struct draft_layer *l, const struct context *x,
			   uint32_t next, enum row_kind kind, bool keys);
/* After a step of which n tokens stand, the last of x, while forward.scratch.normed has what
 * batch.normed asks for. */
void drafter_follow_prompt(struct drafter *d, struct draft_layer *l, struct context *x, uint32_t n,
			   bool keys);
void drafter_follow_answer(struct drafter *d, struct draft_layer *l, const struct context *x,
			   uint32_t n);

/* Whether it has followed the text to its end, so that it can draft. */
bool drafter_ready(const struct drafter *d, const struct context *x);
/* Computes the rows that wait but for the last one. */
int drafter_catch_up(struct drafter *d, struct draft_layer *l, const struct context *x,
		     struct err *e);
/* The text goes on with `next`: to forward.scratch.logits, what may follow, once it has caught up.
 * And the same again, of `next` that was drafted. After an error but -ECANCELED it rests. */
int drafter_first(struct drafter *d, struct draft_layer *l, const struct context *x, uint32_t next,
		  struct err *e);
int drafter_next(struct drafter *d, struct draft_layer *l, uint32_t next, struct err *e);

#endif
