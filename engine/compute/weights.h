/* A model's dense weights in memory, arranged for the kernels. Experts are the pager's. */
#ifndef MOEFS_ENGINE_COMPUTE_WEIGHTS_H
#define MOEFS_ENGINE_COMPUTE_WEIGHTS_H

#include "cache/store.h"
#include "engine/compute/threads.h"
#include "engine/family/plan.h"
#include "kernels/kernels.h"

/* Tables that stay on disk, and of which a token needs a row. */
enum weights_which { TABLE_EMBEDDING, TABLE_PER_LAYER, WEIGHTS_TABLES };

struct weights {
	const struct store *store; /* for rows of the tables */
	struct weights_table {
		const struct plan_tensor *tensor; /* NULL: the model has no such table */
		struct recent_rows *recent;
	} tables[WEIGHTS_TABLES];
	uint8_t *table_chunk; /* buffer for one chunk of a table */
	/* By role; data is NULL if the model has no such tensor, or it was not loaded. Vectors are
	 * one F32 row, norms with the family's offset added. The draft layer comes last. */
	struct layer_weights {
		struct matrix m[TENSOR_ROLES];
	} once, *layer;
	struct weights_memory {
		void *at;
		size_t bytes;
	} memory, layer_memory; /* the latter's: weights_load_layer's */
};

/* Reads and verifies the dense part of a store; the draft layer only if `drafts` and the plan has
 * one (plan.recipe.draft). The plan and the store outlive the weights. Once *stop is true, ends
 * early with -ECANCELED. -ENOMEM, -EIO in words. */
int weights_load(struct weights *w, const struct plan *p, const struct config *c,
		 const struct store *store, bool drafts, const _Atomic bool *stop, struct err *e);
void weights_free(struct weights *w);

/* For passes that meet each layer once, in less memory: weights_load_once reads only what occurs
 * once, without a draft layer's; then weights_load_layer reads a layer, in place of the one before.
 * As weights_load; after a failure of weights_load_layer no layer is loaded. */
int weights_load_once(struct weights *w, const struct plan *p, const struct config *c,
		      const struct store *store, const _Atomic bool *stop, struct err *e);
int weights_load_layer(struct weights *w, const struct plan *p, const struct config *c,
		       uint32_t layer, const _Atomic bool *stop, struct err *e);

/* Checks list[tokens][each], the experts of each token: numbers of experts, each once. Called for the
 * lists of a model when they are loaded. -EINVAL in words. */
int weights_check_list(const float *list, uint32_t tokens, uint32_t each, uint32_t experts,
		       struct err *e);

/* out = a token's row of a table. Tables stay on disk (a tied head is a copy of its own): the chunk
 * with the row is read through the page cache, which keeps the common ones, and verified on every
 * read. The last rows are kept: a draft's tokens come again when they are verified, and a text has
 * few different words. For one thread at a time. -ERANGE: no such token; -EIO; in words. */
int weights_row(const struct weights *w, enum weights_which table, uint32_t token, float *out,
		struct err *e);

/* The rows of n tokens by all threads, each chunk read once: out + i · stride for tokens[i] where there[i] is true afterwards. The
 * others are left to weights_row: those that it keeps, and those that cannot be read, since it says why. It keeps as many of
 * the rows as it would have kept. For one thread at a time. */
void weights_rows(const struct weights *w, enum weights_which table, const uint32_t *tokens,
		  uint32_t n, float *out, size_t stride, bool *there, struct threads *threads);

/* Reads chunk number `chunk` of a table, `rows` of its rows as they are stored, and verifies it:
 * to[chunk_rows · bytes of a row]. From any number of threads. -EIO in words. */
int weights_table_chunk(const struct weights *w, enum weights_which table, uint32_t chunk, void *to,
			struct err *e);

/* NULL if the model has no such tensor. */
static inline const float *weights_vector(const struct layer_weights *l, enum tensor_role role)
{
	return l->m[role].data;
}

#endif
