/* The state of a context's recurrent layers (delta nets and their like, short convolutions), and
 * checkpoints of it.
 *
 * Keys and values of a position stay where they were put, so attention can go back to any position.
 * A recurrent state is the sum of all positions before: it can only be copied while it is there. So
 * a bounded number of copies, the checkpoints, is kept, denser towards the end of the text, where
 * edits, undone turns and refused drafts go back to; from the checkpoint before that position, the
 * rest is computed again.
 *
 * Drafted tokens may be refused, so a step that verifies them does not move the state beyond its
 * certain rows. What the drafted rows would do to the state is kept with it: the state is behind by
 * these rows. A rollback to one of them only says how many stand, and the next step moves the state
 * by those first (recurrent_rows.h).
 *
 * One state is one block of floats, all layers' one after the other. Its memory and the
 * checkpoints' are counted against the context budget. A checkpoint for which there is no room
 * replaces another one, or is not kept; all checkpoints give way to what any context needs.
 *
 * A backend may keep the state in its own memory while it computes a text, and main memory's state
 * then stays behind until it is brought there (forward_bring_state).
 *
 * For one thread at a time, like the context; but checkpoints may give way at any moment, so they
 * are under the budget's lock.
 */
#ifndef MOEFS_ENGINE_COMPUTE_RECURRENT_H
#define MOEFS_ENGINE_COMPUTE_RECURRENT_H

#include "engine/compute/kv_table.h"
#include "engine/family/config.h"

/* ---- layout ----
 *
 * A layer's state: its heads' matrices, [heads][key_dim][value_dim]; then the last inputs of its
 * convolution, [width - 1][channels]; then the rows that the state is behind, up to
 * RECURRENT_BEHIND, each with all that moves a state on. Layers lie by mixer, then in their order.
 */

enum { RECURRENT_BEHIND = 4 }; /* most tokens that a step drafts */

/* What moves a state on by a row: the input of the convolution, [channels], what comes out of it,
 * and the gates: the decay of each head, or of each row of its matrix, and a factor. */
enum recurrent_part {
	RECURRENT_INPUT,
	RECURRENT_MIXED,
	RECURRENT_DECAY,
	RECURRENT_FACTOR,
	RECURRENT_PARTS
};

/* What layers with a mixer keep, in floats. */
struct recurrent_shape {
	size_t matrices;	   /* of all heads together */
	uint32_t width;		   /* of the convolution, 1 or more; 0: the mixer keeps nothing */
	uint32_t channels;	   /* of the convolution */
	size_t row[RECURRENT_PARTS]; /* of one row that the state is behind */
};
struct recurrent_shape recurrent_shape_of(const struct config *c, enum mixer mixer);

/* Floats of a layer with this shape. */
size_t recurrent_layer_floats(const struct recurrent_shape *s);
/* Floats of one row that the state is behind. */
size_t recurrent_row_floats(const struct recurrent_shape *s);
/* Where a recurrent layer's floats begin in a context's state. */
size_t recurrent_layer_at(const struct config *c, uint32_t layer);
/* Floats of a context's state; 0 in a model without recurrent layers. */
size_t recurrent_state_floats(const struct config *c);
/* Those of them that each step reads and writes, whether it drafts or not. */
size_t recurrent_moved_floats(const struct config *c);

/* ---- states ---- */

/* Most checkpoints of a context: a state of Qwen3.6-35B-A3B takes 63 MB. */
enum { RECURRENT_CHECKPOINTS = KV_CHECKPOINTS };

/* Whether the backend has a copy of the state in its own memory, which it finds by the number of struct
 * context_copy (context.h). AWAY: the copy alone is the state; `now` is that of an earlier position. */
enum recurrent_copy { RECURRENT_NOT_COPIED, RECURRENT_COPIED, RECURRENT_AWAY };

struct recurrent {
	struct context_budget *budget;
	size_t bytes;	      /* of a state, in whole pages; 0: the model has no recurrent layer */
	float *now;	      /* after the context's last position; NULL before the first */
	sharers *now_sharers; /* of `now`: saving shares it (context_save.h) */
	bool spoiled;	      /* a failed step has left `now` between two positions */
	enum recurrent_copy copy;
	/* How many of the context's last positions `now` is behind: their rows are kept. */
	uint32_t behind;
	struct context_spare spare;
	struct recurrent_checkpoint {
		size_t position;
		uint32_t behind;
		float *state;
		sharers *sharers;
	} checkpoints[RECURRENT_CHECKPOINTS]; /* ascending; under the budget's lock */
	uint32_t checkpoint_count;
};

/* Whether `now` is not the state of the context's last position: what would read it does without. */
static inline bool recurrent_stale(const struct recurrent *r)
{
	return r->spoiled || r->copy == RECURRENT_AWAY;
}

/* floats: of one state; with 0 all calls do nothing. */
void recurrent_init(struct recurrent *r, struct context_budget *budget, size_t floats);
void recurrent_free(struct recurrent *r);
/* Moves all of `from` to `to`, which holds nothing; then `from` holds nothing. */
void recurrent_move(struct recurrent *to, struct recurrent *from);

/* Makes sure of memory for the state: zeroed if it is new, and not shared. -ENOSPC or -ENOMEM in
 * words. */
int recurrent_reserve(struct recurrent *r, struct err *e);
/* Makes `to`, which has no state yet, share the state of `from` after `position` tokens, as its
 * state and as a checkpoint; the next step of either has a copy. The budget's lock is held. -ENOMEM
 * in words. */
int recurrent_share(struct recurrent *to, struct recurrent *from, size_t position, struct err *e);
/* Bytes that only this context holds, without checkpoints at other positions. */
uint64_t recurrent_own_bytes(const struct recurrent *r);
/* Makes a checkpoint: the state, with the rows that it is behind, is that after `position` tokens.
 */
void recurrent_checkpoint(struct recurrent *r, size_t position);
/* Goes back from the state after `from` positions to one after at most `to`, and returns after how
 * many. Reaches `to` itself if it is `from`, or one of the rows that `now` is behind, or has a
 * checkpoint. Later checkpoints are given up; at 0 so is the memory. */
size_t recurrent_rollback(struct recurrent *r, size_t from, size_t to);

/* ---- for context_save.c ---- */

/* Zeroed memory for a checkpoint that is loaded; NULL: there is no room. */
float *recurrent_take_checkpoint(struct recurrent *r);
/* Adds a checkpoint, later than those that are there and at most RECURRENT_CHECKPOINTS in all. It
 * takes over the caller's hold of the state; others: the count of its holders, NULL: the caller is
 * alone. */
void recurrent_add_checkpoint(struct recurrent *r, size_t position, uint32_t behind, float *state,
			      sharers *others);

#endif
