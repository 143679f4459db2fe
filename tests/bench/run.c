/* moefs-bench run: a model's prefill and decode, in rounds, each with the ceilings measured at
 * that moment.
 *
 * It drives the forward pass itself, with tokens that it draws at random, so that counts are exact
 * and no text ends early; a token's time includes choosing the next one. The model's own generation
 * thread only loads the weights and then has nothing to do.
 */
#include "tests/bench/run.h"
#include "tests/bench/run_answers.h"

#include "engine/cuda/cuda.h"
#include "engine/model/chunk.h"

#include "cache/depth.h"
#include "tests/bench/divergence.h"
#include "tests/bench/spent.h"
#include "tests/bench/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DISK_SECONDS = 1, ANSWERS_CONTEXT = 256 };

/* ---- loading ---- */

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

static int load_layer(const struct run *r, uint32_t layer, const uint32_t *all, struct err *e)
{
	enum { AT_ONCE = 16 };
	struct pager_ready ready[AT_ONCE];
	struct pager_batch batch;
	int got =
		pager_begin(&batch, r->view.experts, layer, all, NULL, r->view.plan->experts, 0, e);
	if (got < 0)
		return got;
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

uint32_t run_routed_layers(const struct model_view *m)
{
	uint32_t layers = 0;
	for (uint32_t i = 0; i < m->plan->routed_layers; i++)
		layers += m->plan->layer_of[i] < m->config->layers;
	return layers;
}

/* Every expert, if the budget holds them all: decode is then measured without a miss. */
static int load_experts(struct run *r, struct err *e)
{
	const struct plan *p = r->view.plan;
	uint32_t layers = run_routed_layers(&r->view);
	struct pager_stats stats;
	engine_cache_stats(r->engine, &stats);
	uint64_t bytes = 0;
	for (uint32_t layer = 0; layer < layers; layer++)
		bytes += (uint64_t)pager_slot_bytes(p->record[layer].slot_bytes) * p->experts;
	r->all_resident = bytes <= stats.budget;
	if (!layers || !r->all_resident || r->view.forward->env.on_card)
		return 0;
	uint32_t *all = calloc(p->experts, sizeof *all);
	int failed = all ? 0 : err_set(e, ENOMEM, "out of memory for a list of experts");
	for (uint32_t i = 0; i < p->experts && all; i++)
		all[i] = i;
	for (uint32_t layer = 0; layer < layers && !failed; layer++)
		failed = load_layer(r, layer, all, e);
	free(all);
	return failed;
}

void run_context_init(const struct run *r, struct context *x)
{
	context_init(x, r->view.context_budget, r->view.config, r->view.kv);
	context_suit(x, r->view.config->max_positions); /* of any length: it takes as long */
	x->kv[KV_WINDOWED].window = 0;			/* phases go to any depth, in any order */
}

/* Waits until as many experts are on the GPU as will be. */
static void fill_gpu(const struct run *r)
{
	const struct timespec pause = {0, 10000000};
	const struct cuda_model *on_card = r->view.forward->env.on_card;
	struct cuda_experts_state now;
	double begun = seconds_now();
	for (cuda_experts_look(on_card, &now); now.filling; cuda_experts_look(on_card, &now))
		nanosleep(&pause, NULL);
	printf("experts on the GPU, of %-11u %u (%.2f GB), filled in %.1f s\n", now.all, now.copied,
	       (double)now.bytes / 1e9, seconds_now() - begun);
}

static int load(struct run *r, struct err *e)
{
	const struct engine_options options = {
		.budget = r->budget,
		.threads = (uint32_t)r->effort.threads,
		.chunk = (uint32_t)r->chunk,
		.quant = r->quant,
		.kv = r->kv,
		.store = r->store,
		.gpu = r->gpu == RUN_NO_GPU ? GPU_OFF : GPU_NUMBER + (int)r->gpu,
		.gpu_budget = r->gpu_budget,
	};
	double begun = seconds_now();
	int failed = engine_create(&r->engine, &options, e);
	if (!failed && r->policy)
		failed = engine_set_policy(r->engine, r->policy, e);
	if (!failed)
		failed = model_open(&r->model, r->engine, r->directory, e);
	if (!failed)
		failed = mount_wait(r->model, e);
	if (!failed)
		observe_model(r->model, &r->view);
	if (!failed && r->view.forward->env.on_card)
		fill_gpu(r);
	else if (!failed && r->gpu != RUN_NO_GPU)
		failed = err_set(e, ENODEV, "the model is not computed on the GPU");
	if (!failed)
		failed = load_experts(r, e);
	r->load_seconds = seconds_now() - begun;
	if (failed)
		return failed;
	uint64_t positions = r->deepest + r->tokens;
	if (positions > r->view.config->max_positions)
		return err_set(e, ERANGE, "%llu positions are asked for, but the model has %u",
			       (unsigned long long)positions, r->view.config->max_positions);
	run_context_init(r, &r->context);
	return 0;
}

/* ---- a round ---- */

uint32_t run_random_token(struct run *r)
{
	return (uint32_t)(random_u64(&r->random) % r->view.config->vocabulary);
}

/* Keys and values of ±0.5 … 1, whatever their type: arithmetic takes the same time as on real ones,
 * and computing a long context takes longer than measuring at its end. A recurrent state is begun
 * here and becomes that of the round's prompt, which is as good as one of any later position. */
static void fill_blocks(struct run *r, const struct kv_table *t)
{
	uint64_t keep = UINT64_C(0x83ff83ff83ff83ff), set = UINT64_C(0x3800380038003800);
	if (r->context.type == KV_F32) {
		keep = UINT64_C(0x807fffff807fffff);
		set = UINT64_C(0x3f0000003f000000);
	}
	for (uint32_t b = 0; b < t->count; b++) {
		uint64_t *words = (uint64_t *)(void *)t->blocks[b];
		for (size_t i = 0; i < t->bytes / sizeof *words; i++)
			words[i] = (random_u64(&r->random) & keep) | set;
	}
}

int run_fill_context(struct run *r, struct context *x, struct err *e)
{
	int failed = context_reserve(x, r->deepest + (uint32_t)r->tokens, e);
	for (int kind = 0; kind < KV_KINDS && !failed; kind++)
		fill_blocks(r, &x->kv[kind]);
	return failed;
}

int run_go_to(struct run *r, struct context *x, uint32_t position, struct err *e)
{
	struct token_list *tokens = &x->tokens;
	int failed = 0;
	if (tokens->count > position)
		tokens->count = position; /* the blocks stay */
	while (tokens->count < position && !failed) {
		uint32_t token = run_random_token(r);
		failed = token_list_append(tokens, &token, 1, e);
	}
	return failed;
}

/* A step_batch's `read`. */
static int run_choose(void *ctx, const uint32_t *rows, uint32_t n, const struct step_logits *logits,
		      struct err *e)
{
	static const struct sampling greedy = {.top_p = 1};
	const struct model_view *m = &((const struct run *)ctx)->view;
	(void)rows;
	(void)e;
	for (uint32_t i = 0; i < n && logits->all; i++)
		sampler_draw(m->sampler, logits->all + (size_t)i * m->config->vocabulary, &greedy, 0);
	return 0;
}

void run_clear_batch(struct run *r)
{
	step_batch_clear(&r->batch);
	r->batch.read = run_choose;
	r->batch.ctx = r;
}

static int run_prompt(struct run *r, const uint32_t *tokens, uint32_t n, bool logits, struct err *e)
{
	struct step_row row = {.context = &r->context, .kind = ROW_PROMPT};
	run_clear_batch(r);
	int failed = step_batch_add(&r->batch, &row, tokens, n, e);
	if (failed)
		return failed;
	r->batch.rows[n - 1].logits = r->batch.rows[n - 1].only_largest = logits;
	return forward_run(r->view.forward, &r->batch, NULL, e);
}

/* A step of an answer with drafts, all rejected. */
static int run_answer(struct run *r, uint32_t rows, struct err *e)
{
	uint32_t tokens[ANSWER_ROWS];
	size_t held = r->context.tokens.count;
	struct step_row row = {
		.context = &r->context, .kind = ROW_ANSWER, .logits = true, .only_largest = true};
	for (uint32_t i = 0; i < rows; i++)
		tokens[i] = run_random_token(r);
	run_clear_batch(r);
	int failed = step_batch_add(&r->batch, &row, tokens, 1, e);
	row.kind = ROW_DRAFT;
	if (!failed)
		failed = step_batch_add(&r->batch, &row, tokens + 1, rows - 1, e);
	if (!failed)
		failed = forward_run(r->view.forward, &r->batch, NULL, e);
	if (!failed && rows > 1)
		context_rollback(&r->context, held + 1);
	return failed;
}

static int prefill(struct run *r, const uint32_t *prompt, struct err *e)
{
	int failed = 0;
	for (uint64_t done = 0, n; done < r->prompt && !failed; done += n) {
		n = chunk_next(r->model, r->prompt - done, UINT32_MAX);
		r->longest_step = n > r->longest_step ? (uint32_t)n : r->longest_step;
		failed = run_prompt(r, prompt + done, (uint32_t)n, done + n == r->prompt, e);
	}
	return failed;
}

static int decode(struct run *r, uint32_t rows, struct err *e)
{
	int failed = 0;
	for (uint64_t i = 0; i < r->tokens && !failed; i++)
		failed = run_answer(r, rows, e);
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
		.prefetched = now.prefetched - before->prefetched,
		.prefetch_hits = now.prefetch_hits - before->prefetch_hits,
	};
	*before = now;
}

/* NULL: out of memory. */
static uint32_t *random_prompt(struct run *r, struct err *e)
{
	uint32_t *prompt = calloc(r->prompt, sizeof *prompt);
	if (!prompt)
		err_set(e, ENOMEM, "out of memory for a prompt");
	for (uint64_t i = 0; prompt && i < r->prompt; i++)
		prompt[i] = run_random_token(r);
	return prompt;
}

static int run_prefill(struct run *r, struct round *o, struct pager_stats *before, struct err *e)
{
	uint32_t *prompt = random_prompt(r, e);
	if (!prompt)
		return -e->code;
	double begun = seconds_spent(r->effort.threads), spent = spent_in_delta_nets();
	int failed = prefill(r, prompt, e);
	o->seconds[PREFILL] = seconds_spent(r->effort.threads) - begun;
	o->delta[PREFILL] = spent_in_delta_nets() - spent;
	chunk_end(r->model);
	count(r, before, &o->pager[PREFILL]);
	free(prompt);
	return failed;
}

static int run_decode(struct run *r, uint32_t phase, struct round *o, struct pager_stats *before,
		      struct err *e)
{
	int failed = run_go_to(r, &r->context, r->phase[phase].position, e);
	if (failed)
		return failed;
	if (r->phase[phase].beside_busy)
		neighbours_wake(&r->neighbours);
	double begun = seconds_spent(r->effort.threads), spent = spent_in_delta_nets();
	failed = decode(r, r->phase[phase].rows, e);
	o->seconds[phase] = seconds_spent(r->effort.threads) - begun;
	o->delta[phase] = spent_in_delta_nets() - spent;
	if (r->phase[phase].beside_busy)
		neighbours_rest(&r->neighbours);
	count(r, before, &o->pager[phase]);
	return failed;
}

static int run_round(struct run *r, struct round *o, struct err *e)
{
	struct pager_stats before;
	model_cache_stats(r->model, &before);
	int failed = r->deepest > r->prompt ? run_fill_context(r, &r->context, e) : 0;
	if (!failed)
		failed = run_prefill(r, o, &before, e);
	for (uint32_t i = FIRST_DECODE; i < r->phases && !failed; i++)
		failed = run_decode(r, i, o, &before, e);
	context_rollback(&r->context, 0);
	return failed;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* Memory and arithmetic where all experts are resident; where they are not, the disk, as the pager
 * may use it at best: whole records, as many in flight as it ever has. (The buffer for measuring
 * memory would take what a memory limit leaves for experts.) */
static int measure_ceilings(const struct run *r, struct ceilings *c, struct err *e)
{
	uint32_t threads = (uint32_t)r->effort.threads;
	*c = (struct ceilings){0};
	if (r->disk.fd < 0) {
		int failed = ceiling_read(&r->ceiling, threads, &c->memory, e);
		return failed ? failed : ceiling_peak(&r->ceiling, PEAK_INT8, threads, &c->int8, e);
	}
	uint64_t record = r->view.plan->record_bytes;
	return disk_read(&r->disk, (uint32_t)((record + DISK_ALIGN - 1) / DISK_ALIGN * DISK_ALIGN),
			 DEPTH_MOST, DISK_SECONDS, &c->disk, e);
}

static int open_ceilings(struct run *r, struct err *e)
{
	char path[64];
	struct store_extents record;
	if (r->all_resident || !r->view.plan->routed_layers)
		return ceiling_open(&r->ceiling, ceiling_bytes(), (uint32_t)r->effort.threads,
				    r->effort.seconds, e);
	store_expert_extents(r->view.store, 0, 0, &record); /* whatever file that is in */
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", record.extent[0].fd);
	return disk_open_file(&r->disk, path, e);
}

/* Of memory and arithmetic the larger: a neighbour that takes a core for a moment lowers a ceiling,
 * and nothing raises one. A disk may well be faster for a moment, when its host has something in
 * memory: the mean. */
static struct ceilings between(const struct ceilings *a, const struct ceilings *b)
{
	return (struct ceilings){larger(a->memory, b->memory), larger(a->int8, b->int8),
				 (a->disk + b->disk) / 2};
}

/* Each round is between two measurements of the ceilings. rounds[0] is the first round, in which
 * memory still fills; its ceilings are those after it. */
static int measure(struct run *r, struct round *rounds, struct err *e)
{
	struct ceilings before, after;
	int failed = run_round(r, &rounds[0], e);
	r->peak_mib = peak_memory_mib(); /* before there is the memory of the ceilings */
	if (!failed)
		failed = open_ceilings(r, e);
	if (!failed)
		failed = measure_ceilings(r, &before, e);
	if (failed)
		return failed;
	rounds[0].ceiling = before;
	for (uint64_t i = 1; i <= r->effort.rounds && !failed; i++, before = after) {
		failed = run_round(r, &rounds[i], e);
		if (!failed)
			failed = measure_ceilings(r, &after, e);
		if (!failed)
			rounds[i].ceiling = between(&before, &after);
	}
	return failed;
}

/* Computes the prompt once more, with a timeline. */
static int keep_prompt_timeline(struct run *r, struct err *e)
{
	uint32_t *prompt = random_prompt(r, e);
	if (!prompt)
		return -e->code;
	int failed = context_reserve(&r->context, (uint32_t)r->prompt, e);
	timeline_begin((uint32_t)r->effort.threads);
	if (!failed)
		failed = prefill(r, prompt, e);
	timeline_end((uint32_t)r->prompt);
	context_rollback(&r->context, 0);
	free(prompt);
	return failed;
}

/* Decodes once more from the first position, with a timeline. */
static int keep_timeline(struct run *r, struct err *e)
{
	int failed = r->deepest > r->prompt ? run_fill_context(r, &r->context, e) : 0;
	if (!failed)
		failed = context_reserve(&r->context, r->deepest + (uint32_t)r->tokens, e);
	if (!failed)
		failed = run_go_to(r, &r->context, r->phase[FIRST_DECODE].position, e);
	if (failed)
		return failed;
	timeline_begin((uint32_t)r->effort.threads);
	failed = decode(r, 1, e);
	timeline_end((uint32_t)r->tokens);
	context_rollback(&r->context, 0);
	return failed;
}

/* ---- the command ---- */

static const char *const verified[ANSWER_ROWS + 1] = {
	[2] = "steps of 2 rows", "steps of 3 rows", "steps of 4 rows", "steps of 5 rows"};

static void list_phases(struct run *r)
{
	uint32_t tokens = (uint32_t)r->tokens;
	if (r->answers.count) {
		r->deepest = r->depths.count ? r->depths.value[0] : ANSWERS_CONTEXT;
		return;
	}
	if (!r->depths.count)
		r->depths = (struct number_list){1, {(uint32_t)r->prompt}};
	r->phase[r->phases++] = (struct phase){"prefill", (uint32_t)r->prompt, 0, 0, false};
	r->deepest = (uint32_t)r->prompt;
	for (uint32_t i = 0; i < r->depths.count; i++) {
		uint32_t depth = r->depths.value[i];
		r->phase[r->phases++] = (struct phase){"decode", tokens, depth, 1, false};
		r->deepest = depth > r->deepest ? depth : r->deepest;
	}
	for (uint32_t i = 0; i < r->verify.count; i++)
		r->phase[r->phases++] =
			(struct phase){verified[r->verify.value[i]], tokens, r->depths.value[0],
				       r->verify.value[i], false};
	if (r->busy)
		r->phase[r->phases++] = (struct phase){"decode beside busy processes", tokens,
						       r->depths.value[0], 1, true};
}

static int run(struct run *r, struct err *e)
{
	struct round *rounds = calloc(r->effort.rounds + 1, sizeof *rounds);
	int failed = rounds ? 0 : err_set(e, ENOMEM, "out of memory for rounds");
	list_phases(r);
	if (!failed && r->busy)
		failed = neighbours_create(&r->neighbours, (uint32_t)effort_default().threads, e);
	if (!failed)
		failed = load(r, e);
	if (!failed && r->answers.count)
		failed = run_answers(r, e);
	else if (!failed)
		failed = measure(r, rounds, e);
	if (!failed && r->timeline && !r->answers.count)
		failed = keep_timeline(r, e);
	else if (!failed && r->prompt_timeline && !r->answers.count)
		failed = keep_prompt_timeline(r, e);
	if (!failed && !r->answers.count)
		failed = run_report(r, rounds, e);
	ceiling_close(&r->ceiling);
	disk_close(&r->disk);
	context_free(&r->context);
	step_batch_free(&r->batch);
	model_close(r->model);
	engine_destroy(r->engine);
	neighbours_end(&r->neighbours);
	free(rounds);
	return failed;
}

int run_command(int argc, char **argv, struct err *e)
{
	struct run r = {
		.effort = effort_default(), .prompt = 512, .tokens = 64, .disk = {.fd = -1}};
	r.effort.rounds = 3;
	r.gpu = RUN_NO_GPU;
	const struct bench_option options[] = {
		{"prompt", OPTION_NUMBER, &r.prompt, 1, CONFIG_MAX_POSITIONS, "tokens of prefill"},
		{"tokens", OPTION_NUMBER, &r.tokens, 1, CONFIG_MAX_POSITIONS, "tokens of decode"},
		{"context", OPTION_LIST, &r.depths, 1, CONFIG_MAX_POSITIONS,
		 "positions to decode from (the prompt's end)"},
		{"verify", OPTION_LIST, &r.verify, 2, ANSWER_ROWS,
		 "rows of steps with drafts, of which none stands"},
		{"answers", OPTION_LIST, &r.answers, 1, ANSWERS_MOST,
		 "contexts answered in one step, and nothing else"},
		{"budget", OPTION_NUMBER, &r.budget, 1, UINT64_MAX - 1,
		 "bytes for experts (half of what is free)"},
		{"quant", OPTION_TEXT, &r.quant, 0, 0, "a recipe, as moefs -o quant= (auto)"},
		{"kv", OPTION_TEXT, &r.kv, 0, 0, "keys and values, as moefs -o kv= (f16)"},
		{"gpu", OPTION_NUMBER, &r.gpu, 0, RUN_NO_GPU - 1, "the number of a GPU to compute on"},
		{"gpu-budget", OPTION_NUMBER, &r.gpu_budget, 1, UINT64_MAX - 1,
		 "bytes of the GPU's memory (what is free, less a reserve)"},
		{"store", OPTION_TEXT, &r.store, 0, 0, "folder of stores, as moefs -o store="},
		{"policy", OPTION_TEXT, &r.policy, 0, 0,
		 "words of cache/policy, as \"lru no-prefetch\""},
		{"chunk", OPTION_NUMBER, &r.chunk, 1, 4096,
		 "tokens of a prompt per step (512, more where that reads less)"},
		{"busy", OPTION_FLAG, &r.busy, 0, 0,
		 "decode beside one busy process per core, too"},
		{"timeline", OPTION_FLAG, &r.timeline, 0, 0,
		 "where the time of a decoded token's threads goes"},
		{"prompt-timeline", OPTION_FLAG, &r.prompt_timeline, 0, 0,
		 "the same of a prompt's token"},
		{"seconds", OPTION_SECONDS, &r.effort.seconds, 0, 0, "of each ceiling"},
		EFFORT_OPTIONS(&r.effort),
	};
	const struct command_line line = {"run MODEL", options, sizeof options / sizeof *options,
					  &r.directory, 1};
	int failed = command_line_parse(&line, argc, argv, e);
	return failed ? failed : run(&r, e);
}
