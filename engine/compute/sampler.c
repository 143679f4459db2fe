#include "engine/compute/sampler.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What rounding may take from a sum of probabilities that is meant to be reached exactly. */
static const double rounding = 1e-6;

int sampler_init(struct sampler *s, const struct kernels *k, uint32_t vocabulary)
{
	*s = (struct sampler){.kernels = k, .vocabulary = vocabulary};
	s->p = malloc(vocabulary * sizeof *s->p);
	s->candidate = malloc(vocabulary * sizeof *s->candidate);
	if (s->p && s->candidate)
		return 0;
	sampler_free(s);
	return -ENOMEM;
}

void sampler_free(struct sampler *s)
{
	free(s->p);
	free(s->candidate);
	*s = (struct sampler){0};
}

/* The largest first, in lanes that the compiler turns into vectors, and then where it is: one pass
 * with a branch per logit takes longer than a layer's attention. A NaN is never the largest. */
uint32_t sampler_greedy(const float *logits, uint32_t n)
{
	enum { LANES = 16 };
	float most[LANES];
	uint32_t i = 0;
	for (uint32_t l = 0; l < LANES; l++)
		most[l] = -INFINITY;
	for (; i + LANES <= n; i += LANES)
		for (uint32_t l = 0; l < LANES; l++)
			most[l] = logits[i + l] > most[l] ? logits[i + l] : most[l];
	for (; i < n; i++)
		most[0] = logits[i] > most[0] ? logits[i] : most[0];
	for (uint32_t l = 1; l < LANES; l++)
		most[0] = most[l] > most[0] ? most[l] : most[0];
	for (i = 0; i < n && logits[i] != most[0]; i++)
		;
	return i < n ? i : 0;
}

/* Likelier first, then lower id: a total order, so that every choice below has one result. */
static bool before(struct candidate a, struct candidate b)
{
	return a.p > b.p || (a.p == b.p && a.id < b.id);
}

/* ---- top-k: a heap of the k best so far, the worst of them at the root ---- */

static void sift_down(struct candidate *heap, uint32_t n, uint32_t i)
{
	struct candidate moving = heap[i];
	for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && before(heap[child], heap[child + 1]))
			child++;
		if (!before(moving, heap[child]))
			break;
		heap[i] = heap[child];
	}
	heap[i] = moving;
}

static uint32_t take_top_k(struct sampler *s, uint32_t k)
{
	struct candidate *heap = s->candidate;
	for (uint32_t i = 0; i < k; i++)
		heap[i] = (struct candidate){s->p[i], i};
	for (uint32_t i = k / 2; i-- > 0;)
		sift_down(heap, k, i);
	for (uint32_t i = k; i < s->vocabulary; i++)
		if (s->p[i] > heap[0].p) { /* an equal one has a higher id */
			heap[0] = (struct candidate){s->p[i], i};
			sift_down(heap, k, 0);
		}
	return k;
}

/* Those with at least that probability, in order of id. */
static uint32_t take_likely(struct sampler *s, float least)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->vocabulary; i++)
		if (s->p[i] >= least)
			s->candidate[n++] = (struct candidate){s->p[i], i};
	return n;
}

/* ---- top-p ---- */

static double sum(const struct candidate *c, uint32_t n)
{
	double total = 0;
	for (uint32_t i = 0; i < n; i++)
		total += c[i].p;
	return total;
}

static void swap(struct candidate *a, struct candidate *b)
{
	struct candidate t = *a;
	*a = *b;
	*b = t;
}

/* Moves those before the middle one to the front, then that one; returns its place. */
static uint32_t partition(struct candidate *c, uint32_t n)
{
	uint32_t place = 0;
	swap(&c[n / 2], &c[n - 1]);
	for (uint32_t i = 0; i + 1 < n; i++)
		if (before(c[i], c[n - 1]))
			swap(&c[i], &c[place++]);
	swap(&c[place], &c[n - 1]);
	return place;
}

/* Moves the fewest of the likeliest whose sum reaches `enough` to the front and returns how many:
 * the nucleus, by quickselect over sums, since their order among themselves does not matter. */
static uint32_t take_nucleus(struct candidate *c, uint32_t n, double enough)
{
	uint32_t first = 0; /* the nucleus begins with these */
	while (n - first > 1) {
		uint32_t place = partition(c + first, n - first);
		double likelier = sum(c + first, place);
		if (likelier >= enough) {
			n = first + place;
			continue;
		}
		enough -= likelier + c[first + place].p;
		first += place + 1;
		if (enough <= 0)
			return first;
	}
	return n;
}

/* ---- the draw ---- */

/* Puts what top-k and top-p admit into s->candidate and returns how many, at least one. */
static uint32_t admit(struct sampler *s, const struct sampling *how)
{
	uint32_t n = s->vocabulary;
	bool top_k = how->top_k && how->top_k < n, top_p = how->top_p < 1;
	if (top_k)
		n = take_top_k(s, how->top_k);
	else /* what is left out adds up to less than 1 - top_p: the nucleus needs none of it */
		n = take_likely(s, top_p ? (1 - how->top_p) / (float)n / 2 : 0);
	if (!top_p)
		return n;
	double whole = top_k ? sum(s->candidate, n) : 1;
	return take_nucleus(s->candidate, n, (how->top_p - rounding) * whole);
}

static uint32_t drop_unlikely(struct candidate *c, uint32_t n, float least)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n; i++)
		if (c[i].p >= least)
			c[kept++] = c[i];
	return kept;
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
		s->p[i] = logits[i] / how->temperature;
	s->kernels->softmax(s->p, n);

	uint32_t count = admit(s, how);
	count = drop_unlikely(s->candidate, count, how->min_p * s->p[best]);
	double left = uniform(how->seed, position) * sum(s->candidate, count);
	for (uint32_t i = 0; i < count; i++) {
		left -= s->candidate[i].p;
		if (left < 0)
			return s->candidate[i].id;
	}
	return best; /* the sum's last bit */
}

void sampler_bias(const struct token_bias *bias, size_t n, float *logits)
{
	for (size_t i = 0; i < n; i++)
		logits[bias[i].id] += (float)bias[i].bias;
}

/* ---- looking at a distribution ---- */

/* In lanes, in an order that does not depend on what the compiler makes of them. */
static double sum_exactly(const float *p, uint32_t n)
{
	enum { LANES = 8 };
	double lane[LANES] = {0}, total = 0;
	uint32_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (uint32_t l = 0; l < LANES; l++)
			lane[l] += p[i + l];
	for (; i < n; i++)
		lane[0] += p[i];
	for (uint32_t l = 0; l < LANES; l++)
		total += lane[l];
	return total;
}

/* The likeliest one's probability is 1 / Σ exp(logit - its logit), and no other is as exact. But
 * the softmax has summed in 32 bits, which loses up to 1e-5 over a large vocabulary: all
 * probabilities together are off from 1 by the same factor. */
double sampler_log_sum(struct sampler *s, const float *logits)
{
	uint32_t n = s->vocabulary, best = sampler_greedy(logits, n);
	memcpy(s->p, logits, n * sizeof *s->p);
	s->kernels->softmax(s->p, n);
	return logits[best] - log(s->p[best] / sum_exactly(s->p, n));
}

static int compare(const void *a, const void *b)
{
	return before(*(const struct candidate *)a, *(const struct candidate *)b) ? -1 : 1;
}

const struct candidate *sampler_likeliest(struct sampler *s, const float *logits, uint32_t *n)
{
	*n = *n < s->vocabulary ? *n : s->vocabulary;
	memcpy(s->p, logits, s->vocabulary * sizeof *s->p);
	if (*n) {
		take_top_k(s, *n);
		qsort(s->candidate, *n, sizeof *s->candidate, compare);
	}
	return s->candidate;
}
