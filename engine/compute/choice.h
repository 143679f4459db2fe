/* From a router's logits to a token's experts and their weights: what families do differently
 * between the two. Softmax before or after the choice, or sigmoids with a correction and groups
 * (DeepSeek-AI 2024); normalisation; factors. */
#ifndef MOEFS_ENGINE_COMPUTE_CHOICE_H
#define MOEFS_ENGINE_COMPUTE_CHOICE_H

#include "engine/compute/environment.h"

/* The top_k experts of one token of a layer, by logits[experts]; ties go to the lowest index. Where
 * the choice is by sigmoids, the logits become those, and scores[experts] is written over. */
void choose_experts(const struct environment *env, const struct layer_weights *l, uint32_t top_k,
		    float *logits, float *scores, uint32_t *chosen);
/* Then their weights; both become descending in weight. The logits are written over. */
void weigh_experts(const struct environment *env, const struct layer_weights *l, uint32_t top_k,
		   float *logits, uint32_t *chosen, float *weight);

#endif
