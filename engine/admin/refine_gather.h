/* The first half of refining: a text goes through the model while moments are gathered. They are
 * kept beside the store to be, so that gathering is resumed where it was. */
#ifndef MOEFS_ENGINE_ADMIN_REFINE_GATHER_H
#define MOEFS_ENGINE_ADMIN_REFINE_GATHER_H

#include "engine/model.h"

struct moments;

/* Reads what the request names, or has the model write, until it is whole, as far as `moments` have
 * it not. weights: the sum of the key of the store that they are of (model_loaded.h). -ECANCELED:
 * it was stopped, somebody else's turn began, or the model was loaded again with other weights;
 * what is kept is kept. */
int refine_gather(struct model *m, const struct model_refining *r, uint64_t weights,
		  struct moments *moments, const char *folder, struct err *e);

#endif
