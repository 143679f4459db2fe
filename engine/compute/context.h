/* A session's computed context: the tokens it has seen and their keys and values.
 *
 * Key-value memory comes in blocks of 64 positions, each holding all attention layers, committed as
 * the context grows and counted, in whole pages, against the budget that all sessions of all models
 * share; the system has them back when they are given up. In a block lies, for each layer (from its
 * kv_at on) and key-value head, keys [head_dim][64] and then values [64][head_dim] (kernels.h).
 *
 * A context belongs to one thread at a time: its model's generation thread while a turn is in
 * progress.
 */
#ifndef MOEFS_ENGINE_COMPUTE_CONTEXT_H
#define MOEFS_ENGINE_COMPUTE_CONTEXT_H

#include "cache/err.h"
#include "engine/compute/recurrent.h"
#include "engine/family/config.h"
#include "engine/memory/context_budget.h"
#include "engine/text/tokenizer.h"
#include "kernels/kernels.h"

struct context {
	struct context_budget *budget;
	enum kv_type type;
	size_t block_bytes;  /* whole pages: what is mapped is what is counted … */
	size_t block_used;   /* … and what of it keys and values take */
	const void **blocks; /* block_count pointers; owned, but for those that forks share */
	sharers **sharers; /* of each block (sharing.h) */
	uint32_t block_count, block_room;
	struct recurrent recurrent; /* the state of layers that have one (delta.h) */
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
/* Blocks of so many positions. */
static inline uint32_t context_blocks(uint32_t positions)
{
	return (positions + KV_BLOCK - 1) / KV_BLOCK;
}
/* What a context of so many positions takes: keys and values, a recurrent state and as many copies
 * of it as there may be. */
uint64_t context_full_bytes(const struct config *c, enum kv_type type, uint32_t positions);

/* Makes `to`, which was initialised alike and holds nothing, a context that has computed the same.
 * Keys and values are shared until one of the two writes to their block; the recurrent state is
 * copied, and what can be gone back to of it is the position of the fork alone. -ENOSPC or -ENOMEM
 * in words, and `to` holds nothing. The two may go to different threads. */
int context_fork(struct context *to, const struct context *from, struct err *e);

/* Makes room for `positions` in all, and for the recurrent state; its copies give way. ENOSPC: the
 * context budget is used up, in words. */
int context_reserve(struct context *x, uint32_t positions, struct err *e);
/* Forgets every position from `count` on, gives back the blocks that this empties, and returns how
 * many positions are left: fewer than `count` where a recurrent state was last copied before it
 * (recurrent.h). What lies between has to be computed again. */
size_t context_rollback(struct context *x, size_t count);

/* In a model with a recurrent state and a draft layer (drafter.h): keeps row[hidden size] of the
 * last position beside the state, so that going back to a copy of it brings the row back as well.
 * It is lost by the next position, and by going back to where it was not noted: then NULL. */
void context_note(struct context *x, const float *row);
const float *context_noted(const struct context *x);

/* Element offset of a head's keys of an attention layer in every block; values follow. */
static inline size_t context_key_offset(const struct layer *l, uint32_t kv_head)
{
	return ((size_t)l->kv_at + (size_t)kv_head * 2 * l->head_dim) * KV_BLOCK;
}
static inline size_t context_value_offset(const struct layer *l, uint32_t kv_head)
{
	return context_key_offset(l, kv_head) + (size_t)l->head_dim * KV_BLOCK;
}

#endif
