/* A context as bytes, of which there are as many as its counts say, and a context from such bytes.
 *
 * Saving takes hold of what is there and copies none of it but the ids: blocks and recurrent states
 * are shared with the context until it writes to them, so that what was taken stays as it was. It
 * is then read from any offset on. Loading takes the bytes in their order, in pieces of any size;
 * it takes all the memory when it has seen the counts, and what it was given is used for nothing
 * before context_load_end.
 *
 * What a draft layer keeps is left out: it changes no text, and begins anew wherever it is
 * (drafter.h).
 *
 * Little-endian, one after the other (README.md of this folder has the same for other readers):
 *
 *     struct context_head
 *     windows  only of a model that has layers with a window: struct context_window_head, and
 *              marks × 8: positions to go back to, ascending
 *     ids      positions × 4
 *     blocks   ceil(positions / 64) × block_bytes: in each the keys and values of 64 positions, of
 *              all layers without a window as they lie in the context; zeros for positions that
 *              there are not. Then, ascending, those of layers with one, each of
 *              context_window_head.block_bytes: such as the row after a mark sees, or after all
 *     states   states × (struct context_state_head, state_bytes), ascending: copies to go back to,
 *              and at last the state after all positions
 */
#ifndef MOEFS_ENGINE_COMPUTE_CONTEXT_SAVE_H
#define MOEFS_ENGINE_COMPUTE_CONTEXT_SAVE_H

#include "engine/compute/context.h"

struct context_head {
	uint32_t kv_type; /* 0: 16 bits, 1: 32 bits */
	uint32_t states;
	uint64_t positions;
	uint64_t block_bytes;
	uint64_t state_bytes; /* 0: the model has no recurrent layer */
};
struct context_window_head {
	uint64_t block_bytes;
	uint32_t window; /* positions that a row of these layers sees */
	uint32_t marks;
};
struct context_state_head {
	uint64_t position; /* after so many tokens … */
	uint64_t behind;   /* … of which it has yet to do the last so many (recurrent.h) */
};
enum { CONTEXT_STATES = RECURRENT_MARKS + 1 };

/* All counts of a context as bytes. */
struct context_counts {
	struct context_head head;
	struct context_window_head windows; /* zeros: there are none */
	uint64_t marks[MARKS_MOST];
};

uint64_t context_counts_bytes(const struct context_counts *c); /* of all; they are plausible */
/* Whether a block of a kind is among them. */
bool context_has_block(const struct context_counts *c, enum kv_kind kind, uint32_t block);
uint64_t context_block_bytes(const struct context_counts *c, enum kv_kind kind);

/* A block of a kind of which only the first `held` positions are: its rows of elements, one after
 * the other, of each of which the first so many are theirs and the rest is nobody's. */
typedef void context_rows_fn(void *ctx, size_t rows, size_t elements, size_t held);
void context_block_rows(const struct config *c, enum kv_kind kind, size_t held,
			context_rows_fn *each, void *ctx);

struct context_save {
	struct context_budget *budget;
	const struct config *config;
	struct context_counts counts;
	uint32_t *ids;
	uint32_t block_count;
	struct saved_blocks {
		const void **blocks; /* [block_count]; NULL: not among them */
		sharers **sharers;
		size_t mapped;
	} kv[KV_KINDS];
	struct saved_state {
		struct context_state_head head;
		const float *memory;
		sharers *sharers;
	} states[CONTEXT_STATES];
	size_t state_mapped;
};

/* Takes hold of what x has computed; after a step that failed half way, of what x would go back to.
 * x is at rest, and c lives as long. -ENOMEM in words, and there is nothing to close. */
int context_save_open(struct context_save *s, struct context *x, const struct config *c,
		      struct err *e);
void context_save_close(struct context_save *s);
uint64_t context_save_bytes(const struct context_save *s);
/* What context_save_bytes would be, of a context at rest. */
uint64_t context_save_size(const struct context *x);
/* n bytes from offset on, which are within. From several threads at once, if need be. */
void context_save_read(const struct context_save *s, uint64_t offset, void *to, size_t n);

struct context_load {
	struct context x; /* what has come so far */
	const struct config *config;
	uint32_t most;	/* positions that are taken */
	uint64_t bytes; /* that there are */
	struct context_counts counts;
	struct loaded_state {
		struct context_state_head head;
		float *memory; /* NULL: no room for this copy */
	} states[CONTEXT_STATES];
	uint32_t piece; /* that is being filled */
	size_t filled;
};

/* For `bytes` of a context that is initialised like `like`, of which at most so many positions are
 * taken. Takes nothing yet. */
void context_load_begin(struct context_load *l, const struct context *like, const struct config *c,
			uint32_t most, uint64_t bytes);
/* The next n bytes. -EINVAL: not of this model's contexts, or damaged; -ENOSPC, -ENOMEM; in words.
 * After an error only context_load_free is of use. */
int context_load_feed(struct context_load *l, const void *bytes, size_t n, struct err *e);
/* Whether all has come; then x is a context that has computed what was saved, to be moved away. */
bool context_load_done(const struct context_load *l);
void context_load_end(struct context_load *l);
void context_load_free(struct context_load *l);

#endif
