/* Grouped-query softmax attention with rotary positions over a context's key-value blocks
 * (Vaswani et al. 2017; Ainslie et al. 2023; Su et al. 2021). */
#ifndef MOEFS_ENGINE_COMPUTE_ATTENTION_H
#define MOEFS_ENGINE_COMPUTE_ATTENTION_H

#include "engine/compute/runs.h"

struct attention_scratch {
	float *projected_q; /* as the projection gives it; q, where there is no gate */
	float *q, *k, *v;
	float *query_gate;	    /* NULL where there is none */
	struct activation attended; /* input of the output projection */
	struct row_run *runs;	    /* [rows] */
};

/* Its arrays for so many rows. */
void attention_take(struct attention_scratch *a, struct arena *arena, const struct config *c,
		    size_t rows);

/* out = attention of normed, keys and values put into the context. */
void attention_run(struct attention_scratch *a, struct step *s, uint32_t layer);
/* Of that the keys and values alone. */
void attention_keys(struct attention_scratch *a, struct step *s, uint32_t layer);

#endif
