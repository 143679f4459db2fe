/* See gpu_budget.h. */
#include "engine/gpu/gpu_budget.h"

void gpu_budget_init(struct gpu_budget *b, uint64_t asked)
{
	*b = (struct gpu_budget){.asked = asked};
	(void)pthread_mutex_init(&b->lock, NULL);
}

void gpu_budget_free(struct gpu_budget *b)
{
	(void)pthread_mutex_destroy(&b->lock);
}

static uint64_t gpu_budget_sum(const struct gpu_budget *b)
{
	uint64_t sum = 0;

	for (enum gpu_use u = 0; u < GPU_USES; u++)
		sum += b->used[u];
	return sum;
}

/* Call it with the lock held. */
static void gpu_budget_decide(struct gpu_budget *b)
{
	const uint64_t automatic = b->free > GPU_RESERVE ? b->free - GPU_RESERVE : 0;
	const uint64_t asked = b->asked < b->free ? b->asked : b->free;

	b->limit = b->asked ? asked : automatic;
}

void gpu_budget_found(struct gpu_budget *b, uint64_t free_now)
{
	(void)pthread_mutex_lock(&b->lock);
	b->free = free_now + gpu_budget_sum(b);
	gpu_budget_decide(b);
	(void)pthread_mutex_unlock(&b->lock);
}

bool gpu_budget_take(struct gpu_budget *b, enum gpu_use use, uint64_t bytes)
{
	(void)pthread_mutex_lock(&b->lock);
	const uint64_t used = gpu_budget_sum(b);
	const bool fits = used <= b->limit && bytes <= b->limit - used;
	if (fits)
		b->used[use] += bytes;
	(void)pthread_mutex_unlock(&b->lock);
	return fits;
}

void gpu_budget_give(struct gpu_budget *b, enum gpu_use use, uint64_t bytes)
{
	(void)pthread_mutex_lock(&b->lock);
	b->used[use] -= bytes;
	(void)pthread_mutex_unlock(&b->lock);
}

void gpu_budget_ask(struct gpu_budget *b, uint64_t bytes)
{
	(void)pthread_mutex_lock(&b->lock);
	b->asked = bytes;
	gpu_budget_decide(b);
	(void)pthread_mutex_unlock(&b->lock);
}

uint64_t gpu_budget_over(struct gpu_budget *b)
{
	(void)pthread_mutex_lock(&b->lock);
	const uint64_t used = gpu_budget_sum(b);
	const uint64_t over = used > b->limit ? used - b->limit : 0;
	(void)pthread_mutex_unlock(&b->lock);
	return over;
}

uint64_t gpu_budget_limit(struct gpu_budget *b)
{
	(void)pthread_mutex_lock(&b->lock);
	const uint64_t limit = b->limit;
	(void)pthread_mutex_unlock(&b->lock);
	return limit;
}

uint64_t gpu_budget_room(struct gpu_budget *b)
{
	(void)pthread_mutex_lock(&b->lock);
	const uint64_t used = gpu_budget_sum(b);
	const uint64_t room = used < b->limit ? b->limit - used : 0;
	(void)pthread_mutex_unlock(&b->lock);
	return room;
}
