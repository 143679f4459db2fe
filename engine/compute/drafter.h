/* Drafts: guesses of what comes next in an answer, by the model's own draft layer or by prompt
 * lookup. A draft changes no text: the model verifies it in its next step, and what it would not
 * have said itself is taken back.
 *
 * Three things, from the bottom up: prompt lookup; the draft layer, which computes rows; and the
 * drafter, which follows one session's text with the layer. Which of them drafts, and how many
 * tokens, is engine/turn's.
 */
#ifndef MOEFS_ENGINE_COMPUTE_DRAFTER_H
#define MOEFS_ENGINE_COMPUTE_DRAFTER_H

#include "engine/compute/forward.h"

/* ---- prompt lookup (Saxena 2023; Yang et al. 2023) ----
 *
 * Text repeats itself where it quotes, edits or counts. The last few tokens are searched earlier in
 * the context, and what followed them there is the draft. */

/* The shortest and the longest run of tokens that is searched: one token alone says too little, and
 * beyond the longest every place is as good as the newest. */
enum { LOOKUP_LEAST = 2, LOOKUP_MOST = 8 };

/* Fills draft[most] with what followed the last tokens of tokens[count] at the place that agrees
 * with the most of them, the newest among equals. Where the text ends, the draft continues with
 * its own beginning, as a text does that repeats itself. Returns most, or 0 where nothing agrees.
 * *matched: how many tokens agreed. Reads the tokens once, backwards: some µs for 32 Ki. */
uint32_t drafter_lookup(const uint32_t *tokens, size_t count, uint32_t *draft, uint32_t most,
			uint32_t *matched);

/* ---- the draft layer (multi-token prediction: Gloeckle et al. 2024, as in DeepSeek-V3, 2024) ----
 *
 * From what the model has made of a position, and the token that was drawn there, the layer guesses
 * the token after that one. A row is a position of the text. It takes the embedding of the token
 * that follows the position, and a hidden state: the model's own, after the final norm; or, one
 * token further, what the draft layer itself gave for the row before, so that it feeds itself to
 * any depth. Both are normed, joined and projected to the hidden size; then come a layer like the
 * model's, a norm, and the model's own output head.
 *
 * The layer attends to the rows before. Their keys and values are in a context of its own
 * (context_init_draft), where each row's token is the one that follows its position. Rows are as
 * independent of chunks, threads and the cache as those of the model (forward.h). */

/* A model's; for the thread that owns the forward pass, in whose scratch it works. */
struct draft_layer {
	struct forward *forward;
	struct losses losses;	      /* of the next call of drafter_layer_run or _keys */
	struct step_account *account; /* the same; may be NULL */
};

/* Rows of one context, at its next positions. */
struct draft_rows {
	struct context *context;
	const uint32_t *tokens; /* [n]: those that follow the positions */
	const float *hidden;	/* [n][hidden size]: of the positions */
	uint32_t n;
	struct losses losses;
	struct step_account *account; /* NULL: a failure is one of the whole call */
};

/* The forward pass's weights were loaded with drafts, and the model has a draft layer. */
void drafter_layer_init(struct draft_layer *d, struct forward *f);

/* Computes n rows, 1 … forward.chunk, at the context's next positions, and appends tokens[n] to the
 * context. hidden: [n][hidden size]; may be forward_normed. all_logits: [n][vocabulary], and then
 * forward_normed has the rows' output; NULL: forward.logits and forward_normed have those of the
 * last row. A failed call leaves the context as it was. */
int drafter_layer_run(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		      const float *hidden, uint32_t n, float *all_logits, struct err *e);
/* The same without logits and output, for rows whose guess nobody wants (a prompt's, and those of
 * drafts that stood): only the keys and values that later rows attend to. It needs no expert. */
int drafter_layer_keys(struct draft_layer *d, struct context *x, const uint32_t *tokens,
		       const float *hidden, uint32_t n, struct err *e);

/* Who is given logits, as by step_batch.read: logits[n][vocabulary] of the entries rows[n]. */
struct draft_reader {
	int (*read)(void *ctx, const uint32_t *rows, uint32_t n, const float *logits,
		    struct err *e);
	void *ctx;
};
/* The same for rows of several contexts in one pass, at most forward.chunk in all, in which each
 * context's end for themselves like a span of a step. The reader is given the logits of each one's
 * last row, and then forward_normed has their output, [count][hidden size]. */
int drafter_layer_run_together(struct draft_layer *d, const struct draft_rows *rows, uint32_t count,
			       const struct draft_reader *reader, struct err *e);
/* The same with no more than the keys and values. */
int drafter_layer_keys_together(struct draft_layer *d, const struct draft_rows *rows,
				uint32_t count, struct err *e);

/* ---- the drafter: the draft layer along a text that grows, is edited and taken back ----
 *
 * The layer attends to a row for each position of the text. A row is pending while its hidden state
 * is kept but its keys and values are not computed. The row of the last position is always pending:
 * it needs the token that follows. Rows of an answer stay pending until something is drafted; then
 * they are computed together, since one pass for each token would cost too much. A prompt's rows
 * are computed chunk by chunk. If even that is not worth its time (keep_keys false), only the last
 * few hidden states are kept, and rows begin with them when something is drafted after all.
 *
 * A draft begins with the row of the last position and continues with rows of the layer's own
 * output, which are forgotten afterwards: verified tokens get rows from what the model made of
 * them.
 *
 * Where the text goes back to a checkpoint, the hidden state of the position before is beside it
 * (context_note), and the rows before it stand. Where it is not noted, or where the text continued
 * without the drafter, the rows begin again from there: positions are relative, and a draft that
 * knows less is worse but harms no text.
 *
 * All memory is counted against the context budget; without it, nothing is drafted. For one thread
 * at a time, like the context that is followed. */

/* The most pending rows; and, if keep_keys is false, the most and the fewest that are kept. */
enum { DRAFTER_ROWS = 32, DRAFTER_MOST_LAST = 16, DRAFTER_LAST = 8 };

struct drafter {
	struct context keys; /* of the draft layer; row i is the text's position first + i */
	size_t first;
	size_t rows;	  /* of keys, without a draft's own */
	float *hidden;	  /* [DRAFTER_ROWS][hidden size]: of the positions after these; or NULL */
	uint32_t pending; /* rows whose hidden states are in `hidden` */
	uint32_t width;	  /* the hidden size */
	bool resting;	  /* it failed or gave way: no drafts until the next drafter_begin */
};

void drafter_init(struct drafter *d, struct context_budget *budget, const struct config *c,
		  enum kv_type type);
/* Forgets everything and gives its memory back. */
void drafter_drop(struct drafter *d);
void drafter_free(struct drafter *d);
/* The most bytes that it takes beside a full context (context_full_bytes). */
uint64_t drafter_full_bytes(const struct config *c, enum kv_type type, uint32_t positions);

/* A turn begins: the text is what x holds, which may be less than before. */
void drafter_begin(struct drafter *d, struct context *x);
/* Gives its memory to who needs it more, and drafts no more in this turn; false: it had none. */
bool drafter_yield(struct drafter *d);

/* Before a step whose first token is `next`: makes room for the step's rows. keep_keys: computes
 * the pending rows, if their room is needed, and returns how many; else forgets the first of them.
 * This and the next functions work in the forward pass's scratch. */
uint32_t drafter_make_room(struct drafter *d, struct draft_layer *l, const struct context *x,
			   uint32_t next, enum row_kind kind, bool keep_keys);
/* After a step of which n tokens stand, the last of x, while forward_normed has what
 * step_batch.normed asks for. first: the row of the batch that the first of the tokens is. A
 * prompt's step has no other rows. */
void drafter_follow_prompt(struct drafter *d, struct draft_layer *l, struct context *x, uint32_t n,
			   bool keep_keys);
void drafter_follow_answer(struct drafter *d, struct draft_layer *l, const struct context *x,
			   uint32_t first, uint32_t n);

/* Whether it has followed the text to its end, so that it can draft. */
bool drafter_ready(const struct drafter *d, const struct context *x);

/* Several drafters side by side, depth by depth: all of a depth in one pass. */
enum { DRAFTERS_TOGETHER = 64 }; /* at most */
struct draft_ask {
	struct drafter *drafter;    /* ready */
	const struct context *text; /* that it follows */
	uint32_t next;		    /* the token whose successor is wanted */
	struct losses losses;
	struct step_account *account; /* says how it ended; its `picked` is not called */
	uint32_t row;		      /* where its output is, from depth to depth */
};
/* Computes the pending rows, but for the last of each. */
int drafter_catch_up_together(struct draft_layer *l, struct draft_ask *asks, uint32_t count,
			      struct err *e);
/* Catches up, and then guesses what follows `next` of each ask; and the same for a `next` that was
 * drafted. The reader is given the logits by the asks' numbers. Asks may leave between two depths,
 * and nothing else may be computed there. One that has not ended well takes no further part, and
 * after a failure its drafter rests. An error of the call is one of all asks. */
int drafter_first_together(struct draft_layer *l, struct draft_ask *asks, uint32_t count,
			   const struct draft_reader *reader, struct err *e);
int drafter_next_together(struct draft_layer *l, struct draft_ask *asks, uint32_t count,
			  const struct draft_reader *reader, struct err *e);

#endif
