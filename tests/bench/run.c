/* moefs-bench run: a model's prefill and decode, in rounds, each beside the ceilings of its moment.
 *
 * It drives the forward pass itself, with tokens that it draws at random, so that counts are exact
 * and no text ends early; a token's time includes choosing the next one. The model's own generation
 * thread only loads the weights and then has nothing to do.
 */
#include "engine/internal.h"
#include "tests/bench/bench.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/neighbours.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CEILING_BYTES = 256 << 20, PAGE = 4096 };

struct run {
	struct effort effort;
	const char *directory, *quant, *store;
	uint64_t prompt, tokens, budget, depth, chunk;
	bool busy;

	struct engine *engine;
	struct model *model;
	struct context context;
	struct neighbours neighbours;
	struct ceiling ceiling;
	uint64_t random;
	double load_seconds, peak_mib;
	bool all_resident;
};

/* What one token reads and computes, by the plan. */
struct work {
	double dense_bytes, expert_bytes; /* of weights, as they lie in memory */
	double operations;		  /* of a prompt's token: without the output head */
};

enum phase { PREFILL, DECODE, DECODE_BESIDE_BUSY, PHASES };

struct round {
	double seconds[PHASES], first_token;
	struct pager_stats pager[PHASES]; /* what the phase added */
	double memory, int8;		  /* bytes and operations per second just before */
};

/* ---- a token's work ---- */

static struct work work_of(const struct model *m)
{
	const struct plan *p = &m->plan;
	double experts = (double)m->config.experts_per_token * p->routed_layers;
	struct work w = {0};
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		if (t->id.role == TENSOR_EMBEDDING) /* one row of it, from the page cache */
			continue;
		w.dense_bytes += (double)format_arranged_bytes(&t->shape);
		if (t->id.role != TENSOR_HEAD)
			w.operations += 2.0 * t->shape.rows * t->shape.cols;
	}
	for (uint32_t i = 0; i < EXPERT_PARTS && p->routed_layers; i++) {
		w.expert_bytes += experts * (double)format_arranged_bytes(&p->part[i]);
		w.operations += experts * 2.0 * p->part[i].rows * p->part[i].cols;
	}
	return w;
}

static double peak_memory_mib(void)
{
	char line[256];
	double kib = 0;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "VmHWM:", 6))
			kib = strtod(line + 6, NULL);
	if (f)
		(void)fclose(f);
	return kib / 1024;
}

/* ---- loading ---- */

static int load_layer(const struct run *r, uint32_t layer, const uint32_t *all, struct err *e)
{
	enum { AT_ONCE = 16 };
	struct pager_ready ready[AT_ONCE];
	struct pager_batch batch;
	int got = pager_begin(&batch, r->model->experts, layer, all, r->model->plan.experts, 0, e);
	if (got < 0)
		return got;
	while ((got = pager_next(&batch, ready, AT_ONCE, e)) > 0)
		for (int i = 0; i < got; i++)
			pager_put(&batch, &ready[i]);
	pager_end(&batch);
	return got;
}

/* Every expert, if the budget holds them all: decode is then measured without a miss. */
static int load_experts(struct run *r, struct err *e)
{
	const struct plan *p = &r->model->plan;
	struct pager_stats stats;
	uint64_t slot = (p->slot_bytes + PAGE - 1) / PAGE * PAGE;
	engine_cache_stats(r->engine, &stats);
	r->all_resident = slot * p->experts * p->routed_layers <= stats.budget;
	if (!p->routed_layers || !r->all_resident)
		return 0;
	uint32_t *all = calloc(p->experts, sizeof *all);
	int failed = all ? 0 : err_set(e, ENOMEM, "out of memory for a list of experts");
	for (uint32_t i = 0; i < p->experts && all; i++)
		all[i] = i;
	for (uint32_t layer = 0; layer < p->routed_layers && !failed; layer++)
		failed = load_layer(r, layer, all, e);
	free(all);
	return failed;
}

static int load(struct run *r, struct err *e)
{
	const struct engine_options options = {
		.budget = r->budget,
		.context_budget = UINT64_C(1) << 60, /* this is not what is measured */
		.threads = (uint32_t)r->effort.threads,
		.chunk = (uint32_t)r->chunk,
		.quant = r->quant,
		.store = r->store,
	};
	double begun = seconds_now();
	int failed = engine_create(&r->engine, &options, e);
	if (!failed)
		failed = model_open(&r->model, r->engine, r->directory, e);
	if (!failed)
		failed = model_wait(r->model, e);
	if (!failed)
		failed = load_experts(r, e);
	r->load_seconds = seconds_now() - begun;
	if (failed)
		return failed;
	uint64_t positions = (r->depth > r->prompt ? r->depth : r->prompt) + r->tokens;
	if (positions > r->model->config.max_positions)
		return err_set(e, ERANGE, "%llu positions are asked for, but the model has %u",
			       (unsigned long long)positions, r->model->config.max_positions);
	context_init(&r->context, &r->engine->context_budget, &r->model->config,
		     r->engine->recipe.exact ? KV_F32 : KV_F16);
	return 0;
}

/* ---- a round ---- */

static uint32_t random_token(struct run *r)
{
	return (uint32_t)(random_u64(&r->random) % r->model->config.vocabulary);
}

/* Keys and values of ±0.5 … 1, whatever their type: arithmetic takes the same time as on real ones,
 * and computing a long context takes longer than measuring at its end. */
static int fill_context(struct run *r, struct err *e)
{
	struct context *x = &r->context;
	uint64_t keep = UINT64_C(0x83ff83ff83ff83ff), set = UINT64_C(0x3800380038003800);
	if (x->type == KV_F32) {
		keep = UINT64_C(0x807fffff807fffff);
		set = UINT64_C(0x3f0000003f000000);
	}
	int failed = context_reserve(x, (uint32_t)(r->depth + r->tokens), e);
	for (uint32_t b = 0; b < x->block_count && !failed; b++) {
		uint64_t *words = (uint64_t *)(void *)x->blocks[b];
		for (size_t i = 0; i < x->block_bytes / sizeof *words; i++)
			words[i] = (random_u64(&r->random) & keep) | set;
	}
	return failed;
}

/* Tokens until the context holds `depth`, as if they had been computed. */
static int skip_to_depth(struct run *r, struct err *e)
{
	int failed = 0;
	while (r->context.tokens.count < r->depth && !failed) {
		uint32_t token = random_token(r);
		failed = token_list_append(&r->context.tokens, &token, 1, e);
	}
	return failed;
}

/* Draws from the last logits, as decoding does, though a random token goes on. */
static void choose(struct run *r)
{
	static const struct sampling greedy = {.top_p = 1};
	sampler_draw(&r->model->sampler, r->model->forward.logits, &greedy,
		     r->context.tokens.count);
}

static int prefill(struct run *r, const uint32_t *prompt, struct err *e)
{
	struct forward *f = &r->model->forward;
	int failed = 0;
	for (uint64_t done = 0, n; done < r->prompt && !failed; done += n) {
		n = r->prompt - done < f->chunk ? r->prompt - done : f->chunk;
		failed = forward_run(f, &r->context, prompt + done, (uint32_t)n,
				     done + n == r->prompt, NULL, e);
	}
	return failed;
}

static int decode(struct run *r, struct err *e)
{
	int failed = 0;
	for (uint64_t i = 0; i < r->tokens && !failed; i++) {
		uint32_t token = random_token(r);
		failed = forward_run(&r->model->forward, &r->context, &token, 1, true, NULL, e);
		choose(r);
	}
	return failed;
}

/* The counters now less those before, to `added`. */
static void count(const struct run *r, struct pager_stats *before, struct pager_stats *added)
{
	struct pager_stats now;
	model_cache_stats(r->model, &now);
	*added = (struct pager_stats){
		.hits = now.hits - before->hits,
		.misses = now.misses - before->misses,
		.bytes_read = now.bytes_read - before->bytes_read,
		.wait_ns = now.wait_ns - before->wait_ns,
	};
	*before = now;
}

static int run_prefill(struct run *r, struct round *o, struct pager_stats *before, struct err *e)
{
	uint32_t *prompt = calloc(r->prompt, sizeof *prompt);
	if (!prompt)
		return err_set(e, ENOMEM, "out of memory for a prompt");
	for (uint64_t i = 0; i < r->prompt; i++)
		prompt[i] = random_token(r);
	double begun = seconds_now();
	int failed = prefill(r, prompt, e);
	o->seconds[PREFILL] = seconds_now() - begun;
	choose(r);
	o->first_token = seconds_now() - begun;
	count(r, before, &o->pager[PREFILL]);
	free(prompt);
	return failed;
}

static int run_decode(struct run *r, enum phase phase, struct round *o, struct pager_stats *before,
		      struct err *e)
{
	size_t at = r->context.tokens.count;
	double begun = seconds_now();
	int failed = decode(r, e);
	o->seconds[phase] = seconds_now() - begun;
	count(r, before, &o->pager[phase]);
	r->context.tokens.count = at; /* the next phase begins there too; blocks stay */
	return failed;
}

static int run_round(struct run *r, struct round *o, struct err *e)
{
	struct pager_stats before;
	bool deep = r->depth > r->prompt;
	model_cache_stats(r->model, &before);
	int failed = deep ? fill_context(r, e) : 0;
	if (!failed)
		failed = run_prefill(r, o, &before, e);
	if (!failed && deep)
		failed = skip_to_depth(r, e);
	if (!failed)
		failed = run_decode(r, DECODE, o, &before, e);
	if (!failed && r->busy) {
		neighbours_wake(&r->neighbours);
		failed = run_decode(r, DECODE_BESIDE_BUSY, o, &before, e);
		neighbours_rest(&r->neighbours);
	}
	context_rollback(&r->context, 0);
	return failed;
}

static int measure_ceilings(const struct run *r, struct round *o, struct err *e)
{
	uint32_t threads = (uint32_t)r->effort.threads;
	int failed = ceiling_read(&r->ceiling, threads, &o->memory, e);
	return failed ? failed : ceiling_peak(&r->ceiling, PEAK_INT8, threads, &o->int8, e);
}

/* rounds[0] is the first round, in which memory still fills and which nothing is averaged with. */
static int measure(struct run *r, struct round *rounds, struct err *e)
{
	int failed = run_round(r, &rounds[0], e);
	r->peak_mib = peak_memory_mib(); /* before there is the memory of the ceilings */
	if (!failed)
		failed = ceiling_open(&r->ceiling, CEILING_BYTES, (uint32_t)r->effort.threads,
				      r->effort.seconds, e);
	if (!failed)
		failed = measure_ceilings(r, &rounds[0], e);
	for (uint64_t i = 1; i <= r->effort.rounds && !failed; i++) {
		failed = measure_ceilings(r, &rounds[i], e);
		if (!failed)
			failed = run_round(r, &rounds[i], e);
	}
	return failed;
}

/* ---- the report ---- */

static void report_facts(struct run *r, struct report *report, const struct work *w)
{
	static const struct {
		enum model_fact fact;
		const char *key;
	} facts[] = {
		{FACT_ARCHITECTURE, "architecture"},
		{FACT_LAYERS, "layers"},
		{FACT_EXPERTS, "experts"},
		{FACT_EXPERTS_PER_TOKEN, "experts_per_token"},
		{FACT_RECIPE, "recipe"},
		{FACT_KERNELS, "kernels"},
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
	report_number(report, "gop_per_token", "GOP per token of a prompt", w->operations * 1e-9,
		      3);
	report_number(report, "peak_memory_mib", "peak memory, MiB", r->peak_mib, 0);
}

struct row {
	const char *name;
	enum phase phase;
	size_t first, count; /* of the rounds */
};

/* Medians over a row's rounds of what the phase did per second, and as shares of the ceilings. */
static void report_speed(const struct run *r, struct table *t, const struct work *w,
			 const struct round *rounds, const struct row *row)
{
	double rate[ROUNDS_MOST], memory[ROUNDS_MOST], int8[ROUNDS_MOST], first[ROUNDS_MOST];
	double tokens = (double)(row->phase == PREFILL ? r->prompt : r->tokens);
	for (size_t i = 0; i < row->count; i++) {
		const struct round *o = &rounds[row->first + i];
		rate[i] = tokens / o->seconds[row->phase];
		memory[i] = 100 * rate[i] * (w->dense_bytes + w->expert_bytes) / o->memory;
		int8[i] = o->int8 > 0 ? 100 * rate[i] * w->operations / o->int8 : 0;
		first[i] = 1e3 * o->first_token;
	}
	struct summary rates = summarise(rate, row->count),
		       memories = summarise(memory, row->count),
		       int8s = summarise(int8, row->count), firsts = summarise(first, row->count);
	table_summary(t, &rates);
	if (row->phase == PREFILL) {
		table_summary(t, &firsts);
		table_none(t);
		table_summary(t, &int8s);
	} else {
		table_none(t);
		table_summary(t, &memories);
		table_none(t);
	}
}

/* Means: a token's share of what all the row's rounds did. */
static void report_experts(const struct run *r, struct table *t, const struct round *rounds,
			   const struct row *row)
{
	double tokens =
		(double)row->count * (double)(row->phase == PREFILL ? r->prompt : r->tokens);
	double hits = 0, misses = 0, bytes = 0, wait = 0, seconds = 0;
	for (size_t i = 0; i < row->count; i++) {
		const struct round *o = &rounds[row->first + i];
		hits += (double)o->pager[row->phase].hits;
		misses += (double)o->pager[row->phase].misses;
		bytes += (double)o->pager[row->phase].bytes_read;
		wait += (double)o->pager[row->phase].wait_ns * 1e-9;
		seconds += o->seconds[row->phase];
	}
	table_number(t, hits / tokens);
	table_number(t, misses / tokens);
	table_number(t, bytes / tokens * 1e-6);
	table_number(t, 100 * wait / seconds);
}

static void report_phases(const struct run *r, struct report *report, const struct work *w,
			  const struct round *rounds)
{
	static const struct column columns[] = {
		{"phase", "phase", -1},
		{"tokens", "tokens", 0},
		{"position", "from", 0},
		{"tokens_per_s", "tokens/s", 1},
		{"first_token_ms", "first token, ms", 1},
		{"memory_percent", "% of memory", 1},
		{"int8_percent", "% of int8", 1},
		{"hits_per_token", "hits", 2},
		{"misses_per_token", "misses", 2},
		{"disk_mb_per_token", "disk MB", 2},
		{"wait_percent", "% waiting", 1},
	};
	const struct row rows[] = {
		{"prefill, first round", PREFILL, 0, 1},
		{"decode, first round", DECODE, 0, 1},
		{"prefill", PREFILL, 1, r->effort.rounds},
		{"decode", DECODE, 1, r->effort.rounds},
		{"decode beside busy processes", DECODE_BESIDE_BUSY, 1, r->effort.rounds},
	};
	struct table t;
	uint64_t position = r->depth > r->prompt ? r->depth : r->prompt;
	table_begin(&t, report, "phases", "medians (least-most); experts and disk per token",
		    columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < sizeof rows / sizeof *rows - !r->busy; i++) {
		bool prompt = rows[i].phase == PREFILL;
		table_text(&t, rows[i].name);
		table_number(&t, (double)(prompt ? r->prompt : r->tokens));
		table_number(&t, prompt ? 0 : (double)position);
		report_speed(r, &t, w, rounds, &rows[i]);
		report_experts(r, &t, rounds, &rows[i]);
	}
	table_end(&t);
}

static void report_ceilings(const struct run *r, struct report *report, const struct round *rounds)
{
	static const struct column columns[] = {
		{"read_gb_per_s", "read GB/s", 1},
		{"int8_gop_per_s", "int8 GOP/s", 0},
		{"busy_percent", "% left beside busy processes", 1},
	};
	struct table t;
	double memory[ROUNDS_MOST], int8[ROUNDS_MOST], left[ROUNDS_MOST];
	for (size_t i = 0; i < r->effort.rounds; i++) {
		const struct round *o = &rounds[i + 1];
		memory[i] = o->memory * 1e-9;
		int8[i] = o->int8 * 1e-9;
		left[i] = r->busy ? 100 * o->seconds[DECODE] / o->seconds[DECODE_BESIDE_BUSY] : 0;
	}
	struct summary memories = summarise(memory, r->effort.rounds),
		       int8s = summarise(int8, r->effort.rounds),
		       lefts = summarise(left, r->effort.rounds);
	table_begin(&t, report, "ceilings", "ceilings of the same rounds, all threads", columns,
		    r->busy ? 3 : 2);
	table_summary(&t, &memories);
	table_summary(&t, &int8s);
	if (r->busy)
		table_summary(&t, &lefts);
	table_end(&t);
}

static int report(struct run *r, const struct round *rounds, struct err *e)
{
	struct report report;
	struct work w = work_of(r->model);
	report_begin(&report, "run", r->effort.json);
	report_facts(r, &report, &w);
	report_phases(r, &report, &w, rounds);
	report_ceilings(r, &report, rounds);
	return report_end(&report, e);
}

/* ---- the command ---- */

static int run(struct run *r, struct err *e)
{
	struct round rounds[ROUNDS_MOST + 1] = {0};
	int failed =
		r->busy ? neighbours_create(&r->neighbours, (uint32_t)effort_default().threads, e)
			: 0;
	if (!failed)
		failed = load(r, e);
	if (!failed)
		failed = measure(r, rounds, e);
	if (!failed)
		failed = report(r, rounds, e);
	ceiling_close(&r->ceiling);
	context_free(&r->context);
	model_close(r->model);
	engine_destroy(r->engine);
	if (r->busy)
		neighbours_end(&r->neighbours);
	return failed;
}

int run_command(int argc, char **argv, struct err *e)
{
	struct run r = {.effort = effort_default(), .prompt = 512, .tokens = 64};
	r.effort.rounds = 3;
	const struct bench_option options[] = {
		{"prompt", OPTION_NUMBER, &r.prompt, 1, CONFIG_MAX_POSITIONS, "tokens of prefill"},
		{"tokens", OPTION_NUMBER, &r.tokens, 1, CONFIG_MAX_POSITIONS, "tokens of decode"},
		{"context", OPTION_NUMBER, &r.depth, 1, CONFIG_MAX_POSITIONS,
		 "decode from this position on (the prompt's end)"},
		{"budget", OPTION_NUMBER, &r.budget, 1, UINT64_MAX - 1,
		 "bytes for experts (half of what is free)"},
		{"quant", OPTION_TEXT, &r.quant, 0, 0, "tq2, tq3 (default), tq4 or bf16"},
		{"store", OPTION_TEXT, &r.store, 0, 0, "folder of stores, as moefs -o store="},
		{"chunk", OPTION_NUMBER, &r.chunk, 1, 4096, "tokens of a prompt per step"},
		{"busy", OPTION_FLAG, &r.busy, 0, 0,
		 "decode beside one busy process per core, too"},
		{"seconds", OPTION_SECONDS, &r.effort.seconds, 0, 0, "of each ceiling"},
		EFFORT_OPTIONS(&r.effort),
	};
	const struct command_line line = {"run MODEL", options, sizeof options / sizeof *options,
					  &r.directory, 1};
	int failed = command_line_parse(&line, argc, argv, e);
	return failed ? failed : run(&r, e);
}
