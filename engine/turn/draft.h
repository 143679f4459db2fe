/* What may follow the last token of an answer: proposed before a step, counted after it. Works in
 * the forward pass's scratch, so it is for the run's thread. */
#ifndef MOEFS_ENGINE_TURN_DRAFT_H
#define MOEFS_ENGINE_TURN_DRAFT_H

#include "engine/compute/step.h"
#include "engine/turn/draft_meter.h"

struct turn_state;

struct draft {
	struct draft_choice choice;
	uint32_t tokens[DRAFT_MOST];
	double seconds; /* that it took, */
	double whole;	/* and with what the draft layer had missed */
	bool company;	/* other turns had rows in the step */
};
/* Whether a turn wants the model's own draft layer to follow it. */
bool draft_follows(const struct turn_state *t);
/* Before a step of such a turn, whose first token is `next`; and after one of its prompt. */
void draft_make_room(struct turn_state *t, uint32_t next, enum row_kind kind);
void draft_follow_prompt(struct turn_state *t, uint32_t n);
/* What may follow the last token, for a step in which the turn may have `room` rows. In company
 * nothing is drafted unless params ask for it: the step already reads the weights for several rows,
 * and the meter only knows what a turn's rows cost alone. */
void draft_propose(struct turn_state *t, uint32_t room, bool company, struct draft *d);
/* After the step that verified it: how many tokens stood, and what the step took. */
void draft_count(struct turn_state *t, const struct draft *d, uint32_t stood, double seconds);

#endif
