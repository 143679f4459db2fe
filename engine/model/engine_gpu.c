/* See engine_gpu.h. */
#include "engine/model/engine_gpu.h"
#include "engine/model/engine_state.h"

#include <errno.h>
#include <stdio.h>

void engine_gpu_init(struct gpu *u, const struct engine_options *o)
{
	*u = (struct gpu){.ordinal = o->gpu == GPU_OFF	  ? -1
				     : o->gpu == GPU_AUTO ? 0
							  : o->gpu - GPU_NUMBER};
	gpu_budget_init(&u->budget, o->gpu_budget);
	if (o->gpu == GPU_OFF)
		err_set(&u->why, ENODEV, "gpu=off");
	card_find_init(&u->find, u->ordinal,
		       o->gpu == GPU_OFF ? u->why.text
		       : o->finds_gpus	 ? NULL
					 : "not looked for");
	atomic_store(&u->off, o->gpu == GPU_OFF);
}

void engine_gpu_free(struct gpu *u)
{
	card_find_free(&u->find);
	gpu_budget_free(&u->budget);
}

bool engine_gpu_serve(int argc, char **argv, int *status)
{
	return card_find_serve(argc, argv, status);
}

int engine_gpu_check(int gpu, struct err *e)
{
	struct card_found found;

	if (gpu < GPU_NUMBER)
		return 0;
	card_find_apart(gpu - GPU_NUMBER, CARD_FIND_OPEN, &found);
	return found.there ? 0 : err_set(e, ENODEV, "-o gpu=%d: %s", gpu - GPU_NUMBER, found.why);
}

void engine_gpu_found(struct engine *g, const struct card *c)
{
	struct gpu *u = &g->gpu;

	(void)pthread_mutex_lock(&u->budget.lock);
	u->facts = c->facts;
	(void)pthread_mutex_unlock(&u->budget.lock);
}

void engine_gpu_fail(struct engine *g, const struct err *why)
{
	struct gpu *u = &g->gpu;

	(void)pthread_mutex_lock(&u->budget.lock);
	if (!u->why.code)
		u->why = *why;
	(void)pthread_mutex_unlock(&u->budget.lock);
	atomic_store(&u->off, true);
}

int engine_set_gpu_budget(struct engine *g, uint64_t bytes, struct err *e)
{
	if (!bytes)
		return err_set(
			e, ERANGE,
			"a GPU budget of 0 leaves no room; to compute without the GPU, mount "
			"with -o gpu=off");
	gpu_budget_ask(&g->gpu.budget, bytes);
	return 0;
}

void engine_automatic_gpu_budget(struct engine *g)
{
	gpu_budget_ask(&g->gpu.budget, 0);
}

void engine_gpu_stats(const struct engine *g, struct engine_gpu_stats *out)
{
	struct gpu *u = (struct gpu *)&g->gpu; /* only its lock is changed */
	const struct gpu_budget *b = &u->budget;

	(void)pthread_mutex_lock(&u->budget.lock);
	*out = (struct engine_gpu_stats){
		.memory = u->facts.memory,
		.budget = b->limit,
		.budget_asked = b->asked,
		.dense = b->used[GPU_DENSE],
		.contexts = b->used[GPU_CONTEXTS],
		.expert_bytes = b->used[GPU_EXPERTS],
		.experts = atomic_load(&u->counters.experts),
		.hits = atomic_load(&u->counters.hits),
		.promotions = atomic_load(&u->counters.promotions),
		.why = u->why,
	};
	(void)snprintf(out->name, sizeof out->name, "%s", u->facts.name);
	(void)pthread_mutex_unlock(&u->budget.lock);
}

void engine_gpu_failure(const struct engine *g, struct err *why)
{
	struct engine_gpu_stats s = {0};

	if (atomic_load(&g->gpu.off))
		engine_gpu_stats(g, &s);
	*why = s.memory || g->options.gpu >= GPU_NUMBER ? s.why : (struct err){0};
}
