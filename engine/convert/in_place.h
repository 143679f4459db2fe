/* A checkpoint that is its own store: what is in the kernels' formats already, and lies as they
 * want it, is computed with from the files that it was published in (cache/store_in_place.h).
 *
 * Every expert's every part must be as its record has it, and no dense matrix may need quantising;
 * other dense tensors are read as a conversion reads them (encode.h), whatever became of their
 * numbers since they were published.
 */
#ifndef MOEFS_ENGINE_CONVERT_IN_PLACE_H
#define MOEFS_ENGINE_CONVERT_IN_PLACE_H

#include "cache/err.h"
#include "cache/store.h"
#include "engine/family/plan.h"
#include "kernels/kernels.h"

struct in_place {
	const char *directory;
	const struct config *config; /* outlives the store */
	struct recipe recipe;	     /* as published, with the formats found */
	const struct kernels *kernels;
	uint64_t number[2]; /* the source's; another one after any change of it (source.h) */
};

/* The plan is the caller's. -ENOTSUP: it has to be converted; others: a tensor is missing, or
 * cannot be read, as sources_check says. */
int in_place_open(struct store **out, struct plan *plan, const struct in_place *v, struct err *e);

#endif
