/* moefs-bench pager: replays the routing of a real model against a real store on a real disk.
 *
 * The pager is the engine's, without a model: each visit of the trace is one batch, whose experts
 * are copied into their slots and given back at once, credited as in the trace, or after the time
 * that a layer is said to compute. This isolates the cache: hits, bytes, and the time spent waiting
 * for the disk.
 *
 * Each round begins with an empty pool and lies between two measurements of the device by itself.
 */
#include "tests/bench/pager_replay.h"

#include "tests/bench/disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- what is replayed ---- */

/* A trace of more layers than the store has is cut to the first ones. Its layers are never mapped
 * onto each other, which would make them share experts and hit more than any model does. */
static int fit(struct replay *r, struct err *e)
{
	r->info = store_info(r->store);
	if (!r->info->record_bytes)
		return err_set(e, EINVAL, "%s: this store has no experts", r->store_path);
	if (r->trace.experts > r->info->experts)
		return err_set(e, EINVAL,
			       "%s has %u experts in a layer, but %s only %u: replay it on a store "
			       "of that geometry (moefs-bench make)",
			       r->trace_path, r->trace.experts, r->store_path, r->info->experts);
	r->layers = r->trace.layers < r->info->layers ? r->trace.layers : r->info->layers;
	return 0;
}

static int open_both(struct replay *r, struct err *e)
{
	static const char *const missing[] = {"--trace FILE", "--store STORE", "--budget BYTES"};
	const bool given[] = {r->trace_path, r->store_path, r->budget};
	for (size_t i = 0; i < sizeof given; i++)
		if (!given[i])
			return err_set(e, EINVAL, "%s is missing; see moefs-bench pager --help",
				       missing[i]);
	int failed = store_open(&r->store, r->store_path, NULL, e);
	if (!failed)
		failed = trace_read(&r->trace, r->trace_path, e);
	if (!failed)
		failed = fit(r, e);
	if (!failed && r->forecast && strcmp(r->forecast, "ranks") && strcmp(r->forecast, "all"))
		failed = err_set(e, EINVAL, "--forecast is ranks or all, not %s", r->forecast);
	if (failed)
		return failed;
	for (uint32_t i = 0; i < TRACE_PHASES; i++) {
		r->waits[i] = calloc(r->trace.visit_count, sizeof *r->waits[i]);
		if (!r->waits[i])
			return err_set(e, ENOMEM, "out of memory for %zu batches",
				       r->trace.visit_count);
	}
	return 0;
}

/* ---- the device by itself ---- */

enum { CEILING_DEPTH = 4, CEILING_RECORD_MOST = 16 << 20 };

/* Records at random places of the store; 0 where they cannot be read past the page cache. */
static double device_rate(const struct replay *r)
{
	struct store_extent x = store_expert(r->store, 0, 0);
	struct stat file;
	double rate;
	uint64_t record = (x.bytes + DISK_ALIGN - 1) / DISK_ALIGN * DISK_ALIGN;
	if (record > CEILING_RECORD_MOST)
		record = CEILING_RECORD_MOST;
	if (x.direct_fd < 0 || fstat(x.direct_fd, &file))
		return 0;
	const struct disk disk = {x.direct_fd, (uint64_t)file.st_size};
	bool failed =
		disk_read(&disk, (uint32_t)record, CEILING_DEPTH, r->effort.seconds, &rate, NULL);
	return failed ? 0 : rate;
}

/* ---- a round ---- */

struct pool {
	struct pager *pager;
	struct pager_source *source;
};

static void copy_record(void *ctx, uint32_t layer, void *slot, const void *record)
{
	const struct replay *r = ctx;
	memcpy(slot, record, store_record_bytes(r->store, layer));
}

static int pool_open(struct pool *p, struct replay *r, struct err *e)
{
	const struct pager_supply supply = {
		.store = r->store,
		.slot_bytes = r->info->record_bytes,
		.arrange = copy_record,
		.ctx = r,
	};
	int failed = pager_create(&p->pager, r->budget, e);
	if (!failed && r->policy)
		failed = pager_set_policy(p->pager, r->policy, e);
	return failed ? failed : pager_add(p->pager, &p->source, &supply, e);
}

static void pool_close(struct pool *p)
{
	if (p->source)
		pager_remove(p->source);
	if (p->pager)
		pager_destroy(p->pager);
}

/* The time in which a model would compute. */
static void compute(const struct replay *r)
{
	const struct timespec pause = {.tv_sec = (time_t)(r->compute_us / 1000000),
				       .tv_nsec = (long)(r->compute_us % 1000000 * 1000)};
	if (r->compute_us)
		(void)nanosleep(&pause, NULL);
}

static int run_batch(struct replay *r, const struct pool *p, size_t at, struct err *e)
{
	const struct trace *t = &r->trace;
	const struct trace_visit *v = &t->visits[at];
	enum { AT_ONCE = 16 };
	struct pager_ready ready[AT_ONCE];
	struct pager_batch batch;
	int got = pager_begin(&batch, p->source, v->layer, t->expert + v->first,
			      t->credit + v->first, v->count, at, e);
	if (got < 0)
		return got;
	if (r->forecast)
		replay_forecast(r, p->source, at);
	compute(r);
	int failed = 0;
	while ((got = pager_next(&batch, ready, AT_ONCE, e)) > 0)
		for (int i = 0; i < got; i++) {
			if (ready[i].error) {
				*e = *ready[i].error;
				failed = -e->code;
			}
			pager_put(&batch, &ready[i]);
		}
	pager_end(&batch);
	return failed ? failed : got;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void summarise_waits(struct replay_phase *o, double *waits)
{
	size_t n = o->late;
	if (!n)
		return;
	qsort(waits, n, sizeof *waits, by_value);
	o->wait_median = waits[n / 2];
	o->wait_95 = waits[n - 1 - n / 20];
	o->wait_most = waits[n - 1];
}

static int run_visit(struct replay *r, const struct pool *p, size_t at, struct replay_phase *o,
		     struct err *e)
{
	const struct trace_visit *v = &r->trace.visits[at];
	struct pager_stats before, after;
	pager_source_stats(p->source, &before);
	double begun = seconds_now();
	int failed = run_batch(r, p, at, e);
	double passed = seconds_now() - begun;
	pager_source_stats(p->source, &after);
	o->hits += after.hits - before.hits;
	o->misses += after.misses - before.misses;
	o->prefetched += after.prefetched - before.prefetched;
	o->prefetch_hits += after.prefetch_hits - before.prefetch_hits;
	o->bytes_read += after.bytes_read - before.bytes_read;
	o->stall += (double)(after.wait_ns - before.wait_ns) * 1e-9;
	o->seconds += passed;
	if (after.misses > before.misses)
		r->waits[v->phase][o->late++] = passed;
	return failed;
}

static int run_round(struct replay *r, struct replay_round *o, struct err *e)
{
	struct pool p = {0};
	int failed = pool_open(&p, r, e);
	r->random = 1;
	for (size_t i = 0; i < r->trace.visit_count && !failed; i++) {
		const struct trace_visit *v = &r->trace.visits[i];
		if (v->layer < r->layers)
			failed = run_visit(r, &p, i, &o->phase[v->phase], e);
	}
	for (uint32_t i = 0; i < TRACE_PHASES; i++)
		summarise_waits(&o->phase[i], r->waits[i]);
	if (!failed)
		pager_stats(p.pager, &r->last);
	pool_close(&p);
	return failed;
}

/* Each round is between two measurements of the device, of which the larger counts: another
 * process's reads lower its speed for a moment, and nothing raises it. */
static int measure(struct replay *r, struct replay_round *rounds, struct err *e)
{
	int failed = 0;
	double before = device_rate(r);
	for (uint64_t i = 0; i < r->effort.rounds && !failed; i++) {
		failed = run_round(r, &rounds[i], e);
		double after = device_rate(r);
		rounds[i].device = before > after ? before : after;
		before = after;
	}
	return failed;
}

/* ---- the command ---- */

static int replay(struct replay *r, struct err *e)
{
	struct replay_round *rounds = calloc(r->effort.rounds, sizeof *rounds);
	int failed = rounds ? 0 : err_set(e, ENOMEM, "out of memory for rounds");
	if (!failed)
		failed = open_both(r, e);
	if (!failed)
		failed = measure(r, rounds, e);
	if (!failed)
		failed = replay_report(r, rounds, e);
	for (uint32_t i = 0; i < TRACE_PHASES; i++)
		free(r->waits[i]);
	trace_free(&r->trace);
	if (r->store)
		store_close(r->store);
	free(rounds);
	return failed;
}

int pager_command(int argc, char **argv, struct err *e)
{
	struct replay r = {.effort = effort_default()};
	r.effort.rounds = 3;
	r.effort.seconds = .5;
	const struct bench_option options[] = {
		{"trace", OPTION_TEXT, &r.trace_path, 0, 0,
		 "routing of a model, CSV, plain or .zst"},
		{"store", OPTION_TEXT, &r.store_path, 0, 0, "folder with the index of a store"},
		{"budget", OPTION_NUMBER, &r.budget, 1, UINT64_MAX - 1, "bytes for experts"},
		{"policy", OPTION_TEXT, &r.policy, 0, 0, "which expert goes (the pager's own)"},
		{"forecast", OPTION_TEXT, &r.forecast, 0, 0,
		 "forecast two layers: ranks, or all without ranks"},
		{"compute", OPTION_NUMBER, &r.compute_us, 0, 1000000,
		 "microseconds that a layer computes"},
		{"seconds", OPTION_SECONDS, &r.effort.seconds, 0, 0,
		 "of each measurement of the device"},
		{"rounds", OPTION_NUMBER, &r.effort.rounds, 1, ROUNDS_MOST,
		 "replays, each from an empty pool"},
		{"json", OPTION_FLAG, &r.effort.json, 0, 0, "one JSON object instead of tables"},
	};
	const struct command_line line = {"pager --trace FILE --store STORE --budget BYTES",
					  options, sizeof options / sizeof *options, NULL, 0};
	int failed = command_line_parse(&line, argc, argv, e);
	return failed ? failed : replay(&r, e);
}
