/* Sends a text through a model and gathers moments of the inputs of its layers. */
#ifndef MOEFS_ENGINE_ADMIN_REFINE_GATHER_H
#define MOEFS_ENGINE_ADMIN_REFINE_GATHER_H

#include "engine/admin/refine_text.h"

struct moments;

/* Reads all windows of the text; each 16th one adds to `held`, which is of the
 * same layers, or NULL. weights: the sum of the key of the store that the moments are of
 * (model_loaded.h); *tokens: how many were read. -ECANCELED: it was stopped, or the model was
 * loaded again with other weights; the sums are then incomplete. */
int refine_gather(struct model *m, const struct refine_text *text, bool idle, uint64_t weights,
		  struct moments *moments, struct moments *held, uint64_t *tokens, struct err *e);

#endif
