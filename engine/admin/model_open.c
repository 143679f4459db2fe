/* A mounted checkpoint: opening, loading, closing (model.h). */
#include "cache/clock.h"
#include "cache/store_in_place.h"
#include "engine/compute/drafter.h"
#include "engine/admin/check.h"
#include "engine/admin/model_loss.h"
#include "engine/library/library.h"
#include "engine/library/ollama.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/model/load.h"

#include <errno.h>
#include <stdlib.h>

/* A session is at most this long unless asked for: 32 Ki positions are already gigabytes in a large
 * model. */
enum { DEFAULT_CONTEXT = 32768 };

int model_locate(const char *path, struct err *e)
{
	struct model_place place;
	struct ollama_model *said;
	int failed = library_find(&place, &said, path, e);
	if (failed)
		return failed;
	place_free(&place);
	ollama_close(said);
	return 0;
}

static uint32_t model_context_of(const struct config *c, uint32_t asked)
{
	uint32_t most = asked ? asked : DEFAULT_CONTEXT;
	return c->max_positions < most ? c->max_positions : most;
}

/* What the model will take, before any of it is: the embedding stays on disk. */
static struct budget_need model_need_of(const struct engine *g, const struct plan *p,
					const struct config *c)
{
	const struct engine_options *o = &g->options;
	/* Of the tokenizer: text, hash table and merges. */
	enum { BYTES_PER_VOCABULARY_ENTRY = 256 };
	uint64_t slot = pager_slot_bytes(p->slot_bytes),
		 sampling = sampler_bytes(c->vocabulary) +
			    grammars_mask_words(c->vocabulary) * sizeof(uint64_t);
	struct budget_need n = {
		.bytes = forward_bytes(g->backend, c, o->chunk) +
			 forward_pass_bytes(g->backend, c, o->chunk) +
			 load_most_samplers(o) * sampling +
			 (uint64_t)c->vocabulary * BYTES_PER_VOCABULARY_ENTRY,
		.least = slot * c->experts_per_token,
	};
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (!role_is_table(p->dense[i].id.role))
			n.bytes += format_arranged_bytes(&p->dense[i].computed);
	return n;
}

/* Counts parameters and memory, and refuses a budget that could not hold one expert. */
static int model_measure(struct model *m, struct err *e)
{
	struct plan p;
	struct engine *g = m->engine;
	int failed = plan_make(&p, &m->id.config, &m->id.recipe, e);
	if (failed)
		return failed;
	m->id.parameters = p.parameters;
	m->id.active_parameters = p.active_parameters;
	m->loaded.need = model_need_of(g, &p, &m->id.config);
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
	if (!failed)
		failed = model_pins_init(&m->pins, &m->id.config, &p, e);
	plan_free(&p);
	return failed;
}

/* The need of a model that has a draft layer, now that this is known. */
static int model_count_draft(struct model *m, struct err *e)
{
	struct plan p;
	struct recipe r = m->id.recipe;
	r.draft = atomic_load(&m->id.drafts);
	int failed = r.draft ? plan_make(&p, &m->id.config, &r, e) : 0;
	if (failed || !r.draft)
		return failed;
	m->loaded.need = model_need_of(m->engine, &p, &m->id.config);
	plan_free(&p);
	return 0;
}

static int model_open_files(struct model *m, const char *path, struct err *e)
{
	struct err no_store;
	int failed = library_find(&m->id.place, &m->id.ollama, path, e);
	if (failed)
		return failed;
	m->id.directory = m->id.place.path;
	m->id.name = m->id.place.name;
	failed = check_files(m->id.directory, e);
	if (!failed)
		/* Before config.json is read: a change is then seen. */
		failed = load_config_sum(m, &m->id.config_sum, e);
	if (!failed)
		failed = load_sum_texts(m, LOAD_DEFAULTS, e);
	if (!failed)
		failed = config_read(&m->id.config, m->id.directory, e);
	if (!failed && m->id.ollama)
		failed = ollama_take_defaults(m->id.ollama, &m->id.config.generation, e);
	if (!failed)
		failed = m->engine->backend->computes(&m->id.config, e);
	m->id.kv = m->engine->kv;
	if (!failed)
		failed = config_check_kv(&m->id.config, m->id.kv, e);
	if (failed)
		return failed;
	m->id.context = model_context_of(&m->id.config, m->engine->options.context);
	failed = load_choose_recipe(&m->id, &m->engine->recipe, &m->stored.published, e);
	if (!failed)
		failed = load_find_folders(m, e);
	if (failed)
		return failed;
	/* None yet, or one that is not known to be of this checkpoint without reading all of it:
	 * that is seen to when the model is first loaded. */
	int found = load_first_store(m, &no_store);
	failed = model_measure(m, e); /* by the recipe of what was found */
	if (failed)
		return failed;
	if (found == -EAGAIN)
		atomic_store(&m->id.drafts, m->id.config.draft); /* it may have one */
	else
		failed = check_store(m, e);
	return failed ? failed : model_count_draft(m, e);
}

static void model_free(struct model *m)
{
	run_free(m);
	pthread_rwlock_destroy(&m->loaded.looking);
	pthread_mutex_destroy(&m->loaded.opening);
	pthread_mutex_destroy(&m->pins.lock);
	pthread_rwlock_destroy(&m->stored.lock);
	pthread_mutex_destroy(&m->tensors.opening);
	tensors_close(atomic_load(&m->tensors.list));
	chat_template_close(m->loaded.chat);
	tokenizer_close(m->loaded.tokenizer);
	store_close(m->stored.store);
	plan_free(&m->stored.plan);
	sources_free_published(&m->stored.published);
	source_forget(&m->stored.looked);
	model_pins_free(&m->pins);
	for (int i = 0; i < 2 * STORE_PLACES; i++)
		free(m->stored.folders[i]);
	place_free(&m->id.place);
	ollama_close(m->id.ollama);
	free(m);
}

int model_open(struct model **out, struct engine *g, const char *path, struct err *e)
{
	struct model *m = calloc(1, sizeof *m);
	if (!m)
		return err_set(e, ENOMEM, "out of memory for a model");
	m->engine = g;
	m->rests = loss_idle_begin;
	pthread_rwlock_init(&m->loaded.looking, NULL);
	pthread_mutex_init(&m->loaded.opening, NULL);
	pthread_mutex_init(&m->pins.lock, NULL);
	pthread_rwlock_init(&m->stored.lock, NULL);
	pthread_mutex_init(&m->tensors.opening, NULL);
	int failed = run_create(m, e);
	if (!failed)
		failed = model_open_files(m, path, e);
	if (!failed)
		failed = run_start(m, e);
	if (failed) {
		model_free(m);
		return failed;
	}
	budgets_add(&g->budgets, &m->loaded.need);
	*out = m;
	return 0;
}

void model_end_background(struct model *m)
{
	atomic_store(&m->run->refining.stop, true);
	refining_send_away(&m->run->refining);
	atomic_store(&m->leave, true);
}

void model_close(struct model *m)
{
	if (!m)
		return;
	model_end_background(m);
	if (m->run->refining.has_thread)
		pthread_join(m->run->refining.thread, NULL);
	run_stop_rest(m);
	if (m->run->refining.measures)
		pthread_join(m->run->refining.measurer, NULL);
	run_stop(m);
	load_undo(m);
	budgets_remove(&m->engine->budgets, &m->loaded.need);
	model_free(m);
}

/* ---- loading ---- */

void model_load(struct model *m)
{
	run_load(m);
}

int model_wait(struct model *m, struct err *e)
{
	return run_wait(m, e);
}

int model_unload(struct model *m, struct err *e)
{
	return run_unload(m, e);
}

int model_check_tokenizer(struct model *m, bool keep, struct err *e)
{
	int failed = load_tokenizer_once(m, e);
	if (!failed && !keep)
		load_forget_tokenizer(m);
	return failed;
}
