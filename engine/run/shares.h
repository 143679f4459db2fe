/* Divides rows among priorities: which priority is next if sessions of several priorities wait.
 *
 * High comes first, then normal, then low, but no priority waits forever. Each priority has a
 * count: a row adds 1 for high, 2 for normal and 4 for low. A higher priority's count may exceed
 * that of a lower, waiting one by at most `ahead`. So while all three wait, 7 rows are divided into
 * 4, 2 and 1. Before the next row of low, each of the other two may add at most `ahead`, plus the
 * count of low's last rows, plus one step. Idle time is not saved up: a priority that begins to
 * wait starts with the smallest count of the waiting priorities.
 *
 * No thread safety: the run's lock.
 */
#ifndef MOEFS_ENGINE_RUN_SHARES_H
#define MOEFS_ENGINE_RUN_SHARES_H

#include "engine/session.h"

struct shares { /* zero-initialise */
	uint64_t used[SESSION_PRIORITIES];
	uint64_t clock; /* smallest count among waiting priorities at the last shares_next */
	bool waited[SESSION_PRIORITIES]; /* at the last shares_next */
};

/* Returns the next priority. At least one priority waits. */
enum session_priority shares_next(struct shares *s, const bool waits[SESSION_PRIORITIES],
				  uint64_t ahead);
/* What a row of this priority adds to its count: 1, 2 or 4. */
uint32_t shares_weight(enum session_priority priority);
/* Adds rows to a priority's count. */
void shares_count(struct shares *s, enum session_priority priority, uint32_t rows);

#endif
