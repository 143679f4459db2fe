/* A checkpoint's tensors by their published names, with the numbers that the model computes with.
 *
 * Tensors that the store has in another format are read from the store and put back into the
 * published order: stacked, alternating or transposed experts, heads with paired rows, zero-centred
 * norms. While there is no store, rows are converted from the source (encoder.h), which gives the
 * same numbers. Tensors that are kept as published, or that no role uses, are read from the source.
 *
 * A tensor with two uses, such as an embedding that is also the head, has the numbers of its first
 * use. All numbers are F32, which can represent the numbers of all other formats.
 */
#ifndef MOEFS_ENGINE_CONVERT_TENSORS_H
#define MOEFS_ENGINE_CONVERT_TENSORS_H

#include "cache/err.h"
#include "engine/family/plan.h"
#include "engine/source/checkpoint.h"
#include "kernels/kernels.h"

struct tensors;

struct tensors_of {
	const char *directory;	     /* the checkpoint, or a GGUF file; must outlive the list */
	const struct config *config; /* must outlive the list */
	struct recipe recipe;	     /* with the norms of a store */
	const struct kernels *kernels;
};

/* Reads the headers, checks them against the config as in a conversion, and keeps the files open.
 */
int tensors_open(struct tensors **out, const struct tensors_of *of, struct err *e);
void tensors_close(struct tensors *t); /* NULL is fine */

/* Sorted by name, without tensors of types that moefs cannot read. */
size_t tensors_count(const struct tensors *t);
struct tensor_facts {
	const char *name; /* owned by the list */
	uint32_t dims;
	uint64_t shape[CHECKPOINT_MAX_DIMS];
	uint64_t numbers; /* 4 · numbers fits into 63 bits */
};
const struct tensor_facts *tensors_facts(const struct tensors *t, size_t i);
bool tensors_find(const struct tensors *t, const char *name, size_t *i);

/* A complete store with its own files (not in place), and its plan. */
struct tensors_store {
	struct store *store;
	const struct plan *plan;
};
/* Reads numbers [first, first + count), which must exist. store: NULL if there is none. Allocates
 * memory for a few rows. Reads only what these rows need: for transposed experts, the part of the
 * expert that the rows cross; from the source, also neighbouring rows that share a group. -ESTALE:
 * the source has changed since it was opened. Any number of threads may call this. */
int tensors_read(const struct tensors *t, size_t i, const struct tensors_store *store,
		 uint64_t first, size_t count, float *out, struct err *e);

#endif
