/* The choice of a row's experts by their logits, and their weights, as engine/cpu/router.c makes both: the
 * top_k largest, ties to the lowest index; in the order of their numbers. And the work of all rows, by
 * expert. */
#include "kernels/cuda/cuda_delta.h"
#include "kernels/cuda/cuda_items.h"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_vectors.h"

/* In shared memory, of a row. */
struct cuda_chosen {
	uint32_t *key;	    /* [experts], to whole warps: what the choice is by (cuda_key) */
	float *value;	    /* [experts]: what weights are made of (cuda_open); of the softmax over all, exponentials */
	float *sum;	    /* of these */
	uint32_t *largest;  /* [warps]: the largest keys of values */
	float *weight;	    /* [top_k], in the order of the choice */
	uint32_t *found;    /* [top_k]: the chosen experts, in that order */
	const uint8_t **record; /* [top_k]: theirs, or NULL */
	float *best;	    /* [groups][2]: their best scores */
	uint32_t *group;    /* [groups]: the keys of these scores' sums */
};

CUDA_THREAD struct cuda_chosen cuda_chosen_of(const struct cuda_choice *p)
{
	const uint32_t whole = (p->experts + CUDA_WARP - 1) / CUDA_WARP * CUDA_WARP;
	struct cuda_chosen c;

	c.key = (uint32_t *)(void *)cuda_shared();
	c.value = cuda_shared() + whole;
	c.record = (const uint8_t **)(void *)(c.value + whole);
	c.sum = c.value + whole + (size_t)2 * p->top_k; /* a record's address has two words */
	c.largest = (uint32_t *)(void *)(c.sum + 1);
	c.weight = c.sum + 1 + cuda_threads() / CUDA_WARP;
	c.found = (uint32_t *)(void *)(c.weight + p->top_k);
	c.best = (float *)(void *)(c.found + p->top_k);
	c.group = (uint32_t *)(void *)(c.best + (size_t)2 * p->groups);
	return c;
}

/* ---- scores ---- */

/* What is added to a logit, and to what the choice is by: -0 changes no number; and the expert's record, or NULL. */
struct cuda_added {
	float logit, score;
	const uint8_t *record;
};

/* Of a thread's expert: weights, and where they are, which may be read before the kernel ahead has ended. */
CUDA_THREAD struct cuda_added cuda_added_of(const struct cuda_choice *p, const uint8_t *const *slots)
{
	const uint32_t i = cuda_thread();
	const bool there = i < p->experts;
	struct cuda_added a;

	a.logit = there && p->bias ? p->bias[i] : -0.0F;
	a.score = there && p->correction ? p->correction[i] : -0.0F;
	a.record = there && slots ? slots[i] : NULL;
	return a;
}

/* What an expert is weighed by, where each is weighed by itself; else its logit. */
CUDA_THREAD float cuda_open(enum cuda_router_order order, float logit)
{
	if (order == CUDA_SIGMOIDS)
		return cuda_sigmoid(logit);
	if (order == CUDA_SOFTPLUS_ROOTS)
		return cuda_from_double(cuda_root_double(cuda_delta_softplus((double)logit)));
	return logit;
}

/* ---- ranks ---- */

/* The place of an expert among all, n of them, a multiple of 32: after those of larger keys, and those
 * before it of the same. Several counts at once, since each addition waits for the one before. */
CUDA_THREAD uint32_t cuda_rank(const uint32_t *key, uint32_t n, uint32_t i)
{
	enum { COUNTS = 4 };
	const uint32_t own = key[i];
	uint32_t count[COUNTS] = {0};

	CUDA_ROLLED
	for (uint32_t first = 0; first < n; first += CUDA_WARP) {
		/* All of a warp's experts are before, after, or among these. */
		const bool among = i - first < CUDA_WARP;
		const uint32_t least = own + (first >= i);
		if (!among)
			CUDA_UNROLL
			for (uint32_t j = 0; j < CUDA_WARP; j++)
				count[j % COUNTS] += key[first + j] >= least;
		else
			CUDA_UNROLL
			for (uint32_t j = 0; j < CUDA_WARP; j++)
				count[j % COUNTS] += key[first + j] >= (j >= i - first ? own + 1 : own);
	}
	return count[0] + count[1] + count[2] + count[3];
}

/* The same of any n. */
CUDA_THREAD uint32_t cuda_rank_of_few(const uint32_t *key, uint32_t n, uint32_t i)
{
	const uint32_t own = key[i];
	uint32_t rank = 0;

	CUDA_UNROLL_8
	for (uint32_t j = 0; j < n; j++)
		rank += key[j] >= own + (j >= i);
	return rank;
}

/* Experts outside of the best groups lose their scores. A group is as good as the sum of its two best
 * scores. */
CUDA_THREAD void cuda_keep_groups(const struct cuda_choice *p, const struct cuda_chosen *c, float score)
{
	const uint32_t i = cuda_thread(), size = p->experts / p->groups, group = i / size;
	const bool there = i < p->experts;

	if (there) {
		const uint32_t rank = cuda_rank_of_few(c->key + group * size, size, i % size);
		if (rank < 2)
			c->best[2 * group + rank] = score;
	}
	cuda_barrier();
	if (i < p->groups)
		c->group[i] = cuda_key(c->best[2 * i] + c->best[2 * i + 1]);
	cuda_barrier();
	if (there && cuda_rank_of_few(c->group, p->groups, group) >= p->top_groups)
		c->key[i] = cuda_key(cuda_minus_infinity());
	cuda_barrier();
}

/* ---- weights ---- */

/* Each expert's logit becomes its exponential. The logits' largest keys of all warps are known. */
CUDA_THREAD void cuda_router_exponentials(const struct cuda_choice *p, const struct cuda_chosen *c)
{
	const uint32_t i = cuda_thread(), warps = cuda_threads() / CUDA_WARP;
	uint32_t largest = 0;

	CUDA_UNROLL_4
	for (uint32_t w = 0; w < warps; w++)
		largest = c->largest[w] > largest ? c->largest[w] : largest;
	if (i < p->experts)
		c->value[i] = cuda_exp(c->value[i] - cuda_number_of_key(largest));
	cuda_barrier();
}

/* By one warp: the sum of the exponentials, in dot order. */
CUDA_THREAD void cuda_router_sum(const struct cuda_chosen *c, uint32_t n)
{
	enum { AHEAD = 8 };
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	float sum = 0;

	CUDA_ROLLED
	for (uint32_t first = lane % CUDA_LANES; first < n; first += AHEAD * CUDA_LANES) {
		float some[AHEAD];
		CUDA_UNROLL
		for (uint32_t k = 0; k < AHEAD; k++)
			some[k] = first + k * CUDA_LANES < n ? c->value[first + k * CUDA_LANES] : 0;
		CUDA_UNROLL
		for (uint32_t k = 0; k < AHEAD; k++)
			sum += some[k]; /* 0 changes no sum */
	}
	sum = cuda_sum_lanes(sum);
	if (lane == 0)
		*c->sum = sum;
}

/* By one warp: the softmax over the numbers of its first n threads, in the order of these. */
CUDA_THREAD float cuda_softmax_of_warp(float logit, uint32_t n)
{
	const uint32_t lane = cuda_thread() % CUDA_WARP;
	const float max = cuda_largest_number(lane < n ? cuda_number(logit) : cuda_minus_infinity(), lane);
	const float e = lane < n ? cuda_exp(logit - max) : 0; /* 0 changes no sum */

	return cuda_divide(e, cuda_sum_lanes(e + cuda_swap_float(e, CUDA_LANES)));
}

/* By one warp, of which a thread has an expert: the weight of the one that was chosen as number r. */
CUDA_THREAD float cuda_weigh(const struct cuda_choice *p, const struct cuda_chosen *c, uint32_t r)
{
	const bool there = r < p->top_k;
	const uint32_t expert = there ? c->found[r] : 0;
	float w = there ? c->value[expert] : 0, sum = 0;

	if (p->order == CUDA_SOFTMAX_FIRST)
		w = cuda_divide(w, *c->sum);
	else if (p->order == CUDA_SOFTMAX_LAST)
		w = cuda_softmax_of_warp(w, p->top_k);
	if (p->normalise) {
		if (there)
			c->weight[r] = w;
		cuda_warp_barrier();
		CUDA_UNROLL_8
		for (uint32_t i = 0; i < p->top_k; i++)
			sum += c->weight[i];
		w = cuda_divide(w, sum + p->eps);
	}
	w = p->scaling != 1 ? w * p->scaling : w;
	return there && p->scale ? w * p->scale[expert] : w;
}

/* By one warp: the chosen experts, ascending, their weights, and their ranks in the choice; and, if there are
 * groups, the work of this row: cuda_group, where all experts differ. */
CUDA_THREAD void cuda_leave_choice(const struct cuda_choice *p, const struct cuda_chosen *c,
				   const struct cuda_groups *groups, uint32_t row)
{
	const uint32_t r = cuda_thread(), n = p->top_k;
	const float weight = cuda_weigh(p, c, r);
	uint32_t place = 0, item = 0, items = 0;

	if (r >= n)
		return;
	const uint32_t expert = c->found[r];
	const size_t first = (size_t)row * n;
	CUDA_UNROLL_8
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t before = c->found[i] < expert, there = c->record[i] != NULL;
		place += before;
		item += before & there;
		items += there;
	}
	p->chosen[first + place] = expert;
	p->weight[first + place] = weight;
	p->rank[first + place] = r;
	if (groups && r == 0)
		*groups->item_count = items;
	if (groups && c->record[r]) {
		const struct cuda_item own = {c->record[r], item, 1};
		groups->order[item] = place;
		groups->items[item] = own;
	}
}

/* ---- a row ---- */

/* A thread's expert; threads without one have the lowest key. */
CUDA_THREAD float cuda_score_row(const struct cuda_choice *p, const struct cuda_chosen *c,
				 const struct cuda_added *added, uint32_t row)
{
	const uint32_t i = cuda_thread(), last = cuda_threads() - CUDA_WARP;
	uint32_t key = 0, largest = 0;
	float score = 0;

	if (i < p->experts) {
		const float logit = p->logits[(size_t)row * p->experts + i] * p->multiplier + added->logit;
		const float value = cuda_open(p->order, logit);
		c->value[i] = value;
		score = value + added->score;
		key = cuda_key(score);
		largest = cuda_key(value);
	}
	if (i < last)
		c->key[i] = key;
	if (p->order == CUDA_SOFTMAX_FIRST) {
		largest = cuda_largest(largest);
		if (i % CUDA_WARP == 0)
			c->largest[i / CUDA_WARP] = largest;
	}
	cuda_barrier();
	return score;
}

/* A block of threads has a row, a thread an expert; the last warp has none, but the sum of the softmax over
 * all. */
CUDA_THREAD void cuda_choose_row(const struct cuda_choice *p, const struct cuda_chosen *c,
				 const struct cuda_added *added, const struct cuda_groups *groups, uint32_t row)
{
	const uint32_t i = cuda_thread(), last = cuda_threads() - CUDA_WARP;
	const float score = cuda_score_row(p, c, added, row);

	if (p->groups > 1)
		cuda_keep_groups(p, c, score);
	if (p->order == CUDA_SOFTMAX_FIRST)
		cuda_router_exponentials(p, c);
	if (i >= last) {
		if (p->order == CUDA_SOFTMAX_FIRST)
			cuda_router_sum(c, p->experts);
	} else if (i < p->experts) {
		const uint32_t rank = cuda_rank(c->key, last, i);
		if (rank < p->top_k) {
			c->found[rank] = i;
			c->record[rank] = added->record;
		}
	}
	cuda_barrier();
	if (i < CUDA_WARP)
		cuda_leave_choice(p, c, groups, row);
}

CUDA_THREAD void cuda_choose_this(const struct cuda_choice *p)
{
	const struct cuda_chosen c = cuda_chosen_of(p);
	const struct cuda_added added = cuda_added_of(p, NULL);

	cuda_wait_for_ahead();
	cuda_choose_row(p, &c, &added, NULL, cuda_block_x());
}

/* Of a plain router, which is known when the kernel is compiled: it jumps over nothing. */
CUDA_THREAD struct cuda_choice cuda_plain_choice(struct cuda_choice p)
{
	p.order = CUDA_SOFTMAX_FIRST;
	p.bias = p.correction = p.scale = NULL;
	p.multiplier = 1;
	p.groups = 1;
	return p;
}

CUDA_KERNEL_OF(1024) cuda_choose(struct cuda_choice p)
{
	const struct cuda_choice plain = cuda_plain_choice(p);
	cuda_choose_this(&plain);
}

CUDA_KERNEL_OF(1024) cuda_choose_any(struct cuda_choice p)
{
	cuda_choose_this(&p);
}

/* ---- the work of all rows ---- */

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

/* The assignments of a part. A thread loads so many at once. */
enum { CUDA_CHOSEN_AT_ONCE = 16 };
struct cuda_part_of {
	uint32_t from, to;
};
CUDA_THREAD struct cuda_part_of cuda_assignments_of(const struct cuda_groups *p, uint32_t part)
{
	const uint32_t all = p->rows * p->top_k, batch = p->parts * CUDA_CHOSEN_AT_ONCE;
	const uint32_t each = (all + batch - 1) / batch * CUDA_CHOSEN_AT_ONCE;
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
			p->slots[e], s->order[e] + done, count - done < p->most ? count - done : p->most};
		p->items[s->item[e] + done / p->most] = item;
	}
}

/* The experts of the assignments from `first` on, beyond the part none: all are loaded before one is looked at. Four
 * at once where they lie so: the number of loads is what takes time. */
CUDA_THREAD void cuda_load_chosen(uint32_t expert[CUDA_CHOSEN_AT_ONCE], const struct cuda_groups *p, uint32_t first,
				  uint32_t to)
{
	if ((uintptr_t)p->chosen % sizeof(struct cuda_quad) || first + CUDA_CHOSEN_AT_ONCE > to) {
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_CHOSEN_AT_ONCE; i++)
			expert[i] = first + i < to ? p->chosen[first + i] : p->experts;
		return;
	}
	const struct cuda_quad *four = (const struct cuda_quad *)(const void *)(p->chosen + first);
	CUDA_UNROLL
	for (uint32_t i = 0; i < CUDA_CHOSEN_AT_ONCE; i += 4) {
		const struct cuda_quad q = four[i / 4];
		CUDA_UNROLL
		for (uint32_t k = 0; k < 4; k++)
			expert[i + k] = q.word[k];
	}
}

/* How many of them are of expert e. */
CUDA_THREAD uint32_t cuda_count_chosen(const struct cuda_groups *p, struct cuda_part_of own, uint32_t e)
{
	uint32_t expert[CUDA_CHOSEN_AT_ONCE], count = 0;

	for (uint32_t first = own.from; first < own.to; first += CUDA_CHOSEN_AT_ONCE) {
		cuda_load_chosen(expert, p, first, own.to);
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_CHOSEN_AT_ONCE; i++)
			count += expert[i] == e;
	}
	return count;
}

/* Their numbers, in ascending order. */
CUDA_THREAD void cuda_put_order(const struct cuda_groups *p, struct cuda_part_of own, uint32_t e, uint32_t *order)
{
	uint32_t expert[CUDA_CHOSEN_AT_ONCE];

	for (uint32_t first = own.from; first < own.to; first += CUDA_CHOSEN_AT_ONCE) {
		cuda_load_chosen(expert, p, first, own.to);
		CUDA_UNROLL
		for (uint32_t i = 0; i < CUDA_CHOSEN_AT_ONCE; i++)
			if (expert[i] == e)
				*order++ = first + i;
	}
}

/* One block of threads; a thread has an expert and a part of the assignments. */
CUDA_KERNEL_OF(1024) cuda_group(struct cuda_groups p)
{
	const struct cuda_starts s = cuda_starts_of(p.experts, p.parts);
	const uint32_t e = cuda_thread() % p.experts, part = cuda_thread() / p.experts;
	const bool works = part < p.parts;
	const struct cuda_part_of own = cuda_assignments_of(&p, works ? part : p.parts);

	cuda_wait_for_ahead();
	const uint32_t count = works && p.slots[e] ? cuda_count_chosen(&p, own, e) : 0;
	if (works)
		s.some[part * p.experts + e] = count;
	cuda_barrier();
	if (works && part == 0)
		s.count[e] = cuda_parts_before(&p, &s, p.parts, e);
	cuda_barrier();
	if (cuda_thread() < CUDA_WARP)
		cuda_find_starts(&p, &s);
	cuda_barrier();
	if (count)
		cuda_put_order(&p, own, e, p.order + s.order[e] + cuda_parts_before(&p, &s, part, e));
	if (works && part == 0)
		cuda_put_items(&p, &s, e);
}

/* ---- both of one row ---- */

/* By the first warp, which has left the choice. */
CUDA_THREAD void cuda_tell_choice(const struct cuda_told *t, const struct cuda_choice *p)
{
	const uint32_t i = cuda_thread(), n = p->top_k;

	if (i >= n)
		return;
	const uint32_t expert = p->chosen[i], weight = cuda_bits(p->weight[i]), rank = p->rank[i];
	t->choice[i] = expert;
	t->choice[n + i] = weight;
	t->choice[2 * n + i] = rank;
}

/* By all other warps. */
CUDA_THREAD void cuda_tell_input(const struct cuda_told *t)
{
	enum { AT_ONCE = 8 };
	const uint32_t threads = cuda_threads() - CUDA_WARP;
	float x[AT_ONCE];

	for (uint32_t first = cuda_thread() - CUDA_WARP; first < t->width; first += AT_ONCE * threads) {
		CUDA_UNROLL
		for (uint32_t i = 0; i < AT_ONCE; i++)
			x[i] = first + i * threads < t->width ? t->input[first + i * threads] : 0;
		CUDA_UNROLL
		for (uint32_t i = 0; i < AT_ONCE; i++)
			if (first + i * threads < t->width)
				t->copy[first + i * threads] = x[i];
	}
}

CUDA_THREAD void cuda_route_this(const struct cuda_choice *choice, const struct cuda_groups *groups,
				 const struct cuda_told *told)
{
	const struct cuda_chosen c = cuda_chosen_of(choice);
	const struct cuda_added added = cuda_added_of(choice, groups->slots);

	cuda_wait_for_ahead();
	cuda_choose_row(choice, &c, &added, groups, 0);
	if (!told->flag)
		return;
	if (cuda_thread() < CUDA_WARP) {
		cuda_warp_barrier();
		cuda_tell_choice(told, choice);
	} else {
		cuda_tell_input(told);
	}
	cuda_barrier();
	if (cuda_thread() == 0)
		cuda_tell(told->flag);
}

CUDA_KERNEL_OF(1024) cuda_route(struct cuda_route p)
{
	const struct cuda_choice plain = cuda_plain_choice(p.choice);
	cuda_route_this(&plain, &p.groups, &p.told);
}

CUDA_KERNEL_OF(1024) cuda_route_any(struct cuda_route p)
{
	cuda_route_this(&p.choice, &p.groups, &p.told);
}
