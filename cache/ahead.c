/* See the header. */
#include "cache/ahead.h"

/* The weight of a new observation. A topic of a conversation lasts some hundred tokens. */
static const float weight = 1.0F / 64;

static void ahead_move(float *mean, bool yes)
{
	*mean += weight * ((yes ? 1 : 0) - *mean);
}

void ahead_init(struct ahead *a)
{
	a->demanded = 0;
	for (uint32_t d = 0; d < AHEAD_LAYERS; d++)
		for (uint32_t r = 0; r < AHEAD_RANKS; r++)
			a->rate[d][r] = 1;
}

void ahead_learn(struct ahead *a, uint32_t distance, uint32_t rank, bool used)
{
	ahead_move(&a->rate[distance][ahead_rank(rank)], used);
}

void ahead_count(struct ahead *a, bool demanded)
{
	ahead_move(&a->demanded, demanded);
}

bool ahead_is_worth(const struct ahead *a, uint32_t distance, uint32_t rank)
{
	float rate = a->rate[distance][ahead_rank(rank)];
	return rate > (1 - rate) * a->demanded;
}
