/* What all mounted models share: the expert pool, the budgets, the compute threads. */
#include "engine/cpu/cpu.h"
#include "engine/memory/cpus.h"
#include "engine/model/chunk.h"
#include "engine/model/model_state.h"
#include "engine/template/template.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Reads the template file of the options, and checks it before anything is mounted. */
static int engine_take_template(struct engine *g, const char *path, struct err *e)
{
	struct template *t;
	size_t n;
	struct err why = {0};
	if (!path)
		return 0;
	if (!(g->options.template_file = strdup(path)))
		return err_set(e, ENOMEM, "out of memory for the options");
	int failed = json_read_file(&g->template_text, &n, path, TEMPLATE_BYTES_MAX, e);
	if (failed)
		return failed;
	if (strlen(g->template_text) != n)
		return err_set(e, EINVAL, "%s: the chat template contains a NUL byte", path);
	failed = template_open(&t, g->template_text, n, path, &why);
	if (failed)
		return err_set(e, why.code, "%s", why.text);
	template_close(t);
	return 0;
}

static int engine_copy_options(struct engine *g, const struct engine_options *o, struct err *e)
{
	g->options = *o;
	g->options.quant = g->options.codec = NULL; /* the recipe has them */
	g->options.kv = NULL;
	g->options.store = g->options.template_file = g->options.remember = NULL;
	if (o->store && !(g->options.store = strdup(o->store)))
		return err_set(e, ENOMEM, "out of memory for the options");
	g->chunk_automatic = !o->chunk;
	if (!g->options.chunk)
		g->options.chunk = CHUNK_DEFAULT;
	if (!g->options.step_ms)
		g->options.step_ms = STEP_MS_DEFAULT;
	if (!g->options.threads)
		g->options.threads = cpus_own_threads();
	return 0;
}

uint64_t engine_memory(void)
{
	struct memory m;
	struct memory_room room;
	memory_init(&m, "");
	memory_look(&m, &room);
	memory_free(&m);
	return room.whole;
}

static int engine_create_pool(struct engine *g, struct err *e)
{
	uint64_t asked = g->options.budget ? g->options.budget : BUDGET_AUTOMATIC;
	int failed = budgets_init(&g->budgets, "", asked, g->options.context_budget,
				  &g->context_budget, e);
	if (!failed)
		failed = pager_create(&g->pager, g->budgets.in_force, e);
	if (failed)
		return failed;
	g->recipe.budget = g->budgets.in_force; /* later changes of the budget do not change the
						   default recipe */
	budgets_govern(&g->budgets, g->pager);
	return budgets_watch(&g->budgets, e);
}

static int engine_find_recipe(struct engine *g, const struct engine_options *o, struct err *e)
{
	const char *quant = o->quant ? o->quant : "auto";
	int failed = recipe_find(&g->recipe, quant, e);
	if (!failed && o->exact)
		recipe_make_exact(&g->recipe);
	return failed;
}

static int engine_find_kv(struct engine *g, const struct engine_options *o, struct err *e)
{
	enum kv_type type = KV_TYPES;
	for (enum kv_type i = KV_F16; o->kv && i < KV_TYPES; i++)
		type = strcmp(o->kv, kv_type_name(i)) ? type : i;
	g->kv = type;
	if (type == KV_TYPES && o->kv && strcmp(o->kv, "auto") != 0)
		return err_set(e, EINVAL, "kv=%s: not one of f16, q8, q4, q8q4 and auto", o->kv);
	if (type != KV_TYPES && o->exact)
		return err_set(e, EINVAL,
			       "kv=%s contradicts exact, which keeps keys and values in 32 bits",
			       o->kv);
	return 0;
}

int engine_create(struct engine **out, const struct engine_options *options, struct err *e)
{
	struct engine *g = calloc(1, sizeof *g);
	if (!g)
		return err_set(e, ENOMEM, "out of memory");
	context_budget_init(&g->context_budget, 0);
	g->backend = &cpu_backend;
	g->kernels = kernels_best();
	engine_gpu_init(&g->gpu, options);
	g->offload.most = options->offload;
	int failed = engine_find_recipe(g, options, e);
	if (!failed)
		failed = engine_find_kv(g, options, e);
	if (!failed)
		failed = recipe_ask_codec(&g->recipe, options->codec, e);
	if (!failed && options->threads > 1024)
		failed = err_set(e, ERANGE, "threads=%u: at most 1024", options->threads);
	if (!failed && options->context > CONFIG_MAX_POSITIONS)
		failed = err_set(e, ERANGE, "context=%u: at most %d", options->context,
				 CONFIG_MAX_POSITIONS);
	if (!failed && options->chunk > CHUNK_MOST)
		failed = err_set(e, ERANGE, "chunk=%u: at most %d", options->chunk, CHUNK_MOST);
	if (!failed)
		failed = engine_copy_options(g, options, e);
	if (!failed)
		failed = engine_take_template(g, options->template_file, e);
	if (!failed && options->remember)
		failed = remember_open(&g->remember, options->remember,
				       options->remember_size ? options->remember_size
							      : REMEMBER_DEFAULT,
				       options->share_all, e);
	if (!failed)
		failed = engine_create_pool(g, e);
	if (!failed)
		failed = threads_create(&g->threads, g->options.threads, e);
	if (failed)
		engine_destroy(g);
	else
		*out = g;
	return failed;
}

void engine_destroy(struct engine *g)
{
	if (!g)
		return;
	engine_gpu_free(&g->gpu);
	budgets_free(&g->budgets);
	context_budget_free(&g->context_budget);
	remember_close(g->remember);
	threads_destroy(g->threads);
	pager_destroy(g->pager);
	free((char *)g->options.store);
	free((char *)g->options.template_file);
	free(g->template_text);
	free(g);
}

int engine_set_budget(struct engine *g, uint64_t bytes, struct err *e)
{
	/* The pager knows only loaded models; models that are only mounted count, too. */
	uint64_t least = atomic_load(&g->largest_expert);
	if (bytes < least)
		return err_set(e, ERANGE,
			       "a budget of %llu bytes cannot hold one expert; give at least %llu",
			       (unsigned long long)bytes, (unsigned long long)least);
	uint64_t pins = pager_pins_need(g->pager);
	if (bytes < pins)
		return err_set(e, ERANGE,
			       "a budget of %llu bytes cannot hold the pinned experts and those of "
			       "one token; give at least %llu, or unpin some (experts/ctl)",
			       (unsigned long long)bytes, (unsigned long long)pins);
	return budgets_ask(&g->budgets, bytes, e);
}

void engine_automatic_budget(struct engine *g)
{
	(void)budgets_ask(&g->budgets, BUDGET_AUTOMATIC, NULL); /* cannot fail without a size */
}

uint64_t engine_budget_asked(const struct engine *g)
{
	uint64_t asked = atomic_load(&g->budgets.asked);
	return asked == BUDGET_AUTOMATIC ? 0 : asked;
}

int engine_set_context_budget(struct engine *g, uint64_t bytes, struct err *e)
{
	if (!bytes)
		return err_set(e, ERANGE, "a context budget of 0 leaves no room for a prompt");
	/* Contexts in use keep their memory: if they use more than the limit, the next block is
	 * refused. */
	budgets_ask_contexts(&g->budgets, bytes);
	return 0;
}

void engine_automatic_context_budget(struct engine *g)
{
	budgets_ask_contexts(&g->budgets, BUDGET_AUTOMATIC);
}

uint64_t engine_context_budget(const struct engine *g)
{
	return atomic_load(&g->context_budget.limit);
}

uint64_t engine_offload(const struct engine *g)
{
	return g->offload.most;
}

uint64_t engine_offload_used(const struct engine *g)
{
	return atomic_load(&g->offload.used);
}

void engine_remember(const struct engine *g, struct engine_remember *out)
{
	*out = (struct engine_remember){.most = remember_most(g->remember),
					.used = remember_used(g->remember)};
	remember_failure(g->remember, &out->failure);
}

void engine_totals(const struct engine *g, struct engine_totals *out)
{
	*out = (struct engine_totals){.turns = atomic_load(&g->turns),
				      .remembered = atomic_load(&g->turns_remembered),
				      .prompt_tokens = atomic_load(&g->prompt_tokens),
				      .cached_tokens = atomic_load(&g->cached_tokens),
				      .output_tokens = atomic_load(&g->output_tokens)};
}

uint64_t engine_context_used(const struct engine *g)
{
	return atomic_load(&g->context_budget.used);
}

void engine_cache_stats(const struct engine *g, struct pager_stats *out)
{
	pager_stats(g->pager, out);
}

void engine_ahead_stats(const struct engine *g, struct pager_ahead out[AHEAD_LAYERS][AHEAD_RANKS])
{
	pager_ahead_stats(g->pager, out);
}

void engine_rest(struct engine *g)
{
	pager_rest(g->pager);
}

int engine_set_policy(struct engine *g, const char *words, struct err *e)
{
	return pager_set_policy(g->pager, words, e);
}

void engine_policy(const struct engine *g, char words[PAGER_POLICY_TEXT])
{
	pager_policy(g->pager, words);
}
