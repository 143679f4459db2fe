/* The router of a layer with experts (Shazeer et al. 2017): which experts a step's tokens pass
 * through and with what weight, and what follows from that for the pager. */
#ifndef MOEFS_ENGINE_COMPUTE_ROUTER_H
#define MOEFS_ENGINE_COMPUTE_ROUTER_H

#include "engine/compute/choice.h"
#include "engine/compute/step.h"

/* "Assignment": one (token, chosen expert) pair. They are numbered in order of expert, then token.
 */
struct routing {
	uint32_t top_k; /* experts per token, of this step at most: the model's own or fewer */
	float *router_logits; /* [rows][experts] */
	float *scores;	      /* [rows][experts]: what the choice is by, where not the logits */
	uint32_t *chosen;     /* [rows][top_k], descending weight */
	float *weight;	      /* [rows][top_k] */
	uint32_t *kept;	      /* [rows], how many of these the token passes through: the first */
	bool *dropped;	      /* [experts], by this step */
	bool *absent;	      /* [experts]: see picks.h */
	uint32_t *group_start; /* [experts + 1], assignments of expert e: start[e] … start[e + 1] */
	uint32_t *fill;	       /* [experts] */
	uint32_t *token;       /* [assignment] */
	uint32_t *assignment; /* [rows][top_k], in the order of chosen */
	uint32_t *distinct;   /* [experts], the step's experts, ascending */
	uint32_t distinct_count;
	float *credit; /* [distinct_count] */

	struct activation foreseen; /* [PREDICT_MOST][hidden]: input of the next layer's router */
	uint32_t *predicted;	    /* [experts] */
	bool *named;		    /* [experts] */
};

/* From so many tokens on, a step will want nearly all experts of a layer, whatever its router
 * says. */
enum { PREDICT_MOST = 64 };

void route_take(struct routing *r, struct arena *a, const struct config *c, size_t rows);
/* Chooses each token's experts by the router's input and groups the tokens by expert: from
 * router_logits to distinct. */
void route(struct routing *r, struct step *s, uint32_t layer, struct activation *input);
/* Shows what was chosen to who watches, if anybody does; missed[distinct_count] is the batch's. */
void route_show(struct routing *r, const struct step *s, uint32_t layer, const uint8_t *missed);
/* What the uses of `distinct` count for the pager's policy; NULL: 1 each, as in answers. */
const float *route_credit(struct routing *r, const struct step *s);
/* Tells the pager what the next layer will probably choose. */
void route_predict(struct routing *r, struct step *s, uint32_t layer);

#endif
