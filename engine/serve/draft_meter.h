/* Whether, by what and how far ahead it pays to draft, from what steps have cost and what stood.
 *
 * A step with d drafted tokens verifies d + 1 rows and yields 1 to d + 1 tokens. How much longer it
 * takes than one row depends on the machine, on the model and, where experts must come from disk,
 * on the text; how much of a draft stands depends on the text and on what drafts it. All of it is
 * measured as it goes, what stands and what drafting takes for each kind of draft by itself:
 *
 *     tokens(d) = 1 + a1 + a1·a2 + …   ai: how often the i-th stood when those before it did
 *     speed(d)  = tokens(d) / (drafting(d) + cost(d + 1))   seconds; cost(n): of verifying n rows
 *
 * The kind and d with the greatest speed are taken. Where that is none, one token is drafted now
 * and then, as the text may have changed: by each kind in its turn. All of it on credit: a small
 * part of each step's time, and what drafts have gained, up to a bound. A step that could lose more
 * than is left does not draft, so a text that drafts do not suit is never much slower for their
 * having been tried. A draft layer that is to know all of the text takes time for every token,
 * drafted or not; where that is more than next to nothing it is spent only while it pays.
 *
 * For one thread.
 */
#ifndef MOEFS_ENGINE_SERVE_DRAFT_METER_H
#define MOEFS_ENGINE_SERVE_DRAFT_METER_H

#include "engine/session.h"

#include <stdbool.h>
#include <stdint.h>

enum { DRAFT_MOST = SESSION_DRAFTS }; /* tokens drafted at once */

struct draft_meter {		     /* zeroed: nothing is known yet */
	double cost[DRAFT_MOST + 2]; /* [rows]: a fading mean; 0: not measured */
	struct draft_kind_meter {
		double drafting[DRAFT_MOST + 1]; /* [depth]: likewise */
		bool far[DRAFT_MOST + 1];	 /* [depth]: the last was far more than that */
		double stood[DRAFT_MOST + 1];	 /* [depth]: a fading mean of ai */
		uint32_t seen[DRAFT_MOST + 1];	 /* [depth]: how often, as far as it matters */
		uint32_t idle;			 /* steps since it was taken */
		bool hot;			 /* all of it stood then */
	} kind[DRAFT_KINDS];
	double credit;	  /* seconds */
	double following; /* seconds for each token that a draft layer gets to know; 0: not measured
			   */
};

struct draft_choice {
	enum draft_kind kind;
	uint32_t depth; /* 0: none */
};

/* What can be drafted. */
struct draft_offer {
	uint32_t most[DRAFT_KINDS]; /* tokens */
	uint32_t missed; /* tokens that a draft layer has yet to get to know before; 0: the last */
};
struct draft_choice draft_meter_choose(const struct draft_meter *m, const struct draft_offer *o);
/* A step drafted so, which took `drafting` seconds, and verified it in `seconds`; `stood` did. */
void draft_meter_count(struct draft_meter *m, struct draft_choice drafted, uint32_t stood,
		       double drafting, double seconds);

/* Whether a draft layer is to get to know every token, of a prompt or of an answer, of which it
 * does so anyway while it drafts; and so many of them took it so long. A prompt's time is not on
 * the credit. */
bool draft_meter_follows(const struct draft_meter *m, bool answer);
void draft_meter_follow(struct draft_meter *m, uint32_t tokens, double seconds, bool answer);

#endif
