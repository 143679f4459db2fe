/* Shares of priorities in rows: which priority is next while sessions of several wait.
 *
 * High comes first, then normal, then low, but no priority waits forever. A row counts 1 for high,
 * 2 for normal and 4 for low, and a higher priority may be at most `ahead` of a lower one that
 * waits. So while all three wait, 7 rows are 4, 2 and 1; and before the next row of low there are
 * at most, for each of the other two, the rows that count `ahead` plus what low's last rows count,
 * and one more step. Idle time is not saved up: a priority that begins to wait starts with the
 * count of the waiting priority that has had the least.
 *
 * No thread safety: the run's lock.
 */
#ifndef MOEFS_ENGINE_RUN_SHARES_H
#define MOEFS_ENGINE_RUN_SHARES_H

#include "engine/session.h"

struct shares { /* zero-initialise */
	uint64_t used[SESSION_PRIORITIES];
	uint64_t clock; /* the least used of those that waited, at the last shares_next */
	bool waited[SESSION_PRIORITIES]; /* at the last shares_next */
};

/* Returns the priority that is next; at least one waits. */
enum session_priority shares_next(struct shares *s, const bool waits[SESSION_PRIORITIES],
				  uint64_t ahead);
/* What a row of this priority counts: 1, 2 or 4. */
uint32_t shares_weight(enum session_priority priority);
/* Counts rows that sessions of this priority have got. */
void shares_count(struct shares *s, enum session_priority priority, uint32_t rows);

#endif
