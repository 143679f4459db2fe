#include "engine/admin/loss_compare.h"
#include "cache/clock.h"
#include "cache/pager.h"
#include "engine/compute/forward.h"
#include "engine/convert/store_folder.h"
#include "engine/family/sources.h"
#include "engine/memory/context_budget.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of each side's experts that are in memory, beside two at least. */
static const uint64_t loss_experts = UINT64_C(256) << 20;

/* One of the two models. */
struct loss_side {
	struct store *store;
	struct plan plan;
	struct weights weights;
	struct pager *pager; /* NULL without experts */
	struct pager_source *experts;
	struct environment env;
	struct context contexts[LOSS_WINDOWS];
	uint32_t context_count;
	struct step_batch batch;
	struct forward_pass pass;
	bool begun; /* the pass waits between two pieces */
};

struct loss_comparison {
	const struct loss_of *of;
	const struct loss_text *text;
	struct context_budget contexts; /* without a limit: they are there for one pass */
	struct forward forward;		/* its env is that of the side whose turn it is */
	struct published formats; /* the checkpoint's */
	struct loss_side exact, store;
	float *probabilities; /* [HEAD_ROWS][vocabulary]: the exact model's logarithms */
	double nats, squares; /* sums over tokens, of each one's divergence and its square */
	uint32_t tokens, same;
};

/* ---- the logits ---- */

uint32_t loss_normalise(float *to, const float *logits, uint32_t n)
{
	uint32_t best = 0;
	for (uint32_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	double sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += expf(logits[i] - logits[best]);
	float whole = (float)log(sum) + logits[best];
	for (uint32_t i = 0; i < n; i++)
		to[i] = logits[i] - whole;
	return best;
}

/* Of the rows that come next; the store's are the same ones. */
static int loss_keep(void *ctx, const uint32_t *rows, uint32_t n, const struct step_logits *logits,
		     struct err *e)
{
	struct loss_comparison *c = ctx;
	size_t width = c->of->config->vocabulary;
	(void)rows;
	(void)e;
	for (uint32_t i = 0; i < n; i++)
		(void)loss_normalise(c->probabilities + i * width, logits->all + i * width,
				     (uint32_t)width);
	return 0;
}

static void loss_add_token(struct loss_comparison *c, const float *exact, const float *now,
			   uint32_t best)
{
	double nats = 0;
	bool same = true;
	for (uint32_t i = 0; i < c->of->config->vocabulary; i++) {
		if (exact[i] > -INFINITY)
			nats += expf(exact[i]) * ((double)exact[i] - now[i]);
		same &= exact[i] <= exact[best];
	}
	c->nats += nats;
	c->squares += nats * nats;
	c->same += same;
	c->tokens++;
}

static int loss_add(void *ctx, const uint32_t *rows, uint32_t n, const struct step_logits *logits,
		    struct err *e)
{
	struct loss_comparison *c = ctx;
	size_t width = c->of->config->vocabulary;
	float *now = malloc(width * sizeof *now);
	(void)rows;
	if (!now)
		return err_set(e, ENOMEM, "out of memory for a token's probabilities");
	for (uint32_t i = 0; i < n; i++) {
		uint32_t best = loss_normalise(now, logits->all + i * width, (uint32_t)width);
		loss_add_token(c, c->probabilities + i * width, now, best);
	}
	free(now);
	return 0;
}

/* ---- a side ---- */

static void loss_arrange(void *ctx, uint32_t layer, void *slot, const void *record)
{
	struct loss_side *s = ctx;
	plan_arrange_record(&s->plan, layer, slot, record);
}

static void loss_arrange_pieces(void *ctx, uint32_t layer, void *slot,
				const struct store_pieces *record)
{
	struct loss_side *s = ctx;
	plan_arrange_pieces(&s->plan, layer, slot, record);
}

/* Experts are read once: what was read last is of no more use than what was read first. */
static int loss_open_experts(struct loss_side *s, struct err *e)
{
	const struct pager_supply supply = {
		.store = s->store,
		.slot_bytes = s->plan.slot_bytes,
		.layer_slot_bytes = s->plan.layer_slot_bytes,
		.arrange = loss_arrange,
		.arrange_pieces = loss_arrange_pieces,
		.ctx = s,
	};
	if (!s->plan.routed_layers)
		return 0;
	uint64_t two = 2 * (uint64_t)pager_slot_bytes(s->plan.slot_bytes);
	int failed = pager_create(&s->pager, two > loss_experts ? two : loss_experts, e);
	if (!failed)
		failed = pager_set_policy(s->pager, "lru no-prefetch", e);
	return failed ? failed : pager_add(s->pager, &s->experts, &supply, e);
}

/* The checkpoint's formats, whatever they are; codes become floats on their way into memory. */
static int loss_find_formats(struct loss_comparison *c, struct err *e)
{
	struct sources s;
	int failed = sources_open(&s, c->of->directory, c->of->config, e);
	if (failed)
		return failed;
	failed = sources_find_published(&c->formats, &s, e);
	sources_close(&s);
	return failed;
}

static int loss_open_exact(struct loss_comparison *c, struct err *e)
{
	struct err why;
	struct convert_in_place v = {
		.directory = c->of->directory,
		.config = c->of->config,
		.kernels = c->of->kernels,
		.number = {c->of->number[0], c->of->number[1]},
	};
	int failed = recipe_find(&v.recipe, "auto", e);
	if (!failed)
		failed = loss_find_formats(c, e);
	if (failed)
		return failed;
	recipe_make_exact(&v.recipe);
	v.recipe.published = &c->formats;
	failed = convert_in_place_open(&c->exact.store, &c->exact.plan, &v, &why);
	if (failed == -ENOTSUP)
		return err_set(e, ENOTSUP,
			       "the checkpoint cannot be read in place to compare a store with it: "
			       "%s",
			       why.text);
	if (failed)
		*e = why;
	return failed;
}

static int loss_open_store(struct loss_comparison *c, struct err *e)
{
	struct recipe r;
	int failed = store_open(&c->store.store, c->of->folder, NULL, e);
	if (failed)
		return failed;
	if (!recipe_from_text(&r, store_info(c->store.store)->key.recipe))
		return err_set(e, ESTALE, "%s: the store was made by another recipe",
			       c->of->folder);
	failed = plan_make(&c->store.plan, c->of->config, &r, e);
	return failed ? failed : store_check_plan(c->store.store, &c->store.plan, e);
}

/* Each window in a context of its own; the last token of each predicts nothing that is known. */
static int loss_fill_batch(struct loss_comparison *c, struct loss_side *s, enum kv_type kv,
			   struct err *e)
{
	const struct loss_text *t = c->text;
	int failed = 0;
	for (uint32_t i = 0; i < t->windows && !failed; i++) {
		struct context *x = &s->contexts[s->context_count++];
		uint32_t n = t->begin[i + 1] - t->begin[i];
		const struct step_row row = {.context = x, .logits = true};
		context_init(x, &c->contexts, c->of->config, kv);
		failed = step_batch_add(&s->batch, &row, t->ids + t->begin[i], n, e);
		if (!failed)
			s->batch.rows[s->batch.count - 1].logits = false;
	}
	return failed;
}

static int loss_begin_side(struct loss_comparison *c, struct loss_side *s, enum kv_type kv,
			   struct err *e)
{
	int failed = weights_load_once(&s->weights, &s->plan, c->of->config, s->store, c->of->stop,
				       e);
	if (!failed)
		failed = loss_open_experts(s, e);
	if (!failed)
		failed = loss_fill_batch(c, s, kv, e);
	s->env = (struct environment){
		.config = c->of->config,
		.plan = &s->plan,
		.weights = &s->weights,
		.backend = c->of->backend,
		.kernels = c->of->kernels,
		.threads = c->of->threads,
		.experts = s->experts,
	};
	return failed ? failed : forward_pass_init(&s->pass, &s->env, s->batch.count, e);
}

static void loss_close_side(struct loss_comparison *c, struct loss_side *s)
{
	const struct err over = {.code = ECANCELED};
	c->forward.env = s->env;
	if (s->begun)
		forward_give_up(&c->forward, &s->pass, &over);
	while (s->context_count)
		context_free(&s->contexts[--s->context_count]);
	step_batch_free(&s->batch);
	forward_pass_free(&s->pass);
	if (s->experts)
		pager_remove(s->experts);
	if (s->pager)
		pager_destroy(s->pager);
	weights_free(&s->weights);
	plan_free(&s->plan);
	store_close(s->store);
}

/* ---- both, piece by piece ---- */

/* The next piece of a side: a layer, or the logits of some rows. */
static int loss_go_on(struct loss_comparison *c, struct loss_side *s, struct err *e)
{
	if (atomic_load(c->of->stop))
		return err_set(e, ECANCELED, "measuring the loss was interrupted");
	c->forward.env = s->env;
	int more = s->begun ? forward_go_on(&c->forward, &s->pass, 1, e)
			    : forward_begin(&c->forward, &s->pass, &s->batch, NULL, e);
	s->begun = more > 0;
	return more;
}

static int loss_run_layer(struct loss_comparison *c, struct loss_side *s, uint32_t layer,
			  struct err *e)
{
	int failed = weights_load_layer(&s->weights, &s->plan, c->of->config, layer, c->of->stop, e);
	if (failed)
		return failed;
	int more = loss_go_on(c, s, e);
	return more < 0 ? more : 0;
}

static int loss_run_layers(struct loss_comparison *c, struct err *e)
{
	int failed = loss_go_on(c, &c->exact, e);
	if (failed > 0)
		failed = loss_go_on(c, &c->store, e);
	for (uint32_t layer = 0; failed >= 0 && layer < c->of->config->layers; layer++) {
		failed = loss_run_layer(c, &c->exact, layer, e);
		if (!failed)
			failed = loss_run_layer(c, &c->store, layer, e);
		atomic_fetch_add(&c->of->progress->done, 1);
	}
	return failed;
}

/* Both give the logits of the same rows, some at a time. */
static int loss_run_heads(struct loss_comparison *c, struct err *e)
{
	int more = 1;
	while (more > 0) {
		more = loss_go_on(c, &c->exact, e);
		if (more >= 0)
			more = loss_go_on(c, &c->store, e);
	}
	return more;
}

/* ---- the whole ---- */

static int loss_prepare(struct loss_comparison *c, struct err *e)
{
	const struct config *config = c->of->config;
	const struct loss_text *t = c->text;
	int failed = loss_open_exact(c, e);
	if (!failed)
		failed = loss_open_store(c, e);
	if (!failed)
		failed = loss_begin_side(c, &c->exact, KV_F32, e);
	if (!failed)
		failed = loss_begin_side(c, &c->store, KV_F16, e);
	c->exact.batch.read = loss_keep;
	c->store.batch.read = loss_add;
	c->exact.batch.ctx = c->store.batch.ctx = c;
	c->forward.env = c->exact.env;
	c->forward.chunk = t->begin[t->windows];
	if (!failed)
		failed = forward_init(&c->forward, e);
	c->probabilities = malloc((size_t)HEAD_ROWS * config->vocabulary * sizeof(float));
	if (!failed && !c->probabilities)
		failed = err_set(e, ENOMEM, "out of memory for tokens' probabilities");
	return failed;
}

static int loss_run(struct loss_comparison *c, struct store_loss *out, struct err *e)
{
	int failed = loss_prepare(c, e);
	if (!failed)
		failed = loss_run_layers(c, e);
	if (!failed)
		failed = loss_run_heads(c, e);
	if (failed)
		return failed;
	if (!c->tokens)
		return err_set(e, EINVAL, "the text has no token that another one follows");
	double n = c->tokens, mean = c->nats / n;
	if (!isfinite(mean))
		return err_set(e, ERANGE, "the store gives numbers that are not finite");
	*out = (struct store_loss){
		.kl = mean,
		.error = sqrt(fmax(c->squares / n - mean * mean, 0) / n),
		.same = c->same / n,
		.tokens = c->tokens,
	};
	return 0;
}

int loss_compare(const struct loss_of *of, const struct loss_text *text, struct store_loss *out,
		 struct err *e)
{
	struct loss_comparison *c = calloc(1, sizeof *c);
	if (!c)
		return err_set(e, ENOMEM, "out of memory for comparing two models");
	c->of = of;
	c->text = text;
	context_budget_init(&c->contexts, UINT64_MAX / 2);
	atomic_store(&of->progress->started_ns, clock_ns());
	atomic_store(&of->progress->done, 0);
	atomic_store(&of->progress->total, of->config->layers);
	int failed = loss_run(c, out, e);
	atomic_store(&of->progress->total, 0);
	loss_close_side(c, &c->exact);
	loss_close_side(c, &c->store);
	forward_free(&c->forward);
	free(c->probabilities);
	sources_free_published(&c->formats);
	context_budget_free(&c->contexts);
	free(c);
	return failed;
}
