/* The choice of a row's experts by their logits, as engine/cpu/router.c makes it where the softmax
 * comes first: the top_k largest logits, ties to the lowest index; weights by the softmax over all,
 * divided by their sum if that is wanted; then sorted by weight. */
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_vectors.h"

/* A row of logits in shared memory; then probabilities. */
struct cuda_chosen {
	float *logit, *probability; /* [experts] */
	float *sum, *max;
};

CUDA_THREAD struct cuda_chosen cuda_chosen_of(uint32_t experts)
{
	struct cuda_chosen c;

	c.logit = cuda_shared();
	c.probability = c.logit + experts;
	c.sum = c.probability + experts;
	c.max = c.sum + 1;
	return c;
}

/* NaN is above nothing, and numbers are above NaN. */
CUDA_THREAD int cuda_above(float a, float b)
{
	return a == a && !(a <= b);
}

/* The place of a logit among all: those above it, and those before it that are not below it. */
CUDA_THREAD uint32_t cuda_rank(const float *logit, uint32_t n, uint32_t i)
{
	const float own = logit[i];
	uint32_t rank = 0;

	for (uint32_t j = 0; j < n; j++)
		rank += cuda_above(logit[j], own) || (j < i && !cuda_above(own, logit[j]));
	return rank;
}

/* By one warp: the largest logit and the sum of the exponentials, in dot order. */
CUDA_THREAD void cuda_router_softmax(const struct cuda_chosen *c, uint32_t n)
{
	const uint32_t lane = cuda_thread();
	float max = cuda_minus_infinity(), sum = 0;

	for (uint32_t i = lane; i < n; i += CUDA_WARP)
		max = cuda_larger(max, cuda_number(c->logit[i]));
	max = cuda_largest_number(max, lane);
	for (uint32_t i = lane % CUDA_LANES; i < n; i += CUDA_LANES)
		sum += cuda_exp(c->logit[i] - max);
	sum = cuda_sum_lanes(sum);
	if (lane == 0) {
		*c->sum = sum;
		*c->max = max;
	}
}

/* By one thread: the weights of the chosen experts, and both by descending weight; stable. */
CUDA_THREAD void cuda_weigh(const struct cuda_choice *p, const float *probability,
			    uint32_t *chosen, float *weight)
{
	float sum = 0;

	for (uint32_t i = 0; i < p->top_k; i++) {
		weight[i] = probability[chosen[i]];
		sum += weight[i];
	}
	sum += p->eps;
	for (uint32_t i = 0; i < p->top_k; i++) {
		weight[i] = p->normalise ? cuda_divide(weight[i], sum) : weight[i];
		weight[i] = p->scaling != 1 ? weight[i] * p->scaling : weight[i];
	}
	for (uint32_t end = 1; end < p->top_k; end++)
		for (uint32_t r = end; r > 0 && weight[r] > weight[r - 1]; r--) {
			const float w = weight[r];
			const uint32_t e = chosen[r];
			weight[r] = weight[r - 1];
			chosen[r] = chosen[r - 1];
			weight[r - 1] = w;
			chosen[r - 1] = e;
		}
}

/* A block of threads has a row, a thread an expert. */
CUDA_KERNEL cuda_choose(struct cuda_choice p)
{
	const struct cuda_chosen c = cuda_chosen_of(p.experts);
	const uint32_t i = cuda_thread(), row = cuda_block_x();
	uint32_t *chosen = p.chosen + (size_t)row * p.top_k;
	float *weight = p.weight + (size_t)row * p.top_k;

	if (i < p.experts)
		c.logit[i] = p.logits[(size_t)row * p.experts + i];
	cuda_barrier();
	if (i < CUDA_WARP)
		cuda_router_softmax(&c, p.experts);
	cuda_barrier();
	if (i < p.experts) {
		const uint32_t rank = cuda_rank(c.logit, p.experts, i);
		if (rank < p.top_k)
			chosen[rank] = i;
	}
	cuda_barrier();
	if (i < p.experts)
		c.probability[i] = cuda_divide(cuda_exp(c.logit[i] - *c.max), *c.sum);
	cuda_barrier();
	if (i == 0)
		cuda_weigh(&p, c.probability, chosen, weight);
}
