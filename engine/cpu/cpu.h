/* The CPU's backend: the operations of engine/compute/backend.h by the kernels' table and the
 * compute threads. What its files share is in layers.h and product.h. */
#ifndef MOEFS_ENGINE_CPU_CPU_H
#define MOEFS_ENGINE_CPU_CPU_H

#include "engine/compute/backend.h"

extern const struct backend cpu_backend;

/* ---- for a backend that computes a part of the layers itself ---- */

/* The rows of a stream, [rows][hidden], of a model with one stream. */
float *cpu_stream_rows(struct residual_stream *x);

/* Fills `chosen`, `weight` and `kept` of the step's routing by its router_logits, the products of the
 * layer's router. */
void router_choose_experts(struct step *s, uint32_t layer);
/* Fills the routing's `rank` by the same. */
void router_rank_experts(struct step *s, uint32_t later);
/* Sorts a token's experts by descending weight. Stable. */
void router_sort_by_weight(uint32_t *chosen, float *weight, uint32_t count);
/* begin_experts for rows normed[n][hidden], without the shared expert; the step's scratch is the CPU's. outputs:
 * where `wave` leaves those of experts, [assignments][hidden], until the next call; NULL: in the scratch. */
void moe_begin_experts(struct step *s, uint32_t layer, const float *normed, float *outputs);
/* The outputs of the experts that `wave` has computed: [assignments][hidden]. */
const float *moe_experts_found(const struct scratch *s);

#endif
