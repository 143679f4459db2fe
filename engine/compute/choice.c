#include "engine/compute/choice.h"

#include <math.h>
#include <string.h>

/* The top_k largest of logits[n], descending, ties to the lowest index. NaN is never chosen before
 * a number, and there are always top_k of them. */
static void choose(const float *logits, uint32_t n, uint32_t *chosen, uint32_t top_k)
{
	for (uint32_t rank = 0; rank < top_k; rank++) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < n; i++) {
			bool taken = false;
			for (uint32_t r = 0; r < rank && !taken; r++)
				taken = chosen[r] == i;
			if (!taken && (best == UINT32_MAX || logits[i] > logits[best]))
				best = i;
		}
		chosen[rank] = best;
	}
}

/* Only the best groups' experts keep their scores: those whose two best have the largest sum. */
static void keep_groups(const struct config *c, float *scores)
{
	uint32_t size = c->experts / c->router_groups, best[CONFIG_MAX_EXPERTS / 2], two[2];
	float sum[CONFIG_MAX_EXPERTS / 2];
	bool kept[CONFIG_MAX_EXPERTS / 2] = {false};
	for (uint32_t g = 0; g < c->router_groups; g++) {
		const float *group = scores + (size_t)g * size;
		choose(group, size, two, 2);
		sum[g] = group[two[0]] + group[two[1]];
	}
	choose(sum, c->router_groups, best, c->router_top_groups);
	for (uint32_t i = 0; i < c->router_top_groups; i++)
		kept[best[i]] = true;
	for (uint32_t e = 0; e < c->experts; e++)
		if (!kept[e / size])
			scores[e] = -INFINITY;
}

/* The correction balances the load of experts: it moves the choice, never the weights. */
static void score_by_sigmoid(const struct environment *env, const float *correction, float *logits,
			     float *scores)
{
	const struct config *c = env->config;
	for (uint32_t e = 0; e < c->experts; e++)
		scores[e] = 1;
	env->kernels->sigmoid_mul(scores, logits, c->experts);
	memcpy(logits, scores, c->experts * sizeof *logits);
	env->kernels->add(scores, correction, c->experts);
	if (c->router_groups > 1)
		keep_groups(c, scores);
}

void choose_experts(const struct environment *env, const struct layer_weights *l, uint32_t top_k,
		    float *logits, float *scores, uint32_t *chosen)
{
	bool sigmoid = env->config->router_order == SIGMOID_THEN_TOP_K;
	if (sigmoid)
		score_by_sigmoid(env, weights_vector(l, TENSOR_ROUTER_CORRECTION), logits, scores);
	choose(sigmoid ? scores : logits, env->config->experts, chosen, top_k);
}

static void normalise(float *weight, uint32_t count)
{
	float sum = 0;
	for (uint32_t r = 0; r < count; r++)
		sum += weight[r];
	for (uint32_t r = 0; r < count; r++)
		weight[r] /= sum;
}

/* What was chosen by other numbers than the weights: in descending order of weight, as it was where
 * that is equal. */
static void sort_by_weight(uint32_t *chosen, float *weight, uint32_t count)
{
	for (uint32_t end = 1; end < count; end++)
		for (uint32_t r = end; r > 0 && weight[r] > weight[r - 1]; r--) {
			float w = weight[r];
			uint32_t e = chosen[r];
			weight[r] = weight[r - 1];
			chosen[r] = chosen[r - 1];
			weight[r - 1] = w;
			chosen[r - 1] = e;
		}
}

void weigh_experts(const struct environment *env, const struct layer_weights *l, uint32_t top_k,
		   float *logits, uint32_t *chosen, float *weight)
{
	const struct config *c = env->config;
	const float *scale = weights_vector(l, TENSOR_EXPERT_SCALE);
	if (c->router_order == SOFTMAX_THEN_TOP_K)
		env->kernels->softmax(logits, c->experts);
	for (uint32_t i = 0; i < top_k; i++)
		weight[i] = logits[chosen[i]];
	if (c->router_order == TOP_K_THEN_SOFTMAX)
		env->kernels->softmax(weight, top_k);
	if (c->normalise_top_k)
		normalise(weight, top_k);
	for (uint32_t i = 0; i < top_k && c->routed_scaling != 1; i++)
		weight[i] *= c->routed_scaling;
	for (uint32_t i = 0; i < top_k && scale; i++)
		weight[i] *= scale[chosen[i]];
	sort_by_weight(chosen, weight, top_k);
}
