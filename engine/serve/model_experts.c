/* What users ask of a model's experts (model.h): to be kept, read or given up. While the model is
 * loaded the pager does it; until then it is remembered, and the model asked to load. */
#include "engine/serve/internal.h"

#include <errno.h>
#include <stdlib.h>

/* One of the pager's functions, in which a pin's removal does not fail. */
typedef int ask_fn(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e);

static int unpin(struct pager_source *s, const struct pager_id *ids, size_t n, struct err *e)
{
	(void)e;
	pager_unpin(s, ids, n);
	return 0;
}

/* By the layers that the pager's source has; false: there is none now. The wishes' lock is held. */
static bool ask_source(struct model *m, const struct pager_id *ids, size_t n, ask_fn *ask, int *rc,
		       struct err *e)
{
	struct pager_id *own = malloc((n + 1) * sizeof *own);
	if (!own) {
		*rc = err_set(e, ENOMEM, "out of memory for a list of %zu experts", n);
		return true;
	}
	pthread_rwlock_rdlock(&m->run.looking);
	bool there = m->run.experts;
	for (size_t i = 0; there && i < n; i++)
		own[i] = (struct pager_id){m->stored.plan.routed_of[ids[i].layer], ids[i].expert};
	if (there)
		*rc = ask(m->run.experts, own, n, e);
	pthread_rwlock_unlock(&m->run.looking);
	free(own);
	return there;
}

/* What it has to be like for a model that is not loaded: beside what is pinned of those that are.
 */
static int check_room(const struct model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	struct pager_stats s;
	pager_stats(m->engine->pager, &s);
	uint64_t left = s.budget > s.pinned ? s.budget - s.pinned : 0;
	return wishes_check_room(&m->wishes, ids, n, m->run.need.least, left, e);
}

static int wish(struct model *m, const struct pager_id *ids, size_t n, enum wish wish, ask_fn *ask,
		struct err *e)
{
	struct wishes *w = &m->wishes;
	int rc = 0;
	pthread_mutex_lock(&w->lock);
	bool loaded = ask_source(m, ids, n, ask, &rc, e);
	if (!loaded)
		rc = check_room(m, ids, n, e);
	if (!rc && (!loaded || wish == WISH_PINNED))
		wishes_set(w, ids, n, wish, true);
	pthread_mutex_unlock(&w->lock);
	if (!rc && !loaded)
		model_load(m);
	return rc;
}

int model_experts_pin(struct model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	return wish(m, ids, n, WISH_PINNED, pager_pin, e);
}

int model_experts_load(struct model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	return wish(m, ids, n, WISH_LOADED, pager_load, e);
}

int model_experts_unpin(struct model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	int rc = 0;
	pthread_mutex_lock(&m->wishes.lock);
	(void)ask_source(m, ids, n, unpin, &rc, e);
	if (!rc)
		wishes_set(&m->wishes, ids, n, WISH_PINNED, false);
	pthread_mutex_unlock(&m->wishes.lock);
	return rc;
}

int model_experts_evict(struct model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	int rc = 0;
	pthread_mutex_lock(&m->wishes.lock);
	size_t pinned = wishes_count(&m->wishes, ids, n, WISH_PINNED);
	if (pinned)
		rc = err_set(e, EBUSY, "%zu of these are pinned, so none is evicted; unpin them",
			     pinned);
	else if (!ask_source(m, ids, n, pager_evict, &rc, e) || !rc)
		wishes_set(&m->wishes, ids, n, WISH_LOADED, false);
	pthread_mutex_unlock(&m->wishes.lock);
	return rc;
}
