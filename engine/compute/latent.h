/* Latent attention (DeepSeek-AI 2024, multi-head latent attention): keys and values of all heads
 * are projections of one short vector, the latent, and only that is kept in the context, with one
 * rotated key that all heads share.
 *
 * The projections are absorbed: a head's query goes through its keys' projection, meets the latents
 * themselves, and what it finds among them goes through its values' projection. Prompts are
 * computed in the same way as answers, so that a row's bits do not depend on its company.
 */
#ifndef MOEFS_ENGINE_COMPUTE_LATENT_H
#define MOEFS_ENGINE_COMPUTE_LATENT_H

#include "engine/compute/runs.h"

struct latent_scratch {
	struct activation low;	    /* a query before its second projection; width 0: it has one */
	float *q;		    /* [rows][heads][nope + rope] */
	float *plain;		    /* [rows][heads][nope]: of it what is not rotated */
	float *kv;		    /* [rows][rank + rope]: latents, and what all heads share */
	float *query;		    /* [rows][heads][rank + rope]: absorbed */
	float *found;		    /* [rows][heads][rank]: of the latents */
	float *turned;		    /* [rows][rope] */
	uint32_t *index;	    /* [heads][rows]: rows of one head of [rows][heads] */
	struct activation attended; /* [rows][heads][value]: input of the output projection */
	struct row_run *runs;	    /* [rows] */
};

/* Its arrays for so many rows; nothing where no layer has one. */
void latent_take(struct latent_scratch *a, struct arena *arena, const struct config *c,
		 size_t rows);
/* out = latent attention of normed, latents put into the context. */
void latent_run(struct latent_scratch *a, struct step *s, uint32_t layer);

#endif
