/* Which forecast experts are worth a read before they are asked for.
 *
 * A router that is run early names experts by rank, the surest first. How often a rank comes true
 * depends on the model, and falls with the rank and with how far ahead the layer is. So it is
 * measured for each rank, over the experts that were absent when they were forecast (those that are
 * read at all), and whether or not they were read: a rank that is not read can come back.
 *
 * The rule: a read that comes true saves a batch the wait for one read. A wrong one delays a demand
 * by at most as much, if a demand comes behind it. So a rank is read while
 *
 *     rate > (1 - rate) * demanded,    demanded: the share of batches that had to ask for something
 *
 * If batches seldom ask for anything, nearly every rank is worth a read; if every layer does, only
 * the ranks that are right more often than not. What a wrong read evicts is left out: it is what the policy values least, and
 * the wrong expert is the next to go.
 *
 * No lock: the caller serialises the calls.
 */
#ifndef MOEFS_CACHE_AHEAD_H
#define MOEFS_CACHE_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

/* Layers that may be forecast at a time, and ranks that are told apart; later ones are the last. */
enum { AHEAD_LAYERS = 2, AHEAD_RANKS = 32 };

struct ahead {
	float rate[AHEAD_LAYERS][AHEAD_RANKS]; /* fading means */
	float demanded;
};

/* Everything is read until it was measured. */
void ahead_init(struct ahead *a);
/* distance: 0 for the next layer. An absent expert that was forecast has been used, or not. */
void ahead_learn(struct ahead *a, uint32_t distance, uint32_t rank, bool used);
/* A batch that was forecast has begun. demanded: it wants an expert that nobody reads yet. */
void ahead_count(struct ahead *a, bool demanded);
bool ahead_is_worth(const struct ahead *a, uint32_t distance, uint32_t rank);

static inline uint32_t ahead_rank(uint32_t rank)
{
	return rank < AHEAD_RANKS ? rank : AHEAD_RANKS - 1;
}

#endif
