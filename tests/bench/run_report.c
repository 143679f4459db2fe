#include "tests/bench/run.h"

#include "engine/compute/recurrent.h"
#include "tests/bench/timeline.h"

#include <stdio.h>

/* ---- a token's work ---- */

struct run_work run_work_of(const struct run *r)
{
	const struct model_view *m = &r->view;
	const struct config *c = m->config;
	const struct plan *p = m->plan;
	struct run_work w = {
		.state_bytes = 2. * sizeof(float) * (double)recurrent_moved_floats(c),
		.key_bytes = (double)r->context.kv[KV_WHOLE].used / KV_BLOCK,
		.window = c->window,
		.window_bytes = (double)r->context.kv[KV_WINDOWED].used / KV_BLOCK,
	};
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		if (t->draft)
			continue;
		if (role_is_table(t->id.role)) /* one row of it, from the page cache */
			continue;
		w.dense_bytes += (double)format_arranged_bytes(&t->shape);
		if (t->id.role != TENSOR_HEAD)
			w.operations += 2.0 * t->shape.rows * t->shape.cols;
	}
	for (uint32_t layer = 0; layer < run_routed_layers(m); layer++)
		for (uint32_t i = p->first_part; i < EXPERT_PARTS; i++) {
			const struct shape *s = &p->record[layer].part[i];
			w.expert_bytes +=
				(double)c->experts_per_token * (double)format_arranged_bytes(s);
			w.operations += 2. * c->experts_per_token * s->rows * s->cols;
		}
	return w;
}

/* What a token of a phase reads and writes in the mean. */
static double bytes_of(const struct run_work *w, const struct phase *p)
{
	double before = p->position + (p->tokens - 1) / 2.;
	double seen = before < w->window ? before : w->window;
	return w->dense_bytes + w->expert_bytes + w->state_bytes + before * w->key_bytes +
	       seen * w->window_bytes;
}

/* ---- facts ---- */

void run_report_facts(struct run *r, struct report *report, const struct run_work *w)
{
	static const struct {
		enum model_fact fact;
		const char *key;
	} facts[] = {
		{FACT_ARCHITECTURE, "architecture"},
		{FACT_LAYERS, "layers"},
		{FACT_EXPERTS, "experts"},
		{FACT_EXPERTS_PER_TOKEN, "experts_per_token"},
		{FACT_FORMAT, "recipe"},
		{FACT_CPU_KERNELS, "kernels"},
	};
	char text[256];
	report_text(report, "model", "model", model_name(r->model));
	for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
		model_fact(r->model, facts[i].fact, text, sizeof text);
		report_text(report, facts[i].key, facts[i].key, text);
	}
	report_number(report, "threads", "threads", (double)r->effort.threads, 0);
	report_number(report, "load_seconds", "load, seconds", r->load_seconds, 2);
	report_text(report, "resident", "experts in memory",
		    r->all_resident ? "all, before the first round" : "as the budget allows");
	report_number(report, "dense_mb_per_token", "dense weights per token, MB",
		      w->dense_bytes * 1e-6, 1);
	report_number(report, "expert_mb_per_token", "experts per token, MB",
		      w->expert_bytes * 1e-6, 1);
	report_number(report, "state_mb_per_token", "recurrent states per token, MB",
		      w->state_bytes * 1e-6, 1);
	report_number(report, "key_kb_per_position", "keys and values per position, KB",
		      (w->key_bytes + w->window_bytes) * 1e-3, 1);
	report_number(report, "gop_per_token", "GOP per token of a prompt", w->operations * 1e-9,
		      3);
	struct pager_stats pager;
	engine_cache_stats(r->engine, &pager);
	report_number(report, "io_depth", "reads in flight at most, in the end", pager.depth, 0);
}

/* ---- tables ---- */

/* A phase in the first round, or in all the others. */
struct reported {
	const struct phase *phase;
	uint32_t index;	     /* of the phase */
	size_t first, count; /* of the rounds */
};

/* Medians over a row's rounds of what the phase did per second, and as shares of the ceilings and
 * of the first decode of the same round. */
static void report_speed(struct table *t, const struct run_work *w, const struct round *rounds,
			 const struct reported *row)
{
	double rate[ROUNDS_MOST], share[ROUNDS_MOST], other[ROUNDS_MOST], delta[ROUNDS_MOST];
	const struct phase *p = row->phase;
	bool prefill = row->index == PREFILL;
	for (size_t i = 0; i < row->count; i++) {
		const struct round *o = &rounds[row->first + i];
		double seconds = o->seconds[row->index], bytes = bytes_of(w, p);
		double ceiling = prefill ? o->ceiling.int8 : o->ceiling.memory;
		rate[i] = p->tokens / seconds;
		share[i] = ceiling > 0 ? 100 * rate[i] * (prefill ? w->operations : bytes) / ceiling
				       : 0;
		delta[i] = 100 * o->delta[row->index] / seconds;
		other[i] =
			prefill ? 1e3 * o->seconds[PREFILL] : 100 * o->seconds[FIRST_DECODE] / seconds;
	}
	struct summary rates = summarise(rate, row->count), shares = summarise(share, row->count),
		       others = summarise(other, row->count), deltas = summarise(delta, row->count);
	table_summary(t, &rates);
	if (prefill) {
		table_summary(t, &others);
		table_summary(t, &shares);
		table_none(t);
		table_none(t);
	} else {
		table_none(t);
		table_none(t);
		if (p->rows == 1)
			table_summary(t, &shares);
		else
			table_none(t); /* which experts several rows share is not counted */
		table_summary(t, &others);
	}
	if (w->state_bytes > 0 && !own_time) /* that goes by the clock */
		table_summary(t, &deltas);
	else
		table_none(t);
}

/* Means: a token's share of what all the row's rounds did. */
static void report_experts(struct table *t, const struct round *rounds, const struct reported *row)
{
	double tokens = (double)row->count * row->phase->tokens;
	double hits = 0, misses = 0, bytes = 0, wait = 0, seconds = 0, possible = 0;
	double prefetched = 0, came_true = 0;
	for (size_t i = 0; i < row->count; i++) {
		const struct round *o = &rounds[row->first + i];
		hits += (double)o->pager[row->index].hits;
		misses += (double)o->pager[row->index].misses;
		bytes += (double)o->pager[row->index].bytes_read;
		wait += (double)o->pager[row->index].wait_ns * 1e-9;
		prefetched += (double)o->pager[row->index].prefetched;
		came_true += (double)o->pager[row->index].prefetch_hits;
		seconds += o->seconds[row->index];
		possible += o->seconds[row->index] * o->ceiling.disk;
	}
	table_number(t, hits / tokens);
	table_number(t, misses / tokens);
	table_number(t, bytes / tokens * 1e-6);
	table_number(t, 100 * wait / seconds);
	if (possible > 0)
		table_number(t, 100 * bytes / possible);
	else
		table_none(t);
	table_number(t, prefetched / tokens);
	table_number(t, came_true / tokens);
}

static void report_phases(const struct run *r, struct report *report, const struct run_work *w,
			  const struct round *rounds)
{
	static const struct column columns[] = {
		{"rounds", "rounds", -1},
		{"phase", "phase", -1},
		{"tokens", "tokens", 0},
		{"position", "from", 0},
		{"tokens_per_s", "tokens/s", 1},
		{"first_token_ms", "first token, ms", 1},
		{"int8_percent", "% of int8", 1},
		{"memory_percent", "% of memory", 1},
		{"decode_percent", "% of decode", 1},
		{"delta_percent", "% in delta nets", 1},
		{"hits_per_token", "hits", 2},
		{"misses_per_token", "misses", 2},
		{"disk_mb_per_token", "disk MB", 2},
		{"wait_percent", "% waiting", 1},
		{"disk_percent", "% of disk", 1},
		{"prefetched_per_token", "prefetched", 2},
		{"prefetch_hits_per_token", "in time", 2},
	};
	struct table t;
	table_begin(&t, report, "phases", "medians (least-most); experts and disk per token",
		    columns, sizeof columns / sizeof *columns);
	for (uint32_t i = 0; i < 2 * r->phases; i++) {
		bool first = i < r->phases;
		uint32_t index = i % r->phases;
		const struct phase *p = &r->phase[index];
		struct reported row = {p, index, first ? 0 : 1, first ? 1 : r->effort.rounds};
		table_text(&t, first ? "first" : "others");
		table_text(&t, p->name);
		table_number(&t, p->tokens);
		table_number(&t, p->position);
		report_speed(&t, w, rounds, &row);
		report_experts(&t, rounds, &row);
	}
	table_end(&t);
}

static void report_ceilings(const struct run *r, struct report *report, const struct round *rounds)
{
	static const struct column columns[] = {
		{"read_gb_per_s", "read GB/s", 1},
		{"int8_gop_per_s", "int8 GOP/s", 0},
		{"disk_gb_per_s", "disk GB/s", 2},
	};
	struct table t;
	double memory[ROUNDS_MOST], int8[ROUNDS_MOST], disk[ROUNDS_MOST];
	for (size_t i = 0; i < r->effort.rounds; i++) {
		memory[i] = rounds[i + 1].ceiling.memory * 1e-9;
		int8[i] = rounds[i + 1].ceiling.int8 * 1e-9;
		disk[i] = rounds[i + 1].ceiling.disk * 1e-9;
	}
	struct summary memories = summarise(memory, r->effort.rounds),
		       int8s = summarise(int8, r->effort.rounds),
		       disks = summarise(disk, r->effort.rounds);
	table_begin(&t, report, "ceilings",
		    "ceilings of the same rounds, all threads (0: not measured)", columns, 3);
	table_summary(&t, &memories);
	table_summary(&t, &int8s);
	table_summary(&t, &disks);
	table_end(&t);
}

int run_report(struct run *r, const struct round *rounds, struct err *e)
{
	struct report report;
	struct run_work w = run_work_of(r);
	report_begin(&report, "run", r->effort.json);
	run_report_facts(r, &report, &w);
	report_number(&report, "longest_step", "longest step of the prompt, tokens",
		      r->longest_step, 0);
	report_number(&report, "peak_memory_mib", "peak memory, MiB", r->peak_mib, 0);
	report_phases(r, &report, &w, rounds);
	report_ceilings(r, &report, rounds);
	if (r->timeline || r->prompt_timeline)
		timeline_report(&report);
	return report_end(&report, e);
}
