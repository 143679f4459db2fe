/* Which experts change places: one that is certainly hotter than the coldest one of its layer on the GPU takes
 * its place, by so much that it would hardly be seen if tokens chose both alike. Else experts would come and
 * go by chance. See cuda_experts.h. */
#include "engine/cuda/cuda_experts.h"

/* The coldest of `count` experts from `first` on that may leave the GPU; NOBODY: none may. The lock is
 * held. */
static int64_t cuda_experts_coldest(const struct cuda_experts *x, size_t first, size_t count)
{
	int64_t coldest = NOBODY;
	for (size_t e = first; e < first + count; e++)
		if (atomic_load(&x->at[e]) && !x->moving[e] && !x->pinned[e] &&
		    (coldest == NOBODY || x->heat[e] < x->heat[coldest]))
			coldest = (int64_t)e;
	return coldest;
}

/* Whether two numbers of uses differ by more than CHANGE_SIGMAS times the deviation of their difference,
 * if both are of a Poisson process. */
static bool cuda_certainly_hotter(float hot, float cold)
{
	const float more = hot - cold;
	return more > 0 && more * more > CHANGE_SIGMAS * CHANGE_SIGMAS * (hot + cold);
}

/* The hottest expert of a layer that is elsewhere and the coldest one here, if they should change
 * places. The lock is held. */
static bool cuda_experts_find_change(const struct cuda_experts *x, uint32_t layer,
				     struct cuda_change *c)
{
	const uint32_t first = layer * x->each;
	*c = (struct cuda_change){NOBODY, cuda_experts_coldest(x, first, x->each), 0};
	for (uint32_t e = first; e < first + x->each; e++)
		if (cuda_experts_lacks(x, e) &&
		    (c->expert == NOBODY || x->heat[e] > x->heat[c->expert]))
			c->expert = e;
	return c->expert != NOBODY && c->victim != NOBODY &&
	       cuda_certainly_hotter(x->heat[c->expert], x->heat[c->victim]);
}

/* A place for a pinned expert that is elsewhere. Its victim is an expert of its own layer, if possible: a
 * layer whose experts are all on the GPU is computed without the host. The lock is held. */
static bool cuda_experts_find_place(const struct cuda_experts *x, uint32_t expert,
				    struct cuda_change *c)
{
	if (!x->pinned[expert] || !cuda_experts_lacks(x, expert))
		return false;
	*c = (struct cuda_change){expert, NOBODY, 0};
	c->victim = cuda_experts_coldest(x, expert / x->each * x->each, x->each);
	if (c->victim == NOBODY)
		c->victim = cuda_experts_coldest(x, 0, (size_t)x->layers * x->each);
	return c->victim != NOBODY;
}

/* Has a filler bring an expert. False: too many are on their way. The lock is held. */
static bool cuda_experts_want(struct cuda_experts *x, const struct cuda_change *c)
{
	if (x->wanted_count + x->busy >= CHANGES_MOST)
		return false;
	x->moving[c->expert] = x->moving[c->victim] = true;
	x->wanted[x->wanted_count++] = *c;
	return true;
}

/* One change of each layer, each time from another layer on. False: there is no more, or no more at once.
 * The lock is held. */
static bool cuda_experts_change_layers(struct cuda_experts *x)
{
	struct cuda_change c;
	bool found = false;
	for (uint32_t i = 0; i < x->layers; i++) {
		uint32_t layer = (uint32_t)((x->model->steps + i) % x->layers);
		if (!cuda_experts_find_change(x, layer, &c))
			continue;
		found = true;
		if (!cuda_experts_want(x, &c))
			return false;
	}
	return found;
}

void cuda_experts_look_for_changes(struct cuda_experts *x)
{
	struct cuda_change c;
	for (uint32_t e = 0; e < x->layers * x->each; e++)
		if (cuda_experts_find_place(x, e, &c) && !cuda_experts_want(x, &c))
			break;
	while (cuda_experts_change_layers(x))
		;
	pthread_cond_broadcast(&x->work);
}
