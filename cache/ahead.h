/* Which forecast experts to read before a batch asks for them.
 *
 * A router that runs early names experts by rank, the surest first. How often a rank comes true
 * depends on the model; later ranks and layers further ahead come true less often. So the rate is
 * measured for each rank. The measurement counts only experts that were absent when they were
 * forecast (only those are read), whether or not the rank was read: so a rank that is not read now
 * can be read again later.
 *
 * The rule: a read that comes true saves a batch the wait for one read. A wrong read delays a
 * demand by at most one read, if a demand is queued behind the wrong read. So a rank is read while
 *
 *     rate > (1 - rate) * demanded,    demanded: the share of batches that had to ask for an expert
 *
 * If batches seldom ask for an expert, nearly every rank is worth a read. If every batch asks, only
 * ranks that are right more often than not are. The rule ignores what a wrong read evicts: that is
 * the expert that the policy values least, and the wrong expert is the next to be evicted.
 *
 * No lock: the caller serialises the calls.
 */
#ifndef MOEFS_CACHE_AHEAD_H
#define MOEFS_CACHE_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

/* Layers that may be forecast at a time, and ranks with a rate of their own. All higher ranks share
 * the last rate. */
enum { AHEAD_LAYERS = 2, AHEAD_RANKS = 32 };

struct ahead {
	float rate[AHEAD_LAYERS][AHEAD_RANKS]; /* exponentially fading means */
	float demanded;
};

/* Starts with every rank worth a read. */
void ahead_init(struct ahead *a);
/* Records whether an absent expert was used after its forecast. distance: 0 for the next layer. */
void ahead_learn(struct ahead *a, uint32_t distance, uint32_t rank, bool used);
/* Records the start of a batch that was forecast. demanded: the batch wants an expert that is
 * absent and that no read is under way for. */
void ahead_count(struct ahead *a, bool demanded);
bool ahead_is_worth(const struct ahead *a, uint32_t distance, uint32_t rank);

static inline uint32_t ahead_rank(uint32_t rank)
{
	return rank < AHEAD_RANKS ? rank : AHEAD_RANKS - 1;
}

#endif
