/* moefs-bench pager in parts: pager.c replays a trace, pager_report.c prints the results;
 * pager_forecast.c says what routers would have forecast. */
#ifndef MOEFS_TESTS_BENCH_PAGER_REPLAY_H
#define MOEFS_TESTS_BENCH_PAGER_REPLAY_H

#include "cache/pager.h"
#include "tests/bench/bench.h"
#include "tests/bench/trace.h"

struct replay {
	struct effort effort;
	const char *trace_path, *store_path, *policy;
	const char *forecast; /* NULL: nothing is; "ranks", or "all": without them */
	uint64_t budget, compute_us;
	uint64_t random; /* of the round that is continuing */

	struct trace trace;
	struct store *store;
	const struct store_info *info;
	uint32_t layers; /* that are replayed: the trace's first ones, as many as the store has */
	double *waits[TRACE_PHASES]; /* [trace.visit_count] of the round that is continuing */
	struct pager_stats last;     /* of the pool, at the end of the last round */
};

/* What one phase of one round did. */
struct replay_phase {
	uint64_t hits, misses, bytes_read, prefetched, prefetch_hits;
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

/* pager_forecast.c: while visit `at` is under way, forecasts the next two layers. */
void replay_forecast(struct replay *r, struct pager_source *source, size_t at);

/* rounds[r->effort.rounds] */
int replay_report(const struct replay *r, const struct replay_round *rounds, struct err *e);

#endif
