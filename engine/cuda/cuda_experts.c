/* Experts on the GPU: which ones, how they come there, and how others take their places. See cuda.h.
 *
 * Threads of this file read records from the store, arrange them in main memory and copy them to the
 * GPU, each through a stream of its own, so that no token waits for them. The thread that computes
 * takes over between two steps what has arrived (cuda_experts_turn): the addresses of a layer's experts
 * change at no other time.
 *
 * Heat decides, the long-term counts of the cache's policy (pager_heat), which earlier mounts have left in
 * the store. First the GPU is filled with the hottest experts, as far as the budget goes. Then an expert
 * that is certainly hotter than the coldest one of its layer on the GPU takes its place: by so much that
 * it would hardly be seen if tokens chose both alike, or else experts would come and go by chance.
 * Pinned experts come before others, whatever their heat, and nothing takes their places.
 */
#include "engine/cuda/cuda_model.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	FILLERS = 4,
	CHANGE_STEPS = 8,   /* between two looks for experts that should change places */
	CHANGES_MOST = 64,  /* on their way at once */
	CHANGE_SIGMAS = 3,  /* by which an expert must be hotter than another */
	SPARE = 8,	    /* pieces that stay free for changes, unless all experts find room */
	CONTEXTS_SHARE = 8, /* this part of what the dense weights leave is kept for contexts */
};

/* An expert that is to come, or has; NOBODY: none. */
enum { NOBODY = -1 };
struct cuda_change {
	int64_t expert, victim; /* routed layer · experts + expert */
	gpu_address piece;	/* 0: not yet */
};

/* Uses of an expert while it was on the GPU. Any thread may read them. */
struct cuda_use {
	_Atomic uint64_t count, last_token, last_used; /* as in struct cuda_expert */
};

struct cuda_experts {
	struct cuda_model *model;
	const struct store *store;
	struct pager_source *source;
	uint32_t layers, each; /* routed layers, experts of one */
	uint32_t all;	       /* experts of the layers that the GPU computes: no others come */
	gpu_address slots;     /* on the GPU: [layers][each] addresses */
	/* Of the thread that computes: */
	_Atomic gpu_address *at; /* [layers][each] as on the GPU; any thread may read */
	uint32_t *held;		 /* [layers] */
	float *heat;		 /* [layers][each], as of the last look */
	uint64_t looked;	 /* the step of the last look for changes */
	struct cuda_use *use;	 /* [layers][each] */
	uint64_t token, now;	 /* of the step, as in struct cuda_expert */
	_Atomic uint32_t count;
	_Atomic uint64_t hits; /* of the model */

	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t work;
	bool stop, full;
	bool broken;		  /* something could not be copied to the GPU: no more is */
	uint32_t *order;	  /* [layers * each]: of a filling, the hottest first */
	size_t next, next_pinned; /* in it, and of all: those before these have been looked at */
	bool *moving;		  /* [layers][each]: on its way, or to be replaced */
	bool *pinned;		  /* [layers][each] */
	bool repinned;		  /* some were pinned since the last look for changes */
	struct cuda_pool pool;
	struct cuda_change wanted[CHANGES_MOST];
	uint32_t wanted_count;
	struct cuda_change *arrived; /* room for all experts */
	size_t arrived_count;
	uint32_t busy; /* fillers with an expert in hand */

	pthread_t thread[FILLERS];
	uint32_t threads;
};

/* ---- the fillers ---- */

/* What a filler copies with. */
struct cuda_filler {
	struct cuda_experts *x;
	gpu_stream stream;
	void *record, *slot; /* slot: memory that the GPU can read */
	bool broken;
};

static bool cuda_filler_open(struct cuda_filler *f, struct cuda_experts *x)
{
	const struct gpu_driver *d = &x->model->card.driver;
	*f = (struct cuda_filler){.x = x, .record = malloc(store_info(x->store)->record_bytes)};
	return f->record && !d->context_use(x->model->card.context) &&
	       !d->stream_create(&f->stream, GPU_STREAM_APART) &&
	       !d->host_take(&f->slot, x->model->plan->slot_bytes);
}

static void cuda_filler_close(struct cuda_filler *f)
{
	const struct gpu_driver *d = &f->x->model->card.driver;
	if (f->stream)
		(void)d->stream_destroy(f->stream);
	if (f->slot)
		(void)d->host_give(f->slot);
	free(f->record);
}

/* False: the expert stays where it is. Whoever reads it next says why it cannot be read. */
static bool cuda_filler_bring(struct cuda_filler *f, uint32_t number, gpu_address piece)
{
	const struct cuda_experts *x = f->x;
	const struct plan *p = x->model->plan;
	const struct gpu_driver *d = &x->model->card.driver;
	uint32_t layer = number / x->each, expert = number % x->each;
	struct err e;
	if (store_read_record(x->store, layer, expert, f->record, p->record[layer].bytes, &e))
		return false;
	plan_arrange_record((void *)(uintptr_t)p, layer, f->slot, f->record);
	f->broken = d->copy_in(piece, f->slot, p->record[layer].slot_bytes, f->stream) != 0 ||
		    d->stream_wait(f->stream) != 0;
	return !f->broken;
}

/* A place for the next of `left` experts of a filling; 0: the rest is for changes. The lock is
 * held. */
static gpu_address cuda_experts_place(struct cuda_experts *x, size_t left)
{
	struct err none;
	uint64_t kept = gpu_budget_limit(x->model->budget) / CONTEXTS_SHARE;
	if (x->pool.free <= SPARE && x->pool.free < left && !cuda_pool_grows(x->model, &x->pool, kept))
		return 0;
	return cuda_pool_take(x->model, &x->pool, kept, &none);
}

/* Whether the GPU computes the expert's layer. */
static bool cuda_experts_may_come(const struct cuda_experts *x, size_t expert)
{
	return !cuda_lacks_experts(x->model, (uint32_t)(expert / x->each))[0];
}

/* May come, and is neither on the GPU nor on its way. The lock is held. */
static bool cuda_experts_lacks(const struct cuda_experts *x, size_t expert)
{
	return !atomic_load(&x->at[expert]) && !x->moving[expert] &&
	       cuda_experts_may_come(x, expert);
}

/* The next expert of a filling: pinned ones, then the hottest; NOBODY: there is no more. The lock is
 * held. */
static int64_t cuda_experts_choose(struct cuda_experts *x)
{
	const size_t all = (size_t)x->layers * x->each;
	while (x->next_pinned < all) {
		size_t e = x->next_pinned++;
		if (x->pinned[e] && cuda_experts_lacks(x, e))
			return (int64_t)e;
	}
	while (x->next < all) {
		size_t e = x->order[x->next++];
		if (cuda_experts_lacks(x, e))
			return (int64_t)e;
	}
	return NOBODY;
}

static size_t cuda_experts_left(const struct cuda_experts *x)
{
	size_t left = 0;
	for (size_t e = 0; e < (size_t)x->layers * x->each; e++)
		left += cuda_experts_lacks(x, e);
	return left;
}

/* False: there is no more, or no room. The lock is held. */
static bool cuda_experts_next(struct cuda_experts *x, struct cuda_change *c)
{
	*c = (struct cuda_change){x->full ? NOBODY : cuda_experts_choose(x), NOBODY, 0};
	if (c->expert == NOBODY)
		return false;
	c->piece = cuda_experts_place(x, cuda_experts_left(x));
	x->full = !c->piece;
	x->moving[c->expert] = !x->full;
	return !x->full;
}

/* Waits for something to bring. False: nothing will come any more. The lock is held. */
static bool cuda_experts_wait(struct cuda_experts *x, struct cuda_change *c)
{
	struct err none;
	while (!x->stop) {
		if (cuda_experts_next(x, c))
			return true;
		if (x->wanted_count && x->pool.free) {
			*c = x->wanted[--x->wanted_count];
			c->piece = cuda_pool_take(x->model, &x->pool, 0, &none);
			return true;
		}
		pthread_cond_wait(&x->work, &x->lock);
	}
	return false;
}

static void *cuda_experts_fill(void *ctx)
{
	struct cuda_experts *x = ctx;
	struct cuda_filler f;
	struct cuda_change c;
	bool works = cuda_filler_open(&f, x);
	pthread_mutex_lock(&x->lock);
	while (works && cuda_experts_wait(x, &c)) {
		x->busy++;
		pthread_mutex_unlock(&x->lock);
		bool came = cuda_filler_bring(&f, (uint32_t)c.expert, c.piece);
		pthread_mutex_lock(&x->lock);
		x->busy--;
		x->broken |= f.broken;
		x->full |= f.broken;
		if (!came) {
			cuda_pool_give(&x->pool, c.piece);
			c.piece = 0;
		}
		x->arrived[x->arrived_count++] = c;
	}
	pthread_mutex_unlock(&x->lock);
	cuda_filler_close(&f);
	return NULL;
}

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

/* ---- the order of a filling ---- */

struct cuda_ranked {
	float heat;
	uint32_t turn; /* of experts that are equally hot: all layers alike */
	uint32_t expert;
};

static int cuda_compare_ranked(const void *left, const void *right)
{
	const struct cuda_ranked *a = left, *b = right;
	if (a->heat != b->heat)
		return a->heat < b->heat ? 1 : -1;
	return a->turn < b->turn ? -1 : a->turn > b->turn;
}

/* Begins a filling. Without memory for sorting the order stays as it was. The lock is held, or nobody fills
 * yet. */
static void cuda_experts_order(struct cuda_experts *x)
{
	const uint32_t all = x->layers * x->each;
	struct cuda_ranked *r = malloc(all * sizeof *r);
	for (uint32_t e = 0; r && e < all; e++)
		r[e] = (struct cuda_ranked){x->heat[e], e % x->each * x->layers + e / x->each, e};
	if (r)
		qsort(r, all, sizeof *r, cuda_compare_ranked);
	for (uint32_t i = 0; r && i < all; i++)
		x->order[i] = r[i].expert;
	free(r);
	x->next = x->next_pinned = 0;
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

/* Main memory need not hold it, too. It stays there if it is pinned or needed now. */
static void cuda_experts_leave_main(const struct cuda_experts *x, int64_t expert)
{
	struct pager_id id = {(uint32_t)(expert / x->each), (uint32_t)(expert % x->each)};
	struct err pinned;
	(void)pager_evict(x->source, &id, 1, &pinned);
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
		cuda_experts_put(x, c->victim, 0);
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
			cuda_experts_put(x, (int64_t)e, 0);
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

/* ---- changing places ---- */

/* The coldest of `count` experts from `first` on that may leave the GPU; NOBODY: none may. The lock is
 * held. */
static int64_t cuda_experts_coldest(const struct cuda_experts *x, size_t first, size_t count)
{
	int64_t coldest = NOBODY;
	for (size_t e = first; e < first + count; e++)
		if (atomic_load(&x->at[e]) && !x->moving[e] && !x->pinned[e] &&
		    (coldest == NOBODY || x->heat[e] < x->heat[coldest]))
			coldest = (int64_t)e;
	return coldest;
}

/* Whether two numbers of uses differ by more than CHANGE_SIGMAS times the deviation of their difference,
 * if both are of a Poisson process. */
static bool cuda_certainly_hotter(float hot, float cold)
{
	const float more = hot - cold;
	return more > 0 && more * more > CHANGE_SIGMAS * CHANGE_SIGMAS * (hot + cold);
}

/* The hottest expert of a layer that is elsewhere and the coldest one here, if they should change
 * places. The lock is held. */
static bool cuda_experts_find_change(const struct cuda_experts *x, uint32_t layer,
				     struct cuda_change *c)
{
	const uint32_t first = layer * x->each;
	*c = (struct cuda_change){NOBODY, cuda_experts_coldest(x, first, x->each), 0};
	for (uint32_t e = first; e < first + x->each; e++)
		if (cuda_experts_lacks(x, e) &&
		    (c->expert == NOBODY || x->heat[e] > x->heat[c->expert]))
			c->expert = e;
	return c->expert != NOBODY && c->victim != NOBODY &&
	       cuda_certainly_hotter(x->heat[c->expert], x->heat[c->victim]);
}

/* A place for a pinned expert that is elsewhere. Its victim is an expert of its own layer, if possible: a
 * layer whose experts are all on the GPU is computed without the host. The lock is held. */
static bool cuda_experts_find_place(const struct cuda_experts *x, uint32_t expert,
				    struct cuda_change *c)
{
	if (!x->pinned[expert] || !cuda_experts_lacks(x, expert))
		return false;
	*c = (struct cuda_change){expert, NOBODY, 0};
	c->victim = cuda_experts_coldest(x, expert / x->each * x->each, x->each);
	if (c->victim == NOBODY)
		c->victim = cuda_experts_coldest(x, 0, (size_t)x->layers * x->each);
	return c->victim != NOBODY;
}

/* Has a filler bring an expert. False: too many are on their way. The lock is held. */
static bool cuda_experts_want(struct cuda_experts *x, const struct cuda_change *c)
{
	if (x->wanted_count + x->busy >= CHANGES_MOST)
		return false;
	x->moving[c->expert] = x->moving[c->victim] = true;
	x->wanted[x->wanted_count++] = *c;
	return true;
}

/* One change of each layer, each time from another layer on. False: there is no more, or no more at once.
 * The lock is held. */
static bool cuda_experts_change_layers(struct cuda_experts *x)
{
	struct cuda_change c;
	bool found = false;
	for (uint32_t i = 0; i < x->layers; i++) {
		uint32_t layer = (uint32_t)((x->model->steps + i) % x->layers);
		if (!cuda_experts_find_change(x, layer, &c))
			continue;
		found = true;
		if (!cuda_experts_want(x, &c))
			return false;
	}
	return found;
}

/* Pinned experts before others. The lock is held. */
static void cuda_experts_look_for_changes(struct cuda_experts *x)
{
	struct cuda_change c;
	for (uint32_t e = 0; e < x->layers * x->each; e++)
		if (cuda_experts_find_place(x, e, &c) && !cuda_experts_want(x, &c))
			break;
	while (cuda_experts_change_layers(x))
		;
	pthread_cond_broadcast(&x->work);
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
