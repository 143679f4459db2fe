/* The table of policies; see the header. */
#include "cache/policy.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* A use counts half after this many visits to its layer: what did best when traces of real routing
 * were replayed (README.md). */
#define HALF_LIFE 8.0

/* log2 of the sum of 2^-(visits since / HALF_LIFE) over all uses. With the layer's age added to the
 * logarithm, the sum of earlier uses need not be touched when the layer ages. */
static double use_lrfu(double key, double age, uint64_t tick)
{
	(void)tick;
	return age + log2(1 + exp2(key - age));
}

static double use_lru(double key, double age, uint64_t tick)
{
	(void)key;
	(void)age;
	return (double)tick;
}

static double use_lfu(double key, double age, uint64_t tick)
{
	(void)age;
	(void)tick;
	return key > 0 ? key + 1 : 1;
}

const struct policy *policy_default(void)
{
	return policy_find("lrfu");
}

const struct policy *policy_find(const char *name)
{
	static const struct policy policies[] = {
		{"lrfu", use_lrfu, 1 / HALF_LIFE},
		{"lru", use_lru, 0},
		{"lfu", use_lfu, 0},
	};
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
		if (!strcmp(name, policies[i].name))
			return &policies[i];
	return NULL;
}
