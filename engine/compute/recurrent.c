#include "engine/compute/recurrent.h"

#include <string.h>

void recurrent_init(struct recurrent *r, struct context_budget *budget, size_t floats)
{
	*r = (struct recurrent){.budget = budget, .bytes = context_pages(floats * sizeof(float))};
}

/* Takes a mark out of the list; its memory is the caller's. */
static float *take_out(struct recurrent *r, uint32_t i)
{
	float *state = r->marks[i].state;
	r->mark_count--;
	memmove(&r->marks[i], &r->marks[i + 1], (r->mark_count - i) * sizeof *r->marks);
	return state;
}

static void give_up_marks(struct recurrent *r, size_t beyond)
{
	while (r->mark_count && r->marks[r->mark_count - 1].position > beyond)
		context_give(r->budget, take_out(r, r->mark_count - 1), r->bytes);
}

void recurrent_free(struct recurrent *r)
{
	recurrent_rollback(r, 1, 0);
}

int recurrent_reserve(struct recurrent *r, struct err *e)
{
	if (!r->bytes || r->now)
		return 0;
	r->now = context_take(r->budget, r->bytes, e);
	return r->now ? 0 : -e->code;
}

/* The mark that is missed least: around it the distance between its neighbours, over how far back
 * it lies, is the smallest. So marks thin out with their distance from the end. */
static uint32_t least_missed(const struct recurrent *r, size_t end)
{
	uint32_t least = 0;
	double least_gap = 0;
	for (uint32_t i = 0; i < r->mark_count; i++) {
		size_t before = i ? r->marks[i - 1].position : 0;
		size_t after = i + 1 < r->mark_count ? r->marks[i + 1].position : end;
		double gap = (double)(after - before) / (double)(end - r->marks[i].position);
		if (i == 0 || gap < least_gap) {
			least = i;
			least_gap = gap;
		}
	}
	return least;
}

void recurrent_mark(struct recurrent *r, size_t position)
{
	struct err no_room;
	if (!r->now || r->spoiled || !position)
		return;
	give_up_marks(r, position);
	if (r->mark_count && r->marks[r->mark_count - 1].position == position)
		return;
	float *state = NULL;
	if (r->mark_count < RECURRENT_MARKS)
		state = context_take(r->budget, r->bytes, &no_room);
	if (!state && r->mark_count)
		state = take_out(r, least_missed(r, position));
	if (!state)
		return;
	memcpy(state, r->now, r->bytes);
	r->marks[r->mark_count++] = (struct recurrent_mark){position, r->behind, state};
}

bool recurrent_yield(struct recurrent *r, size_t position)
{
	if (!r->mark_count)
		return false;
	context_give(r->budget, take_out(r, least_missed(r, position + 1)), r->bytes);
	return true;
}

size_t recurrent_rollback(struct recurrent *r, size_t from, size_t to)
{
	if (!r->bytes)
		return to;
	if (to && !r->spoiled && from - to <= r->behind) {
		r->behind -= (uint32_t)(from - to);
		give_up_marks(r, to);
		return to;
	}
	give_up_marks(r, to);
	r->spoiled = false;
	if (r->mark_count) {
		const struct recurrent_mark *last = &r->marks[r->mark_count - 1];
		memcpy(r->now, last->state, r->bytes);
		r->behind = last->behind;
		return last->position;
	}
	context_give(r->budget, r->now, r->bytes);
	r->now = NULL;
	r->behind = 0;
	return 0;
}
