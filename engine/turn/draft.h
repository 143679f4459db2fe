/* What may follow the last token of an answer: proposed before a step, counted after it. Works in
 * the forward pass's scratch, so it is for the run's thread.
 *
 * All turns of a step are drafted together: each offers what could be drafted, the meter chooses
 * for all of them, since they share the step's time, and then the draft layer computes a token of
 * each turn in one pass, depth by depth. A turn alone is a step of one. */
#ifndef MOEFS_ENGINE_TURN_DRAFT_H
#define MOEFS_ENGINE_TURN_DRAFT_H

#include "engine/compute/step.h"
#include "engine/turn/draft_meter.h"

struct turn_state;

struct draft { /* of a turn */
	struct draft_offer offer;
	struct draft_choice choice; /* its depth: how many tokens there are */
	uint32_t tokens[DRAFT_MOST];
	double seconds; /* that drafting took, for all turns of the step */
	bool verified;	/* by a step that ended well for the turn */
};

struct draft_step { /* zero-initialise */
	struct turn_state *turns[DRAFT_TURNS];
	uint32_t count; /* of turns, whose steps are answers' */
	struct draft_times times;
};
/* Whether a turn wants the model's own draft layer to follow it. */
bool draft_follows(const struct turn_state *t);
/* Before a step of such a turn, whose first token is `next`; and after one of its prompt. */
void draft_make_room(struct turn_state *t, uint32_t next, enum row_kind kind);
void draft_follow_prompt(struct turn_state *t, uint32_t n);
/* Drafts what may follow the last tokens of the turns, for a step that may have `room` rows: at
 * least one for each turn. No failure is one of a turn: it has a shorter draft, or none. */
void draft_propose(struct draft_step *d, uint32_t room);
/* After the step that verified it, and took `seconds`. */
void draft_count(struct draft_step *d, double seconds);

#endif
