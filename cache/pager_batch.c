/* Batches: the experts that one layer needs at one step, from pager_begin to pager_end.
 *
 * pager_next first gives slots to absent experts, as far as there is room, and queues them. Then it
 * returns resident experts; if there are none, it waits. It waits for room only while the batch
 * holds nothing and no read of the batch is under way. So a batch that holds experts can put them
 * back without waiting for a batch that holds none, every read ends by itself, and no batch waits
 * for ever. The first batch that waits for room keeps all others from taking room until it gets
 * some. Otherwise a batch that needs a large expert could starve. */
#include "cache/pager.h"
#include "cache/clock.h"

#include "cache/pager_inside.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How many experts a batch reads ahead of its computation. This is enough for any device. More
 * would cost too many slots, each taken from an expert in use. */
enum { READ_AHEAD = 2 * DEPTH_MOST };

enum progress { WANTED, FAILED, HELD, PUT };

struct pager_failure {
	struct pager_failure *next;
	uint32_t index;
	struct err error;
};

static struct pager_entry *batch_entry(const struct pager_batch *b, uint32_t i)
{
	return &b->source->entries[(size_t)b->layer * b->source->experts + b->experts[i]];
}

/* CLOCK_REALTIME in nanoseconds, for last_used, which users see as a date. */
static uint64_t batch_date(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_REALTIME, &t); /* cannot fail for this clock */
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- beginning ---- */

static int batch_check_range(const struct pager_source *s, uint32_t layer, const uint32_t *experts,
			     uint32_t n, struct err *e)
{
	if (layer >= s->layers)
		return err_set(e, EINVAL, "%s: has no routed layer %u",
			       store_folder(s->supply.store), layer);
	for (uint32_t i = 0; i < n; i++)
		if (experts[i] >= s->experts)
			return err_set(e, EINVAL, "%s: layer %u has no expert %u",
				       store_folder(s->supply.store), layer, experts[i]);
	return 0;
}

static void batch_want_all(struct pager_batch *b, uint8_t *missed, uint64_t token)
{
	struct pager_source *s = b->source;
	struct pager *p = s->pager;
	uint64_t time = batch_date();
	if (token > s->token) {
		pager_count(&p->total.tokens, &s->own.tokens, token - s->token);
		s->token = token;
	}
	for (uint32_t i = 0; i < b->count; i++) {
		struct pager_entry *x = batch_entry(b, i);
		bool hit = x->state == ENTRY_RESIDENT;
		missed[i] = !hit;
		x->wanted++;
		x->last_token = token;
		x->last_used = time;
		(*(hit ? &x->hits : &x->misses))++;
		pager_count(hit ? &p->total.hits : &p->total.misses,
			    hit ? &s->own.hits : &s->own.misses, 1);
		if (x->prefetched)
			pager_count(&p->total.prefetch_hits, &s->own.prefetch_hits, 1);
		x->prefetched = false;
	}
}

/* ---- the parts of pager_next; all are called with the lock held ---- */

static void batch_hold(struct pager_batch *b, uint32_t i, struct pager_ready *out)
{
	struct pager_entry *x = batch_entry(b, i);
	pool_hold(x);
	x->wanted--;
	b->state[i] = HELD;
	b->held++;
	b->left--;
	*out = (struct pager_ready){.index = i, .data = x->slot};
}

static uint32_t batch_take_resident(struct pager_batch *b, struct pager_ready *ready, uint32_t max)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < b->count && n < max; i++)
		if (b->state[i] == WANTED && batch_entry(b, i)->state == ENTRY_RESIDENT)
			batch_hold(b, i, &ready[n++]);
	return n;
}

/* The reason why an expert could not be read. */
static const struct err *batch_failure_of(const struct pager_batch *b, uint32_t i)
{
	static const struct err no_words = {
		.code = ENOMEM,
		.text = "out of memory for the reason why an expert could not be read",
	};
	const struct pager_failure *f = b->failures;
	while (f && f->index != i)
		f = f->next;
	return f ? &f->error : &no_words;
}

static uint32_t batch_take_failed(struct pager_batch *b, struct pager_ready *ready, uint32_t max)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < b->count && n < max && b->failed; i++) {
		if (b->state[i] != FAILED)
			continue;
		b->state[i] = PUT;
		b->failed--;
		b->left--;
		ready[n++] = (struct pager_ready){.index = i, .error = batch_failure_of(b, i)};
	}
	return n;
}

/* Queues absent experts of the batch, in its order, as many as there is room for. must: queues at
 * least one, if the batch holds nothing and reads nothing. -ENOMEM: there is room below the budget,
 * but no memory, and no held or loading expert to wait for. */
static int batch_request_absent(struct pager_batch *b, bool must, struct err *e)
{
	struct pager *p = b->source->pager;
	uint32_t n = 0;
	int rc = 1;
	if (p->first_in_line && p->first_in_line != b)
		return 0;
	for (uint32_t i = 0; i < b->count && b->reading < READ_AHEAD; i++) {
		struct pager_entry *x = batch_entry(b, i);
		if (b->state[i] != WANTED || x->state != ENTRY_ABSENT)
			continue;
		rc = pool_take(p, x,
			       must && b->held == 0 && b->reading == 0 ? NEED_MUST : NEED_DEMAND);
		if (rc <= 0)
			break;
		queue_demand(p, x, b);
		b->reading++;
		n++;
	}
	queue_wake(p, n);
	if (rc < 0 && b->held == 0 && b->reading == 0 && !pool_busy(p))
		return err_sys(e, -rc, "%s: no memory for an expert of layer %u; lower the budget",
			       store_folder(b->source->supply.store), b->layer);
	return 0;
}

/* Waits until something changes: a read ends, or there is more room. */
static int batch_wait(struct pager_batch *b, struct err *e)
{
	struct pager *p = b->source->pager;
	bool loading = false, absent = false;
	for (uint32_t i = 0; i < b->count; i++) {
		enum entry_state state = batch_entry(b, i)->state;
		if (b->state[i] != WANTED)
			continue;
		loading |= state == ENTRY_LOADING;
		absent |= state == ENTRY_ABSENT;
	}
	if (b->held > 0 && !loading)
		return err_set(e, EAGAIN,
			       "the cache has no room for more while this batch holds %u experts",
			       b->held);
	if (b->held == 0 && b->reading == 0 && absent && !p->first_in_line)
		p->first_in_line = b;
	uint64_t start = clock_ns();
	p->waiting++;
	pthread_cond_wait(&p->changed, &p->lock);
	p->waiting--;
	pager_count(&p->total.wait_ns, &b->source->own.wait_ns, clock_ns() - start);
	return 0;
}

static bool batch_is_stopped(const struct pager_batch *b)
{
	return b->stop && b->stop(b->stop_ctx);
}

void batch_note_failure(struct pager_batch *b, const struct pager_entry *x, const struct err *e)
{
	uint32_t i = 0;
	while (i < b->count && (b->state[i] != WANTED || batch_entry(b, i) != x))
		i++;
	assert(i < b->count);
	struct pager_failure *f = malloc(sizeof *f); /* NULL: the batch reports no_words instead */
	if (f) {
		*f = (struct pager_failure){.next = b->failures, .index = i, .error = *e};
		b->failures = f;
	}
	b->state[i] = FAILED;
	b->failed++;
	batch_entry(b, i)->wanted--;
}

/* ---- a batch's life ---- */

int pager_begin(struct pager_batch *b, struct pager_source *s, uint32_t layer,
		const uint32_t *experts, const float *credit, uint32_t n, uint64_t token,
		struct err *e)
{
	struct pager *p = s->pager;
	*b = (struct pager_batch){0};
	int rc = batch_check_range(s, layer, experts, n, e);
	if (rc)
		return rc;
	uint8_t *state = calloc(2 * (size_t)n + 1, sizeof *state); /* all WANTED */
	if (!state)
		return err_sys(e, ENOMEM, "%s: a batch of %u experts",
			       store_folder(s->supply.store), n);
	*b = (struct pager_batch){.source = s,
				  .layer = layer,
				  .count = n,
				  .experts = experts,
				  .missed = state + n,
				  .state = state,
				  .left = n};

	pthread_mutex_lock(&p->lock);
	ahead_end(s, layer);
	heat_warm_stop(s);
	pool_visit(p, s, layer, experts, credit, n);
	batch_want_all(b, state + n, token);
	ahead_compare(s, b);
	(void)batch_request_absent(b, false, NULL); /* pager_next tries again and reports it */
	pthread_mutex_unlock(&p->lock);
	return 0;
}

void pager_use_elsewhere(struct pager_source *s, uint32_t layer, const uint32_t *experts,
			 const float *credit, uint32_t n, bool visited)
{
	struct pager *p = s->pager;
	pthread_mutex_lock(&p->lock);
	if (visited)
		pool_use_all(p, s, layer, experts, credit, n);
	else
		pool_visit(p, s, layer, experts, credit, n);
	pthread_mutex_unlock(&p->lock);
}

int pager_next(struct pager_batch *b, struct pager_ready *ready, uint32_t max, struct err *e)
{
	struct pager *p = b->source->pager;
	int rc = 0;
	if (max == 0)
		return err_set(e, EINVAL, "a batch was asked for no experts");
	pthread_mutex_lock(&p->lock);
	while (rc == 0 && b->left > 0) {
		if (batch_is_stopped(b)) {
			rc = err_set(e, ECANCELED, "stopped");
			break;
		}
		/* Hold resident experts before making room for absent ones, which could evict
		 * them. */
		uint32_t n = batch_take_failed(b, ready, max);
		n += batch_take_resident(b, ready + n, max - n);
		rc = batch_request_absent(b, true, n ? NULL : e);
		if (n > 0)
			rc = (int)n; /* the next call meets a failure to queue again */
		else if (rc == 0)
			rc = batch_wait(b, e);
	}
	if (p->first_in_line == b) {
		p->first_in_line = NULL;
		pthread_cond_broadcast(&p->changed);
		queue_wake(p, 1); /* prefetches and the warm start had to wait */
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void pager_put(struct pager_batch *b, const struct pager_ready *r)
{
	struct pager *p = b->source->pager;
	if (!r->data)
		return;
	assert(r->index < b->count && b->state[r->index] == HELD);
	struct pager_entry *x = batch_entry(b, r->index);
	pthread_mutex_lock(&p->lock);
	b->state[r->index] = PUT;
	b->held--;
	pool_give_back(p, x);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* Removes expert i from the batch. Its read continues, since other batches may want the expert. */
static void batch_disown(struct pager_batch *b, uint32_t i)
{
	struct pager_entry *x = batch_entry(b, i);
	if (b->state[i] != WANTED)
		return;
	b->state[i] = PUT;
	b->left--;
	x->wanted--;
	if (x->batch == b) {
		x->batch = NULL;
		b->reading--;
	}
}

void pager_forgo(struct pager_batch *b, uint32_t index)
{
	struct pager *p = b->source->pager;
	assert(index < b->count);
	pthread_mutex_lock(&p->lock);
	batch_disown(b, index);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void batch_free(struct pager_batch *b)
{
	struct pager_failure *f;
	while ((f = b->failures)) {
		b->failures = f->next;
		free(f);
	}
	free(b->state);
	*b = (struct pager_batch){0};
}

void pager_end(struct pager_batch *b)
{
	if (!b->state)
		return;
	assert(b->held == 0);
	struct pager *p = b->source->pager;
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < b->count; i++)
		batch_disown(b, i);
	pool_shrink(p);
	queue_wake(p, p->asked > 0); /* there may be room now for experts that users asked for */
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	batch_free(b);
}

void pager_wake(struct pager *p)
{
	pthread_mutex_lock(&p->lock); /* else the signal could come between the check of the flag
					 and the wait */
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}
