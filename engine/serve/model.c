/* A mounted checkpoint: opening, loading, closing (model.h). */
#include "cache/clock.h"
#include "cache/store_in_place.h"
#include "engine/compute/drafter.h"
#include "engine/serve/check.h"
#include "engine/serve/internal.h"
#include "engine/serve/load.h"

#include <errno.h>
#include <stdlib.h>

/* A session is at most this long unless asked for: 32 Ki positions are already gigabytes in a large
 * model. */
enum { DEFAULT_CONTEXT = 32768 };

int model_locate(const char *path, struct err *e)
{
	struct model_place place;
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
			 (p->recipe.draft ? drafter_layer_bytes(c) : 0),
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
	if (!failed)
		failed = wishes_init(&m->wishes, &m->id.config, &p, e);
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
		failed = load_sum_texts(m, LOAD_DEFAULTS, e);
	if (!failed)
		failed = config_read(&m->id.config, m->id.directory, e);
	if (!failed)
		failed = forward_computes(&m->id.config, e);
	if (failed)
		return failed;
	m->id.context = context_of(&m->id.config, m->engine->options.context);
	failed = load_choose_recipe(&m->id, &m->engine->recipe, &m->stored.published, e);
	if (!failed)
		failed = load_find_folders(m, e);
	if (failed)
		return failed;
	/* None yet, or one that is not known to be of this checkpoint without reading all of it:
	 * that is seen to when the model is first loaded. */
	int found = load_first_store(m, &no_store);
	failed = measure(m, e); /* by the recipe of what was found */
	if (failed)
		return failed;
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
	pthread_mutex_destroy(&m->wishes.lock);
	pthread_rwlock_destroy(&m->stored.lock);
	pthread_mutex_destroy(&m->tensors.opening);
	tensors_close(atomic_load(&m->tensors.list));
	constraints_free(&m->run.constraints);
	chat_template_close(m->run.chat);
	tokenizer_close(m->run.tokenizer);
	store_close(m->stored.store);
	plan_free(&m->stored.plan);
	sources_free_published(&m->stored.published);
	source_forget(&m->stored.looked);
	wishes_free(&m->wishes);
	for (int i = 0; i < 2 * STORE_PLACES; i++)
		free(m->stored.folders[i]);
	place_free(&m->id.place);
	tracing_free(&m->tracing);
	free(m);
}

/* Its deadlines are of the clock that now_ns reads. */
static void init_work(pthread_cond_t *work)
{
	pthread_condattr_t a;
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(work, &a);
	pthread_condattr_destroy(&a);
}

int model_open(struct model **out, struct engine *g, const char *path, struct err *e)
{
	struct model *m = calloc(1, sizeof *m);
	if (!m)
		return err_set(e, ENOMEM, "out of memory for a model");
	m->engine = g;
	tracing_init(&m->tracing);
	pthread_mutex_init(&m->schedule.notify, NULL);
	pthread_mutex_init(&m->schedule.lock, NULL);
	pthread_rwlock_init(&m->run.looking, NULL);
	pthread_mutex_init(&m->run.opening, NULL);
	pthread_mutex_init(&m->wishes.lock, NULL);
	pthread_rwlock_init(&m->stored.lock, NULL);
	pthread_mutex_init(&m->tensors.opening, NULL);
	init_work(&m->schedule.work);
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

void model_end_background(struct model *m)
{
	atomic_store(&m->refining.stop, true);
	refine_send_away(&m->refining);
	atomic_store(&m->schedule.leave, true);
}

void model_close(struct model *m)
{
	if (!m)
		return;
	model_end_background(m);
	if (m->refining.has_thread)
		pthread_join(m->refining.thread, NULL);
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
	m->schedule.asked_ns = clock_ns();
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
	if (!ready && !e->code)
		err_set(e, ECANCELED, "%s: was unloaded while it was loading", m->id.name);
	return ready ? 0 : -e->code;
}

/* Lock held: nothing is loaded, and nothing will be. */
static bool is_unloaded(const struct schedule *c)
{
	return atomic_load(&c->state) == MODEL_UNLOADED && !c->unload_wanted;
}

int model_unload(struct model *m, struct err *e)
{
	struct schedule *c = &m->schedule;
	pthread_mutex_lock(&c->lock);
	schedule_send_away(m);
	int failed = generate_works(m) ? err_set(e, EBUSY,
						 "%s: one of its sessions is still working; wait, "
						 "or echo stop > its ctl",
						 m->id.name)
				       : 0;
	uint64_t before = c->unloads;
	if (!failed) {
		c->load_wanted = false;
		pthread_cond_broadcast(&c->loaded); /* who waits for it to be loaded */
	}
	if (!failed && !is_unloaded(c)) {
		c->unload_wanted = true;
		atomic_store(&c->leave, true);
		pthread_cond_signal(&c->work);
		while (c->unloads == before && !atomic_load(&c->quit))
			pthread_cond_wait(&c->loaded, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return failed;
}

int model_check_tokenizer(struct model *m, bool keep, struct err *e)
{
	int failed = load_tokenizer_once(m, e);
	if (!failed && !keep)
		load_forget_tokenizer(m);
	return failed;
}
