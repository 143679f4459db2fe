/* moefs-bench pager in two halves: pager.c replays a trace, pager_report.c prints the results. */
#ifndef MOEFS_TESTS_BENCH_PAGER_REPLAY_H
#define MOEFS_TESTS_BENCH_PAGER_REPLAY_H

#include "cache/pager.h"
#include "tests/bench/bench.h"
#include "tests/bench/trace.h"

struct replay {
	struct effort effort;
	const char *trace_path, *store_path, *policy;
	uint64_t budget;

	struct trace trace;
	struct store *store;
	const struct store_info *info;
	uint32_t layers; /* that are replayed: the trace's first ones, as many as the store has */
	double *waits[TRACE_PHASES]; /* [trace.visit_count] of the round that is continuing */
	struct pager_stats last;     /* of the pool, at the end of the last round */
};

/* What one phase of one round did. */
struct replay_phase {
	uint64_t hits, misses, bytes_read;
	double seconds; /* of all batches, from beginning to end */
	double stall;	/* of these, waiting for reads as the pager counts it */
	/* Of batches that missed: how many, and their times until the last expert was there. */
	uint64_t late;
	double wait_median, wait_95, wait_most;
};
struct replay_round {
	struct replay_phase phase[TRACE_PHASES];
	double device; /* bytes per second of reads alone, beside this round; 0: not measured */
};

/* rounds[r->effort.rounds] */
int replay_report(const struct replay *r, const struct replay_round *rounds, struct err *e);

#endif
