/* Which experts a step's tokens pass through in a layer: the choice, in main memory. A backend
 * makes it (backend.h, `route`); here is what becomes of it: experts that take the places of those
 * that are not in memory, experts that are dropped, tokens grouped by expert, and what the pager is
 * told. Awaiting them is experts.c's. */
#ifndef MOEFS_ENGINE_COMPUTE_ROUTING_H
#define MOEFS_ENGINE_COMPUTE_ROUTING_H

#include "engine/compute/step.h"

/* A step of more tokens than this wants nearly all experts of a layer, whatever its router says. */
enum { PREDICT_MOST = 64 };

/* An assignment is one (token, chosen expert) pair. Assignments are numbered by expert, then token.
 */
struct routing {
	uint32_t top_k;	      /* most experts per token in this step: the model's own or fewer */
	float *router_logits; /* [rows][experts] */
	float *scores;	      /* [rows][experts]: what the choice is by, where not the logits */
	uint32_t *chosen;     /* [rows][top_k], descending weight */
	float *weight;	      /* [rows][top_k] */
	uint32_t *kept;	      /* [rows]: how many of these the token passes through, the first */
	bool *dropped;	      /* [experts]: by this step */
	bool *absent, *held;  /* [experts]: see struct picks */
	uint32_t *group_start; /* [experts + 1]: expert e has assignments start[e] … start[e + 1] */
	uint32_t *fill;	       /* [experts] */
	uint32_t *token;       /* [assignments] */
	uint32_t *assignment; /* [rows][top_k], in the order of chosen */
	/* [experts]: the step's experts: first those that the pager brings, ascending, then those
	 * that the backend holds. */
	uint32_t *distinct;
	uint32_t distinct_count, paged_count;
	float *credit; /* [distinct_count] */

	/* Predictions: a later layer's router, run on this layer's stream. */
	uint32_t *predicted;	  /* [experts]: ids */
	uint32_t *predicted_rank; /* [experts]: theirs */
	uint32_t *rank;		  /* [experts]: the best one; UINT32_MAX: not predicted */
	bool *marked;		  /* [experts]: chosen by some token */

	struct pager_ready *ready; /* [experts]: those that have come from the pager */
};

void routing_take(struct routing *r, struct arena *a, const struct config *c, size_t rows);
/* Chooses each token's experts, and groups the tokens by expert: fills the step's routing up to
 * distinct_count. */
void routing_choose(struct step *s, uint32_t layer);
/* Groups the tokens by expert after the backend has told a choice (tell_choice). */
void routing_group(struct step *s, uint32_t layer);
/* Counts the choice in the spans' accounts, and shows it to those who want to see it.
 * missed[paged_count]: the pager's. */
void routing_show(const struct step *s, uint32_t layer, const uint8_t *missed);
/* How much each use of `distinct` counts for the pager's policy; NULL: 1 each, as in answers. */
const float *routing_credit(const struct step *s);
/* Tells the pager which experts the next layers will probably choose. */
void routing_predict(struct step *s, uint32_t layer);

/* ---- experts.c ---- */

/* The feed-forward of a layer with experts, from the stream and back to it. Spans that are to stop,
 * and rows one of whose experts cannot be read, die (step_kill). -ENOMEM in words. */
int experts_run(struct step *s, uint32_t layer, struct err *e);
/* Counts and shows the choices of the layers before `layer` that the backend made without telling
 * them. Before rows move, and when the step's layers have been computed. */
void experts_report(struct step *s, uint32_t layer);

/* ---- for who chooses ---- */

/* chosen[top_k] = the largest of scores[n], descending, ties to the lowest index. top_k is at most n.
 * NaN comes after all numbers. */
void routing_top_k(const float *scores, uint32_t n, uint32_t *chosen, uint32_t top_k);
/* The numbers that a span's session adds to the logits of a layer; NULL: none. Draft layers have
 * none. */
const float *routing_steering(const struct step_span *span, uint32_t layer);
/* Experts per token of a span: the model's own number, or fewer. */
uint32_t routing_experts_of(const struct config *c, const struct step_span *span);

#endif
