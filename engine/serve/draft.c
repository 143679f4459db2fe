/* Drafts: what may follow the last token of an answer, and how many tokens of it to verify. */
#include "engine/serve/internal.h"

#include "engine/compute/lookup.h"

static uint32_t least(uint64_t one, uint64_t other)
{
	return (uint32_t)(one < other ? one : other);
}

/* How many tokens may follow before the turn ends in any case: what is verified beyond would be
 * computed in vain. */
static uint32_t room(const struct session *s)
{
	const struct turn *t = &s->turn;
	uint64_t answered = t->ids.count - t->prompt_ids, most = t->params.max_tokens;
	uint64_t left = s->model->context - t->ids.count;
	if (most)
		left = least(left, most - answered - 1);
	left = least(left, s->model->forward.chunk - 1);
	return least(left, DRAFT_MOST);
}

/* With drop_missing a text depends on what each step holds. */
static bool may_draft(const struct session *s)
{
	return s->turn.params.draft != DRAFT_OFF && !(s->turn.losses.drop_missing > 0);
}

uint32_t draft_propose(const struct session *s, uint32_t draft[DRAFT_MOST])
{
	const struct turn *t = &s->turn;
	uint32_t most = may_draft(s) ? room(s) : 0, matched;
	if (t->params.draft == DRAFT_AUTO)
		most = draft_meter_choose(&s->model->draft_meter, most);
	else
		most = least(most, t->params.draft_depth);
	return most ? lookup_draft(t->ids.ids, t->ids.count, draft, most, &matched) : 0;
}
