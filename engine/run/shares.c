/* See shares.h. The rule is start-time fair queueing (Goyal, Vin, Cheng 1996) with three flows,
 * extended by `ahead`, which lets a higher flow go first within a limit. */
#include "engine/run/shares.h"

static void shares_move_clock(struct shares *s, const bool waits[SESSION_PRIORITIES])
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < SESSION_PRIORITIES; i++)
		if (waits[i] && s->waited[i] && s->used[i] < least)
			least = s->used[i];
	if (least != UINT64_MAX && least > s->clock)
		s->clock = least;
	for (int i = 0; i < SESSION_PRIORITIES; i++) {
		if (waits[i] && !s->waited[i] && s->used[i] < s->clock)
			s->used[i] = s->clock;
		s->waited[i] = waits[i];
	}
}

enum session_priority shares_next(struct shares *s, const bool waits[SESSION_PRIORITIES],
				  uint64_t ahead)
{
	int next = SESSION_LOW;
	/* largest count that is not too far ahead of a lower priority */
	uint64_t most = UINT64_MAX;
	shares_move_clock(s, waits);
	for (int i = SESSION_LOW; i < SESSION_PRIORITIES; i++) {
		if (!waits[i])
			continue;
		if (s->used[i] <= most)
			next = i;
		if (s->used[i] + ahead < most)
			most = s->used[i] + ahead;
	}
	return (enum session_priority)next;
}

uint32_t shares_weight(enum session_priority priority)
{
	static const uint32_t weights[SESSION_PRIORITIES] = {
		[SESSION_LOW] = 4, [SESSION_NORMAL] = 2, [SESSION_HIGH] = 1};
	return weights[priority];
}

void shares_count(struct shares *s, enum session_priority priority, uint32_t rows)
{
	s->used[priority] += (uint64_t)rows * shares_weight(priority);
}
