/* The shared expert of a layer with routed ones: a feed-forward that every token passes through,
 * in some families weighed by the sigmoid of one more product. It needs nothing that has to be
 * read, so it is computed while routed experts are on their way, and added when they have been
 * summed. */
#ifndef MOEFS_ENGINE_COMPUTE_SHARED_H
#define MOEFS_ENGINE_COMPUTE_SHARED_H

#include "engine/compute/step.h"

struct shared_scratch {
	struct activation hidden; /* input of the down projection */
	float *up, *out;	  /* out: [rows][hidden] */
	float *scale;		  /* [rows], before the sigmoid, where there is that product */
};

void shared_take(struct shared_scratch *d, struct arena *arena, const struct config *c,
		 size_t rows);
/* The shared expert of normed, kept in the scratch; and adding it to out. */
void shared_run(struct shared_scratch *d, struct step *s, uint32_t layer);
void shared_add(struct shared_scratch *d, struct step *s);

#endif
