/* A context: the tokens that a session has computed, with their keys, values and recurrent states.
 *
 * Keys and values are kv_table.h's, in one table for layers that see everything and one for layers
 * with a window, and so are index keys; recurrent states are recurrent.h's. What a window and a recurrent state have left
 * behind is gone, except at a bounded number of checkpoints: to go back to any other position, the
 * text after the checkpoint before it has to be computed again.
 *
 * A context belongs to one thread at a time: its model's generation thread while a turn is in
 * progress. Not here: contexts as bytes (context_save.h), and their budget (context_budget.h).
 */
#ifndef MOEFS_ENGINE_COMPUTE_CONTEXT_H
#define MOEFS_ENGINE_COMPUTE_CONTEXT_H

#include "cache/err.h"
#include "engine/compute/kv_table.h"
#include "engine/compute/recurrent.h"
#include "engine/family/config.h"
#include "engine/memory/context_budget.h"
#include "engine/tokenizer/tokenizer.h"

struct context {
	struct context_budget *budget;
	enum kv_type type;
	uint64_t
		whole_q8; /* bytes of a block of kv[KV_WHOLE] as codes of 8 bits; 0: it cannot be */
	struct kv_table kv[KV_KINDS];
	struct recurrent recurrent;
	uint32_t limit;	     /* config.rope_limit */
	bool long_text;	     /* its keys are turned as those of a text beyond the limit */
	size_t note_at;	     /* floats of the recurrent state; the note follows (context_note) */
	uint32_t note_width; /* hidden size; 0: the model has no note */
	struct token_list tokens; /* tokens.count positions are computed */
	/* A copy of keys and values in the backend's own memory. The backend finds it by its number,
	 * which no other copy ever had; 0: there is none. The first `valid` positions are the same
	 * in both: what writes into the blocks says so (context_changed). */
	struct context_copy {
		uint64_t number;
		size_t valid;
		bool never; /* a draft layer's: there will be none */
	} copy;
};

void context_init(struct context *x, struct context_budget *budget, const struct config *c,
		  enum kv_type type);
/* The context of a draft layer alone (drafter.h): keys and values, no recurrent state, no window.
 */
void context_init_draft(struct context *x, struct context_budget *budget, const struct config *c,
			enum kv_type type);
void context_free(struct context *x);
/* Moves all of `from` to `to`, which is new or freed and was initialised alike; then `from` holds
 * nothing. Both are at rest. */
void context_move(struct context *to, struct context *from);
/* The most bytes that a context of `positions` takes, computed in steps of `step` rows: keys,
 * values, recurrent state, and all checkpoints. */
uint64_t context_full_bytes(const struct config *c, enum kv_type type, uint32_t positions,
			    uint32_t step);
/* The same of its keys and values alone. */
uint64_t context_kv_bytes(const struct context *x, uint32_t positions, uint32_t step);

/* Makes `to`, which was initialised alike and holds nothing, a context that has computed the same.
 * Both are at rest, and the budget's lock is held. All memory is shared until one of the two writes
 * to it; only the ids are copied. Checkpoints are not taken over: where a window or a recurrent
 * state needs one, `to` can go back only to the position of the fork. The two may go to different
 * threads. -ENOMEM in words; then context_rollback(to, 0) takes back what was shared. */
int context_fork(struct context *to, struct context *from, struct err *e);
/* Bytes that no other context holds. The budget's lock is held. */
uint64_t context_own_bytes(const struct context *x);

/* Makes room for `positions` in all and for the recurrent state; checkpoints give way. Gives back
 * what no row from here on sees. -ENOSPC in words: the context budget is used up. */
int context_reserve(struct context *x, uint32_t positions, struct err *e);
/* Takes the room that a text of `positions` needs in layers that see all of it, before its first
 * step. What windows and recurrent states need does not grow with the text, and is taken step by
 * step. -ENOSPC in words. */
int context_reserve_text(struct context *x, uint32_t positions, struct err *e);
/* Forgets the positions from `count` on, gives back the blocks that this empties, and returns how
 * many positions are left: fewer than `count` where the recurrent state has no checkpoint there
 * (recurrent.h), or where the window before `count` is gone (kv_table.h); the positions between
 * have to be computed again. Where the last step began, and from there on, the window is whole. */
size_t context_rollback(struct context *x, size_t count);
/* Before rows of a text of `positions` in all are computed: a model may turn the keys of a text
 * that passes a limit otherwise, from its beginning. What was computed of a text on the other side
 * of the limit is forgotten then, and has to be computed again. */
void context_suit(struct context *x, size_t positions);
/* Whether a text of `positions` is beyond that limit. */
static inline bool context_is_long(const struct context *x, size_t positions)
{
	return x->limit && positions > x->limit;
}
/* Makes a checkpoint, because the text is likely to go back to this position: one that the last
 * step computed, or its beginning or end. Keeps the window before it, and, if it is the end, a copy
 * of the recurrent state. */
void context_checkpoint(struct context *x, size_t position);

/* In a model with a recurrent state and a draft layer (drafter.h), keeps row[hidden size] of the
 * last position beside the state, so that going back to a checkpoint brings the row back as well.
 */
void context_note(struct context *x, const float *row);
/* The row of the last position; NULL if it was not noted: any new position loses the note. */
const float *context_noted(const struct context *x);

/* Keys and values from a position on have changed, or will: the backend's copy has none of them. */
static inline void context_changed(struct context *x, size_t position)
{
	if (x->copy.valid > position)
		x->copy.valid = position;
}

/* The blocks that an attention layer looks at. */
static inline const void *const *context_blocks_of(const struct context *x, const struct layer *l)
{
	return x->kv[config_kv_kind(l)].blocks;
}
/* Index keys, or other entries made of `ratio` positions, in the block of a position:
 * [dim][context_entry_columns], `at` elements from its beginning. */
static inline void *context_entries(const struct context *x, size_t at, size_t position)
{
	size_t element = x->type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
	return (char *)x->kv[KV_INDEX].blocks[position / KV_BLOCK] + at * element;
}
/* Entries that a block has room for, and the one that ends at the position: an entry lies in the block
 * in which it ends. */
static inline size_t context_entry_columns(uint32_t ratio)
{
	return ratio < KV_BLOCK ? KV_BLOCK / ratio : 1;
}
static inline size_t context_entry_column(uint32_t ratio, size_t position)
{
	return ratio < KV_BLOCK ? position % KV_BLOCK / ratio : 0;
}
/* What is kept of a position beside keys and values: a row of `width` numbers, `at` elements of a
 * position from the beginning (struct layer, past_at). Rows are there for the last positions. */
void context_past_put(const struct context *x, size_t at, size_t width, size_t position,
		      const float *row);
/* Numbers [first, first + n) of such a row. */
void context_past_get(const struct context *x, size_t at, size_t width, size_t position,
		      size_t first, size_t n, float *to);
/* Element offset in each block of a head's keys, and of its values, which follow. */
size_t context_key_offset(enum kv_type type, const struct layer *l, uint32_t kv_head);
size_t context_value_offset(enum kv_type type, const struct layer *l, uint32_t kv_head);

#endif
