/* Replacement policies: what an expert in memory is worth, from how it was used.
 *
 * A policy gives each expert a key when it is used, and the keys of one layer a common ageing, so
 * that between its uses an expert costs nothing: its score is key − age of its layer, and the
 * lowest score goes first. Keys and ages are in units of the policy's own; only scores of one
 * policy can be compared.
 *
 * This file knows neither slots nor locks: pool.c asks it and chooses.
 */
#ifndef MOEFS_CACHE_POLICY_H
#define MOEFS_CACHE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct policy {
	const char *name;
	/* The key after a use: `key` is the one before (-INFINITY: never used), `age` its layer's
	 * age, `tick` a number that grows with every use of any expert. */
	double (*use)(double key, double age, uint64_t tick);
	double ageing; /* of a layer, per visit to it */
};

/* LRFU (Lee et al. 2001), the default; LRU; LFU. NULL: there is no policy of that name. */
const struct policy *policy_find(const char *name);
const struct policy *policy_default(void);

#endif
