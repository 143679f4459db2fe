/* moefs-bench quality: cost and quality of each recipe, as one table.
 *
 * For each recipe: the bits of a weight and the bytes of a token; how far the model's
 * distributions move from those of the checkpoint's own numbers, and its perplexity, on texts and
 * on the answers of known turns; and how fast it runs, with all experts in memory and with room
 * for half of those of the default recipe. Each recipe is measured as it runs, including
 * activations in 8 bits. */
#include "tests/bench/bench.h"
#include "tests/bench/divergence.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKENS_DEFAULT = 8192, TEXTS_MOST = 4, NAME_BYTES = 4096, HEAD_BYTES = 64 };
enum { PROMPT = 512, ANSWER = 64, RECIPES_MOST = 16 };
static const char all_recipes[] = "bf16,tq2,tq3,tq4,2bit,3bit,4bit,6bit,8bit";

struct quality {
	struct effort effort;
	const char *directory, *text, *turns, *quants, *store;
	uint64_t tokens, budget;
	bool markdown, no_speed;

	struct corpus corpora[TEXTS_MOST]; /* of each text, and of the turns */
	char heads[TEXTS_MOST][2][HEAD_BYTES];
	struct divergence exact[TEXTS_MOST];
	uint32_t count;
	struct table table;
};

/* ---- what a recipe takes ---- */

struct size {
	double weights, bits, stored; /* bits: without the padding of rows' last groups */
};

static void add_matrix(struct size *to, const struct shape *s, double times)
{
	double bytes = (double)plan_piece_bytes(s, 0) + (double)plan_piece_bytes(s, 1) +
		       (double)plan_piece_bytes(s, 2);
	to->stored += times * 8 * bytes;
	if (format_is_tq(s->format))
		bytes *= (double)s->cols / (double)(tq_groups(s->cols) * TQ_GROUP);
	to->weights += times * s->rows * s->cols;
	to->bits += times * 8 * bytes;
}

/* Of the matrices that a token multiplies with, norms included, the embedding not: those that one
 * token meets, or all of them. */
static struct size size_of(const struct model_view *m, bool all)
{
	const struct plan *p = m->plan;
	struct size sum = {0};
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		enum tensor_class class = tensor_roles[t->id.role].class;
		if (class < CLASS_MATRICES && class != CLASS_EMBEDDING && !t->draft)
			add_matrix(&sum, &t->shape, 1);
	}
	for (uint32_t i = 0; i < p->routed_layers; i++)
		for (uint32_t k = p->first_part; k < EXPERT_PARTS && p->layer_of[i] < m->config->layers; k++)
			add_matrix(&sum, &p->record[i].part[k],
				   all ? p->experts : m->config->experts_per_token);
	sum.bits /= sum.weights;
	sum.stored /= sum.weights;
	return sum;
}

/* As they lie in memory. */
static double bytes_a_token(const struct model_view *m)
{
	const struct plan *p = m->plan;
	double sum = 0;
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (!role_is_table(p->dense[i].id.role) && !p->dense[i].draft)
			sum += (double)format_arranged_bytes(&p->dense[i].computed);
	for (uint32_t i = 0; i < p->routed_layers && p->layer_of[i] < m->config->layers; i++)
		sum += (double)p->record[i].slot_bytes * m->config->experts_per_token;
	return sum;
}

/* ---- how fast it runs ---- */

struct speed {
	struct summary prefill, decode; /* tokens per second */
	double read;			/* bytes of a decoded token */
};

static int step(struct mount *m, const uint32_t *ids, uint32_t n, struct err *e)
{
	struct step_row row = {.context = &m->context, .kind = n > 1 ? ROW_PROMPT : ROW_ANSWER};
	step_batch_clear(&m->batch);
	int failed = step_batch_add(&m->batch, &row, ids, n, e);
	if (failed)
		return failed;
	m->batch.rows[n - 1].logits = true;
	return forward_run(m->view.forward, &m->batch, NULL, e);
}

/* A prompt of random tokens, and as many answered one by one. */
static int run_round(const struct quality *q, struct mount *m, uint64_t seed, double *prefill,
		     double *decode, double *read, struct err *e)
{
	uint32_t ids[PROMPT + ANSWER];
	struct pager_stats before, after;
	for (int i = 0; i < PROMPT + ANSWER; i++)
		ids[i] = (uint32_t)(random_u64(&seed) % m->view.config->vocabulary);
	context_rollback(&m->context, 0);
	double begun = seconds_spent(q->effort.threads);
	int failed = 0;
	for (uint32_t i = 0; i < PROMPT && !failed; i += DIVERGENCE_CHUNK)
		failed = step(m, ids + i, DIVERGENCE_CHUNK, e);
	double between = seconds_spent(q->effort.threads);
	model_cache_stats(m->model, &before);
	for (uint32_t i = PROMPT; i < PROMPT + ANSWER && !failed; i++)
		failed = step(m, ids + i, 1, e);
	model_cache_stats(m->model, &after);
	*prefill = PROMPT / (between - begun);
	*decode = ANSWER / (seconds_spent(q->effort.threads) - between);
	*read = (double)(after.bytes_read - before.bytes_read) / ANSWER;
	return failed;
}

/* After a round in which memory fills. */
static int measure_speed(const struct quality *q, struct mount *m, struct speed *s, struct err *e)
{
	double prefill[ROUNDS_MOST], decode[ROUNDS_MOST], read, sum = 0;
	int failed = run_round(q, m, 1, prefill, decode, &read, e);
	for (uint64_t i = 0; i < q->effort.rounds && !failed; i++) {
		failed = run_round(q, m, i + 2, &prefill[i], &decode[i], &read, e);
		sum += read;
	}
	s->prefill = summarise(prefill, q->effort.rounds);
	s->decode = summarise(decode, q->effort.rounds);
	s->read = sum / (double)q->effort.rounds;
	return failed;
}

static int open_mount(const struct quality *q, struct mount *m, const char *quant, uint64_t budget,
		      struct err *e)
{
	const struct mount_options o = {q->directory, quant, q->store, q->effort.threads, budget};
	return mount_open(m, &o, e);
}

/* Half of what all experts take in memory by the default recipe: what is compared is one machine.
 */
static int half_budget(const struct model_view *m, uint64_t *budget, struct err *e)
{
	struct recipe r;
	struct plan p;
	recipe_find_default(&r, m->config, UINT64_MAX);
	int failed = plan_make(&p, m->config, &r, e);
	if (failed)
		return failed;
	*budget = plan_slots_bytes(&p, m->config->layers, pager_slot_bytes) / 2;
	plan_free(&p);
	return 0;
}

/* ---- the table ---- */

static void put_speed(struct table *t, const struct speed *s, bool read)
{
	if (!s->read && !s->decode.median) {
		for (int i = 0; i < 2 + read; i++)
			table_none(t);
		return;
	}
	table_summary(t, &s->decode);
	table_summary(t, &s->prefill);
	if (read)
		table_number(t, s->read * 1e-6);
}

static void put_row(struct quality *q, const char *quant, const struct model_view *m,
		    const struct divergence *d, const struct speed speeds[2])
{
	struct table *t = &q->table;
	table_text(t, quant);
	const struct size all = size_of(m, true);
	table_number(t, size_of(m, false).bits);
	table_number(t, all.bits);
	table_number(t, all.stored);
	table_number(t, bytes_a_token(m) * 1e-6);
	for (uint32_t i = 0; i < q->count; i++) {
		table_number(t, 1000 * d[i].nats);
		table_number(t, 1000 * d[i].nats_error);
		table_number(t, i + 1 == q->count && q->turns ? 100 * d[i].kept : exp(d[i].nll));
	}
	if (q->no_speed)
		return;
	put_speed(t, &speeds[0], false);
	put_speed(t, &speeds[1], true);
}

static int measure_half(const struct quality *q, const char *quant, const struct model_view *m,
			struct speed *s, struct err *e)
{
	struct mount half = {0};
	uint64_t budget = q->budget;
	if (!m->plan->routed_layers)
		return 0;
	int failed = budget ? 0 : half_budget(m, &budget, e);
	if (!failed)
		failed = open_mount(q, &half, quant, budget, e);
	if (!failed)
		failed = measure_speed(q, &half, s, e);
	mount_close(&half);
	return failed;
}

static int measure_recipe(struct quality *q, const char *quant, struct err *e)
{
	struct mount m = {0};
	struct divergence d[TEXTS_MOST];
	struct speed speeds[2] = {0};
	int failed = open_mount(q, &m, quant, 0, e);
	for (uint32_t i = 0; i < q->count && !failed; i++)
		failed = corpus_diverge(&q->corpora[i], &m, &d[i], e);
	if (!failed && !q->no_speed)
		failed = measure_speed(q, &m, &speeds[0], e);
	if (!failed && !q->no_speed)
		failed = measure_half(q, quant, &m.view, &speeds[1], e);
	if (!failed)
		put_row(q, quant, &m.view, d, speeds);
	mount_close(&m);
	return failed;
}

/* Columns of each text, between those of every table. */
static size_t list_columns(struct quality *q, struct column *to)
{
	static const struct column first[] = {{"recipe", "recipe", -1},
					      {"bits", "bits a weight of a token", 2},
					      {"all_bits", "of all", 2},
					      {"stored_bits", "with padding", 2},
					      {"mb_per_token", "MB a token", 2}},
				   last[] = {{"decode", "decode, tokens/s", 1},
					     {"prefill", "prefill", 0},
					     {"half_decode", "in half: decode", 1},
					     {"half_prefill", "prefill", 0},
					     {"half_read", "MB read a token", 2}};
	static const char *const keys[TEXTS_MOST][3] = {{"kl_1", "kl_error_1", "perplexity_1"},
							{"kl_2", "kl_error_2", "perplexity_2"},
							{"kl_3", "kl_error_3", "perplexity_3"},
							{"kl_4", "kl_error_4", "perplexity_4"}};
	size_t n = sizeof first / sizeof *first;
	memcpy(to, first, sizeof first);
	for (uint32_t i = 0; i < q->count; i++) {
		bool turns = i + 1 == q->count && q->turns;
		to[n++] = (struct column){turns ? "kl_answers" : keys[i][0], q->heads[i][0], 1};
		to[n++] = (struct column){turns ? "kl_error_answers" : keys[i][1], "error", 1};
		to[n++] = (struct column){turns ? "answers_percent" : keys[i][2], q->heads[i][1],
					  turns ? 1 : 2};
	}
	if (!q->no_speed) {
		memcpy(to + n, last, sizeof last);
		n += sizeof last / sizeof *last;
	}
	return n;
}

static int measure_recipes(struct quality *q, struct report *r, struct err *e)
{
	struct column columns[16 + 3 * TEXTS_MOST];
	char list[256], *rest, *quant;
	int failed = 0;
	(void)snprintf(list, sizeof list, "%s", q->quants);
	table_begin(&q->table, r, "recipes", "recipes, as they run", columns,
		    list_columns(q, columns));
	for (quant = strtok_r(list, ",", &rest); quant && !failed;
	     quant = strtok_r(NULL, ",", &rest))
		failed = measure_recipe(q, quant, e);
	table_end(&q->table);
	return failed;
}

/* ---- what is predicted ---- */

static void name_columns(struct quality *q, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	int n = (int)strcspn(name, "_.");
	(void)snprintf(q->heads[q->count][0], HEAD_BYTES, "KL, nats/1000: %.*s", n, name);
	(void)snprintf(q->heads[q->count][1], HEAD_BYTES, "perplexity (16 bits: %.2f)",
		       exp(q->exact[q->count].nll));
}

static int add_corpus(struct quality *q, struct mount *exact, const char *path, bool turns,
		      struct err *e)
{
	struct corpus *c = &q->corpora[q->count];
	if (q->count == TEXTS_MOST)
		return err_set(e, EINVAL, "%s: too many texts", path);
	int failed = turns ? corpus_add_turns(c, &exact->view, path, q->tokens, e)
			   : corpus_add_text(c, &exact->view, path, q->tokens, e);
	if (!failed)
		failed = corpus_keep_exact(c, exact, &q->exact[q->count], e);
	name_columns(q, path);
	if (turns)
		(void)snprintf(q->heads[q->count][1], HEAD_BYTES, "%% of answers the same");
	q->count++;
	return failed;
}

/* Nothing to predict: sizes and speeds alone are told. */
static int prepare(struct quality *q, struct err *e)
{
	struct mount exact = {0};
	char list[2 * NAME_BYTES] = "", *rest, *path;
	if (!q->text && !q->turns)
		return 0;
	if (q->text)
		(void)snprintf(list, sizeof list, "%s", q->text);
	int failed = open_mount(q, &exact, "bf16", 0, e);
	for (path = strtok_r(list, ",", &rest); path && !failed; path = strtok_r(NULL, ",", &rest))
		failed = add_corpus(q, &exact, path, false, e);
	if (!failed && q->turns)
		failed = add_corpus(q, &exact, q->turns, true, e);
	mount_close(&exact);
	return failed;
}

/* ---- the command ---- */

static int run(struct quality *q, struct err *e)
{
	struct report r;
	int failed = prepare(q, e);
	if (failed)
		return failed;
	const char *slash = strrchr(q->directory, '/');
	report_begin(&r, "quality", q->effort.json);
	r.markdown = q->markdown;
	report_text(&r, "model", "model", slash ? slash + 1 : q->directory);
	for (uint32_t i = 0; i < q->count; i++)
		report_number(&r, "predicted", "tokens predicted", (double)q->corpora[i].predicted,
			      0);
	failed = measure_recipes(q, &r, e);
	int unsaid = report_end(&r, failed ? NULL : e);
	return failed ? failed : unsaid;
}

int quality_command(int argc, char **argv, struct err *e)
{
	struct quality q = {
		.effort = effort_default(), .tokens = TOKENS_DEFAULT, .quants = all_recipes};
	const struct bench_option options[] = {
		EFFORT_OPTIONS(&q.effort),
		{"text", OPTION_TEXT, &q.text, 0, 0,
		 "texts to predict, in UTF-8 or .zst, by commas"},
		{"turns", OPTION_TEXT, &q.turns, 0, 0,
		 "lines of JSON with a question and an answer, such as a skills.jsonl"},
		{"quants", OPTION_TEXT, &q.quants, 0, 0,
		 "recipes, by commas, each with :KV of -o kv= (all)"},
		{"tokens", OPTION_NUMBER, &q.tokens, 2, 1 << 28, "at most so many of each text"},
		{"budget", OPTION_NUMBER, &q.budget, 1, UINT64_MAX - 1,
		 "bytes for experts of the last columns (half of them by the default recipe)"},
		{"no-speed", OPTION_FLAG, &q.no_speed, 0, 0, "quality and sizes alone"},
		{"store", OPTION_TEXT, &q.store, 0, 0, "folder of stores, as moefs -o store="},
		{"markdown", OPTION_FLAG, &q.markdown, 0, 0, "the table as a page has it"},
	};
	const struct command_line line = {"quality MODEL [--text FILE,FILE] [--turns FILE]",
					  options, sizeof options / sizeof *options, &q.directory,
					  1};
	int failed = command_line_parse(&line, argc, argv, e);
	if (!failed)
		failed = run(&q, e);
	for (uint32_t i = 0; i < q.count; i++)
		corpus_free(&q.corpora[i]);
	return failed;
}
