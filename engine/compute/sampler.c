/* From logits to a token. See sampler.h. The Makefile compiles this file with -O3: its passes over
 * the vocabulary become vectors. */
#include "engine/compute/sampler.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* How far rounding may keep a sum of probabilities from the whole. */
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
static bool sampler_before(struct candidate a, struct candidate b)
{
	return a.p > b.p || (a.p == b.p && a.id < b.id);
}

/* ---- top-k: a heap of the k best so far, the worst of them at the root ---- */

static void sampler_sift_down(struct candidate *heap, uint32_t n, uint32_t i)
{
	struct candidate moving = heap[i];
	for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && sampler_before(heap[child], heap[child + 1]))
			child++;
		if (!sampler_before(moving, heap[child]))
			break;
		heap[i] = heap[child];
	}
	heap[i] = moving;
}

static uint32_t sampler_take_top_k(struct sampler *s, uint32_t k)
{
	struct candidate *heap = s->candidate;
	for (uint32_t i = 0; i < k; i++)
		heap[i] = (struct candidate){s->p[i], i};
	for (uint32_t i = k / 2; i-- > 0;)
		sampler_sift_down(heap, k, i);
	for (uint32_t i = k; i < s->vocabulary; i++)
		if (s->p[i] > heap[0].p) { /* an equal one has a higher id */
			heap[0] = (struct candidate){s->p[i], i};
			sampler_sift_down(heap, k, 0);
		}
	return k;
}

/* Takes the tokens of at least that probability, in order of id. */
static uint32_t sampler_take_likely(struct sampler *s, float least)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->vocabulary; i++)
		if (s->p[i] >= least)
			s->candidate[n++] = (struct candidate){s->p[i], i};
	return n;
}

/* ---- top-p ---- */

static double sampler_sum(const struct candidate *c, uint32_t n)
{
	double total = 0;
	for (uint32_t i = 0; i < n; i++)
		total += c[i].p;
	return total;
}

static void sampler_swap(struct candidate *a, struct candidate *b)
{
	struct candidate t = *a;
	*a = *b;
	*b = t;
}

/* Moves the candidates likelier than the middle one to the front, then the middle one; returns its
 * place. */
static uint32_t sampler_partition(struct candidate *c, uint32_t n)
{
	uint32_t place = 0;
	sampler_swap(&c[n / 2], &c[n - 1]);
	for (uint32_t i = 0; i + 1 < n; i++)
		if (sampler_before(c[i], c[n - 1]))
			sampler_swap(&c[i], &c[place++]);
	sampler_swap(&c[place], &c[n - 1]);
	return place;
}

/* Moves the nucleus to the front, the fewest of the likeliest whose sum reaches `enough`, and
 * returns how many they are: by quickselect over sums, since their order does not matter. */
static uint32_t sampler_take_nucleus(struct candidate *c, uint32_t n, double enough)
{
	uint32_t first = 0; /* candidates that are in the nucleus already */
	while (n - first > 1) {
		uint32_t place = sampler_partition(c + first, n - first);
		double likelier = sampler_sum(c + first, place);
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
static uint32_t sampler_admit(struct sampler *s, const struct sampling *how)
{
	uint32_t n = s->vocabulary;
	bool top_k = how->top_k && how->top_k < n, top_p = how->top_p < 1;
	if (top_k)
		n = sampler_take_top_k(s, how->top_k);
	else /* the rest adds up to less than 1 - top_p: the nucleus needs none of it */
		n = sampler_take_likely(s, top_p ? (1 - how->top_p) / (float)n / 2 : 0);
	if (!top_p)
		return n;
	double whole = top_k ? sampler_sum(s->candidate, n) : 1;
	return sampler_take_nucleus(s->candidate, n, (how->top_p - rounding) * whole);
}

static uint32_t sampler_drop_unlikely(struct candidate *c, uint32_t n, float least)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n; i++)
		if (c[i].p >= least)
			c[kept++] = c[i];
	return kept;
}

/* Uniform in [0, 1): the finaliser of SplitMix64 (Steele et al. 2014) over seed and position. */
double sampler_uniform(uint64_t seed, uint64_t position)
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

	uint32_t count = sampler_admit(s, how);
	count = sampler_drop_unlikely(s->candidate, count, how->min_p * s->p[best]);
	double left = sampler_uniform(how->seed, position) * sampler_sum(s->candidate, count);
	for (uint32_t i = 0; i < count; i++) {
		left -= s->candidate[i].p;
		if (left < 0)
			return s->candidate[i].id;
	}
	return best; /* rounding: the sum was less than its parts */
}

void sampler_bias(const struct token_bias *bias, size_t n, float *logits)
{
	for (size_t i = 0; i < n; i++)
		logits[bias[i].id] += (float)bias[i].bias;
}

/* ---- penalties on repetition ---- */

int sampler_repetition_init(struct repetition *r, struct penalties by, uint32_t vocabulary)
{
	*r = (struct repetition){.by = by};
	if (by.repetition != 1) {
		r->seen = calloc(((size_t)vocabulary + 63) / 64, sizeof *r->seen);
		if (!r->seen)
			return -ENOMEM;
	}
	if (by.frequency == 0 && by.presence == 0)
		return 0;
	r->said = calloc(vocabulary, sizeof *r->said);
	return r->said ? 0 : -ENOMEM;
}

void sampler_repetition_free(struct repetition *r)
{
	free(r->seen);
	free(r->said);
	free(r->stand.ids);
	free(r->answer.ids);
	*r = (struct repetition){0};
}

static int sampler_append_id(struct id_list *l, uint32_t id)
{
	if (l->count == l->room) {
		size_t room = 2 * l->room + 256;
		uint32_t *ids = reallocarray(l->ids, room, sizeof *ids);
		if (!ids)
			return -ENOMEM;
		l->ids = ids;
		l->room = room;
	}
	l->ids[l->count++] = id;
	return 0;
}

int sampler_repetition_add_prompt(struct repetition *r, const uint32_t *ids, size_t n)
{
	for (size_t i = 0; r->seen && i < n; i++) {
		uint64_t *word = &r->seen[ids[i] / 64], bit = UINT64_C(1) << ids[i] % 64;
		if (*word & bit)
			continue;
		if (sampler_append_id(&r->stand, ids[i]))
			return -ENOMEM;
		*word |= bit;
	}
	return 0;
}

int sampler_repetition_add_answer(struct repetition *r, uint32_t id)
{
	if (sampler_repetition_add_prompt(r, &id, 1) ||
	    (r->said && !r->said[id] && sampler_append_id(&r->answer, id)))
		return -ENOMEM;
	if (r->said)
		r->said[id]++;
	return 0;
}

void sampler_repetition_apply(const struct repetition *r, float *logits)
{
	for (size_t i = 0; i < r->stand.count; i++) {
		float *logit = &logits[r->stand.ids[i]];
		*logit = *logit > 0 ? *logit / r->by.repetition : *logit * r->by.repetition;
	}
	for (size_t i = 0; i < r->answer.count; i++) {
		uint32_t id = r->answer.ids[i];
		logits[id] -= (float)r->said[id] * r->by.frequency;
		logits[id] -= r->by.presence;
	}
}

/* ---- looking at a distribution ---- */

/* In lanes, so that the order does not depend on what the compiler makes of the loop. */
static double sampler_sum_exactly(const float *p, uint32_t n)
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
	return logits[best] - log(s->p[best] / sampler_sum_exactly(s->p, n));
}

static int sampler_compare(const void *a, const void *b)
{
	return sampler_before(*(const struct candidate *)a, *(const struct candidate *)b) ? -1 : 1;
}

const struct candidate *sampler_likeliest(struct sampler *s, const float *logits, uint32_t *n)
{
	*n = *n < s->vocabulary ? *n : s->vocabulary;
	memcpy(s->p, logits, s->vocabulary * sizeof *s->p);
	if (*n) {
		sampler_take_top_k(s, *n);
		qsort(s->candidate, *n, sizeof *s->candidate, sampler_compare);
	}
	return s->candidate;
}
