/* What users ask of a model's experts (model.h): to be kept, read or given up. While the model is
 * loaded the pager does it; until then it is remembered, and the model asked to load. */
#include "engine/model/model_state.h"
#include "engine/run/run.h"

#include <errno.h>
#include <stdlib.h>

/* One of the pager's functions, in which a pin's removal does not fail. */
typedef int ask_fn(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);

static int model_unpin(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e)
{
	(void)e;
	pager_unpin(s, ids, n);
	return 0;
}

/* The experts by the plan's numbers of layers, malloc'ed. The model's experts are shown, and `looking`
 * is held. */
static struct pager_id *model_own_ids(const struct model *m, const struct pager_id *ids, size_t n,
				      struct err *e)
{
	struct pager_id *own = malloc((n + 1) * sizeof *own);
	if (!own)
		err_set(e, ENOMEM, "out of memory for a list of %zu experts", n);
	for (size_t i = 0; own && i < n; i++)
		own[i] = (struct pager_id){m->stored.plan.routed_of[ids[i].layer], ids[i].expert};
	return own;
}

/* Asks the pager. False: the model has no source there now. The pins' lock is held. */
static bool model_ask_source(struct model *m, const struct pager_id *ids, size_t n, ask_fn *ask,
			     int *rc, struct err *e)
{
	pthread_rwlock_rdlock(&m->loaded.looking);
	struct pager_source *there = m->loaded.experts;
	struct pager_id *own = there ? model_own_ids(m, ids, n, e) : NULL;
	if (there)
		*rc = own ? ask(there, own, n, e) : -ENOMEM;
	pthread_rwlock_unlock(&m->loaded.looking);
	free(own);
	return there;
}

/* The same for a model that is not loaded: its pins must fit beside those of loaded models. */
static int model_check_pin_room(const struct model *m, const struct pager_id *ids, size_t n,
				struct err *e)
{
	struct pager_stats s;
	pager_stats(m->engine->pager, &s);
	uint64_t left = s.budget > s.pinned ? s.budget - s.pinned : 0;
	return model_pins_check_room(&m->pins, ids, n, m->loaded.need.least, left, e);
}

static int model_wish(struct model *m, const struct pager_id *ids, size_t n, enum pin_wish wish,
		      ask_fn *ask, struct err *e)
{
	struct model_pins *w = &m->pins;
	int rc = 0;
	pthread_mutex_lock(&w->lock);
	bool loaded = model_ask_source(m, ids, n, ask, &rc, e);
	if (!loaded)
		rc = model_check_pin_room(m, ids, n, e);
	if (!rc && (!loaded || wish == PIN_SET))
		model_pins_set(w, ids, n, wish, true);
	pthread_mutex_unlock(&w->lock);
	if (!rc && !loaded)
		model_load(m);
	return rc;
}

int model_experts_pin(struct model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	return model_wish(m, ids, n, PIN_SET, pager_pin, e);
}

int model_experts_load(struct model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	return model_wish(m, ids, n, PIN_LOAD, pager_load, e);
}

/* ---- the GPU ---- */

/* One of the functions of experts on the GPU, in which a pin's removal does not fail. */
typedef int card_fn(struct cuda_model *m, const struct pager_id *ids, size_t n, struct err *e);

static int model_unpin_card(struct cuda_model *m, const struct pager_id *ids, size_t n,
			    struct err *e)
{
	(void)e;
	cuda_experts_unpin(m, ids, n);
	return 0;
}

/* Asks the GPU. False: it does not have the model now. The pins' lock is held. */
static bool model_ask_card(struct model *m, const struct pager_id *ids, size_t n, card_fn *ask,
			   int *rc, struct err *e)
{
	pthread_rwlock_rdlock(&m->loaded.looking);
	struct cuda_model *there = m->loaded.shown_card;
	struct pager_id *own = there ? model_own_ids(m, ids, n, e) : NULL;
	if (there)
		*rc = own ? ask(there, own, n, e) : -ENOMEM;
	pthread_rwlock_unlock(&m->loaded.looking);
	free(own);
	return there;
}

/* -ENODEV: the CPU computes the model, or will. */
static int model_check_card(struct model *m, struct err *e)
{
	struct engine_gpu_stats gpu;
	engine_gpu_stats(m->engine, &gpu);
	pthread_rwlock_rdlock(&m->loaded.looking);
	struct err why = model_state(m) == MODEL_READY ? m->loaded.no_card : gpu.why;
	pthread_rwlock_unlock(&m->loaded.looking);
	return why.code ? err_set(e, ENODEV, "the CPU computes this model: %s", why.text) : 0;
}

int model_experts_pin_gpu(struct model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	bool loaded = true;
	pthread_mutex_lock(&m->pins.lock);
	int rc = model_check_card(m, e);
	if (!rc)
		loaded = model_ask_card(m, ids, n, cuda_experts_pin, &rc, e);
	if (!rc)
		model_pins_set(&m->pins, ids, n, PIN_GPU, true);
	pthread_mutex_unlock(&m->pins.lock);
	if (!loaded)
		model_load(m);
	return rc;
}

int model_experts_unpin(struct model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	int rc = 0;
	pthread_mutex_lock(&m->pins.lock);
	(void)model_ask_source(m, ids, n, model_unpin, &rc, e);
	if (!rc)
		(void)model_ask_card(m, ids, n, model_unpin_card, &rc, e);
	if (!rc) {
		model_pins_set(&m->pins, ids, n, PIN_SET, false);
		model_pins_set(&m->pins, ids, n, PIN_GPU, false);
	}
	pthread_mutex_unlock(&m->pins.lock);
	return rc;
}

int model_experts_evict(struct model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	int rc = 0;
	pthread_mutex_lock(&m->pins.lock);
	size_t pinned = model_pins_count(&m->pins, ids, n, PIN_SET);
	if (pinned)
		rc = err_set(e, EBUSY, "%zu of these are pinned, so none is evicted; unpin them",
			     pinned);
	else if (!model_ask_source(m, ids, n, pager_evict, &rc, e) || !rc)
		model_pins_set(&m->pins, ids, n, PIN_LOAD, false);
	pthread_mutex_unlock(&m->pins.lock);
	return rc;
}
