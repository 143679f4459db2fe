/* A model's dense weights in memory, arranged for the kernels; experts are the pager's. */
#ifndef MOEFS_ENGINE_COMPUTE_WEIGHTS_H
#define MOEFS_ENGINE_COMPUTE_WEIGHTS_H

#include "cache/store.h"
#include "engine/family/plan.h"
#include "kernels/kernels.h"

struct weights {
	const struct store *store; /* for rows of the embedding */
	const struct plan_tensor *embedding;
	uint8_t *embedding_chunk;   /* where one of its chunks is read */
	struct recent_rows *recent; /* of the embedding */
	/* By role; data is NULL where there is no such tensor, or it was not asked for. Vectors are
	 * one F32 row, norms with the family's offset added. The draft's layer comes last. */
	struct layer_weights {
		struct matrix m[TENSOR_ROLES];
	} once, *layer;
	void *memory;
	size_t memory_bytes;
};

/* Reads and verifies the dense part of a store, and of what only drafting needs nothing unless
 * `drafts`; nothing either where there is no draft layer (plan.recipe.draft). The plan and the
 * store outlive the weights. stop, if it becomes true, ends the work early with -ECANCELED. */
int weights_load(struct weights *w, const struct plan *p, const struct config *c,
		 const struct store *store, bool drafts, const _Atomic bool *stop, struct err *e);
void weights_free(struct weights *w);

/* One row of the embedding as floats: out[hidden]. The embedding stays on disk (a tied head is a
 * copy of its own); the unit that the row is in comes through the page cache, which keeps the
 * common ones, and is verified whenever it is read. Some of the last rows are kept: a draft's come
 * again when they are verified, and a text has few different words. For one thread at a time. */
int weights_embed(const struct weights *w, uint32_t token, float *out, struct err *e);

static inline const float *weights_vector(const struct layer_weights *l, enum tensor_role role)
{
	return l->m[role].data;
}

#endif
