/* Keys and values of the layers of a context that see equally far back; or index keys.
 *
 * A table has blocks of 64 positions, each with all layers of the table, taken as the context
 * grows, counted in whole pages against the budget that all sessions of all models share, and
 * unmapped when they are given up. In a block lie, for each layer (from its kv_at on) and key-value
 * head, keys [head_dim][64] and then values [64][head_dim] (kernels.h).
 *
 * Layers with a window have a table of their own: no later row sees a position before the window,
 * so blocks that lie before it as a whole are given back, and a long text takes no more than its
 * end does. Forks and saved contexts share blocks of all tables (sharing.h).
 *
 * A text also goes back: an edit, an undone turn, an answer that is made again. It can go back to
 * where the window before is whole. So at checkpoints, a bounded number of positions where the text
 * is likely to go back to, the window before is kept. A checkpoint is only a position: it keeps the
 * table's own blocks, which are written to only beyond it, so it costs no copy, and what several
 * windows have in common is there once. Blocks that only checkpoints keep are spare
 * (context_budget.h).
 *
 * For one thread at a time, like the context; but checkpoints may give way at any moment, so they
 * and the blocks before `from` are under the budget's lock.
 */
#ifndef MOEFS_ENGINE_COMPUTE_KV_TABLE_H
#define MOEFS_ENGINE_COMPUTE_KV_TABLE_H

#include "engine/compute/sharing.h"
#include "kernels/kernels.h"

/* Positions before the end, and before a checkpoint, from which the window is kept as well: for
 * refused drafts, and an answer's last ids, which the next turn may spell otherwise. */
enum { KV_BACK = 4 };
enum { KV_CHECKPOINTS = 8 }; /* most checkpoints of a context */

struct kv_table {
	struct context_budget *budget;
	size_t bytes;	     /* of a block, in whole pages, as it is mapped and counted */
	size_t used;	     /* by keys and values in a block; 0: there are no such layers */
	uint32_t window;     /* positions that a row sees, its own included; 0: all */
	const void **blocks; /* [count], NULL where given back; shared ones are only read */
	sharers **sharers;   /* [count] */
	uint32_t count, room;
	uint32_t from; /* all blocks from here on are there; earlier ones where a checkpoint needs
			  them */
	struct context_spare spare;
	size_t checkpoints[KV_CHECKPOINTS]; /* ascending; under the budget's lock */
	uint32_t checkpoint_count;
};

/* Blocks of `positions`. */
static inline uint32_t kv_blocks(uint32_t positions)
{
	return (positions + KV_BLOCK - 1) / KV_BLOCK;
}

void kv_init(struct kv_table *t, struct context_budget *budget, uint32_t window, size_t used);
void kv_free(struct kv_table *t);
/* Moves all of `from` to `to`, which holds nothing; then `from` holds nothing. */
void kv_move(struct kv_table *to, struct kv_table *from);
/* The most bytes of `positions`, computed in steps of `step` rows, with all checkpoints. */
uint64_t kv_full_bytes(const struct kv_table *t, uint32_t positions, uint32_t step);

/* After `held` positions: makes room for `positions` in all, not shared from `held` on, and gives
 * back what no row from there on sees. -ENOSPC or -ENOMEM in words. */
int kv_reserve(struct kv_table *t, size_t held, uint32_t positions, struct err *e);
/* Bytes of the blocks that only this table holds. */
uint64_t kv_own_bytes(const struct kv_table *t);
/* Makes `to`, which is new, share what rows after `held` positions see. The budget's lock is held.
 * -ENOMEM in words. */
int kv_share(struct kv_table *to, const struct kv_table *from, size_t held, struct err *e);
/* Goes back to at most `to` positions, and returns to how many: fewer, where the window before `to`
 * is gone. Gives back the blocks that this empties; later checkpoints are given up. */
size_t kv_rollback(struct kv_table *t, size_t to);
/* Of `held` positions: makes a checkpoint at `position` if the window before it is still whole and
 * it is after the last checkpoint. Gives back what neither checkpoints nor the end need. */
void kv_checkpoint(struct kv_table *t, size_t held, size_t position);
/* The index of the checkpoint that is missed least, among `count` >= 1 ascending positions before
 * `end`: where the distance between its neighbours, over how far back it lies, is smallest. So
 * checkpoints thin out with their distance from the end. For recurrent.c, too. */
uint32_t kv_least_missed(const size_t *positions, uint32_t count, size_t end);

/* ---- for context_save.c ---- */

/* The first block that the row at a position sees. */
uint32_t kv_seen_from(uint32_t window, size_t position);
/* Whether a block is in the window before a position. */
bool kv_sees(uint32_t window, size_t position, uint32_t block);
/* Takes the blocks of a new table of `positions`: of the window before the end; and, while there is
 * room, of the windows before checkpoints[count], ascending, the last first. -ENOSPC or -ENOMEM in
 * words. */
int kv_take(struct kv_table *t, size_t positions, const uint64_t *checkpoints, uint32_t count,
	    struct err *e);
/* When the blocks have been filled: makes the checkpoints before which the window is whole. */
void kv_set_checkpoints(struct kv_table *t, const uint64_t *checkpoints, uint32_t count);

#endif
