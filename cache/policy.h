/* Replacement policies: what an expert is worth, from how it was used.
 *
 * All policies but LRU count uses that fade: at each visit to its layer the counts of every expert
 * shrink by a factor, and then those of the experts used grow. So the order of a layer's experts
 * changes only when the layer is visited. Of the experts of all layers the one with the lowest
 * value times discount is evicted.
 *
 * This file knows neither slots nor locks: pager_pool.c asks it and chooses.
 */
#ifndef MOEFS_CACHE_POLICY_H
#define MOEFS_CACHE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

enum { POLICY_COUNTS = 3 };

struct policy {
	const char *name;
	uint32_t counts;	    /* in use; 0: the value is when the last use was (LRU) */
	float keep[POLICY_COUNTS];  /* what is left of a count after a visit to the layer */
	float share[POLICY_COUNTS]; /* of each count in the value */
	bool distance;		    /* a layer whose next turn is far is worth less */
	bool credit;		    /* uses in prompts count as they are credited, else as 1 */
};

/* "scales" (the default), "lrfu", "lfu" or "lru"; see README.md. NULL: there is none of that name.
 */
const struct policy *policy_find(const char *name);
const struct policy *policy_default(void);

struct use_counts {
	float count[POLICY_COUNTS];
};

/* policy_fade: the layer of an expert is visited. policy_use: the expert is used, with this credit,
 * as the tick-th use of all. Both return the expert's new value. */
double policy_fade(const struct policy *p, struct use_counts *u, double value);
double policy_use(const struct policy *p, struct use_counts *u, float credit, uint64_t tick);

/* The factor for an expert whose layer is visited again after `distance` of `layers` layers, and
 * whose model was not used during the last `idle` passes through a model (without it an idle
 * model's experts would never fade). */
double policy_discount(const struct policy *p, uint32_t distance, uint32_t layers, double idle);

/* The long-term part of an expert's use counts: saved for the next mount, and restored by it. */
double policy_heat(const struct policy *p, const struct use_counts *u);
double policy_take_heat(const struct policy *p, struct use_counts *u, double heat);

#endif
