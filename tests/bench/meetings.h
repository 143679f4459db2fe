/* What it costs that threads meet: a cache line that goes from one core to another, a sleeper that
 * is woken, a loop of the engine's threads with nothing in it. */
#ifndef MOEFS_TESTS_BENCH_MEETINGS_H
#define MOEFS_TESTS_BENCH_MEETINGS_H

#include "tests/bench/bench.h"

/* Adds two tables to the report: of lines and sleepers, and of loops with 1, 2, 4 … threads. */
int meetings_report(struct report *r, const struct effort *effort, struct err *e);

#endif
