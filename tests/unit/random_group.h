/* Groups of TC whose errors cost more in some directions than in others, for tests of tc_choose and
 * tc_improve (kernels/tc_errors.h). */
#ifndef MOEFS_TESTS_UNIT_RANDOM_GROUP_H
#define MOEFS_TESTS_UNIT_RANDOM_GROUP_H

#include "kernels/tc_errors.h"
#include "tests/unit/random.h"

struct random_group {
	struct tc_group shape;
	float upper[TQ_GROUP * TQ_GROUP], cost[TQ_GROUP], pairs[TQ_GROUP * TQ_GROUP];
	float weight[TQ_GROUP], aimed[TQ_GROUP], target[TQ_GROUP];
};

static inline void random_group_make(struct random_group *g, struct random *r, uint32_t bits)
{
	random_normal(r, g->upper, (size_t)TQ_GROUP * TQ_GROUP);
	random_normal(r, g->weight, TQ_GROUP);
	random_normal(r, g->aimed, TQ_GROUP);
	random_normal(r, g->target, TQ_GROUP);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		g->cost[i] = .1F + (float)random_uniform(r);
		g->aimed[i] = g->weight[i] + .1F * g->aimed[i];
		g->target[i] = g->weight[i] + .1F * g->target[i];
		for (size_t j = 0; j < TQ_GROUP; j++)
			g->upper[i * TQ_GROUP + j] *= j > i ? .1F : 0;
		g->upper[i * TQ_GROUP + i] = 1;
	}
	for (size_t i = 0; i < TQ_GROUP; i++)
		for (size_t j = 0; j < TQ_GROUP; j++) {
			float sum = 0;
			for (size_t k = i > j ? i : j; k < TQ_GROUP; k++)
				sum += g->upper[i * TQ_GROUP + k] * g->upper[j * TQ_GROUP + k] *
				       g->cost[k];
			g->pairs[i * TQ_GROUP + j] = g->pairs[j * TQ_GROUP + i] = sum;
		}
	g->shape = (struct tc_group){bits, g->upper, TQ_GROUP, g->cost, g->pairs};
}

/* pull = pairs · (target - norm · levels), and (target - norm · levels)' · pull. */
static inline double random_group_pull(float pull[TQ_GROUP], const struct random_group *g,
				       const uint8_t symbol[TQ_GROUP], float norm)
{
	float level[TQ_GROUP];
	double cost = 0;

	tc_levels(level, symbol, g->shape.bits);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		pull[i] = 0;
		for (size_t j = 0; j < TQ_GROUP; j++)
			pull[i] += g->pairs[i * TQ_GROUP + j] * (g->target[j] - norm * level[j]);
		cost += (double)(g->target[i] - norm * level[i]) * pull[i];
	}
	return cost;
}

#endif
