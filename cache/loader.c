/* The pager's I/O threads: they read experts from the store into the slots that they were given.
 *
 * Three kinds of requests, each taken only when there is none of the kind before: what a batch
 * waits for (demand; it has its slot already), what is predicted for the next layers (foreseen; it
 * gets a slot here, if a spare one can be had), and what a fresh mount warms itself with. As many
 * are in flight as depth.c finds useful, so a demand read never queues behind many others. Demands
 * are counted for each source alone: while the disk of one hangs, those of another go on.
 *
 * Each thread has a reader of its own, keeps several reads in flight by it where there is io_uring,
 * and verifies, unpacks and arranges what has come; so that work is shared when it is much. Where
 * there is no io_uring, as many threads as the deepest queue has places do one read each. An expert
 * that its store does not have yet is made by the source's callback, in the thread that took it.
 *
 * Idle threads sleep in poll or in the ring until the eventfd pager.wake counts a request.
 */
#include "cache/pool.h"
#include "cache/reader.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Reads that nobody waits for are begun below so many in flight: enough to keep a device busy, and
 * a demand that comes does not queue behind more. */
enum { MOST_LOADERS = 8, FORESEEN_BELOW = 3 };

struct loader {
	struct pager *pager;
	struct reader *reader;
	pthread_t thread;
	void *scratch; /* of one record, for those that are made or unpacked */
	size_t scratch_bytes;
};

/* ---- requests; the lock is held ---- */

static void push(struct request_queue *q, struct entry *x)
{
	x->next = NULL;
	*(q->last ? &q->last->next : &q->first) = x;
	q->last = x;
}

static struct entry *pop(struct request_queue *q)
{
	struct entry *x = q->first;
	if (x && !(q->first = x->next))
		q->last = NULL;
	return x;
}

void loader_wake(struct pager *p, uint32_t requests)
{
	/* Who is awake looks for more before it sleeps, so more than there are threads would only
	 * wake them in vain. */
	uint32_t n = requests < p->loader_count ? requests : p->loader_count;
	if (n)
		(void)eventfd_write(p->wake, n);
}

void loader_demand(struct pager *p, struct entry *x, struct pager_batch *batch)
{
	loader_forget(p, x); /* it has one link for all queues */
	x->batch = batch;
	push(&p->demand, x);
}

void loader_foresee(struct pager *p, struct entry *x)
{
	x->queued = true;
	push(&p->foreseen, x);
}

/* Drops those of a source that are its entries begin … end - 1. */
static void filter_foreseen(struct pager *p, const struct pager_source *s, size_t begin, size_t end)
{
	struct request_queue kept = {0};
	struct entry *x;
	while ((x = pop(&p->foreseen)))
		if (x->source == s && entry_index(x) >= begin && entry_index(x) < end)
			x->queued = false;
		else
			push(&kept, x);
	p->foreseen = kept;
}

void loader_forget(struct pager *p, struct entry *x)
{
	if (x->queued)
		filter_foreseen(p, x->source, entry_index(x), entry_index(x) + 1);
}

void loader_forget_layer(struct pager *p, struct pager_source *s, uint32_t layer)
{
	size_t first = (size_t)layer * s->experts;
	filter_foreseen(p, s, first, first + s->experts);
}

void loader_forget_source(struct pager *p, struct pager_source *s)
{
	filter_foreseen(p, s, 0, (size_t)s->layers * s->experts);
}

static struct entry *next_foreseen(struct pager *p)
{
	struct entry *x;
	while ((x = pop(&p->foreseen))) {
		x->queued = false;
		if (x->state == ENTRY_ABSENT && pool_take(p, x, NEED_SPARE) > 0) {
			x->prefetched = true;
			count(&p->total.prefetched, &x->source->own.prefetched, 1);
			return x;
		}
	}
	return NULL;
}

/* The first whose source has a place left. */
static struct entry *next_demand(struct pager *p)
{
	struct request_queue *q = &p->demand;
	struct entry *before = NULL, *x = q->first;
	while (x && x->source->flying >= p->depth.depth) {
		before = x;
		x = x->next;
	}
	if (!x)
		return NULL;
	*(before ? &before->next : &q->first) = x->next;
	if (q->last == x)
		q->last = before;
	return x;
}

/* What nobody waits for yet: while no device has much to do, and no batch waits for room. */
static struct entry *next_early(struct pager *p)
{
	if (p->flying >= FORESEEN_BELOW || p->flying >= p->depth.depth || p->first_in_line)
		return NULL;
	struct entry *x = next_foreseen(p);
	return x ? x : warm_next(p);
}

static struct entry *next_request(struct pager *p)
{
	struct entry *x = next_demand(p);
	if (!x)
		x = next_early(p);
	if (x) { /* until it lands */
		p->flying++;
		x->source->flying++;
	}
	return x;
}

/* ---- one expert ---- */

static uint32_t layer_of(const struct entry *x)
{
	return (uint32_t)(entry_index(x) / x->source->experts);
}

static uint32_t expert_of(const struct entry *x)
{
	return (uint32_t)(entry_index(x) % x->source->experts);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Tells the batch that asked, if there is one still, and gives a slot back that got nothing. */
static void end_load(struct pager *p, struct entry *x, int failed, const struct err *e)
{
	struct pager_batch *batch = x->batch;
	x->batch = NULL;
	if (batch) {
		batch->reading--;
		if (failed && !batch->failed) {
			batch->failed = failed;
			batch->error = *e;
		}
	}
	if (failed)
		pool_release(p, x);
	else
		pool_resident(p, x);
	pthread_cond_broadcast(&p->changed);
}

/* The lock is held. The other end of next_request. */
static void give_place(struct pager *p, const struct entry *x)
{
	p->flying--;
	x->source->flying--;
}

/* The device is done with a read. Only reads that had just the places of the present depth filled
 * say how fast it is. A thread that sleeps is told of the place that this one cannot fill, or that
 * the depth has gained. */
static void land(struct loader *l, const struct entry *x, uint64_t bytes)
{
	struct pager *p = l->pager;
	pthread_mutex_lock(&p->lock);
	uint32_t before = p->depth.depth;
	if (p->flying != before)
		depth_restart(&p->depth);
	else
		depth_note(&p->depth, bytes, now_ns());
	give_place(p, x);
	p->depth_now = p->depth.depth;
	if (p->depth.depth > before || !reader_room(l->reader))
		loader_wake(p, 1);
	pthread_mutex_unlock(&p->lock);
}

static int read_error(const struct entry *x, int code, struct err *e)
{
	const char *folder = store_folder(x->source->supply.store);
	if (code == ENODATA)
		return err_set(
			e, EIO,
			"%s/experts.safetensors: ends before layer %u expert %u does; remove the "
			"folder to convert again",
			folder, layer_of(x), expert_of(x));
	return err_sys(
		e, code,
		"%s/experts.safetensors: cannot read layer %u expert %u; try again, and if it "
		"fails again remove the folder to convert anew",
		folder, layer_of(x), expert_of(x));
}

/* Room for one record in l->scratch. */
static int grow_scratch(struct loader *l, size_t bytes, struct err *e)
{
	if (l->scratch_bytes >= bytes)
		return 0;
	free(l->scratch);
	l->scratch = malloc(bytes);
	l->scratch_bytes = l->scratch ? bytes : 0;
	if (l->scratch)
		return 0;
	return err_set(e, ENOMEM, "no memory for a record of %zu bytes; lower the budget", bytes);
}

/* Verifies what was read, decodes it where the store keeps it coded, and arranges it in its slot.
 */
static int unpack(struct loader *l, struct entry *x, const void *stored, struct err *e)
{
	const struct pager_supply *supply = &x->source->supply;
	const void *record;
	int failed = grow_scratch(l, store_scratch_bytes(supply->store), e);
	if (!failed)
		failed = store_unpack_expert(supply->store, layer_of(x), expert_of(x), stored,
					     l->scratch, &record, e);
	if (!failed)
		supply->arrange(supply->ctx, x->slot, record);
	return failed;
}

static void finish_read(struct loader *l, const struct read_done *done)
{
	struct entry *x = done->tag;
	struct pager_source *s = x->source;
	struct pager *p = l->pager;
	struct err e = {0};
	int failed = done->result;
	count(&p->total.bytes_read, &s->own.bytes_read, done->bytes);
	failed = failed ? read_error(x, -failed, &e) : unpack(l, x, done->record, &e);
	reader_release(l->reader, done);
	pthread_mutex_lock(&p->lock);
	end_load(p, x, failed, &e);
	pthread_mutex_unlock(&p->lock);
}

static void make(struct loader *l, struct entry *x)
{
	struct pager_source *s = x->source;
	struct err e = {0};
	int failed = grow_scratch(l, store_info(s->supply.store)->record_bytes, &e);
	if (!failed)
		failed = s->supply.make(s->supply.ctx, layer_of(x), expert_of(x), l->scratch, &e);
	if (!failed)
		s->supply.arrange(s->supply.ctx, x->slot, l->scratch);
	pthread_mutex_lock(&l->pager->lock);
	give_place(l->pager, x);
	end_load(l->pager, x, failed, &e);
	pthread_mutex_unlock(&l->pager->lock);
}

static void begin(struct loader *l, struct entry *x)
{
	const struct pager_supply *supply = &x->source->supply;
	struct err e = {0};
	if (supply->make && !store_has_expert(supply->store, layer_of(x), expert_of(x))) {
		make(l, x);
		return;
	}
	struct store_extent extent = store_expert(supply->store, layer_of(x), expert_of(x));
	int failed = reader_queue(l->reader, &extent, x, &e);
	if (!failed) {
		reader_submit(l->reader);
		return;
	}
	pthread_mutex_lock(&l->pager->lock);
	give_place(l->pager, x);
	end_load(l->pager, x, failed, &e);
	pthread_mutex_unlock(&l->pager->lock);
}

/* ---- threads ---- */

/* One at a time, so that threads that wake together share the requests. */
static bool begin_one(struct loader *l)
{
	struct pager *p = l->pager;
	if (!reader_room(l->reader))
		return false;
	pthread_mutex_lock(&p->lock);
	struct entry *x = next_request(p);
	pthread_mutex_unlock(&p->lock);
	if (x)
		begin(l, x);
	return x;
}

static bool has_quit(struct pager *p)
{
	pthread_mutex_lock(&p->lock);
	bool quit = p->quit;
	pthread_mutex_unlock(&p->lock);
	return quit;
}

static void *loader_main(void *arg)
{
	struct loader *l = arg;
	struct read_done done;
	while (!has_quit(l->pager)) {
		while (begin_one(l)) /* to the last: who sleeps is woken by new ones alone */
			;
		if (!reader_wait(l->reader, &done))
			continue;
		land(l, done.tag, done.bytes);
		(void)begin_one(l); /* something for the device to do meanwhile */
		finish_read(l, &done);
	}
	return NULL;
}

static uint32_t cores(void)
{
	cpu_set_t cpus;
	return sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : (uint32_t)CPU_COUNT(&cpus);
}

/* With a ring: one thread for each core, at least two, so that one arranges while another begins
 * reads. */
static uint32_t wanted_loaders(bool ring)
{
	uint32_t n = ring ? cores() : MOST_LOADERS;
	return n < 2 ? 2 : n > MOST_LOADERS ? MOST_LOADERS : n;
}

static int start_loader(struct pager *p, bool ring, struct err *e)
{
	struct loader *l = &p->loaders[p->loader_count];
	l->pager = p;
	int failed = reader_create(&l->reader, ring ? DEPTH_MOST : 1, ring, p->wake, e);
	if (failed)
		return failed;
	int code = pthread_create(&l->thread, NULL, loader_main, l);
	if (code) {
		reader_destroy(l->reader);
		return err_sys(e, code, "cannot start a thread for reading experts");
	}
	p->loader_count++;
	return 0;
}

/* Whether the kernel lets us have a ring. */
static int try_ring(bool *ring, int wake, struct err *e)
{
	struct reader *r;
	int failed = *ring ? reader_create(&r, 1, true, wake, e) : 0;
	if (failed || !*ring)
		return failed;
	*ring = reader_has_ring(r);
	reader_destroy(r);
	return 0;
}

int loaders_start(struct pager *p, enum pager_io io, struct err *e)
{
	p->ring = io == PAGER_IO_URING;
	p->wake = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	p->loaders = calloc(MOST_LOADERS, sizeof *p->loaders);
	if (p->wake < 0 || !p->loaders)
		return err_sys(e, p->wake < 0 ? errno : ENOMEM, "threads for reading experts");
	int failed = try_ring(&p->ring, p->wake, e);
	for (uint32_t n = wanted_loaders(p->ring); !failed && p->loader_count < n;)
		failed = start_loader(p, p->ring, e);
	return failed;
}

void loaders_stop(struct pager *p)
{
	pthread_mutex_lock(&p->lock);
	p->quit = true;
	pthread_mutex_unlock(&p->lock);
	loader_wake(p, p->loader_count);
	for (uint32_t i = 0; i < p->loader_count; i++) {
		pthread_join(p->loaders[i].thread, NULL);
		reader_destroy(p->loaders[i].reader);
		free(p->loaders[i].scratch);
	}
	free(p->loaders);
	if (p->wake >= 0)
		close(p->wake);
}
