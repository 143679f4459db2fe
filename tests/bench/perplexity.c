/* moefs-bench perplexity: how well and how fast a model predicts a text, and with which losses.
 *
 * The text is cut into windows of --context tokens, each read from an empty context; every token of
 * a window but the first is predicted from those before it. A step computes --chunk tokens. Without
 * drop_missing and substitute the chunk changes no figure but the speed; with them, chunks of one are
 * what answers meet, and larger ones what prompts do. --divergence reads the whole text without
 * losses first, and says how far the distributions with losses are from those.
 */
#include "engine/session/params.h"
#include "tests/bench/bench.h"
#include "tests/bench/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_DEFAULT = 512 };

struct perplexity {
	const char *directory, *text, *quant, *store, *experts_per_token, *drop_missing, *substitute;
	uint64_t tokens, window, chunk, budget, threads;
	bool json, divergence;

	struct engine *engine;
	struct model *model;
	struct model_view view;
	struct params params; /* the two that lose something */
	struct context context;
	struct step_batch batch;
	struct step_account account;
	struct token_list ids;
	float *logits; /* [chunk][vocabulary] */
	float *whole;  /* [ids][vocabulary], without losses; NULL: --divergence was not given */
};

struct result {
	double nll; /* sum over the predicted tokens, natural logarithm */
	double divergence; /* sum, natural logarithm */
	uint64_t computed, predicted, dropped, substituted;
	double seconds; /* in the forward pass */
	struct pager_stats pager;
};

/* ---- the model ---- */

/* The session's own params are what is said and checked. */
static int set_param(struct perplexity *p, const char *name, const char *value, struct err *e)
{
	for (size_t i = 0; value && i < params_count(); i++)
		if (!strcmp(params_name(i), name))
			return params_set(&p->params, i, value, strlen(value), e);
	return 0;
}

static int load(struct perplexity *p, struct err *e)
{
	const struct engine_options options = {
		.budget = p->budget,
		.context_budget = UINT64_C(1) << 60, /* this is not what is measured */
		.threads = (uint32_t)p->threads,
		.chunk = (uint32_t)p->chunk,
		.quant = p->quant,
		.store = p->store,
	};
	int failed = engine_create(&p->engine, &options, e);
	if (!failed)
		failed = model_open(&p->model, p->engine, p->directory, e);
	if (failed)
		return failed;
	observe_model(p->model, &p->view);
	const struct config *c = p->view.config;
	failed = params_default(&p->params, c, e);
	if (!failed)
		failed = set_param(p, "experts_per_token", p->experts_per_token, e);
	if (!failed)
		failed = set_param(p, "drop_missing", p->drop_missing, e);
	if (!failed)
		failed = set_param(p, "substitute", p->substitute, e);
	if (!failed && p->window > c->max_positions)
		failed = err_set(e, ERANGE, "--context %llu: the model has %u positions",
				 (unsigned long long)p->window, c->max_positions);
	if (!failed)
		failed = model_wait(p->model, e);
	if (failed)
		return failed;
	observe_model(p->model, &p->view);
	context_init(&p->context, p->view.context_budget, c, p->view.kv);
	p->logits = calloc((size_t)p->chunk * c->vocabulary, sizeof *p->logits);
	return p->logits ? 0 : err_set(e, ENOMEM, "out of memory for logits");
}

/* ---- measuring ---- */

/* −log of the probability that softmax gives to one token. */
static double surprise(const float *logits, uint32_t vocabulary, uint32_t token)
{
	double largest = logits[0], total = 0;
	for (uint32_t i = 1; i < vocabulary; i++)
		largest = logits[i] > largest ? logits[i] : largest;
	for (uint32_t i = 0; i < vocabulary; i++)
		total += exp(logits[i] - largest);
	return log(total) + largest - logits[token];
}

/* The divergence of a distribution with losses from the one without, by their logits. */
static double divergence(const float *whole, const float *lossy, uint32_t vocabulary)
{
	double p_all = -surprise(whole, vocabulary, 0) - (double)whole[0],
	       q_all = -surprise(lossy, vocabulary, 0) - (double)lossy[0], sum = 0;
	for (uint32_t i = 0; i < vocabulary; i++) {
		double p = whole[i] + p_all, q = lossy[i] + q_all;
		sum += exp(p) * (p - q);
	}
	return sum;
}

/* Counts a row's logits, of the token at `at`; lossless: keeps them for later. */
static void take_row(struct perplexity *p, size_t at, const float *logits, bool lossless,
		     struct result *r)
{
	uint32_t vocabulary = p->view.config->vocabulary;
	float *whole = p->whole ? p->whole + at * vocabulary : NULL;
	if (lossless) {
		memcpy(whole, logits, vocabulary * sizeof *whole);
		return;
	}
	r->nll += surprise(logits, vocabulary, p->ids.ids[at + 1]);
	r->divergence += whole ? divergence(whole, logits, vocabulary) : 0;
	r->predicted++;
}

static int run_window(struct perplexity *p, size_t at, size_t count, bool lossless,
		      struct result *r, struct err *e)
{
	const uint32_t *ids = p->ids.ids + at;
	uint32_t vocabulary = p->view.config->vocabulary;
	struct step_row row = {
		.context = &p->context,
		.logits = true,
		.losses = lossless ? (struct losses){0} : params_losses(&p->params),
		.account = &p->account,
	};
	context_rollback(&p->context, 0);
	context_suit(&p->context, count);
	for (size_t done = 0, n; done < count; done += n) {
		n = count - done < p->chunk ? count - done : p->chunk;
		double begun = seconds_now();
		step_batch_clear(&p->batch);
		int failed = step_batch_add(&p->batch, &row, ids + done, (uint32_t)n, e);
		if (!failed)
			failed = forward_run(p->view.forward, &p->batch, p->logits, e);
		r->seconds += seconds_now() - begun;
		if (!failed && p->account.error.code) {
			*e = p->account.error;
			failed = -e->code;
		}
		if (failed)
			return failed;
		for (size_t t = 0; t < n && done + t + 1 < count; t++)
			take_row(p, at + done + t, p->logits + t * vocabulary, lossless, r);
	}
	r->computed += count;
	return 0;
}

static int run_text(struct perplexity *p, bool lossless, struct result *r, struct err *e)
{
	int failed = 0;
	for (size_t at = 0; at + 1 < p->ids.count && !failed; at += p->window) {
		size_t left = p->ids.count - at;
		failed = run_window(p, at, left < p->window ? left : p->window, lossless, r, e);
	}
	return failed;
}

/* The cache begins as this leaves it. */
static int measure_whole(struct perplexity *p, struct err *e)
{
	struct result ignored = {0};
	if (!p->divergence)
		return 0;
	p->whole = calloc(p->ids.count, p->view.config->vocabulary * sizeof *p->whole);
	return p->whole ? run_text(p, true, &ignored, e)
			: err_set(e, ENOMEM, "out of memory for the logits of the whole text");
}

static int measure(struct perplexity *p, struct result *r, struct err *e)
{
	struct pager_stats before, now;
	int failed = measure_whole(p, e);
	if (failed)
		return failed;
	model_cache_stats(p->model, &before);
	failed = run_text(p, false, r, e);
	model_cache_stats(p->model, &now);
	r->dropped = p->account.dropped;
	r->substituted = p->account.substituted;
	r->pager = (struct pager_stats){
		.budget = now.budget,
		.hits = now.hits - before.hits,
		.misses = now.misses - before.misses,
		.bytes_read = now.bytes_read - before.bytes_read,
		.wait_ns = now.wait_ns - before.wait_ns,
	};
	return failed;
}

/* ---- reporting ---- */

static int report(const struct perplexity *p, const struct result *r, struct err *e)
{
	struct report o;
	char text[256];
	double tokens = (double)r->computed, nll = r->nll / (double)r->predicted;
	report_begin(&o, "perplexity", p->json);
	report_text(&o, "model", "model", model_name(p->model));
	model_fact(p->model, FACT_FORMAT, text, sizeof text);
	report_text(&o, "recipe", "recipe", text);
	params_lossy(&p->params, text, sizeof text);
	report_text(&o, "lossy", "lossy", *text ? text : "-");
	report_number(&o, "threads", "threads", (double)p->threads, 0);
	report_number(&o, "budget", "budget, bytes", (double)r->pager.budget, 0);
	report_number(&o, "context", "context", (double)p->window, 0);
	report_number(&o, "chunk", "tokens per step", (double)p->chunk, 0);
	report_number(&o, "predicted", "tokens predicted", (double)r->predicted, 0);
	report_number(&o, "nll", "mean negative log-likelihood", nll, 5);
	report_number(&o, "perplexity", "perplexity", exp(nll), 4);
	if (p->divergence)
		report_number(&o, "divergence", "divergence from no losses",
			      r->divergence / (double)r->predicted, 5);
	report_number(&o, "tokens_per_s", "tokens/s", tokens / r->seconds, 1);
	report_number(&o, "hits_per_token", "expert hits per token", (double)r->pager.hits / tokens,
		      2);
	report_number(&o, "misses_per_token", "expert misses per token",
		      (double)r->pager.misses / tokens, 2);
	report_number(&o, "dropped_per_token", "experts dropped per token",
		      (double)r->dropped / tokens, 2);
	report_number(&o, "substituted_per_token", "experts substituted per token",
		      (double)r->substituted / tokens, 2);
	report_number(&o, "disk_bytes_per_token", "bytes from disk per token",
		      (double)r->pager.bytes_read / tokens, 0);
	report_number(&o, "wait_percent", "% of the time waiting for them",
		      (double)r->pager.wait_ns * 1e-7 / r->seconds, 1);
	return report_end(&o, e);
}

/* ---- the command ---- */

static int run(struct perplexity *p, struct err *e)
{
	struct result r = {0};
	int failed = p->text ? load(p, e) : err_set(e, EINVAL, "--text FILE is wanted");
	if (!failed)
		failed = text_read_ids(&p->ids, &p->view, p->text, p->tokens, e);
	if (!failed)
		failed = measure(p, &r, e);
	if (!failed)
		failed = report(p, &r, e);
	free(p->logits);
	free(p->whole);
	token_list_free(&p->ids);
	context_free(&p->context);
	step_batch_free(&p->batch);
	params_free(&p->params);
	model_close(p->model);
	engine_destroy(p->engine);
	return failed;
}

int perplexity_command(int argc, char **argv, struct err *e)
{
	struct perplexity p = {
		.window = WINDOW_DEFAULT, .chunk = 1, .threads = effort_default().threads};
	const struct bench_option options[] = {
		{"text", OPTION_TEXT, &p.text, 0, 0, "the file to predict, in UTF-8"},
		{"tokens", OPTION_NUMBER, &p.tokens, 2, TEXT_MOST, "at most so many of it (all)"},
		{"context", OPTION_NUMBER, &p.window, 2, CONFIG_MAX_POSITIONS,
		 "tokens of a window"},
		{"chunk", OPTION_NUMBER, &p.chunk, 1, 4096, "tokens per step"},
		{"experts-per-token", OPTION_TEXT, &p.experts_per_token, 0, 0,
		 "as params/experts_per_token"},
		{"drop-missing", OPTION_TEXT, &p.drop_missing, 0, 0, "as params/drop_missing"},
		{"substitute", OPTION_TEXT, &p.substitute, 0, 0, "as params/substitute"},
		{"budget", OPTION_NUMBER, &p.budget, 1, UINT64_MAX - 1,
		 "bytes for experts (half of what is free)"},
		{"quant", OPTION_TEXT, &p.quant, 0, 0, "a recipe, as moefs -o quant= (auto)"},
		{"store", OPTION_TEXT, &p.store, 0, 0, "folder of stores, as moefs -o store="},
		{"threads", OPTION_NUMBER, &p.threads, 1, 1024, "all threads"},
		{"divergence", OPTION_FLAG, &p.divergence, 0, 0,
		 "also how far the distributions are from those without losses"},
		{"json", OPTION_FLAG, &p.json, 0, 0, "one JSON object"},
	};
	const struct command_line line = {"perplexity MODEL --text FILE", options,
					  sizeof options / sizeof *options, &p.directory, 1};
	int failed = command_line_parse(&line, argc, argv, e);
	return failed ? failed : run(&p, e);
}
