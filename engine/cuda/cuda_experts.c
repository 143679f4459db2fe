/* Experts on the GPU: which ones, and when they come and leave. See cuda.h.
 *
 * Threads bring experts (cuda_fillers.c). The thread that computes takes over between two steps what has
 * arrived (cuda_experts_turn): the addresses of a layer's experts change at no other time.
 *
 * Heat decides, the long-term counts of the cache's policy (pager_heat), which earlier mounts have left in
 * the store. First the GPU is filled with the hottest experts, as far as the budget goes. Then hotter ones
 * take the places of others (cuda_changes.c). Pinned experts come before others, whatever their heat, and
 * nothing takes their places.
 */
#include "engine/cuda/cuda_experts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- beginning and ending ---- */

static int cuda_experts_take(struct cuda_experts *x, struct err *e)
{
	size_t all = (size_t)x->layers * x->each;
	x->at = calloc(all, sizeof *x->at);
	x->held = calloc(x->layers, sizeof *x->held);
	x->heat = calloc(all, sizeof *x->heat);
	x->moving = calloc(all, sizeof *x->moving);
	x->use = calloc(all, sizeof *x->use);
	x->pinned = calloc(all, sizeof *x->pinned);
	x->order = calloc(all, sizeof *x->order);
	x->arrived = calloc(all + CHANGES_MOST, sizeof *x->arrived);
	if (!x->at || !x->held || !x->heat || !x->moving || !x->use || !x->pinned || !x->order ||
	    !x->arrived)
		return err_set(e, ENOMEM, "out of memory for a list of experts");
	x->slots = cuda_take(x->model, GPU_DENSE, all * sizeof x->slots, e);
	if (!x->slots)
		return -ENOMEM;
	return card_clear(&x->model->card, x->slots, all * sizeof x->slots, e);
}

static void cuda_experts_free(struct cuda_experts *x)
{
	size_t all = (size_t)x->layers * x->each;
	cuda_pool_free(x->model, &x->pool);
	cuda_give(x->model, GPU_DENSE, x->slots, all * sizeof x->slots);
	pthread_cond_destroy(&x->work);
	pthread_mutex_destroy(&x->lock);
	free(x->at);
	free(x->held);
	free(x->heat);
	free(x->moving);
	free(x->use);
	free(x->pinned);
	free(x->order);
	free(x->arrived);
	free(x);
}

/* How many experts the GPU will hold once it is filled. The lock is held. */
static uint64_t cuda_experts_room(const struct cuda_experts *x)
{
	struct gpu_budget *b = x->model->budget;
	uint64_t all = x->all, pieces = x->pool.pieces,
		 left = gpu_budget_room(b), kept = gpu_budget_limit(b) / CONTEXTS_SHARE;
	if (!x->full && left > kept)
		pieces += (left - kept) / x->pool.bytes;
	if (pieces >= all)
		return all;
	return pieces > SPARE ? pieces - SPARE : 0;
}

/* How many experts the GPU may have. */
static uint32_t cuda_experts_count(const struct cuda_model *m)
{
	uint32_t layers = 0;
	for (uint32_t r = 0; r < m->plan->routed_layers; r++)
		layers += !cuda_lacks_experts(m, r)[0];
	return layers * m->plan->experts;
}

int cuda_experts_begin(struct cuda_model *m, const struct store *store, struct pager_source *source,
		       struct err *e)
{
	uint32_t all = cuda_experts_count(m);
	struct cuda_experts *x = all ? calloc(1, sizeof *x) : NULL;
	if (!all)
		return 0;
	if (!x)
		return err_set(e, ENOMEM, "out of memory for a list of experts");
	*x = (struct cuda_experts){.model = m,
				   .store = store,
				   .source = source,
				   .layers = m->plan->routed_layers,
				   .each = m->plan->experts,
				   .all = all};
	x->pool.use = GPU_EXPERTS;
	x->pool.share = 1;
	x->pool.bytes = cuda_round_up(m->plan->slot_bytes, CUDA_ALIGNMENT);
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->work, NULL);
	int failed = cuda_experts_take(x, e);
	if (failed) {
		cuda_experts_free(x);
		return failed;
	}
	m->experts = x;
	pager_heat(source, x->heat);
	for (uint32_t i = 0; i < x->layers * x->each; i++)
		x->order[i] = i;
	cuda_experts_order(x);
	pager_warm_without(source, (uint32_t)cuda_experts_room(x));
	for (; x->threads < FILLERS; x->threads++)
		if (pthread_create(&x->thread[x->threads], NULL, cuda_experts_fill, x) != 0)
			break; /* fewer fill as well */
	return 0;
}

void cuda_experts_end(struct cuda_model *m)
{
	struct cuda_experts *x = m->experts;
	if (!x)
		return;
	pthread_mutex_lock(&x->lock);
	x->stop = true;
	pthread_cond_broadcast(&x->work);
	pthread_mutex_unlock(&x->lock);
	while (x->threads)
		pthread_join(x->thread[--x->threads], NULL);
	atomic_fetch_sub(&m->counters->experts, atomic_load(&x->count));
	pager_set_elsewhere(x->source, 0);
	cuda_experts_free(x); /* what had arrived lies in the pool's slabs */
	m->experts = NULL;
}

/* ---- between two steps ---- */

static void cuda_experts_put(struct cuda_experts *x, int64_t expert, gpu_address at)
{
	bool was = atomic_load(&x->at[expert]) != 0;
	atomic_store(&x->at[expert], at);
	x->held[expert / x->each] += (at != 0) - was;
	atomic_fetch_add(&x->count, (uint32_t)((at != 0) - was));
	atomic_fetch_add(&x->model->counters->experts, (uint64_t)((at != 0) - was));
}

static struct pager_id cuda_experts_id(const struct cuda_experts *x, int64_t expert)
{
	return (struct pager_id){(uint32_t)(expert / x->each), (uint32_t)(expert % x->each)};
}

/* Main memory need not hold it, too. It stays there if it is pinned or needed now. */
static void cuda_experts_leave_main(const struct cuda_experts *x, int64_t expert)
{
	const struct pager_id id = cuda_experts_id(x, expert);
	struct err pinned;
	(void)pager_evict(x->source, &id, 1, &pinned);
}

/* It is read into main memory in the background, before a token waits for it. The lock is held. */
static void cuda_experts_leave_gpu(struct cuda_experts *x, int64_t expert)
{
	const struct pager_id id = cuda_experts_id(x, expert);
	cuda_experts_put(x, expert, 0);
	pager_take_back(x->source, &id, 1);
}

/* The lock is held. */
static void cuda_experts_take_over(struct cuda_experts *x, const struct cuda_change *c)
{
	x->moving[c->expert] = false;
	if (c->victim != NOBODY)
		x->moving[c->victim] = false;
	if (!c->piece)
		return;
	cuda_experts_put(x, c->expert, c->piece);
	cuda_experts_leave_main(x, c->expert);
	atomic_fetch_add(&x->model->counters->promotions, 1);
	if (c->victim != NOBODY && atomic_load(&x->at[c->victim])) {
		cuda_pool_give(&x->pool, atomic_load(&x->at[c->victim]));
		cuda_experts_leave_gpu(x, c->victim);
	}
}

/* ---- another budget ---- */

/* Gives back the pool's last slab with all that lies in it. The lock is held, nobody brings anything, and
 * no kernel is under way. */
static void cuda_experts_give_slab(struct cuda_experts *x)
{
	const struct cuda_slab slab = x->pool.slab[x->pool.slabs - 1];
	for (size_t e = 0; e < (size_t)x->layers * x->each; e++) {
		gpu_address at = atomic_load(&x->at[e]);
		if (at >= slab.at && at < slab.at + slab.bytes)
			cuda_experts_leave_gpu(x, (int64_t)e);
	}
	cuda_pool_give_slab(x->model, &x->pool);
}

/* The budget is less than what is used: experts leave. It is more: others come. True: where experts lie
 * has changed. The lock is held. */
static bool cuda_experts_follow_budget(struct cuda_experts *x)
{
	struct gpu_budget *b = x->model->budget;
	uint64_t kept = gpu_budget_limit(b) / CONTEXTS_SHARE;
	bool over = gpu_budget_over(b) > 0, changed = false;
	if (over && !x->busy && cuda_wait(x->model))
		for (; gpu_budget_over(b) && x->pool.slabs; changed = true)
			cuda_experts_give_slab(x);
	if (over) {
		x->full = true;
	} else if (x->full && !x->broken && cuda_pool_grows(x->model, &x->pool, kept)) {
		x->full = false;
		cuda_experts_order(x);
		pthread_cond_broadcast(&x->work);
	}
	return changed;
}

/* CLOCK_REALTIME in nanoseconds. */
static uint64_t cuda_experts_time(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_REALTIME, &t); /* cannot fail for this clock */
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

void cuda_experts_turn(struct cuda_model *m, uint64_t token)
{
	struct cuda_experts *x = m->experts;
	size_t all = x ? (size_t)x->layers * x->each : 0;
	if (!x)
		return;
	x->token = token;
	x->now = cuda_experts_time();
	bool looks = m->steps >= x->looked + CHANGE_STEPS;
	if (looks) {
		x->looked = m->steps;
		pager_heat(x->source, x->heat);
	}
	pthread_mutex_lock(&x->lock);
	bool changed = x->arrived_count > 0;
	if (changed) /* a pass that waits may still read what is given up */
		(void)cuda_wait(m);
	while (x->arrived_count)
		cuda_experts_take_over(x, &x->arrived[--x->arrived_count]);
	changed = cuda_experts_follow_budget(x) || changed;
	if (x->full && (x->repinned || looks)) {
		x->repinned = false;
		cuda_experts_look_for_changes(x);
	}
	pthread_mutex_unlock(&x->lock);
	if (changed)
		pager_set_elsewhere(x->source, atomic_load(&x->count));
	if (changed)
		cuda_copy_in(m, x->slots, (const void *)x->at, all * sizeof x->slots);
}

/* ---- looking ---- */

void cuda_experts_used(struct cuda_model *m, uint32_t routed, uint32_t expert)
{
	struct cuda_experts *x = m->experts;
	size_t at = (size_t)routed * x->each + expert;
	struct cuda_use *use = &x->use[at];
	if (!atomic_load_explicit(&x->at[at], memory_order_relaxed) ||
	    atomic_load_explicit(&use->last_token, memory_order_relaxed) == x->token)
		return;
	atomic_store_explicit(&use->last_token, x->token, memory_order_relaxed);
	atomic_store_explicit(&use->last_used, x->now, memory_order_relaxed);
	atomic_fetch_add_explicit(&use->count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&x->hits, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&m->counters->hits, 1, memory_order_relaxed);
}

gpu_address cuda_experts_slots(const struct cuda_model *m, uint32_t routed)
{
	const struct cuda_experts *x = m->experts;
	return x->slots + (size_t)routed * x->each * sizeof x->slots;
}

bool cuda_experts_all_held(const struct cuda_model *m, uint32_t routed)
{
	return m->experts->held[routed] == m->experts->each;
}

bool cuda_experts_held(const struct cuda_model *m, uint32_t routed, uint32_t expert)
{
	const struct cuda_experts *x = m->experts;
	return x && atomic_load(&x->at[(size_t)routed * x->each + expert]) != 0;
}

void cuda_experts_look_at(const struct cuda_model *m, uint32_t routed, uint32_t expert,
			  struct cuda_expert *out)
{
	const struct cuda_experts *x = m->experts;
	*out = (struct cuda_expert){0};
	if (!x)
		return;
	const struct cuda_use *use = &x->use[(size_t)routed * x->each + expert];
	*out = (struct cuda_expert){
		.bytes = cuda_experts_held(m, routed, expert) ? x->pool.bytes : 0,
		.uses = atomic_load_explicit(&use->count, memory_order_relaxed),
		.last_token = atomic_load_explicit(&use->last_token, memory_order_relaxed),
		.last_used = atomic_load_explicit(&use->last_used, memory_order_relaxed),
	};
}

void cuda_experts_look(const struct cuda_model *m, struct cuda_experts_state *out)
{
	struct cuda_experts *x = m->experts;
	*out = (struct cuda_experts_state){0};
	if (!x)
		return;
	out->all = x->all;
	out->held = atomic_load(&x->count);
	pthread_mutex_lock(&x->lock);
	out->copied = out->held + (uint32_t)x->arrived_count;
	out->filling = (!x->full && x->next < (size_t)x->layers * x->each) || x->busy;
	pthread_mutex_unlock(&x->lock);
	out->bytes = out->copied * (uint64_t)x->pool.bytes;
	out->held_bytes = out->held * (uint64_t)x->pool.bytes;
	out->hits = atomic_load(&x->hits);
}

/* ---- pins ---- */

static size_t cuda_experts_number(const struct cuda_experts *x, const struct pager_id *id)
{
	return (size_t)id->layer * x->each + id->expert;
}

/* -ENOTSUP: the CPU computes the layer of one. */
static int cuda_experts_check_layers(const struct cuda_model *m, const struct pager_id *ids, size_t n,
				     struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		const char *lacks = cuda_lacks_experts(m, ids[i].layer);
		if (lacks[0])
			return err_set(e, ENOTSUP,
				       "the CPU computes the experts of layer %" PRIu32
				       ": the GPU cannot compute %s yet",
				       m->plan->layer_of[ids[i].layer], lacks);
	}
	return 0;
}

/* The lock is held. */
static int cuda_experts_check_room(const struct cuda_experts *x, const struct pager_id *ids,
				   size_t n, struct err *e)
{
	uint64_t want = 0, room = cuda_experts_room(x);
	for (size_t i = 0; i < (size_t)x->layers * x->each; i++)
		want += x->pinned[i];
	for (size_t i = 0; i < n; i++)
		want += !x->pinned[cuda_experts_number(x, &ids[i])];
	if (want <= room)
		return 0;
	return err_set(e, ENOSPC,
		       "the GPU has room for %" PRIu64 " experts of this model, but these and the "
		       "pinned ones are %" PRIu64 "; unpin some",
		       room, want);
}

int cuda_experts_pin(struct cuda_model *m, const struct pager_id *ids, size_t n, struct err *e)
{
	struct cuda_experts *x = m->experts;
	int failed = cuda_experts_check_layers(m, ids, n, e);
	if (failed || !x) /* a model without experts has none to pin */
		return failed;
	pthread_mutex_lock(&x->lock);
	failed = cuda_experts_check_room(x, ids, n, e);
	for (size_t i = 0; i < n && !failed; i++)
		x->pinned[cuda_experts_number(x, &ids[i])] = true;
	x->repinned = true;
	x->next_pinned = 0;
	pthread_mutex_unlock(&x->lock);
	return failed;
}

void cuda_experts_unpin(struct cuda_model *m, const struct pager_id *ids, size_t n)
{
	struct cuda_experts *x = m->experts;
	if (!x)
		return;
	pthread_mutex_lock(&x->lock);
	for (size_t i = 0; i < n; i++)
		x->pinned[cuda_experts_number(x, &ids[i])] = false;
	pthread_mutex_unlock(&x->lock);
}
