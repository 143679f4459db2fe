/* What may follow the last token of an answer: proposed before a step, counted after it. For the
 * generation thread, within a step. */
#ifndef MOEFS_ENGINE_SERVE_DRAFT_H
#define MOEFS_ENGINE_SERVE_DRAFT_H

#include "engine/compute/step.h"
#include "engine/serve/draft_meter.h"

struct session;

struct draft {
	struct draft_choice choice;
	uint32_t tokens[DRAFT_MOST];
	double seconds; /* that it took, */
	double whole;	/* and with what the draft layer had missed */
};
/* Whether a turn wants the model's own draft layer to follow it. */
bool draft_follows(const struct session *s);
/* Before a step of such a turn, whose first token is `next`; and after one of its prompt. */
void draft_make_room(struct session *s, uint32_t next, enum row_kind kind);
void draft_follow_prompt(struct session *s, uint32_t n);
/* What may follow the last token. */
void draft_propose(struct session *s, struct draft *d);
/* After the step that verified it: how many tokens stood, and what the step took. */
void draft_count(struct session *s, const struct draft *d, uint32_t stood, double seconds);

#endif
