/* What routing decides about a chunk and the experts carry out: between router.c and moe.c. */
#ifndef MOEFS_ENGINE_COMPUTE_MOE_H
#define MOEFS_ENGINE_COMPUTE_MOE_H

#include "engine/compute/forward.h"

/* "Assignment": one (token, chosen expert) pair. They are numbered in order of expert, then token.
 */
struct moe {
	uint32_t top_k;	      /* experts per token, of this step: the model's own or fewer */
	float *router_logits; /* [chunk][experts] */
	float *scores;	      /* [chunk][experts], where they are not the logits' softmax */
	uint32_t *chosen;     /* [chunk][top_k], descending weight */
	float *weight;	      /* [chunk][top_k] */
	uint32_t *kept;	      /* [chunk], how many of these the token passes through: the first */
	bool *dropped;	      /* [experts], by this step */
	uint32_t *group_start; /* [experts + 1], assignments of expert e: start[e] … start[e + 1] */
	uint32_t *fill;	       /* [experts] */
	uint32_t *token;       /* [assignment] */
	uint32_t *assignment; /* [chunk][top_k], in the order of chosen */
	uint32_t *distinct;   /* [experts], the chunk's experts, ascending */
	uint32_t distinct_count;
	float *credit;		   /* [distinct_count], of uses in a prompt */
	struct activation hidden;  /* [assignment][expert size]: silu(gate) · up */
	float *up;		   /* [assignment][expert size] */
	float *out;		   /* [assignment][hidden] */
	struct pager_ready *ready; /* [experts] */

	struct activation foreseen; /* [PREDICT_MOST][hidden]: input of the next layer's router */
	uint32_t *predicted;	    /* [experts] */
	bool *named;		    /* [experts] */
};

/* From so many tokens on, a chunk will want nearly all experts of a layer, whatever its router
 * says.
 */
enum { PREDICT_MOST = 64 };

/* Chooses each token's experts and groups the tokens by expert: from router_logits to distinct. */
void route(struct forward *f, uint32_t layer, uint32_t n, uint32_t position);
/* What the uses of a chunk of n tokens count for the pager's policy: to m->credit. */
void route_credit(struct moe *m, uint32_t n);
/* Tells the pager what the next layer will probably choose. */
void route_predict(struct forward *f, uint32_t layer, uint32_t n);

#endif
