/* The threads that bring experts to the GPU: they read records from the store, arrange them in main memory and
 * copy them, each through a stream of its own, so that no token waits for them. First they fill the GPU, in
 * the order of heat; then they bring what is to change places. See cuda_experts.h. */
#include "engine/cuda/cuda_experts.h"

#include <stdlib.h>

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

void cuda_experts_order(struct cuda_experts *x)
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

/* False: the expert could not be read or copied, and stays where it is. The error is reported when it is read
 * next. */
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

/* Whether the GPU computes the expert's layer. */
static bool cuda_experts_may_come(const struct cuda_experts *x, size_t expert)
{
	return !cuda_lacks_experts(x->model, (uint32_t)(expert / x->each))[0];
}

bool cuda_experts_lacks(const struct cuda_experts *x, size_t expert)
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

/* How many may still come. The lock is held. */
static size_t cuda_experts_left(const struct cuda_experts *x)
{
	size_t left = 0;
	for (size_t e = 0; e < (size_t)x->layers * x->each; e++)
		left += cuda_experts_lacks(x, e);
	return left;
}

/* A place for the next expert of a filling; 0: the rest is for changes. The lock is held. */
static gpu_address cuda_experts_place(struct cuda_experts *x)
{
	struct err none;
	uint64_t kept = gpu_budget_limit(x->model->budget) / CONTEXTS_SHARE;
	if (x->pool.free <= SPARE && x->pool.free < cuda_experts_left(x) &&
	    !cuda_pool_grows(x->model, &x->pool, kept))
		return 0;
	return cuda_pool_take(x->model, &x->pool, kept, &none);
}

/* False: there is no more, or no room. The lock is held. */
static bool cuda_experts_next(struct cuda_experts *x, struct cuda_change *c)
{
	*c = (struct cuda_change){x->full ? NOBODY : cuda_experts_choose(x), NOBODY, 0};
	if (c->expert == NOBODY)
		return false;
	c->piece = cuda_experts_place(x);
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

void *cuda_experts_fill(void *ctx)
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
