/* The share of delta nets in a forward pass's time, measured from outside: the linker replaces the
 * engine's functions by those of this file (--wrap in the Makefile), so the engine itself reads no
 * clock and is the one that is mounted. Two readings of a clock per call are all that it costs. */
#ifndef MOEFS_TESTS_BENCH_SPENT_H
#define MOEFS_TESTS_BENCH_SPENT_H

/* Seconds that the calling thread has spent in delta nets other than in their projections: the
 * convolution, the gates, the recurrence and the gated norm, waiting for the other threads of these
 * loops included. */
double spent_in_delta_nets(void);

#endif
