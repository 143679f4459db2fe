/* A context as bytes, and a context from such bytes.
 *
 * Saving takes hold of the context's memory and copies only the ids: blocks and recurrent states
 * are shared with the context until it writes to them (sharing.h), so what was taken hold of does
 * not change. It can be read from any offset. Loading takes the bytes in their order, in pieces of
 * any size. It takes all memory once it has the counts; the new context is used only after
 * context_load_end. Within one program a context is copied without bytes: context_save_become.
 *
 * What a draft layer keeps is left out: it changes no text, and begins again (drafter.h).
 *
 * Little-endian, one after the other (the README of this folder has the same for other readers):
 *
 *     struct context_head
 *     windows  only of a model that has layers with a window: struct context_window_head
 *     index    only of a model that has index keys: the bytes of a block of them, 8
 *              then checkpoints × 8, of windows: their positions, ascending
 *     ids      positions × 4
 *     blocks   ceil(positions / 64) × block_bytes: in each the keys and values of 64 positions, of
 *              all layers without a window as they lie in the context; zeros after the last
 *              position. Then, ascending, blocks of the layers with a window, each of
 *              context_window_head.block_bytes: the blocks that the row after a checkpoint, or
 *              after all positions, sees. Then blocks of index keys
 *     states   states × (struct context_state_head, state_bytes), ascending: checkpoints, and at
 *              last the state after all positions
 */
#ifndef MOEFS_ENGINE_COMPUTE_CONTEXT_SAVE_H
#define MOEFS_ENGINE_COMPUTE_CONTEXT_SAVE_H

#include "engine/compute/context.h"

struct context_head {
	uint32_t kv_type; /* 0: 16 bits, 1: 32 bits; codes: 2: q8, 3: q4, 4: q8q4 */
	uint32_t states;
	uint64_t positions;
	uint64_t block_bytes;
	uint64_t state_bytes; /* 0: the model has no recurrent layer */
};
struct context_window_head {
	uint64_t block_bytes;
	uint32_t window; /* positions that a row of these layers sees */
	uint32_t checkpoints;
};
struct context_state_head {
	uint64_t position; /* tokens before the state */
	uint64_t behind;   /* how many of the last of these the state is behind (recurrent.h) */
};
enum { CONTEXT_STATES = RECURRENT_CHECKPOINTS + 1 };

/* All counts of a context as bytes. */
struct context_counts {
	bool windowed, indexed; /* the model has layers with a window, with an index; not saved */
	struct context_head head;
	struct context_window_head windows; /* zeros if it has none */
	uint64_t checkpoints[KV_CHECKPOINTS];
	uint64_t index_bytes; /* of a block of index keys; 0 if it has none */
};

/* What is saved, or where a loaded context's bytes go. */
struct context_parts {
	struct context_counts counts;
	uint32_t *ids;
	const void **blocks[KV_KINDS]; /* of all positions; NULL where a block is not saved */
	struct context_state {
		struct context_state_head head;
		float *memory; /* NULL: there is no room to load this checkpoint */
	} states[CONTEXT_STATES];
};

/* ---- saving ---- */

struct context_save {
	struct context_budget *budget;
	const struct config *config;
	struct context_parts parts; /* shared with the context, but for the ids */
	uint32_t block_count;
	sharers **sharers[KV_KINDS]; /* [block_count] */
	size_t mapped[KV_KINDS];     /* bytes of a block */
	sharers *state_sharers[CONTEXT_STATES];
	size_t state_mapped;
};

/* Takes hold of what x has computed; after a step that failed half way, of what x would go back to.
 * x is at rest, and c lives as long as *s. -ENOMEM in words, and there is nothing to close. */
int context_save_open(struct context_save *s, struct context *x, const struct config *c,
		      struct err *e);
void context_save_close(struct context_save *s);
uint64_t context_save_bytes(const struct context_save *s);
/* Bytes of the next piece, from the beginning on with *part = 0: all that comes before blocks, then each
 * block, and each state's head and numbers. So what two contexts share is equal pieces. 0: there are no
 * more. */
uint64_t context_save_next(const struct context_save *s, uint32_t *part);
/* What context_save_bytes would be, of a context at rest. */
uint64_t context_save_size(const struct context *x);
/* Reads n bytes from an offset; both within context_save_bytes. Several threads may read. */
void context_save_read(const struct context_save *s, uint64_t offset, void *to, size_t n);
/* Makes x, which is new and was initialised alike, the context that was saved, with its
 * checkpoints. x takes over what s held, so no memory is taken or copied; s holds nothing
 * afterwards, and is closed as any other. */
void context_save_become(struct context_save *s, struct context *x);

/* ---- loading ---- */

struct context_load {
	struct context x; /* what has come so far */
	const struct config *config;
	uint32_t most;		    /* positions that are accepted */
	uint64_t bytes;		    /* that the whole has */
	struct context_parts parts; /* x's, but for the states of checkpoints */
	uint32_t piece;		    /* number of the piece that comes now */
	size_t filled;		    /* bytes of the piece that have come */
};

/* Prepares for `bytes` of a context that is initialised like `like` and has at most `most`
 * positions. Takes no memory yet. */
void context_load_begin(struct context_load *l, const struct context *like, const struct config *c,
			uint32_t most, uint64_t bytes);
/* Takes the next n bytes. -EINVAL: not of this model's contexts, or damaged; -EFBIG, -ENOSPC,
 * -ENOMEM; in words. After an error only context_load_free may be called. */
int context_load_feed(struct context_load *l, const void *bytes, size_t n, struct err *e);
/* Whether all bytes have come. */
bool context_load_done(const struct context_load *l);
/* When they have: completes x, which has then computed what was saved, to be moved away. */
void context_load_end(struct context_load *l);
void context_load_free(struct context_load *l);

#endif
