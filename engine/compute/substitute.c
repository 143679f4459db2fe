/* See substitute.h. */
#include "engine/compute/substitute.h"

#include "engine/family/config.h"

#include <math.h>
#include <string.h>

/* The best value that is not taken; UINT32_MAX: there is none. */
static uint32_t substitute_best(const float *values, uint32_t experts, const bool *taken)
{
	uint32_t best = UINT32_MAX;
	for (uint32_t e = 0; e < experts; e++)
		if (!taken[e] && (best == UINT32_MAX || values[e] > values[best]))
			best = e;
	return best == UINT32_MAX || !(values[best] > -INFINITY) ? UINT32_MAX : best;
}

/* The next rank that is present; *rank moves on behind it. UINT32_MAX: the window has no more. */
static uint32_t substitute_next(const struct substitute *how, const float *values, uint32_t experts,
				bool *taken, uint32_t *rank)
{
	while (*rank < how->window) {
		uint32_t e = substitute_best(values, experts, taken);
		if (e == UINT32_MAX)
			return e;
		taken[e] = true;
		++*rank;
		if (how->present(how->ctx, e))
			return e;
	}
	return UINT32_MAX;
}

uint32_t substitute_choose(const struct substitute *how, const float *values, uint32_t experts,
			   uint32_t *chosen, uint32_t count)
{
	bool taken[CONFIG_MAX_EXPERTS];
	uint32_t rank = count, given = 0;
	memset(taken, 0, experts * sizeof *taken);
	for (uint32_t i = 0; i < count; i++)
		taken[chosen[i]] = true;
	for (uint32_t i = how->keep; i < count; i++) {
		if (how->present(how->ctx, chosen[i]))
			continue;
		uint32_t e = substitute_next(how, values, experts, taken, &rank);
		if (e == UINT32_MAX)
			break;
		chosen[i] = e;
		given++;
	}
	return given;
}
