/* Speculative decoding: drafts tokens that may follow the last token of an answer before a step,
 * and counts the accepted ones after it. Uses the forward pass's scratch memory, so only the run's
 * thread may call it.
 *
 * All turns of a step are drafted together. Each turn offers the drafts that it could make. The
 * meter chooses for all of them, since they share the step's time. Then the draft layer computes
 * one token of each turn per pass, depth by depth. */
#ifndef MOEFS_ENGINE_TURN_DRAFT_H
#define MOEFS_ENGINE_TURN_DRAFT_H

#include "engine/compute/step.h"
#include "engine/turn/draft_meter.h"

struct turn_state;

struct draft { /* of a turn */
	struct draft_offer offer;
	struct draft_choice choice; /* its depth is the number of tokens */
	uint32_t tokens[DRAFT_MOST];
	double seconds; /* drafting time of all turns of the step */
	bool verified;	/* by a step without error for this turn */
};

struct draft_step { /* zero-initialise */
	struct turn_state *turns[DRAFT_TURNS];
	uint32_t count; /* of turns, all generating answers */
	struct draft_times times;
};
/* Whether a turn wants the model's own draft layer to follow it. */
bool draft_follows(const struct turn_state *t);
/* For turns that the draft layer follows: draft_make_room before a step whose first token is
 * `next`; draft_follow_prompt after a step of the prompt. */
void draft_make_room(struct turn_state *t, uint32_t next, enum row_kind kind);
void draft_follow_prompt(struct turn_state *t, uint32_t n);
/* Drafts tokens for all turns, for a step of at most `room` rows (at least one per turn). Failures
 * never fail a turn: it gets a shorter draft, or none. */
void draft_propose(struct draft_step *d, uint32_t room);
/* Call this after the step that verified the drafts and took `seconds`. */
void draft_count(struct draft_step *d, double seconds);

#endif
