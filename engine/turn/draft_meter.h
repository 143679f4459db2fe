/* Decides whether to draft, with which kind and how many tokens, from the measured cost of steps
 * and from how many drafts were accepted.
 *
 * A step with d drafted tokens verifies d + 1 rows and yields 1 to d + 1 tokens. How much longer
 * that takes than one row depends on the machine, the model and, if experts are read from disk, the
 * text. How many drafts are accepted depends on the text and the kind of draft. Everything is
 * measured while answers are generated. Acceptance and drafting time are kept per kind:
 *
 *     tokens(d) = 1 + a1 + a1·a2 + … ai: how often the i-th was accepted if all before it were
 *     speed(d) = tokens(d) / (drafting(d) + cost(d + 1)) cost(n): seconds to verify n rows
 *
 * The meter chooses the kind and d with the highest speed. If d is 0, one token is drafted now and
 * then, by each kind in turn, because the text may have changed. The time of such trials comes from
 * a credit, which is a small part of each step's time plus the time that drafts have saved, up to a
 * bound. A step that could lose more than the credit does not draft, so trials never slow a text
 * down much. A draft layer that follows the text takes time for every token, drafted or not. If
 * that is more than a few percent, the layer follows only while drafts save time.
 *
 * Turns that share a step share its time, so the meter maximises the speed of all turns together:
 *
 *     speed = tokens of all turns / (drafting(turns that draft a 1st, 2nd … token) + cost(all
 * rows))
 *
 * Drafts are added row by row, the most likely to be accepted first, until the speed no longer
 * rises. Each step starts with a different turn. Costs of shared steps are kept apart from those of
 * a turn alone, since rows of one turn share more experts. A trial is one token for each turn.
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

struct draft_meter { /* zero-initialised: nothing is known yet */
	/* [rows] seconds of a turn alone, a fading mean; 0: not measured */
	double cost[DRAFT_MOST + 2];
	struct draft_costs company; /* of steps that several turns share */
	/* of draft layer passes in such steps, by number of turns */
	struct draft_costs first_pass, next_pass;
	struct draft_kind_meter {
		double drafting[DRAFT_MOST + 1]; /* [depth]: seconds, as in cost */
		bool far[DRAFT_MOST + 1]; /* [depth]: the last measurement was far above the mean */
		double stood[DRAFT_MOST + 1]; /* [depth]: a fading mean of ai */
		/* [depth]: number of measurements, up to a small maximum */
		uint32_t seen[DRAFT_MOST + 1];
		uint32_t idle; /* steps since this kind was last chosen */
		bool hot;      /* all its drafts were accepted then */
	} kind[DRAFT_KINDS];
	double credit;	  /* seconds */
	double following; /* seconds per token that the draft layer follows; 0: not measured */
	uint32_t chosen;  /* number of choices so far; decides which turn gets its draft first */
	uint32_t turns;	  /* turns of the last counted step; 0: none */
};

struct draft_choice {
	enum draft_kind kind;
	uint32_t depth; /* 0: none */
};

/* The drafts that a turn could make. */
struct draft_offer {
	uint32_t most[DRAFT_KINDS]; /* tokens */
	uint32_t missed; /* tokens that the draft layer must compute first; 0: only the last */
	bool asked; /* params/draft asks for drafts: draft all that is offered (one kind only) */
};
/* Chooses for each turn of a step. room: most rows of the step, at least `turns`. If there is less
 * room than the drafts need, it is divided evenly among the turns. */
void draft_meter_choose(struct draft_meter *m, const struct draft_offer *offers, uint32_t turns,
			uint32_t room, struct draft_choice *choices);

/* The result of a turn's draft. */
struct draft_result {
	struct draft_choice choice;
	uint32_t stood;
	bool asked; /* as in the offer */
};
struct draft_times { /* seconds of a step */
	double lookup;
	double passes[DRAFT_MOST + 1]; /* [depth]: of the draft layer */
	uint32_t asks[DRAFT_MOST + 1]; /* [depth]: number of turns in that pass */
	double verifying;
};
/* Adds the measurements of a step. */
void draft_meter_count(struct draft_meter *m, const struct draft_result *results, uint32_t turns,
		       const struct draft_times *t);

/* draft_meter_follows: whether the draft layer should compute every token of a prompt, or of an
 * answer. (While it drafts, it always does.) draft_meter_follow: the draft layer computed `tokens`
 * such tokens in `seconds`. A prompt's time is not taken from the credit. */
bool draft_meter_follows(const struct draft_meter *m, bool answer);
void draft_meter_follow(struct draft_meter *m, uint32_t tokens, double seconds, bool answer);

#endif
