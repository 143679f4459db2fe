/* Keys and values of those layers of a context that see equally far back.
 *
 * They come in blocks of 64 positions, each holding all of these layers, committed as the context
 * grows and counted, in whole pages, against the budget that all sessions of all models share; the
 * system has them back when they are given up. In a block lies, for each layer (from its kv_at on)
 * and key-value head, keys [head_dim][64] and then values [64][head_dim] (kernels.h).
 *
 * Layers with a window have a table of their own, because what a block holds is given back as one:
 * no row to come sees a position before the window, so that blocks which lie before it as a whole
 * go, and a long text takes no more than its end does. Forks, and what is saved, share a block as
 * they share those of other layers (sharing.h).
 *
 * A text also goes back: an edit, an undone turn, an answer that is made anew. It can go back to
 * where the window before is whole. So where it is likely to go (marks, of which there is a bounded
 * number) the window before is kept. A mark is a position and nothing else: what is kept for it is
 * the table's own blocks, which nothing is written to but beyond it, so that it costs no copy, and
 * what windows have in common lies there once. Blocks that are kept for marks alone are spare.
 *
 * For one thread at a time, like the context that it is a part of; but marks may give way at any
 * moment, so these, and the blocks before `from`, are under the budget's lock.
 */
#ifndef MOEFS_ENGINE_COMPUTE_KV_TABLE_H
#define MOEFS_ENGINE_COMPUTE_KV_TABLE_H

#include "engine/compute/marks.h"
#include "engine/compute/sharing.h"
#include "kernels/kernels.h"

/* Positions before the end, and before a mark, from which the window is kept as well: drafts that
 * do not stand, and an answer's last ids, which the next turn may spell otherwise. */
enum { KV_BACK = 4 };

struct kv_table {
	struct context_budget *budget;
	size_t bytes;	 /* of a block, in whole pages: what is mapped is what is counted … */
	size_t used;	 /* … and what of it keys and values take; 0: there are no such layers */
	uint32_t window; /* positions that a row sees, itself among them; 0: all stay */
	const void **blocks; /* count pointers; owned, but for those that forks share */
	sharers **sharers;   /* of each block */
	uint32_t count, room;
	uint32_t from; /* blocks from here on are there; those before, where a mark needs them */
	struct context_spare spare;
	size_t marks[MARKS_MOST]; /* ascending; under the budget's lock, like blocks before from */
	uint32_t mark_count;
};

/* Blocks of so many positions. */
static inline uint32_t kv_blocks(uint32_t positions)
{
	return (positions + KV_BLOCK - 1) / KV_BLOCK;
}

void kv_init(struct kv_table *t, struct context_budget *budget, uint32_t window, size_t used);
void kv_free(struct kv_table *t);
/* What `from` holds becomes that of `to`, which holds nothing; then it is the other way round. */
void kv_move(struct kv_table *to, struct kv_table *from);
/* What it takes at most for so many positions, in steps of so many rows, with all marks. */
uint64_t kv_full_bytes(const struct kv_table *t, uint32_t positions, uint32_t step);

/* After `held` positions: room for `positions` in all that is nobody else's from there on, and what
 * no row from there on sees is given back. -ENOSPC or -ENOMEM in words. */
int kv_reserve(struct kv_table *t, size_t held, uint32_t positions, struct err *e);
/* Makes `to`, which is new, share what rows after `held` positions see. -ENOMEM in words. */
int kv_share(struct kv_table *to, const struct kv_table *from, size_t held, struct err *e);
/* Goes back to at most `to` positions, and returns to how many: fewer, where the window before them
 * is gone. Gives back the blocks that this empties; later marks are given up. */
size_t kv_rollback(struct kv_table *t, size_t to);
/* Of `held` positions: keeps the window before this one, if it is still whole; not before the last
 * mark. What is beyond need then, and that of the end, is given back. */
void kv_mark(struct kv_table *t, size_t held, size_t position);

/* ---- for who saves and loads (context_save.h) ---- */

/* Whether a block is in the window before a position. */
bool kv_sees(uint32_t window, size_t position, uint32_t block);
/* A new table of `positions`: a block is there where the window before them needs it; where one
 * before `count` marks, ascending, does, if there is room, for the later ones first.
 * -ENOSPC or -ENOMEM in words. */
int kv_take(struct kv_table *t, size_t positions, const uint64_t *marks, uint32_t count,
	    struct err *e);
/* When the blocks have been filled: of these marks all whose window is whole. */
void kv_set_marks(struct kv_table *t, const uint64_t *marks, uint32_t count);

#endif
