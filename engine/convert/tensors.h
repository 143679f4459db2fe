/* A checkpoint's tensors by the names that they were published under, with the numbers that are
 * computed with.
 *
 * Tensors that the store has in another format are read from the store and put back into the
 * published order: rows of stacked experts, one after the other, in turn or across; heads whose
 * rows are paired; zero-centred norms. As long as there is no store, rows are made from the source
 * as a conversion makes them (encoder.h), which gives the same numbers. Tensors that are kept as
 * published, or that no role uses, are read from the source.
 *
 * A tensor with two uses, such as an embedding that is also the head, has the numbers of its first
 * use. All numbers are F32, which holds those of all other formats.
 */
#ifndef MOEFS_ENGINE_CONVERT_TENSORS_H
#define MOEFS_ENGINE_CONVERT_TENSORS_H

#include "cache/err.h"
#include "engine/family/plan.h"
#include "engine/source/checkpoint.h"
#include "kernels/kernels.h"

struct tensors;

struct tensors_of {
	const char *directory;	     /* the checkpoint, or a GGUF file; outlives the list */
	const struct config *config; /* outlives the list */
	struct recipe recipe;	     /* with the norms that a store would have */
	const struct kernels *kernels;
};

/* Reads the headers, checks them against the config as a conversion does, and keeps the files open.
 */
int tensors_open(struct tensors **out, const struct tensors_of *of, struct err *e);
void tensors_close(struct tensors *t); /* NULL is fine */

/* In the order of their names, without tensors of types that moefs cannot read. */
size_t tensors_count(const struct tensors *t);
struct tensor_facts {
	const char *name; /* the list's */
	uint32_t dims;
	uint64_t shape[CHECKPOINT_MAX_DIMS];
	uint64_t numbers; /* 4 · numbers fits in 63 bits */
};
const struct tensor_facts *tensors_facts(const struct tensors *t, size_t i);
bool tensors_find(const struct tensors *t, const char *name, size_t *i);

/* A complete store with files of its own, and its plan. */
struct tensors_store {
	struct store *store;
	const struct plan *plan;
};
/* Reads numbers [first, first + count), which the tensor must have. store: NULL if there is none.
 * Takes memory for a few rows and reads no more than these need: of rows that lie across, the part
 * of the expert that they cross; from the source, also the rows beside them that share a group.
 * -ESTALE: the source was changed since it was opened. From any number of threads. */
int tensors_read(const struct tensors *t, size_t i, const struct tensors_store *store,
		 uint64_t first, size_t count, float *out, struct err *e);

#endif
