/* The choice of a row's experts by their logits, as engine/cpu/router.c makes it where the softmax
 * comes first: the top_k largest logits, ties to the lowest index; weights by the softmax over all,
 * divided by their sum if that is wanted; then sorted by weight. And the work of all rows, by
 * expert. */
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_vectors.h"

/* In shared memory: a row of logits, then probabilities; of the chosen experts, in the order of their
 * logits, the numbers and weights, then the numbers in the order that is wanted. */
struct cuda_chosen {
	float *logit, *probability; /* [experts] */
	uint32_t *key;		    /* [experts], to whole warps */
	float *sum, *max;
	uint32_t *found, *sorted; /* [top_k] */
	float *weight;
};

CUDA_THREAD struct cuda_chosen cuda_chosen_of(uint32_t experts, uint32_t top_k)
{
	const uint32_t whole = (experts + CUDA_WARP - 1) / CUDA_WARP * CUDA_WARP;
	struct cuda_chosen c;

	c.key = (uint32_t *)(void *)cuda_shared();
	c.logit = cuda_shared() + whole;
	c.probability = c.logit + experts;
	c.sum = c.probability + experts;
	c.max = c.sum + 1;
	c.weight = c.max + 1;
	c.found = (uint32_t *)(void *)(c.weight + top_k);
	c.sorted = c.found + top_k;
	return c;
}

/* A number that is larger the larger the logit is: NaN is below all numbers, and zeros are equal. */
CUDA_THREAD uint32_t cuda_key(float logit)
{
	const uint32_t bits = cuda_bits(logit + 0.0F);

	return logit != logit ? 0 : bits >> 31 ? ~bits : bits | 1U << 31;
}

/* The place of an expert among all, n of them, a multiple of 32: after those of larger keys, and those
 * before it of the same. */
CUDA_THREAD uint32_t cuda_rank(const uint32_t *key, uint32_t n, uint32_t i)
{
	const uint32_t own = key[i];
	uint32_t rank = 0;

	for (uint32_t first = 0; first < n; first += CUDA_WARP) {
		/* All of a warp's experts are before, after, or among these. */
		const bool among = i - first < CUDA_WARP;
		const uint32_t least = own + (first >= i);
		if (!among)
			CUDA_UNROLL
			for (uint32_t j = 0; j < CUDA_WARP; j++)
				rank += key[first + j] >= least;
		else
			CUDA_UNROLL
			for (uint32_t j = 0; j < CUDA_WARP; j++)
				rank += key[first + j] >= own + (first + j >= i);
	}
	return rank;
}

/* By one warp: the largest logit and the sum of the exponentials, in dot order. */
CUDA_THREAD void cuda_router_softmax(const struct cuda_chosen *c, uint32_t n)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	float max = cuda_minus_infinity(), sum = 0;

	for (uint32_t i = lane; i < n; i += CUDA_WARP)
		max = cuda_larger(max, cuda_number(c->logit[i]));
	max = cuda_largest_number(max, lane);
	CUDA_UNROLL_8
	for (uint32_t i = lane % CUDA_LANES; i < n; i += CUDA_LANES)
		sum += cuda_exp(c->logit[i] - max);
	sum = cuda_sum_lanes(sum);
	if (lane == 0) {
		*c->sum = sum;
		*c->max = max;
	}
}

CUDA_THREAD float cuda_weight(const struct cuda_choice *p, float probability, float sum)
{
	const float w = p->normalise ? cuda_divide(probability, sum) : probability;
	return p->scaling != 1 ? w * p->scaling : w;
}

/* By one warp: the weights of the chosen experts, and both by descending weight, stable, or by number. */
CUDA_THREAD void cuda_weigh(const struct cuda_choice *p, const struct cuda_chosen *c, uint32_t row)
{
	const uint32_t lane = cuda_thread(), n = p->top_k;
	float sum = 0;

	for (uint32_t r = lane; r < n; r += CUDA_WARP)
		c->weight[r] = c->probability[c->found[r]];
	cuda_warp_barrier();
	CUDA_UNROLL_8
	for (uint32_t i = 0; i < n; i++)
		sum += c->weight[i];
	sum += p->eps;
	cuda_warp_barrier();
	for (uint32_t r = lane; r < n; r += CUDA_WARP)
		c->weight[r] = cuda_weight(p, c->weight[r], sum);
	cuda_warp_barrier();
	for (uint32_t r = lane; r < n; r += CUDA_WARP) {
		const float own = c->weight[r];
		const uint32_t number = c->found[r];
		uint32_t rank = 0;
		CUDA_UNROLL_8
		for (uint32_t i = 0; i < n; i++)
			rank += p->ascending ? c->found[i] < number
					     : c->weight[i] > own || (i < r && !(own > c->weight[i]));
		p->chosen[(size_t)row * n + rank] = number;
		p->weight[(size_t)row * n + rank] = own;
		c->sorted[rank] = number;
	}
}

/* A block of threads has a row, a thread an expert; the last warp has none, but the softmax. */
CUDA_THREAD void cuda_choose_row(const struct cuda_choice *p, const struct cuda_chosen *c, uint32_t row)
{
	const uint32_t i = cuda_thread(), last = cuda_threads() - CUDA_WARP;

	if (i < p->experts) {
		c->logit[i] = p->logits[(size_t)row * p->experts + i];
		c->key[i] = cuda_key(c->logit[i]);
	} else if (i < last) {
		c->key[i] = 0;
	}
	cuda_barrier();
	if (i >= last) {
		cuda_router_softmax(c, p->experts);
	} else if (i < p->experts) {
		const uint32_t rank = cuda_rank(c->key, last, i);
		if (rank < p->top_k)
			c->found[rank] = i;
	}
	cuda_barrier();
	if (i < p->experts)
		c->probability[i] = cuda_divide(cuda_exp(c->logit[i] - *c->max), *c->sum);
	cuda_barrier();
	if (i < CUDA_WARP)
		cuda_weigh(p, c, row);
}

CUDA_KERNEL cuda_choose(struct cuda_choice p)
{
	const struct cuda_chosen c = cuda_chosen_of(p.experts, p.top_k);

	cuda_wait_for_ahead();
	cuda_choose_row(&p, &c, cuda_block_x());
}

/* In shared memory: how many assignments an expert has in each part of them; how many in all; then where
 * they and its items begin. */
struct cuda_starts {
	uint32_t *some;			/* [parts][experts] */
	uint32_t *count, *order, *item; /* [experts] */
};

CUDA_THREAD struct cuda_starts cuda_starts_of(uint32_t experts, uint32_t parts)
{
	struct cuda_starts s;

	s.some = (uint32_t *)(void *)cuda_shared();
	s.count = s.some + parts * experts;
	s.order = s.count + experts;
	s.item = s.order + experts;
	return s;
}

/* By one warp. */
CUDA_THREAD void cuda_find_starts(const struct cuda_groups *p, const struct cuda_starts *s)
{
	const uint32_t lane = cuda_thread();
	uint32_t order = 0, item = 0;

	for (uint32_t first = 0; first < p->experts; first += CUDA_WARP) {
		const uint32_t e = first + lane, count = e < p->experts ? s->count[e] : 0;
		const uint32_t items = (count + p->most - 1) / p->most;
		uint32_t count_to = count, items_to = items; /* with those before it of the warp */
		for (uint32_t h = 1; h < CUDA_WARP; h *= 2) {
			const uint32_t from = lane >= h ? lane - h : 0;
			const uint32_t other = cuda_from_lane(count_to, from),
				       other_items = cuda_from_lane(items_to, from);
			count_to += lane >= h ? other : 0;
			items_to += lane >= h ? other_items : 0;
		}
		if (e < p->experts) {
			s->order[e] = order + count_to - count;
			s->item[e] = item + items_to - items;
		}
		order += cuda_from_lane(count_to, CUDA_WARP - 1);
		item += cuda_from_lane(items_to, CUDA_WARP - 1);
	}
	if (lane == 0)
		*p->item_count = item;
}

/* The assignments of a part. */
struct cuda_part_of {
	uint32_t from, to;
};
CUDA_THREAD struct cuda_part_of cuda_assignments_of(const struct cuda_groups *p, uint32_t part)
{
	const uint32_t all = p->rows * p->top_k, each = (all + p->parts - 1) / p->parts;
	struct cuda_part_of a;

	a.from = part * each < all ? part * each : all;
	a.to = all - a.from < each ? all : a.from + each;
	return a;
}

/* What the parts before part `part` have of an expert; all of them for p->parts. */
CUDA_THREAD uint32_t cuda_parts_before(const struct cuda_groups *p, const struct cuda_starts *s,
				       uint32_t part, uint32_t e)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < part; i++)
		sum += s->some[i * p->experts + e];
	return sum;
}

CUDA_THREAD void cuda_put_items(const struct cuda_groups *p, const struct cuda_starts *s, uint32_t e)
{
	const uint32_t count = s->count[e];

	for (uint32_t done = 0; done < count; done += p->most) {
		const struct cuda_item item = {
			e, s->order[e] + done, count - done < p->most ? count - done : p->most, 0};
		p->items[s->item[e] + done / p->most] = item;
	}
}

/* One block of threads; a thread has an expert and a part of the assignments. */
CUDA_KERNEL_OF(1024) cuda_group(struct cuda_groups p)
{
	const struct cuda_starts s = cuda_starts_of(p.experts, p.parts);
	const uint32_t e = cuda_thread() % p.experts, part = cuda_thread() / p.experts;
	const bool works = part < p.parts;
	const struct cuda_part_of own = cuda_assignments_of(&p, works ? part : p.parts);
	uint32_t count = 0;

	cuda_wait_for_ahead();
	CUDA_UNROLL_8
	for (uint32_t a = own.from; a < own.to; a++)
		count += p.chosen[a] == e;
	count = works && p.slots[e] ? count : 0;
	if (works)
		s.some[part * p.experts + e] = count;
	cuda_barrier();
	if (works && part == 0)
		s.count[e] = cuda_parts_before(&p, &s, p.parts, e);
	cuda_barrier();
	if (cuda_thread() < CUDA_WARP)
		cuda_find_starts(&p, &s);
	cuda_barrier();
	if (count) {
		uint32_t *order = p.order + s.order[e] + cuda_parts_before(&p, &s, part, e);
		for (uint32_t a = own.from; a < own.to; a++)
			if (p.chosen[a] == e)
				*order++ = a;
	}
	if (works && part == 0)
		cuda_put_items(&p, &s, e);
}

/* cuda_group of one row, whose experts differ, by a warp: a thread has one of them. */
CUDA_THREAD void cuda_group_row(const struct cuda_groups *p, const uint32_t *chosen)
{
	const uint32_t lane = cuda_thread(), n = p->top_k;
	const uint32_t own = lane < n ? chosen[lane] : 0;
	const uint32_t there = lane < n && p->slots[own];
	uint32_t before = 0, all = 0;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t other = cuda_from_lane(own, i), other_there = cuda_from_lane(there, i);
		before += other_there && other < own;
		all += other_there;
	}
	if (lane == 0)
		*p->item_count = all;
	if (there) {
		const struct cuda_item item = {own, before, 1, 0};
		p->order[before] = lane;
		p->items[before] = item;
	}
}

CUDA_KERNEL cuda_route(struct cuda_route p)
{
	const struct cuda_chosen c = cuda_chosen_of(p.choice.experts, p.choice.top_k);

	cuda_wait_for_ahead();
	cuda_choose_row(&p.choice, &c, 0);
	if (cuda_thread() >= CUDA_WARP)
		return;
	cuda_warp_barrier();
	cuda_group_row(&p.groups, c.sorted);
}
