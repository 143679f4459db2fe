/* How far ahead it pays to draft, from what steps have cost and what stood of drafts.
 *
 * A step with d drafted tokens verifies d + 1 rows and yields 1 to d + 1 tokens. How much longer it
 * takes than one row depends on the machine, on the model and, where experts must come from disk,
 * on the text; how much of a draft stands depends on the text. Both are measured as it goes:
 *
 *     tokens(d) = 1 + a1 + a1·a2 + …   ai: how often the i-th stood when those before it did
 *     speed(d)  = tokens(d) / cost(d + 1)   cost(n): seconds of a step of n rows
 *
 * The d with the greatest speed is taken. Where that is none, one token is drafted now and then, as
 * the text may have changed. All of it on credit: a small part of each step's time, and what drafts
 * have gained, up to a bound. A step that could lose more than is left does not draft, so a text
 * that drafts do not suit is never much slower for their having been tried.
 *
 * Seconds are those of whole steps, drafting included. For one thread.
 */
#ifndef MOEFS_ENGINE_SERVE_DRAFT_METER_H
#define MOEFS_ENGINE_SERVE_DRAFT_METER_H

#include "engine/session.h"

#include <stdint.h>

enum { DRAFT_MOST = SESSION_DRAFTS }; /* tokens drafted at once */

struct draft_meter {		       /* zeroed: nothing is known yet */
	double cost[DRAFT_MOST + 2];   /* [rows]: a fading mean; 0: not measured */
	double stood[DRAFT_MOST + 1];  /* [depth]: a fading mean of ai */
	uint32_t seen[DRAFT_MOST + 1]; /* [depth]: how often, as far as it matters */
	double credit;		       /* seconds */
	uint32_t plain;		       /* steps since one with a draft */
};

/* How many tokens to draft now, 0 … most. */
uint32_t draft_meter_choose(const struct draft_meter *m, uint32_t most);
/* A step that drafted so many tokens, of which `stood` did, took so long. */
void draft_meter_count(struct draft_meter *m, uint32_t drafted, uint32_t stood, double seconds);

#endif
