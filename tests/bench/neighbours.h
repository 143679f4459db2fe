/* Busy neighbours: processes that do nothing but use their core, one per core, to see what is left
 * of a speed beside them. */
#ifndef MOEFS_TESTS_BENCH_NEIGHBOURS_H
#define MOEFS_TESTS_BENCH_NEIGHBOURS_H

#include "cache/err.h"

#include <stdint.h>
#include <sys/types.h>

struct neighbours {
	uint32_t count;
	pid_t *process;
};

/* Makes them, asleep. Call it while the process has one thread. */
int neighbours_create(struct neighbours *n, uint32_t count, struct err *e);
void neighbours_wake(const struct neighbours *n);
void neighbours_rest(const struct neighbours *n);
void neighbours_end(struct neighbours *n);

#endif
