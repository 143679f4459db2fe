/* Where the time of a token's threads goes, seen from outside: the linker replaces functions of the
 * engine by those of timeline.c (--wrap in the Makefile), so the engine itself reads no clock.
 * While a timeline is kept, each piece of a loop costs two readings of a clock. */
#ifndef MOEFS_TESTS_BENCH_TIMELINE_H
#define MOEFS_TESTS_BENCH_TIMELINE_H

#include "tests/bench/bench.h"

/* Keeps the timeline of the calling thread's loops and of what this thread does between them, with
 * `threads` compute threads, the calling one among them. */
void timeline_begin(uint32_t threads);
/* After this many tokens. */
void timeline_end(uint32_t tokens);
/* Two tables: all of a token's time in classes, and its loops. */
void timeline_report(struct report *r);

#endif
