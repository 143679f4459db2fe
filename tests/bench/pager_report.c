#include "tests/bench/pager_replay.h"

#include <math.h>

enum { PAGE = 4096 };

static void report_facts(const struct replay *r, struct report *report)
{
	double experts = (double)r->layers * r->trace.experts;
	uint64_t slot = (r->info->record_bytes + PAGE - 1) / PAGE * PAGE;
	double fit = floor((double)r->last.budget / (double)slot);
	report_text(report, "trace", "trace", r->trace_path);
	report_text(report, "store", "store", r->store_path);
	report_text(report, "policy", "policy", r->policy ? r->policy : "the pager's own");
	report_text(report, "forecast", "forecasts", r->forecast ? r->forecast : "none");
	report_number(report, "compute_us", "microseconds of computing, a layer",
		      (double)r->compute_us, 0);
	report_text(report, "io", "reads by", r->last.io);
	report_number(report, "turns", "turns", (double)r->trace.turns, 0);
	report_number(report, "trace_layers", "layers of the trace", r->trace.layers, 0);
	report_number(report, "layers", "layers replayed, the first", r->layers, 0);
	report_number(report, "experts", "experts of a layer", r->trace.experts, 0);
	report_number(report, "record_bytes", "bytes of an expert", (double)r->info->record_bytes,
		      0);
	report_number(report, "budget_mib", "budget, MiB", (double)r->last.budget * 0x1p-20, 1);
	report_number(report, "slots", "experts that fit", fit, 0);
	report_number(report, "slots_percent", "% of the replayed layers' experts",
		      fit < experts ? 100 * fit / experts : 100, 1);
}

/* ---- phases ---- */

/* What is known of a phase of one round, in the order of the table's columns. */
enum figure {
	HIT_PERCENT,
	MISSES,
	DISK_MB,
	AHEAD,
	AHEAD_USED,
	STALL_MS,
	WAIT_MEDIAN,
	WAIT_95,
	WAIT_MOST,
	DISK_RATE,
	DEVICE_PERCENT,
	TOKEN_RATE,
	FIGURES
};

static void figures(const struct replay *r, const struct replay_round *o, enum trace_phase phase,
		    double f[FIGURES])
{
	const struct replay_phase *p = &o->phase[phase];
	double tokens = (double)r->trace.tokens[phase], bytes = (double)p->bytes_read;
	f[HIT_PERCENT] = 100 * (double)p->hits / (double)(p->hits + p->misses);
	f[MISSES] = (double)p->misses / tokens;
	f[DISK_MB] = bytes * 1e-6 / tokens;
	f[AHEAD] = (double)p->prefetched / tokens;
	f[AHEAD_USED] = (double)p->prefetch_hits / tokens;
	f[STALL_MS] = p->stall * 1e3 / tokens;
	f[WAIT_MEDIAN] = p->wait_median * 1e3;
	f[WAIT_95] = p->wait_95 * 1e3;
	f[WAIT_MOST] = p->wait_most * 1e3;
	f[DISK_RATE] = bytes * 1e-9 / p->seconds;
	f[DEVICE_PERCENT] = o->device > 0 ? 100 * bytes / p->seconds / o->device : NAN;
	f[TOKEN_RATE] = tokens / p->seconds;
}

static void report_phase(struct table *t, const struct replay *r, const struct replay_round *rounds,
			 enum trace_phase phase)
{
	double f[ROUNDS_MOST][FIGURES], values[ROUNDS_MOST];
	for (uint64_t i = 0; i < r->effort.rounds; i++)
		figures(r, &rounds[i], phase, f[i]);
	for (enum figure k = 0; k < FIGURES; k++) {
		bool known = true;
		for (uint64_t i = 0; i < r->effort.rounds; i++) {
			values[i] = f[i][k];
			known = known && isfinite(values[i]);
		}
		struct summary s = summarise(values, r->effort.rounds);
		if (known)
			table_summary(t, &s);
		else
			table_none(t);
	}
}

static void report_phases(const struct replay *r, struct report *report,
			  const struct replay_round *rounds)
{
	static const char *const names[] = {
		[TRACE_PROMPT] = "prompt",
		[TRACE_ANSWER] = "answer",
	};
	static const struct column columns[2 + FIGURES] = {
		{"phase", "phase", -1},
		{"tokens", "tokens", 0},
		[2 + HIT_PERCENT] = {"hit_percent", "% hits", 1},
		[2 + MISSES] = {"misses_per_token", "misses", 1},
		[2 + DISK_MB] = {"disk_mb_per_token", "disk MB", 1},
		[2 + AHEAD] = {"prefetched_per_token", "prefetched", 1},
		[2 + AHEAD_USED] = {"prefetch_hits_per_token", "in time", 1},
		[2 + STALL_MS] = {"stall_ms_per_token", "stall ms", 2},
		[2 + WAIT_MEDIAN] = {"wait_ms_median", "batch ms, median", 2},
		[2 + WAIT_95] = {"wait_ms_95", "95 %", 2},
		[2 + WAIT_MOST] = {"wait_ms_most", "most", 2},
		[2 + DISK_RATE] = {"disk_gb_per_s", "disk GB/s", 2},
		[2 + DEVICE_PERCENT] = {"device_percent", "% of device", 0},
		[2 + TOKEN_RATE] = {"tokens_per_s", "tokens/s", 1},
	};
	struct table t;
	table_begin(&t, report, "phases",
		    "medians (least-most) of the rounds; misses, disk and stall per token; batches "
		    "that missed",
		    columns, sizeof columns / sizeof *columns);
	for (enum trace_phase i = 0; i < TRACE_PHASES; i++) {
		if (!r->trace.tokens[i])
			continue;
		table_text(&t, names[i]);
		table_number(&t, (double)r->trace.tokens[i]);
		report_phase(&t, r, rounds, i);
	}
	table_end(&t);
}

static void report_device(const struct replay *r, struct report *report,
			  const struct replay_round *rounds)
{
	static const struct column columns[] = {{"device_gb_per_s", "device GB/s", 2}};
	double rate[ROUNDS_MOST];
	struct table t;
	for (uint64_t i = 0; i < r->effort.rounds; i++)
		rate[i] = rounds[i].device * 1e-9;
	struct summary s = summarise(rate, r->effort.rounds);
	table_begin(&t, report, "device", "the device by itself, beside the same rounds", columns,
		    1);
	if (s.least > 0)
		table_summary(&t, &s);
	else
		table_none(&t);
	table_end(&t);
}

int replay_report(const struct replay *r, const struct replay_round *rounds, struct err *e)
{
	struct report report;
	report_begin(&report, "pager", r->effort.json);
	report_facts(r, &report);
	report_phases(r, &report, rounds);
	report_device(r, &report, rounds);
	return report_end(&report, e);
}
