/* Replacement policies: the value of an expert, computed from its uses.
 *
 * All policies but LRU count uses with counts that fade. At each visit to a layer the counts of all
 * its experts shrink by a factor, then the counts of the experts used grow. So the order of a
 * layer's experts changes only when the layer is visited. Of the experts of all layers the one with
 * the lowest value times discount is evicted.
 *
 * This file knows neither slots nor locks. pager_pool.c uses it to choose which expert is evicted.
 */
#ifndef MOEFS_CACHE_POLICY_H
#define MOEFS_CACHE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

enum { POLICY_COUNTS = 3 };

struct policy {
	const char *name;
	uint32_t counts;	    /* counts in use; 0: the value is the time of the last use
				     * (LRU) */
	float keep[POLICY_COUNTS];  /* factor for a count at each visit to the layer */
	float share[POLICY_COUNTS]; /* weight of each count in the value */
	bool distance;		    /* whether a layer whose next turn is far away is worth less */
	bool credit;		    /* a use counts as much as its credit; false: as 1 */
};

/* Finds "scales" (the default), "lrfu", "lfu" or "lru"; see README.md. NULL: there is no policy of
 * this name.
 */
const struct policy *policy_find(const char *name);
const struct policy *policy_default(void);

struct use_counts {
	float count[POLICY_COUNTS];
};

/* policy_fade: call for each expert of a visited layer. policy_use: call when an expert is used;
 * `tick` numbers the uses of all experts. Both return the expert's new value. */
double policy_fade(const struct policy *p, struct use_counts *u, double value);
double policy_use(const struct policy *p, struct use_counts *u, float credit, uint64_t tick);

/* The factor for an expert whose layer is visited again after `distance` of `layers` layers, and
 * whose model was not used during the last `idle` passes through a model. Without the idle part the
 * experts of an unused model would never fade. */
double policy_discount(const struct policy *p, uint32_t distance, uint32_t layers, double idle);

/* The long-term part of an expert's use counts. policy_heat returns it, to be saved for the next
 * mount; policy_take_heat restores it and returns the expert's value. */
double policy_heat(const struct policy *p, const struct use_counts *u);
double policy_take_heat(const struct policy *p, struct use_counts *u, double heat);

#endif
