/* The table of policies; see the header. README.md describes them, MEASUREMENTS.md measures
 * them. */
#include "cache/policy.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* scales: the chance that an expert is used again falls with the age of its uses about as age^-0.6.
 * Three exponentials, whose half-lives are 16 apart and each of which weighs a fifth of the one
 * before, approximate this power law: the last token's experts, the topic's, and the model's
 * habits.
 *
 * lrfu (Lee et al. 2001): one exponential, half-life 8 visits. lfu: a half-life of a million
 * visits, so that it forgets nothing, but orders equal counts by the age of their uses. */
static const struct policy policies[] = {
	{"scales", 3, {0.5F, 0.957603281F, 0.997296056F}, {1, 0.2F, 0.04F}, true, true},
	{"lrfu", 1, {0.917004043F}, {1}, false, false},
	{"lfu", 1, {0.999999307F}, {1}, false, false},
	{"lru", 0, {0}, {0}, false, false},
};

/* After this many passes through other models an idle model's experts are worth half. */
static const double idle_half_life = 16;

const struct policy *policy_default(void)
{
	return &policies[0];
}

const struct policy *policy_find(const char *name)
{
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
		if (!strcmp(name, policies[i].name))
			return &policies[i];
	return NULL;
}

static double policy_value(const struct policy *p, const struct use_counts *u)
{
	double value = 0;
	for (uint32_t i = 0; i < p->counts; i++)
		value += (double)(p->share[i] * u->count[i]);
	return value;
}

double policy_fade(const struct policy *p, struct use_counts *u, double value)
{
	if (!p->counts)
		return value;
	for (uint32_t i = 0; i < p->counts; i++)
		u->count[i] *= p->keep[i];
	return policy_value(p, u);
}

double policy_use(const struct policy *p, struct use_counts *u, float credit, uint64_t tick)
{
	if (!p->counts)
		return (double)tick;
	for (uint32_t i = 0; i < p->counts; i++)
		u->count[i] += p->credit ? credit : 1;
	return policy_value(p, u);
}

double policy_discount(const struct policy *p, uint32_t distance, uint32_t layers, double idle)
{
	if (!p->counts)
		return 1;
	/* An expert whose layer has just passed occupies a slot for a whole token before it can be
	 * hit. */
	double turns = p->distance ? (double)distance / layers : 0;
	return exp2(-turns - idle / idle_half_life);
}

double policy_heat(const struct policy *p, const struct use_counts *u)
{
	return p->counts ? (double)u->count[p->counts - 1] : 0;
}

double policy_take_heat(const struct policy *p, struct use_counts *u, double heat)
{
	*u = (struct use_counts){0};
	if (p->counts)
		u->count[p->counts - 1] = (float)heat;
	return policy_value(p, u);
}
