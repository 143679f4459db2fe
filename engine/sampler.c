#include "engine/sampler.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

int sampler_init(struct sampler *s, uint32_t vocabulary)
{
	*s = (struct sampler){.vocabulary = vocabulary};
	s->heap = malloc(vocabulary * sizeof *s->heap);
	return s->heap ? 0 : -ENOMEM;
}

void sampler_free(struct sampler *s)
{
	free(s->heap);
	*s = (struct sampler){0};
}

uint32_t sampler_greedy(const float *logits, uint32_t n)
{
	uint32_t best = 0;
	for (uint32_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}

/* Larger logit first, then lower id: a total order, so the result does not depend on the heap. */
static bool before(struct candidate a, struct candidate b)
{
	return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift_down(struct candidate *heap, uint32_t n, uint32_t i)
{
	struct candidate moving = heap[i];
	for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && before(heap[child + 1], heap[child]))
			child++;
		if (!before(heap[child], moving))
			break;
		heap[i] = heap[child];
	}
	heap[i] = moving;
}

static double weight(struct candidate c, float largest)
{
	return exp((double)c.logit - (double)largest);
}

/* Sorts only as far as needed: moves the best `most` candidates, or fewer once their weights reach
 * `enough`, to the end of the heap's array, the best last. Returns how many. */
static uint32_t select_best(struct sampler *s, uint32_t most, double enough, float largest)
{
	uint32_t n = s->vocabulary, taken = 0;
	double sum = 0;
	for (uint32_t i = n / 2; i-- > 0;)
		sift_down(s->heap, n, i);
	while (taken < most && (!taken || sum < enough)) {
		struct candidate best = s->heap[0];
		sum += weight(best, largest);
		taken++;
		s->heap[0] = s->heap[--n];
		if (n)
			sift_down(s->heap, n, 0);
		s->heap[n] = best;
	}
	return taken;
}

static double sum_of_weights(const struct candidate *c, uint32_t n, float largest)
{
	double sum = 0;
	for (uint32_t i = n; i-- > 0;)
		sum += weight(c[i], largest);
	return sum;
}

/* How many of n candidates, sorted with the best last, make up the share p: the nucleus. */
static uint32_t nucleus(const struct candidate *sorted, uint32_t n, float p, float largest)
{
	double enough = p * sum_of_weights(sorted, n, largest), sum = 0;
	uint32_t taken = 0;
	while (taken < n && (!taken || sum < enough)) {
		taken++;
		sum += weight(sorted[n - taken], largest);
	}
	return taken;
}

/* Leaves the candidates that top-k and top-p admit at the end of the heap's array, returns how
 * many. */
static uint32_t restrict_candidates(struct sampler *s, const struct sampling *how, float largest)
{
	uint32_t n = s->vocabulary;
	bool top_k = how->top_k && how->top_k < n, top_p = how->top_p < 1;
	if (top_k) {
		uint32_t count = select_best(s, how->top_k, INFINITY, largest);
		return top_p ? nucleus(s->heap + n - count, count, how->top_p, largest) : count;
	}
	if (top_p)
		return select_best(s, n, how->top_p * sum_of_weights(s->heap, n, largest), largest);
	return n;
}

/* Uniform in [0, 1): the finaliser of SplitMix64 (Steele et al. 2014) over seed and position. */
static double uniform(uint64_t seed, uint64_t position)
{
	uint64_t z = seed + (position + 1) * 0x9e3779b97f4a7c15u;
	for (int round = 0; round < 2; round++) {
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		z ^= z >> 31;
	}
	return (double)(z >> 11) * 0x1p-53;
}

uint32_t sampler_draw(struct sampler *s, const float *logits, const struct sampling *how,
		      uint64_t position)
{
	uint32_t n = s->vocabulary, best = sampler_greedy(logits, n);
	if (how->temperature <= 0)
		return best;
	for (uint32_t i = 0; i < n; i++)
		s->heap[i] = (struct candidate){logits[i] / how->temperature, i};
	float largest = logits[best] / how->temperature;
	uint32_t count = restrict_candidates(s, how, largest);
	struct candidate *c = s->heap + n - count;

	float least = how->min_p > 0 ? largest + logf(how->min_p) : -INFINITY;
	uint32_t kept = 0;
	for (uint32_t i = count; i-- > 0;) /* from the best down; kept ones move to the end */
		if (c[i].logit >= least)
			c[count - ++kept] = c[i];
	c += count - kept;

	double left = uniform(how->seed, position) * sum_of_weights(c, kept, largest);
	for (uint32_t i = kept; i-- > 0;) {
		left -= weight(c[i], largest);
		if (left < 0)
			return c[i].id;
	}
	return best; /* the sum's last bit */
}
