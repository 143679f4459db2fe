/* moefs-bench run --answers 1,2,4: several contexts are answered in one step, a row of each, as a
 * mount does with several sessions. Without drafts.
 *
 * With every expert in memory two limits stand beside each speed, both measured in the same round.
 * Memory: a step reads each dense weight once, each chosen expert once, and the keys and values of
 * all contexts. Computing: the same products take at least as long as with their weights in the
 * cache. A step that neither overlaps the two nor does anything else takes the sum of both times.
 */
#include "tests/bench/run_answers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CEILING_BYTES = 256 << 20, PATIENCE = 10 /* a product's share of a ceiling's seconds */ };

/* Of one number of answers in one round. */
struct answers_figure {
	double rate, memory, computing; /* tokens/s: measured, and the two limits */
	double distinct;		/* experts of a layer and step */
	double bytes;			/* that a step reads from memory, */
	double disk;			/* and from disk */
};

struct answers {
	struct run *run;
	struct context context[ANSWERS_MOST];
	struct step_account account[ANSWERS_MOST];
	struct cached cached;
	struct ceiling ceiling;
	/* Of the step in progress: tokens by layer and expert. */
	uint16_t *chosen;		  /* [layers][experts] */
	double experts[ANSWERS_MOST + 1]; /* how many got n tokens, over a phase's steps */
	struct answers_figure *figure;	  /* [rounds + 1][numbers] */
};

/* ---- a step ---- */

/* A step_account's `picked`. */
static void answers_count(void *ctx, const struct picks *p)
{
	struct answers *a = ctx;
	uint16_t *layer = a->chosen + (size_t)p->layer * a->run->view.plan->experts;
	for (uint32_t t = 0; t < p->span->n; t++)
		for (uint32_t i = 0; i < p->kept[t]; i++)
			layer[p->chosen[(size_t)t * p->stride + i]]++;
}

/* Adds a step's experts to those of the phase. */
static void answers_add_experts(struct answers *a)
{
	size_t all = (size_t)a->run->view.config->layers * a->run->view.plan->experts;
	for (size_t i = 0; i < all; i++)
		a->experts[a->chosen[i]]++;
	memset(a->chosen, 0, all * sizeof *a->chosen);
}

static int answers_step(struct answers *a, uint32_t n, struct err *e)
{
	struct run *r = a->run;
	int failed = 0;
	run_clear_batch(r);
	for (uint32_t i = 0; i < n && !failed; i++) {
		const struct step_row row = {.context = &a->context[i],
					     .kind = ROW_ANSWER,
					     .logits = true,
					     .only_largest = true,
					     .account = &a->account[i]};
		uint32_t token = run_random_token(r);
		failed = step_batch_add(&r->batch, &row, &token, 1, e);
	}
	if (!failed)
		failed = forward_run(r->view.forward, &r->batch, NULL, e);
	for (uint32_t i = 0; i < n && !failed; i++)
		if (a->account[i].end == SPAN_FAILED) {
			*e = a->account[i].error;
			failed = -e->code;
		}
	return failed;
}

/* ---- a round ---- */

/* A step's least bytes, with `distinct` experts in each routed layer. */
static double answers_bytes(const struct answers *a, uint32_t n, double distinct)
{
	const struct run *r = a->run;
	const struct run_work w = run_work_of(r);
	double position = r->deepest + (double)(r->tokens - 1) / 2,
	       seen = position < w.window ? position : w.window,
	       per_token = r->view.config->experts_per_token;
	double bytes = w.dense_bytes +
		       n * (w.state_bytes + position * w.key_bytes + seen * w.window_bytes);
	return per_token ? bytes + w.expert_bytes * distinct / per_token : bytes;
}

/* What limits the speed if all that is needed lies in the cache. */
static int answers_limit_computing(struct answers *a, uint32_t n, struct answers_figure *to,
				   struct err *e)
{
	const struct run *r = a->run;
	double seconds;
	if (!r->all_resident)
		return 0;
	int failed = cached_seconds(&a->cached, n, a->experts, r->effort.seconds / PATIENCE,
				    &seconds, e);
	to->computing = failed ? 0 : n / seconds;
	return failed;
}

/* The speed of n answers, and what their steps had to read and compute. memory: bytes/s. */
static int answers_measure(struct answers *a, uint32_t n, double memory, struct answers_figure *to,
			   struct err *e)
{
	struct run *r = a->run;
	uint32_t layers = run_routed_layers(&r->view);
	double steps = (double)r->tokens;
	struct pager_stats before, after;
	int failed = 0;
	memset(a->experts, 0, sizeof a->experts);
	for (uint32_t i = 0; i < n && !failed; i++)
		failed = run_go_to(r, &a->context[i], r->deepest, e);
	model_cache_stats(r->model, &before);
	double begun = seconds_spent(r->effort.threads);
	for (uint64_t i = 0; i < r->tokens && !failed; i++) {
		failed = answers_step(a, n, e);
		answers_add_experts(a);
	}
	*to = (struct answers_figure){.rate = n * steps /
					      (seconds_spent(r->effort.threads) - begun)};
	model_cache_stats(r->model, &after);
	to->disk = (double)(after.bytes_read - before.bytes_read) / steps;
	for (uint32_t i = 1; i <= ANSWERS_MOST; i++) {
		a->experts[i] /= steps;
		to->distinct += layers ? a->experts[i] / layers : 0;
	}
	to->bytes = answers_bytes(a, n, to->distinct);
	to->memory = n * memory / to->bytes;
	return failed ? failed : answers_limit_computing(a, n, to, e);
}

static int answers_round(struct answers *a, struct answers_figure *to, struct err *e)
{
	const struct run *r = a->run;
	double before, after;
	int failed = ceiling_read(&a->ceiling, (uint32_t)r->effort.threads, &before, e);
	if (r->all_resident)
		cached_forget(&a->cached);
	for (uint32_t i = 0; i < r->answers.count && !failed; i++)
		failed = answers_measure(a, r->answers.value[i], before, &to[i], e);
	if (!failed)
		failed = ceiling_read(&a->ceiling, (uint32_t)r->effort.threads, &after, e);
	for (uint32_t i = 0; i < r->answers.count && !failed; i++)
		to[i].memory *= after > before ? after / before : 1;
	return failed;
}

/* ---- the report ---- */

/* The median and the spread of share / of · scale over all rounds but the first, each a figure's
 * member by its offset; of == SIZE_MAX: of 1. base: the number of answers that `of` is taken of. */
static void answers_summary(struct table *t, const struct answers *a, uint32_t at, size_t share,
			    size_t of, uint32_t base)
{
	double values[ROUNDS_MOST];
	size_t rounds = a->run->effort.rounds, numbers = a->run->answers.count;
	for (size_t i = 0; i < rounds; i++) {
		const struct answers_figure *round = a->figure + (i + 1) * numbers;
		double value, by = 1;
		memcpy(&value, (const char *)&round[at] + share, sizeof value);
		if (of != SIZE_MAX)
			memcpy(&by, (const char *)&round[base] + of, sizeof by);
		values[i] = value / by;
	}
	const struct summary s = summarise(values, rounds);
	table_summary(t, &s);
}

static void answers_limits(struct table *t, const struct answers *a, uint32_t at)
{
	const size_t rate = offsetof(struct answers_figure, rate),
		     memory = offsetof(struct answers_figure, memory),
		     computing = offsetof(struct answers_figure, computing);
	answers_summary(t, a, at, memory, SIZE_MAX, 0);
	answers_summary(t, a, at, rate, memory, at);
	answers_summary(t, a, at, computing, SIZE_MAX, 0);
	answers_summary(t, a, at, rate, computing, at);
}

static void answers_table(const struct answers *a, struct report *report)
{
	static const struct column columns[] = {
		{"answers", "answers", 0},
		{"tokens_per_s", "tokens/s of all", 1},
		{"ratio", "to the first", 2},
		{"experts", "experts a layer", 1},
		{"mb_per_step", "MB a step", 0},
		{"disk_mb_per_step", "from disk", 1},
		{"memory_limit", "limit of memory", 1},
		{"memory_share", "share of it", 2},
		{"computing_limit", "limit of computing", 1},
		{"computing_share", "share of it", 2},
	};
	const size_t rate = offsetof(struct answers_figure, rate);
	struct table t;
	table_begin(&t, report, "answers", "medians (least-most); limits in tokens/s of all",
		    columns, sizeof columns / sizeof *columns);
	for (uint32_t i = 0; i < a->run->answers.count; i++) {
		const struct answers_figure *last =
			a->figure + a->run->effort.rounds * a->run->answers.count + i;
		table_number(&t, a->run->answers.value[i]);
		answers_summary(&t, a, i, rate, SIZE_MAX, 0);
		answers_summary(&t, a, i, rate, rate, 0);
		table_number(&t, last->distinct);
		table_number(&t, last->bytes * 1e-6);
		table_number(&t, last->disk * 1e-6);
		if (a->run->all_resident)
			answers_limits(&t, a, i);
		for (int none = 0; none < 4 && !a->run->all_resident; none++)
			table_none(&t);
	}
	table_end(&t);
}

/* ---- all of it ---- */

static int answers_open(struct answers *a, struct err *e)
{
	struct run *r = a->run;
	size_t numbers = r->answers.count, experts = r->view.plan->experts;
	uint32_t most = 0;
	a->figure = calloc((r->effort.rounds + 1) * numbers, sizeof *a->figure);
	a->chosen = calloc(r->view.config->layers * experts + 1, sizeof *a->chosen);
	if (!a->figure || !a->chosen)
		return err_set(e, ENOMEM, "out of memory for rounds");
	for (uint32_t i = 0; i < numbers; i++)
		most = r->answers.value[i] > most ? r->answers.value[i] : most;
	int failed = r->all_resident ? cached_open(&a->cached, r, e) : 0;
	for (uint32_t i = 0; i < most && !failed; i++) {
		a->account[i] = (struct step_account){.picked = answers_count, .picked_ctx = a};
		run_context_init(r, &a->context[i]);
		failed = run_fill_context(r, &a->context[i], e);
	}
	return failed ? failed
		      : ceiling_open(&a->ceiling, CEILING_BYTES, (uint32_t)r->effort.threads,
				     r->effort.seconds, e);
}

static void answers_close(struct answers *a)
{
	step_batch_clear(&a->run->batch);
	for (uint32_t i = 0; i < ANSWERS_MOST; i++)
		context_free(&a->context[i]);
	if (a->run->all_resident)
		cached_close(&a->cached);
	ceiling_close(&a->ceiling);
	free(a->figure);
	free(a->chosen);
	free(a);
}

static int answers_report(struct answers *a, struct err *e)
{
	struct report report;
	const struct run_work w = run_work_of(a->run);
	report_begin(&report, "run", a->run->effort.json);
	run_report_facts(a->run, &report, &w);
	report_number(&report, "context", "tokens of each context", a->run->deepest, 0);
	report_number(&report, "steps", "steps of a round", (double)a->run->tokens, 0);
	answers_table(a, &report);
	return report_end(&report, e);
}

int run_answers(struct run *r, struct err *e)
{
	struct answers *a = calloc(1, sizeof *a);
	if (!a)
		return err_set(e, ENOMEM, "out of memory for answers");
	a->run = r;
	int failed = answers_open(a, e);
	for (uint64_t i = 0; i <= r->effort.rounds && !failed; i++)
		failed = answers_round(a, a->figure + i * r->answers.count, e);
	if (!failed)
		failed = answers_report(a, e);
	answers_close(a);
	return failed;
}
