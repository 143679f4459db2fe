/* A session's computed context: the tokens it has seen and their keys and values.
 *
 * Keys and values lie in blocks of 64 positions, those of layers with a window apart from those of
 * layers that see everything (kv_table.h); a recurrent state is recurrent.h's. What a window and a
 * recurrent state have left behind is not there to go back to, but for a bounded number of marks.
 *
 * A context belongs to one thread at a time: its model's generation thread while a turn is in
 * progress.
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
	struct kv_table kv[KV_KINDS];
	struct recurrent recurrent; /* the state of layers that have one (delta.c) */
	size_t note_at;		    /* floats of that; behind them lies a row (context_note) */
	uint32_t note_width;	    /* 0: there is none */
	struct token_list tokens;   /* tokens.count positions are computed */
};

void context_init(struct context *x, struct context_budget *budget, const struct config *c,
		  enum kv_type type);
/* Of a draft layer alone (draft_layer.h): its keys and values, and no recurrent state. */
void context_init_draft(struct context *x, struct context_budget *budget, const struct config *c,
			enum kv_type type);
void context_free(struct context *x);
/* What `from` holds becomes that of `to`, which was initialised alike and was freed or is new; then
 * it is the other way round. Both are at rest. */
void context_move(struct context *to, struct context *from);
/* What a context takes at most for so many positions, in steps of so many rows: keys and values, of
 * windows as many as marks may keep, a recurrent state and as many copies of it as there may be. */
uint64_t context_full_bytes(const struct config *c, enum kv_type type, uint32_t positions,
			    uint32_t step);
/* Of its keys and values alone. */
uint64_t context_kv_bytes(const struct context *x, uint32_t positions, uint32_t step);

/* Makes `to`, which was initialised alike and holds nothing, a context that has computed the same.
 * Keys and values are shared until one of the two writes to their block; the recurrent state is
 * copied, and of that and of windows no mark: what can be gone back to is the position of the fork
 * alone. -ENOSPC or -ENOMEM in words, and `to` holds nothing. The two may go to different threads.
 */
int context_fork(struct context *to, const struct context *from, struct err *e);

/* Makes room for `positions` in all, and for the recurrent state; marks give way. What no row from
 * here on sees is given back. ENOSPC: the context budget is used up, in words. */
int context_reserve(struct context *x, uint32_t positions, struct err *e);
/* Forgets every position from `count` on, gives back the blocks that this empties, and returns how
 * many positions are left: fewer than `count` where a recurrent state was last copied before it
 * (recurrent.h), or where the window before it is gone (kv_table.h). What lies between has to be
 * computed again. To where the last step began, and beyond, a window is always whole. */
size_t context_rollback(struct context *x, size_t count);
/* The text is likely to go back to this position, which the last step computed, or began or ended
 * with: keeps the window before it; of a recurrent state, which is nowhere but at the end, a copy
 * if that is where the position is. */
void context_mark(struct context *x, size_t position);

/* In a model with a recurrent state and a draft layer (drafter.h): keeps row[hidden size] of the
 * last position beside the state, so that going back to a copy of it brings the row back as well.
 * It is lost by the next position, and by going back to where it was not noted: then NULL. */
void context_note(struct context *x, const float *row);
const float *context_noted(const struct context *x);

/* The blocks that an attention layer looks at. */
static inline const void *const *context_blocks_of(const struct context *x, const struct layer *l)
{
	return x->kv[config_kv_kind(l)].blocks;
}
/* Element offset of a head's keys of an attention layer in each of them; values follow. */
static inline size_t context_key_offset(const struct layer *l, uint32_t kv_head)
{
	return ((size_t)l->kv_at + (size_t)kv_head * 2 * l->head_dim) * KV_BLOCK;
}
static inline size_t context_value_offset(const struct layer *l, uint32_t kv_head)
{
	return context_key_offset(l, kv_head) + (size_t)l->head_dim * KV_BLOCK;
}

#endif
