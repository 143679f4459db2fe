/* Batches: the experts that one layer needs at one step, from wanted to given back.
 *
 * What pager_next does, in this order: it returns what is resident; it starts reads for what is
 * absent, as far as there is room; if it has nothing to return it waits, first for a read of its
 * own, else for its turn (an expert that another batch is loading, room, or a reader). It waits for
 * room only while it holds nothing and has nothing in flight, and a batch with reads in flight ends
 * them before it waits for anything else; so every batch that has something will give it back
 * without waiting for one that has nothing, and none can be left waiting for ever. The batch that
 * waits for room first keeps all others from taking room until it got some, or a large expert could
 * starve.
 */
#include "cache/pager.h"

#include "cache/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* LOADING is a read of this batch; what other batches load is WANTED here. */
enum progress { WANTED, LOADING, HELD, PUT };

static struct entry *entry_of(const struct pager_batch *b, uint32_t i)
{
	return &b->source->entries[(size_t)b->layer * b->source->experts + b->experts[i]];
}

static uint64_t now(clockid_t clock)
{
	struct timespec t;
	(void)clock_gettime(clock, &t); /* cannot fail for the clocks used here */
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- beginning ---- */

static int check_range(const struct pager_source *s, uint32_t layer, const uint32_t *experts,
		       uint32_t n, struct err *e)
{
	if (layer >= s->layers)
		return err_set(e, EINVAL, "%s: has no routed layer %u", store_folder(s->store),
			       layer);
	for (uint32_t i = 0; i < n; i++)
		if (experts[i] >= s->experts)
			return err_set(e, EINVAL, "%s: layer %u has no expert %u",
				       store_folder(s->store), layer, experts[i]);
	return 0;
}

int pager_begin(struct pager_batch *b, struct pager_source *s, uint32_t layer,
		const uint32_t *experts, uint32_t n, uint64_t token, struct err *e)
{
	struct pager *p = s->pager;
	*b = (struct pager_batch){0};
	int rc = check_range(s, layer, experts, n, e);
	if (rc)
		return rc;
	uint8_t *state = calloc((size_t)n + 1, sizeof *state); /* all WANTED */
	if (!state)
		return err_sys(e, ENOMEM, "%s: a batch of %u experts", store_folder(s->store), n);
	*b = (struct pager_batch){.source = s,
				  .layer = layer,
				  .count = n,
				  .experts = experts,
				  .state = state,
				  .left = n};

	uint64_t time = now(CLOCK_REALTIME);
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < n; i++) {
		struct entry *x = entry_of(b, i);
		x->wanted++;
		x->last_token = token;
		x->last_used = time;
		if (x->state == ENTRY_RESIDENT) {
			x->hits++;
			count(&p->total.hits, &s->own.hits, 1);
		} else {
			x->misses++;
			count(&p->total.misses, &s->own.misses, 1);
		}
		if (x->slot)
			pool_touch(p, x);
	}
	pthread_mutex_unlock(&p->lock);
	return 0;
}

/* ---- the parts of pager_next; all are called with the lock held ---- */

static void hold(struct pager_batch *b, uint32_t i, struct pager_ready *out)
{
	struct entry *x = entry_of(b, i);
	x->pins++;
	x->wanted--;
	b->state[i] = HELD;
	b->held++;
	b->left--;
	*out = (struct pager_ready){.index = i, .data = x->slot};
}

static uint32_t take_resident(struct pager_batch *b, struct pager_ready *ready, uint32_t max)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < b->count && n < max; i++)
		if (b->state[i] == WANTED && entry_of(b, i)->state == ENTRY_RESIDENT)
			hold(b, i, &ready[n++]);
	return n;
}

static bool get_reader(struct pager_batch *b)
{
	struct pager *p = b->source->pager;
	if (!b->reader && p->readers_free > 0)
		b->reader = p->readers[--p->readers_free];
	return b->reader && reader_room(b->reader) > 0;
}

static void return_idle_reader(struct pager_batch *b)
{
	struct pager *p = b->source->pager;
	if (!b->reader || b->reading > 0)
		return;
	p->readers[p->readers_free] = b->reader;
	b->reader = NULL;
	if (p->readers_free++ == 0) /* somebody may wait for one */
		pthread_cond_broadcast(&p->changed);
}

/* A read that did not come to be: the expert is absent again, and the batch still wants it. */
static void unload(struct pager_batch *b, uint32_t i)
{
	struct pager *p = b->source->pager;
	pool_release(p, entry_of(b, i));
	b->state[i] = WANTED;
	b->reading--;
	pthread_cond_broadcast(&p->changed);
}

/* Gives slots to absent experts of the batch, as many as there are room and buffers for. Returns
 * how many, their indices in chosen[], or -ENOMEM. */
static int choose_reads(struct pager_batch *b, uint32_t chosen[READER_DEPTH], struct err *e)
{
	struct pager *p = b->source->pager;
	int n = 0, rc = 1;
	if (p->first_in_line && p->first_in_line != b)
		return 0;
	for (uint32_t i = 0; i < b->count && rc > 0; i++) {
		struct entry *x = entry_of(b, i);
		if (b->state[i] != WANTED || x->state != ENTRY_ABSENT)
			continue;
		if (!get_reader(b) || (unsigned)n == reader_room(b->reader))
			break;
		rc = pool_take(p, x, b->held == 0 && b->reading == 0);
		if (rc > 0) {
			b->state[i] = LOADING;
			b->reading++;
			chosen[n++] = i;
		}
	}
	if (rc < 0 && n == 0)
		return err_sys(e, -rc, "%s: no memory for an expert of layer %u; lower the budget",
			       store_folder(b->source->store), b->layer);
	return n;
}

/* Starts reads; the lock is released meanwhile if there are any. */
static int start_reads(struct pager_batch *b, struct err *e)
{
	struct pager *p = b->source->pager;
	uint32_t chosen[READER_DEPTH];
	int rc = 0, queued = 0, n = choose_reads(b, chosen, e);
	if (n > 0) {
		pthread_mutex_unlock(&p->lock);
		while (queued < n && rc == 0) {
			uint32_t i = chosen[queued];
			struct store_extent extent =
				store_expert(b->source->store, b->layer, b->experts[i]);
			rc = reader_queue(b->reader, &extent, i, e);
			queued += rc == 0;
		}
		reader_submit(b->reader);
		pthread_mutex_lock(&p->lock);
		for (int k = queued; k < n; k++)
			unload(b, chosen[k]);
	}
	return_idle_reader(b); /* got one, but no room to read into */
	return n < 0 ? n : rc;
}

static int read_error(const struct pager_batch *b, uint32_t i, int code, struct err *e)
{
	const char *folder = store_folder(b->source->store);
	if (code == ENODATA)
		return err_set(
			e, EIO,
			"%s/experts.safetensors: ends before layer %u expert %u does; remove the "
			"folder to convert again",
			folder, b->layer, b->experts[i]);
	return err_sys(
		e, code,
		"%s/experts.safetensors: cannot read layer %u expert %u; try again, and if it "
		"fails again remove the folder to convert anew",
		folder, b->layer, b->experts[i]);
}

/* Waits for one read of this batch, verifies and arranges it, without the lock. Returns 1 with the
 * expert held, or a negative errno with the expert absent again. */
static int finish_read(struct pager_batch *b, struct pager_ready *ready, struct err *e)
{
	struct pager_source *s = b->source;
	struct pager *p = s->pager;
	struct read_done done;

	pthread_mutex_unlock(&p->lock);
	uint64_t start = now(CLOCK_MONOTONIC);
	reader_wait(b->reader, &done);
	count(&p->total.wait_ns, &s->own.wait_ns, now(CLOCK_MONOTONIC) - start);
	count(&p->total.bytes_read, &s->own.bytes_read, done.bytes);
	struct entry *x = entry_of(b, done.tag);
	int rc = done.result;
	if (rc)
		rc = read_error(b, done.tag, -rc, e);
	else
		rc = store_verify_expert(s->store, b->layer, b->experts[done.tag], done.record, e);
	if (!rc)
		s->arrange(s->ctx, x->slot, done.record);
	reader_release(b->reader, &done);
	pthread_mutex_lock(&p->lock);

	if (rc) {
		unload(b, done.tag);
	} else {
		x->state = ENTRY_RESIDENT;
		x->resident = true;
		count(&p->total.resident, &s->own.resident, 1);
		b->reading--;
		hold(b, done.tag, ready);
		pthread_cond_broadcast(&p->changed);
	}
	return_idle_reader(b);
	return rc ? rc : 1;
}

/* Nothing resident, nothing in flight, no room to start anything: until something changes. */
static int wait_turn(struct pager_batch *b, struct err *e)
{
	struct pager *p = b->source->pager;
	bool loading = false, absent = false;
	for (uint32_t i = 0; i < b->count; i++) {
		enum entry_state state = entry_of(b, i)->state;
		if (b->state[i] != WANTED)
			continue;
		loading |= state == ENTRY_LOADING;
		absent |= state == ENTRY_ABSENT;
	}
	if (b->held > 0 && !loading)
		return err_set(e, EAGAIN,
			       "the cache has no room for more while this batch holds %u experts",
			       b->held);
	if (b->held == 0 && absent && !p->first_in_line)
		p->first_in_line = b;
	uint64_t start = now(CLOCK_MONOTONIC);
	pthread_cond_wait(&p->changed, &p->lock);
	count(&p->total.wait_ns, &b->source->own.wait_ns, now(CLOCK_MONOTONIC) - start);
	return 0;
}

/* ---- a batch's life ---- */

int pager_next(struct pager_batch *b, struct pager_ready *ready, uint32_t max, struct err *e)
{
	struct pager *p = b->source->pager;
	int rc = 0;
	if (max == 0)
		return err_set(e, EINVAL, "a batch was asked for no experts");
	pthread_mutex_lock(&p->lock);
	while (rc == 0 && b->left > 0) {
		rc = (int)take_resident(b, ready, max);
		if (rc > 0) {
			/* Reads that go on by themselves are started before the caller computes;
			 * a failure to start them is met again by the next call. */
			if (p->async)
				(void)start_reads(b, NULL);
			break;
		}
		rc = start_reads(b, e);
		if (rc == 0)
			rc = b->reading > 0 ? finish_read(b, ready, e) : wait_turn(b, e);
	}
	if (p->first_in_line == b) {
		p->first_in_line = NULL;
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void pager_put(struct pager_batch *b, const struct pager_ready *r)
{
	struct pager *p = b->source->pager;
	assert(r->index < b->count && b->state[r->index] == HELD);
	struct entry *x = entry_of(b, r->index);
	pthread_mutex_lock(&p->lock);
	b->state[r->index] = PUT;
	b->held--;
	if (--x->pins == 0) {
		pool_shrink(p);
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
}

void pager_end(struct pager_batch *b)
{
	struct pager_ready ready;
	if (!b->state)
		return;
	assert(b->held == 0);
	struct pager *p = b->source->pager;
	pthread_mutex_lock(&p->lock);
	while (b->reading > 0) { /* the caller gave up: what is read may still serve others */
		if (finish_read(b, &ready, NULL) > 0) {
			entry_of(b, ready.index)->pins--;
			b->held--;
		}
	}
	for (uint32_t i = 0; i < b->count; i++)
		if (b->state[i] == WANTED)
			entry_of(b, i)->wanted--;
	pool_shrink(p);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	free(b->state);
	*b = (struct pager_batch){0};
}
