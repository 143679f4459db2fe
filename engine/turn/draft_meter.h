/* Decides whether to draft, by which kind and how many tokens, from the measured cost of steps and
 * from how many drafts stood.
 *
 * A step with d drafted tokens verifies d + 1 rows and yields 1 to d + 1 tokens. How much longer it
 * takes than one row depends on the machine, on the model and, if experts are read from disk, on
 * the text. How many drafts stand depends on the text and on the kind of draft. Everything is
 * measured while answers are generated; acceptance and drafting time are kept for each kind:
 *
 *     tokens(d) = 1 + a1 + a1·a2 + …   ai: how often the i-th stood when those before it did
 *     speed(d)  = tokens(d) / (drafting(d) + cost(d + 1))   seconds; cost(n): of verifying n rows
 *
 * The meter takes the kind and d with the greatest speed. If d is 0, one token is drafted now and
 * then, by each kind in turn, because the text may have changed. Such trials are paid from a
 * credit: a small part of each step's time, and the time that drafts have saved, up to a bound. A
 * step that could lose more than the credit does not draft, so trials never make a text much
 * slower. A draft layer that follows the text takes time for every token, drafted or not; if that
 * is more than a few percent, it follows only while drafts pay.
 *
 * Turns that share a step share its time, so what counts is the speed of all of them:
 *
 *     speed = tokens of all turns / (drafting(turns that draft a 1st, 2nd … token) + cost(all
 * rows))
 *
 * Drafts are added row by row, those that are the likeliest to stand first; each depth begins with
 * another turn in each step. Where the greatest speed is reached, no more are added. Costs in
 * company are learnt apart from those of a turn alone: rows of one turn share more experts. A trial
 * is one token for each turn.
 *
 * For one thread.
 */
#ifndef MOEFS_ENGINE_TURN_DRAFT_METER_H
#define MOEFS_ENGINE_TURN_DRAFT_METER_H

#include "engine/session.h"
#include "engine/turn/draft_costs.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	DRAFT_MOST = SESSION_DRAFTS, /* tokens drafted at once */
	DRAFT_TURNS = 32,	     /* most turns of a step */
};

struct draft_meter {		     /* zeroed: nothing is known yet */
	double cost[DRAFT_MOST + 2]; /* [rows] of a turn alone: a fading mean; 0: not measured */
	struct draft_costs company;  /* of a step's rows, where it has several turns */
	struct draft_costs first_pass, next_pass; /* of the draft layer then, by its turns */
	struct draft_kind_meter {
		double drafting[DRAFT_MOST + 1]; /* [depth]: as cost */
		bool far[DRAFT_MOST + 1];	 /* [depth]: the last was far more than that */
		double stood[DRAFT_MOST + 1];	 /* [depth]: a fading mean of ai */
		uint32_t seen[DRAFT_MOST + 1];	 /* [depth]: how often, as far as it matters */
		uint32_t idle;			 /* steps since it was taken */
		bool hot;			 /* all of it stood then */
	} kind[DRAFT_KINDS];
	double credit;	  /* seconds */
	double following; /* seconds for each token that a draft layer gets to know; 0: not measured
			   */
	uint32_t chosen;  /* how often it has chosen: which turn is the first to get a draft */
	uint32_t turns;	  /* of the last step that was counted; 0: there was none */
};

struct draft_choice {
	enum draft_kind kind;
	uint32_t depth; /* 0: none */
};

/* What can be drafted for a turn. */
struct draft_offer {
	uint32_t most[DRAFT_KINDS]; /* tokens */
	uint32_t missed; /* tokens that a draft layer has yet to get to know before; 0: the last */
	bool asked;	 /* by params: all of it, which is of one kind, is drafted */
};
/* Chooses for each turn of a step. room: rows that the step may have, turns at least; if there are
 * fewer than drafts want, the turns have as many each, or one more. */
void draft_meter_choose(struct draft_meter *m, const struct draft_offer *offers, uint32_t turns,
			uint32_t room, struct draft_choice *choices);

/* What came of a turn's draft. */
struct draft_result {
	struct draft_choice choice;
	uint32_t stood;
	bool asked; /* as in the offer */
};
struct draft_times { /* seconds of a step */
	double lookup;
	double passes[DRAFT_MOST + 1]; /* [depth]: of the draft layer */
	uint32_t asks[DRAFT_MOST + 1]; /* [depth]: for how many turns */
	double verifying;
};
/* A step was drafted and verified so. */
void draft_meter_count(struct draft_meter *m, const struct draft_result *results, uint32_t turns,
		       const struct draft_times *t);

/* draft_meter_follows: whether a draft layer is to compute every token of a prompt, or of an answer
 * (while it drafts, it does that anyway). draft_meter_follow: `tokens` of them took `seconds`. A
 * prompt's time is not charged to the credit. */
bool draft_meter_follows(const struct draft_meter *m, bool answer);
void draft_meter_follow(struct draft_meter *m, uint32_t tokens, double seconds, bool answer);

#endif
