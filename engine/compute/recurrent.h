/* The state of a context's recurrent layers (gated delta nets), and checkpoints of it.
 *
 * Keys and values of a position lie where they were put, so attention can go back to any position.
 * A recurrent state is the sum of all that came before: it can only be copied while it is there. So
 * a bounded number of copies is kept, denser towards the end of the text, where edits, undone turns
 * and refused drafts go back to; from the copy before it the rest is computed again.
 *
 * Tokens that were drafted may not stand, so a step that verifies them does not move the state
 * beyond its first token. What the others would do to it is kept in the state's block; a rollback
 * within them only says how many stand, and the next step does that first (delta.c).
 *
 * One state is one block of floats, all layers' one after the other (below). Its memory and the
 * copies' are counted against the context budget; a copy for which there is no room takes the place
 * of another one, or is not kept, and all copies give way to what any context needs.
 *
 * For one thread at a time, like the context that it is a part of; but the copies may give way at
 * any moment, so these are under the budget's lock.
 */
#ifndef MOEFS_ENGINE_COMPUTE_RECURRENT_H
#define MOEFS_ENGINE_COMPUTE_RECURRENT_H

#include "engine/compute/marks.h"
#include "engine/compute/sharing.h"
#include "engine/family/config.h"

/* ---- layout ----
 *
 * A layer's state: its value heads' matrices, [value_heads][key_dim][value_dim]; then the last
 * inputs of its convolution, [width - 1][channels]; then the rows that the state is behind, up to
 * RECURRENT_BEHIND: for each its input, its queries, keys and values after the convolution,
 * [channels] each, and its gates, [2][value_heads]. */

enum { RECURRENT_BEHIND = 4 }; /* tokens that a step may draft */

/* Floats of one layer: of its matrices, of one row that the state is behind, and in all. */
size_t recurrent_matrix_floats(const struct config *c);
size_t recurrent_row_floats(const struct config *c);
size_t recurrent_layer_floats(const struct config *c);
/* Floats of a context's state; 0 in a model without delta nets. */
size_t recurrent_state_floats(const struct config *c);
/* Those of them that each step reads and writes, whether it drafts or not. */
size_t recurrent_moved_floats(const struct config *c);

/* ---- states ---- */

/* Most copies of a context: a state of Qwen3.6-35B-A3B takes 63 MB. */
enum { RECURRENT_MARKS = MARKS_MOST };

struct recurrent {
	struct context_budget *budget;
	size_t bytes;	      /* of a state, in whole pages; 0: the model has no recurrent layer */
	float *now;	      /* after the context's last position; NULL before the first */
	sharers *now_sharers; /* what is saved has it, too (context_save.h) */
	bool spoiled;	      /* a step that failed has left `now` between two positions */
	/* By how many of the context's last positions `now` is behind: what they do to it is kept,
	 * and is yet to be done. */
	uint32_t behind;
	struct context_spare spare;
	struct recurrent_mark {
		size_t position;
		uint32_t behind;
		float *state;
		sharers *sharers;
	} marks[RECURRENT_MARKS]; /* the copies, ascending; under the budget's lock */
	uint32_t mark_count;
};

/* floats: of one state; 0 is fine, and then all of this does nothing. */
void recurrent_init(struct recurrent *r, struct context_budget *budget, size_t floats);
void recurrent_free(struct recurrent *r);
/* What `from` holds becomes that of `to`, which holds nothing; then it is the other way round. */
void recurrent_move(struct recurrent *to, struct recurrent *from);

/* Memory for the state, zeroed if it is new, and not shared. -ENOSPC or -ENOMEM in words. */
int recurrent_reserve(struct recurrent *r, struct err *e);
/* Makes `to`, which has no state yet, what `from` is after `position` tokens, with a copy of that
 * and none of those before it. -ENOSPC or -ENOMEM in words. */
int recurrent_copy(struct recurrent *to, const struct recurrent *from, size_t position,
		   struct err *e);
/* Keeps a copy of the state, which (with what it is behind) is that after `position` tokens. */
void recurrent_mark(struct recurrent *r, size_t position);
/* Memory for a copy of the state of another time, if there is room, zeroed; and such a copy, later
 * than those that are there, at a time when there are fewer than RECURRENT_MARKS. */
float *recurrent_take_copy(struct recurrent *r);
void recurrent_add_mark(struct recurrent *r, size_t position, uint32_t behind, float *state);
/* Goes back from the state after `from` positions to one after at most `to`, and returns after how
 * many it is. `to` itself is reached if it is `from`, or not before what `now` is behind, or was
 * marked. Later copies are given up; at 0 so is the memory. */
size_t recurrent_rollback(struct recurrent *r, size_t from, size_t to);

#endif
