/* The dense feed-forward: down · (gate ⊙ up), by the family's gated linear unit (glu.h). */
#ifndef MOEFS_ENGINE_COMPUTE_DENSE_H
#define MOEFS_ENGINE_COMPUTE_DENSE_H

#include "engine/compute/step.h"

struct dense_scratch {
	struct activation hidden; /* input of the down projection; width 0: no layer is dense */
};

void dense_take(struct dense_scratch *d, struct arena *arena, const struct config *c, size_t rows);
/* out = the feed-forward of normed. */
void dense_run(struct dense_scratch *d, struct step *s, uint32_t layer);

#endif
