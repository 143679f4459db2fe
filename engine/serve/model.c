/* A mounted checkpoint: opening, closing, and what can be said of it (model.h). */
#include "cache/store_place.h"
#include "engine/compute/drafter.h"
#include "engine/serve/check.h"
#include "engine/serve/internal.h"
#include "engine/serve/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A session is at most this long unless asked for: 32 Ki positions are already gigabytes in a large
 * model. */
enum { DEFAULT_CONTEXT = 32768 };

int model_locate(const char *path, struct err *e)
{
	struct place place;
	int failed = place_find(&place, path, e);
	if (!failed)
		place_free(&place);
	return failed;
}

static uint32_t context_of(const struct config *c, uint32_t asked)
{
	uint32_t most = asked ? asked : DEFAULT_CONTEXT;
	return c->max_positions < most ? c->max_positions : most;
}

/* What the model will take, before any of it is: the embedding stays on disk. */
static struct budget_need need_of(const struct plan *p, const struct config *c, uint32_t chunk)
{
	/* Of the tokenizer: text, hash table and merges. */
	enum { BYTES_PER_VOCABULARY_ENTRY = 256 };
	uint64_t slot = pager_slot_bytes(p->slot_bytes);
	struct budget_need n = {
		.bytes = forward_bytes(c, chunk) +
			 (uint64_t)c->vocabulary * BYTES_PER_VOCABULARY_ENTRY +
			 (p->recipe.draft ? draft_layer_bytes(c) : 0),
		.least = slot * c->experts_per_token,
	};
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (p->dense[i].id.role != TENSOR_EMBEDDING)
			n.bytes += format_arranged_bytes(&p->dense[i].computed);
	return n;
}

/* Counts parameters and memory, and refuses a budget that could not hold one expert. */
static int measure(struct model *m, struct err *e)
{
	struct plan p;
	struct engine *g = m->engine;
	int failed = plan_make(&p, &m->id.config, &m->id.recipe, e);
	if (failed)
		return failed;
	m->id.parameters = p.parameters;
	m->id.active_parameters = p.active_parameters;
	m->run.need = need_of(&p, &m->id.config, g->options.chunk);
	uint64_t asked = engine_budget_asked(g);
	size_t slot = p.routed_layers ? pager_slot_bytes(p.slot_bytes) : 0;
	if (asked && slot > asked)
		failed = err_set(e, ERANGE,
				 "%s: one expert takes %zu bytes, but the budget is %llu; give at "
				 "least that "
				 "with -o budget=",
				 m->id.name, slot, (unsigned long long)asked);
	else if (slot > atomic_load(&g->largest_expert))
		atomic_store(&g->largest_expert, slot);
	plan_free(&p);
	return failed;
}

/* The need of a model that has a draft layer, now that this is known. */
static int count_draft(struct model *m, struct err *e)
{
	struct plan p;
	struct recipe r = m->id.recipe;
	r.draft = atomic_load(&m->id.drafts);
	int failed = r.draft ? plan_make(&p, &m->id.config, &r, e) : 0;
	if (failed || !r.draft)
		return failed;
	m->run.need = need_of(&p, &m->id.config, m->engine->options.chunk);
	plan_free(&p);
	return 0;
}

static int open_files(struct model *m, const char *path, struct err *e)
{
	struct err no_store;
	int failed = place_find(&m->id.place, path, e);
	if (failed)
		return failed;
	m->id.directory = m->id.place.path;
	m->id.name = m->id.place.name;
	failed = check_files(m->id.directory, e);
	if (!failed)
		/* Before config.json is read: a change is then seen. */
		failed = load_config_sum(m, &m->id.config_sum, e);
	if (!failed)
		failed = config_read(&m->id.config, m->id.directory, e);
	if (!failed)
		failed = forward_computes(&m->id.config, e);
	if (failed)
		return failed;
	m->id.context = context_of(&m->id.config, m->engine->options.context);
	failed = load_choose_recipe(&m->id, &m->engine->recipe, &m->stored.published, e);
	if (!failed)
		failed = measure(m, e);
	if (!failed)
		failed = load_find_folders(m, e);
	if (failed)
		return failed;
	/* None yet, or one that is not known to be of this checkpoint without reading all of it:
	 * that is seen to when the model is first loaded. */
	int found = load_store(m, false, &no_store);
	if (found == -EAGAIN)
		atomic_store(&m->id.drafts, m->id.config.draft); /* it may have one */
	else
		failed = check_store(m, e);
	return failed ? failed : count_draft(m, e);
}

static void free_model(struct model *m)
{
	pthread_cond_destroy(&m->schedule.work);
	pthread_cond_destroy(&m->schedule.loaded);
	pthread_mutex_destroy(&m->schedule.notify);
	pthread_mutex_destroy(&m->schedule.lock);
	pthread_rwlock_destroy(&m->run.looking);
	pthread_mutex_destroy(&m->run.opening);
	pthread_rwlock_destroy(&m->stored.lock);
	constraints_free(&m->run.constraints);
	chat_template_close(m->run.chat);
	tokenizer_close(m->run.tokenizer);
	store_close(m->stored.store);
	plan_free(&m->stored.plan);
	published_free(&m->stored.published);
	source_forget(&m->stored.looked);
	free(m->stored.folders[0]);
	free(m->stored.folders[1]);
	place_free(&m->id.place);
	free(m);
}

int model_open(struct model **out, struct engine *g, const char *path, struct err *e)
{
	struct model *m = calloc(1, sizeof *m);
	if (!m)
		return err_set(e, ENOMEM, "out of memory for a model");
	m->engine = g;
	pthread_mutex_init(&m->schedule.notify, NULL);
	pthread_mutex_init(&m->schedule.lock, NULL);
	pthread_rwlock_init(&m->run.looking, NULL);
	pthread_mutex_init(&m->run.opening, NULL);
	pthread_rwlock_init(&m->stored.lock, NULL);
	pthread_cond_init(&m->schedule.work, NULL);
	pthread_cond_init(&m->schedule.loaded, NULL);
	int failed = open_files(m, path, e);
	if (!failed)
		failed = generate_start(m, e);
	if (failed) {
		free_model(m);
		return failed;
	}
	budgets_add(&g->budgets, &m->run.need);
	*out = m;
	return 0;
}

void model_close(struct model *m)
{
	if (!m)
		return;
	generate_stop(m);
	unload_model(m);
	budgets_remove(&m->engine->budgets, &m->run.need);
	free_model(m);
}

/* ---- loading ---- */

void model_load(struct model *m)
{
	pthread_mutex_lock(&m->schedule.lock);
	m->schedule.load_wanted = true;
	pthread_cond_signal(&m->schedule.work);
	pthread_mutex_unlock(&m->schedule.lock);
}

int model_wait(struct model *m, struct err *e)
{
	pthread_mutex_lock(&m->schedule.lock);
	m->schedule.load_wanted = true;
	pthread_cond_signal(&m->schedule.work);
	while (atomic_load(&m->schedule.state) != MODEL_READY && m->schedule.load_wanted &&
	       !atomic_load(&m->schedule.quit))
		pthread_cond_wait(&m->schedule.loaded, &m->schedule.lock);
	bool ready = atomic_load(&m->schedule.state) == MODEL_READY;
	if (!ready)
		*e = m->schedule.load_error;
	pthread_mutex_unlock(&m->schedule.lock);
	return ready ? 0 : -(e->code ? e->code : EIO);
}

static int print_number(char *text, size_t size, uint64_t number)
{
	return snprintf(text, size, "%" PRIu64, number);
}

static int print_bits(const struct model *m, char *text, size_t size)
{
	if (!model_hold_store(&m->stored))
		return snprintf(text, size, "unknown until converted");
	const struct plan *p = &m->stored.plan;
	double bytes = (double)p->dense_bytes + (double)store_experts_bytes(m->stored.store);
	double bits = bytes * 8 / (double)p->parameters;
	model_release_store(&m->stored);
	return snprintf(text, size, "%.2f", bits);
}

static int print_codec(const struct model *m, char *text, size_t size)
{
	if (!model_hold_store(&m->stored))
		return snprintf(text, size, "unknown until converted");
	const struct plan *p = &m->stored.plan;
	const char *name = recipe_codec_name(p->recipe.codec), *words = m->stored.codec_words;
	char share[16] = "";
	if (p->recipe.codec != CODEC_NONE)
		(void)snprintf(share, sizeof share, " %.2f",
			       (double)store_experts_bytes(m->stored.store) /
				       (double)plan_records_bytes(p));
	int n = snprintf(text, size, *words ? "%s%s (%s)" : "%s%s", name, share, words);
	model_release_store(&m->stored);
	return n;
}

static int print_recipe(const struct model *m, char *text, size_t size)
{
	bool in_place = model_hold_store(&m->stored);
	if (in_place) {
		in_place = store_in_place(m->stored.store);
		model_release_store(&m->stored);
	}
	const struct recipe *r = &m->id.recipe;
	const char *exact = r->exact && !recipe_is_plain(r) ? ", exact" : "";
	if (r->as_published)
		return snprintf(text, size, "as published: %s%s%s", m->id.encoding,
				in_place ? ", in place" : "", exact);
	return snprintf(text, size, "%s%s%s%s", r->quant, m->id.encoding ? " from " : "",
			m->id.encoding ? m->id.encoding : "", exact);
}

static int print_progress(const struct model *m, char *text, size_t size)
{
	struct model_progress p;
	model_progress(m, &p);
	if (!strcmp(p.doing, "waiting"))
		return snprintf(text, size, "waiting for another process that converts it");
	if (!p.total || !p.done)
		return snprintf(text, size, "%s", p.doing);
	if (!strcmp(p.doing, "stopped")) {
		char why[1024];
		model_error(m, why, sizeof why);
		return snprintf(text, size, "stopped at %.0f %%: %s",
				100 * (double)p.done / (double)p.total, why);
	}
	double left = p.seconds / (double)p.done * (double)(p.total - p.done);
	return snprintf(text, size, "%s %.0f %% %.1f/%.1f MB %.0f s left", p.doing,
			100 * (double)p.done / (double)p.total, (double)p.done * 1e-6,
			(double)p.total * 1e-6, left > 0 ? left : 0);
}

int model_template_words(const struct model *m, char *text, size_t size)
{
	if (m->run.chat)
		return snprintf(text, size, "%s", chat_template_origin(m->run.chat));
	if (m->run.no_chat.code == ENODATA)
		return snprintf(text, size, "none");
	return snprintf(text, size, "none that can be used: %s", m->run.no_chat.text);
}

static int print_template(const struct model *m, char *text, size_t size)
{
	if (model_state(m) != MODEL_READY)
		return snprintf(text, size, "unknown until loaded");
	return model_template_words(m, text, size);
}

static int print_fact(const struct model *m, enum model_fact fact, char *text, size_t size)
{
	static const char *const states[] = {"unloaded", "loading", "ready", "failed"};
	const struct config *c = &m->id.config;
	enum kv_type type = m->id.recipe.exact ? KV_F32 : KV_F16;
	uint64_t drafter =
		atomic_load(&m->id.drafts) ? drafter_full_bytes(c, type, m->id.context) : 0;
	const uint64_t numbers[FACT_COUNT] = {
		[FACT_LAYERS] = c->layers,
		[FACT_HIDDEN_SIZE] = c->hidden_size,
		[FACT_HEADS] = c->heads,
		[FACT_KV_HEADS] = c->kv_heads,
		[FACT_HEAD_DIM] = c->head_dim,
		[FACT_VOCABULARY] = c->vocabulary,
		[FACT_EXPERTS] = c->experts,
		[FACT_EXPERTS_PER_TOKEN] = c->experts_per_token,
		[FACT_PARAMETERS] = m->id.parameters,
		[FACT_ACTIVE_PARAMETERS] = m->id.active_parameters,
		[FACT_CONTEXT] = m->id.context,
		[FACT_CONTEXT_BYTES] = context_full_bytes(c, type, m->id.context) + drafter,
		[FACT_MAX_PROMPT_BYTES] = model_max_prompt_bytes(m),
	};
	switch (fact) {
	case FACT_ARCHITECTURE:
		return snprintf(text, size, "%s", c->model_type);
	case FACT_BITS_PER_WEIGHT:
		return print_bits(m, text, size);
	case FACT_DEFAULTS:
		return snprintf(text, size, "%s",
				*c->generation.words ? c->generation.words
						     : "no generation_config.json");
	case FACT_RECIPE:
		return print_recipe(m, text, size);
	case FACT_CODEC:
		return print_codec(m, text, size);
	case FACT_STORE:
		return snprintf(text, size, "%s",
				m->stored.folders[atomic_load(&m->stored.folder)]);
	case FACT_STATE:
		return snprintf(text, size, "%s", states[model_state(m)]);
	case FACT_PROGRESS:
		return print_progress(m, text, size);
	case FACT_TEMPLATE:
		return print_template(m, text, size);
	case FACT_KERNELS:
		return snprintf(text, size, "%s", m->engine->kernels->name);
	default:
		return print_number(text, size, numbers[fact]);
	}
}

int model_fact(const struct model *m, enum model_fact fact, char *text, size_t size)
{
	int n = print_fact(m, fact, text, size);
	return n >= 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}
