/* The pager's I/O threads, which read experts from the store into their slots.
 *
 * Requests are taken by kind, in this order: demand (a batch waits; the expert already has its
 * slot), prefetch (predicted; gets a slot here if one is free), an expert that was asked for, and
 * the warm start. As many reads
 * are in flight as depth.c finds useful, so a demand read never queues behind many others. Reads in
 * flight are counted for each source: while the disk of one source hangs, the reads of the others
 * continue.
 *
 * With io_uring there is one thread per core. Each has its own ring, keeps several reads in flight,
 * and verifies, unpacks and arranges the records that it has read. So the threads share the work
 * when there is much. These threads never wait for a single read, so a disk that hangs stops none
 * of them. They sleep in the ring until the eventfd pager.wake counts a request.
 *
 * Workers do the work that occupies a thread until it is done: making an expert that the store does
 * not have yet (with the source's callback), and every read where there is no io_uring. A source
 * may use at most its share of workers at a time. The thread that takes the last free worker's
 * place starts another thread, so that one worker is always free for a source whose disk does not
 * hang.
 */
#include "cache/clock.h"
#include "cache/thread_trim.h"
#include "cache/pager_inside.h"
#include "cache/record_reader.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Reads that no batch waits for begin while fewer than PREFETCH_BELOW reads are in flight: enough
 * to keep a device busy, and a demand never queues behind more. */
enum { MOST_THREADS = 8, PREFETCH_BELOW = 3 };

struct loader {
	struct pager *pager;
	struct loader *next;
	struct record_reader *reader;
	pthread_t thread;
	pthread_mutex_t lock; /* guards the scratch in use; pager.lock may be taken under it */
	void *scratch;	      /* one record, for records that are made or unpacked */
	size_t scratch_bytes;
};

/* ---- taking requests; call with the lock held ---- */

/* Takes the next request that no batch waits for. NULL: no such request, the device is busy enough,
 * or a batch waits for room. */
static struct pager_entry *loader_next_early(struct pager *p, bool worker)
{
	if (p->flying >= PREFETCH_BELOW || p->flying >= p->depth.depth || p->first_in_line)
		return NULL;
	struct pager_entry *x = queue_next_prefetch(p, worker);
	if (!x)
		x = queue_next_asked(p, worker);
	if (x || worker != !p->ring_threads)
		return x;
	x = heat_warm_next(p); /* the store has this expert: it need not be made */
	if (x)
		x->holds = worker;
	return x;
}

static struct pager_entry *loader_next_request(struct pager *p, bool worker)
{
	struct pager_entry *x = queue_next_demand(p, worker);
	if (!x)
		x = loader_next_early(p, worker);
	if (x) { /* counted until the read has landed */
		p->flying++;
		x->source->flying++;
		p->held += worker;
		x->source->held += worker;
	}
	return x;
}

/* ---- one expert ---- */

/* Ends a load. Tells the batch that requested the expert, if it still wants it. After a failure
 * frees the slot. */
static void loader_end_load(struct pager *p, struct pager_entry *x, int failed, const struct err *e)
{
	struct pager_batch *batch = x->batch;
	x->batch = NULL;
	if (batch) {
		batch->reading--;
		if (failed)
			batch_note_failure(batch, x, e);
	}
	if (failed)
		pool_release(p, x);
	else
		pool_resident(p, x);
	queue_wake(p, p->asked > 0); /* the slot may be evicted or reused now */
	pthread_cond_broadcast(&p->changed);
}

/* Call with the lock held. Wakes a thread for the freed place: it may be for the other kind of
 * threads. */
static void loader_wake_for_place(struct pager *p)
{
	if (p->ring_threads && queue_workers_serve(p))
		queue_wake(p, 1);
}

/* Call with the lock held. A request is no longer in flight. If it occupied a worker, the worker
 * becomes free now or later (loader_free_worker). Only these functions and loader_next_request
 * change the counts. */
static void loader_give_place(struct pager *p, struct pager_source *s)
{
	p->flying--;
	s->flying--;
	loader_wake_for_place(p);
}

static void loader_free_worker(struct pager *p, struct pager_source *s)
{
	p->held--;
	s->held--;
	loader_wake_for_place(p);
}

/* Call with the lock held. Undoes what loader_next_request counted. */
static void loader_end_flight(struct pager *p, const struct pager_entry *x)
{
	loader_give_place(p, x->source);
	if (x->holds)
		loader_free_worker(p, x->source);
}

/* The device has finished a read. The read tells how fast the device is only if the number of reads
 * in flight was exactly the present depth. Wakes a sleeping thread for the free place if this
 * thread has no room for another read, or if the depth has grown. */
static void loader_read_landed(struct loader *l, const struct pager_entry *x, uint64_t bytes)
{
	struct pager *p = l->pager;
	pthread_mutex_lock(&p->lock);
	uint32_t before = p->depth.depth;
	if (p->flying != before)
		depth_restart(&p->depth);
	else
		depth_note(&p->depth, bytes, clock_ns());
	loader_end_flight(p, x);
	p->depth_now = p->depth.depth;
	if (p->depth.depth > before || !reader_room(l->reader))
		queue_wake(p, 1);
	pthread_mutex_unlock(&p->lock);
}

/* Makes room for one record in l->scratch. */
static int loader_grow_scratch(struct loader *l, size_t bytes, struct err *e)
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

/* Verifies the record, decodes it if the store keeps it coded, and arranges it in its slot. Call
 * with the scratch locked. */
static int loader_unpack(struct loader *l, struct pager_entry *x, const struct store_pieces *stored,
			 struct err *e)
{
	const struct pager_supply *supply = &x->source->supply;
	struct store_pieces record;
	int failed = loader_grow_scratch(l, store_scratch_bytes(supply->store), e);
	if (!failed)
		failed = store_unpack_pieces(supply->store, pager_entry_layer(x),
					     pager_entry_expert(x), stored, l->scratch, &record, e);
	if (failed)
		return failed;
	if (supply->arrange_pieces)
		supply->arrange_pieces(supply->ctx, pager_entry_layer(x), x->slot, &record);
	else
		supply->arrange(supply->ctx, pager_entry_layer(x), x->slot, record.piece[0].data);
	return 0;
}

static void loader_finish_read(struct loader *l, const struct read_done *done)
{
	struct pager_entry *x = done->tag;
	struct pager_source *s = x->source;
	struct pager *p = l->pager;
	struct err e = {0};
	int failed = done->result;
	pager_count(&p->total.bytes_read, &s->own.bytes_read, done->bytes);
	pthread_mutex_lock(&l->lock);
	failed = failed ? store_read_failed(s->supply.store, pager_entry_layer(x),
					    pager_entry_expert(x), -failed, &e)
			: loader_unpack(l, x, &done->record, &e);
	pthread_mutex_unlock(&l->lock);
	reader_release(l->reader, done);
	pthread_mutex_lock(&p->lock);
	loader_end_load(p, x, failed, &e);
	pthread_mutex_unlock(&p->lock);
}

/* Makes an expert that the store does not have. The batch receives the expert before it is written,
 * since the disk may take longer than the computation. The worker stays occupied until the expert
 * is written, so that experts are not made faster than they are written. */
static void loader_make_expert(struct loader *l, struct pager_entry *x)
{
	struct pager *p = l->pager;
	struct pager_source *s = x->source;
	const struct pager_supply *supply = &s->supply;
	const uint32_t layer = pager_entry_layer(x), expert = pager_entry_expert(x);
	void *made = NULL;
	struct err e = {0};
	pthread_mutex_lock(&l->lock);
	int failed = loader_grow_scratch(l, store_info(supply->store)->record_bytes, &e);
	if (!failed)
		failed = supply->make(supply->ctx, layer, expert, l->scratch, &made, &e);
	if (!failed)
		supply->arrange(supply->ctx, layer, x->slot, l->scratch);
	pthread_mutex_lock(&p->lock);
	loader_give_place(p, s);
	loader_end_load(p, x, failed, &e);
	pthread_mutex_unlock(&p->lock);
	if (made)
		supply->keep(supply->ctx, layer, expert, l->scratch, made);
	pthread_mutex_unlock(&l->lock);
	pthread_mutex_lock(&p->lock);
	loader_free_worker(p, s);
	pthread_cond_broadcast(&p->changed); /* pager_remove waits for the source's workers */
	pthread_mutex_unlock(&p->lock);
}

static void loader_begin_read(struct loader *l, struct pager_entry *x)
{
	struct err e = {0};
	struct store_extents record;
	store_expert_extents(x->source->supply.store, pager_entry_layer(x), pager_entry_expert(x),
			     &record);
	int failed = reader_queue(l->reader, &record, x, &e);
	if (!failed) {
		reader_submit(l->reader);
		return;
	}
	pthread_mutex_lock(&l->pager->lock);
	loader_end_flight(l->pager, x);
	loader_end_load(l->pager, x, failed, &e);
	pthread_mutex_unlock(&l->pager->lock);
}

/* ---- threads with a ring ---- */

/* Begins one read. Not more, so that threads that wake together share the requests. */
static bool loader_begin_one(struct loader *l)
{
	struct pager *p = l->pager;
	if (!reader_room(l->reader))
		return false;
	pthread_mutex_lock(&p->lock);
	struct pager_entry *x = loader_next_request(p, false);
	pthread_mutex_unlock(&p->lock);
	if (x)
		loader_begin_read(l, x);
	return x;
}

static bool loader_has_quit(struct pager *p)
{
	pthread_mutex_lock(&p->lock);
	bool quit = p->quit;
	pthread_mutex_unlock(&p->lock);
	return quit;
}

static void *loader_ring_main(void *arg)
{
	struct loader *l = arg;
	struct read_done done;
	while (!loader_has_quit(l->pager)) {
		while (loader_begin_one(l)) /* until no request is left: only a new request wakes a
					       sleeping thread */
			;
		if (!reader_wait(l->reader, &done))
			continue;
		loader_read_landed(l, done.tag, done.bytes);
		(void)loader_begin_one(l); /* gives the device something to do meanwhile */
		loader_finish_read(l, &done);
	}
	return NULL;
}

/* ---- workers ---- */

static int loader_start_thread(struct pager *p, bool ring, struct err *e);

/* Call with the lock held; it is released while waiting. NULL: the pager is being destroyed. */
static struct pager_entry *loader_wait_for_request(struct pager *p, bool *keeps)
{
	struct pager_entry *x;
	while (!p->quit) {
		if ((x = loader_next_request(p, true)))
			return x;
		thread_wait_and_trim(&p->work, &p->lock, keeps);
	}
	return NULL;
}

static void loader_read_one(struct loader *l, struct pager_entry *x)
{
	struct read_done done;
	loader_begin_read(l, x);
	if (reader_room(l->reader)) /* the read could not be queued */
		return;
	while (!reader_wait(l->reader, &done))
		;
	loader_read_landed(l, x, done.bytes);
	loader_finish_read(l, &done);
}

static void *loader_worker_main(void *arg)
{
	struct loader *l = arg;
	struct pager *p = l->pager;
	struct pager_entry *x;
	bool keeps = false;
	pthread_mutex_lock(&p->lock);
	while ((x = loader_wait_for_request(p, &keeps))) {
		keeps = true;
		bool last = p->held == p->workers;
		pthread_mutex_unlock(&p->lock);
		if (last) { /* without memory for another thread, the present ones must do */
			struct err none;
			(void)loader_start_thread(p, false, &none);
		}
		if (queue_must_be_made(x))
			loader_make_expert(l, x);
		else
			loader_read_one(l, x);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* ---- starting and stopping ---- */

static uint32_t loader_cores(void)
{
	cpu_set_t cpus;
	return sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : (uint32_t)CPU_COUNT(&cpus);
}

/* One thread per core, but at least two, so that one arranges while another begins reads. */
static uint32_t loader_threads_per_core(void)
{
	uint32_t n = loader_cores();
	return n < 2 ? 2 : n > MOST_THREADS ? MOST_THREADS : n;
}

static void loader_free(struct loader *l)
{
	reader_destroy(l->reader);
	free(l->scratch);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int loader_start_thread(struct pager *p, bool ring, struct err *e)
{
	struct loader *l = calloc(1, sizeof *l);
	int failed = l ? reader_create(&l->reader, ring ? DEPTH_MOST : 1, ring, p->wake, e)
		       : err_set(e, ENOMEM, "no memory for a thread for reading experts");
	if (failed) {
		free(l);
		return failed;
	}
	pthread_mutex_init(&l->lock, NULL);
	l->pager = p;
	pthread_mutex_lock(&p->lock); /* the thread must not run before it is in the list */
	int code =
		pthread_create(&l->thread, NULL, ring ? loader_ring_main : loader_worker_main, l);
	if (!code) {
		l->next = p->loaders;
		p->loaders = l;
		p->workers += !ring;
	}
	pthread_mutex_unlock(&p->lock);
	if (!code)
		return 0;
	loader_free(l);
	return err_sys(e, code, "cannot start a thread for reading experts");
}

/* Sets *ring to whether the kernel allows a ring. */
static int loader_try_ring(bool *ring, int wake, struct err *e)
{
	struct record_reader *r;
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
	if (p->wake < 0)
		return err_sys(e, errno, "threads for reading experts");
	int failed = loader_try_ring(&p->ring, p->wake, e);
	if (failed)
		return failed;
	/* With a ring, workers compute, since they make experts: one per core. Without, they wait
	 * for reads, and the deepest queue has DEPTH_MOST places. */
	p->worker_share = p->ring ? loader_threads_per_core() : DEPTH_MOST;
	p->ring_threads = p->ring ? loader_threads_per_core() : 0;
	for (uint32_t i = 0; i < p->ring_threads && !failed; i++)
		failed = loader_start_thread(p, true, e);
	return failed ? failed : loader_start_thread(p, false, e);
}

/* Frees the buffers of an idle thread. A thread that is making or unpacking keeps its scratch. */
static void loader_rest(struct loader *l)
{
	reader_rest(l->reader);
	if (pthread_mutex_trylock(&l->lock))
		return;
	free(l->scratch);
	l->scratch = NULL;
	l->scratch_bytes = 0;
	pthread_mutex_unlock(&l->lock);
}

/* A thread that starts meanwhile is inserted before `first`, so the rest of the list stays
 * valid. */
void pager_rest(struct pager *p)
{
	pthread_mutex_lock(&p->lock);
	struct loader *first = p->loaders;
	pthread_mutex_unlock(&p->lock);
	for (struct loader *l = first; l; l = l->next)
		loader_rest(l);
}

void loaders_stop(struct pager *p)
{
	struct loader *l;
	pthread_mutex_lock(&p->lock);
	p->quit = true;
	queue_wake(p, MOST_THREADS);
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	while ((l = p->loaders)) { /* no request is left that could start another thread */
		p->loaders = l->next;
		pthread_join(l->thread, NULL);
		loader_free(l);
	}
	if (p->wake >= 0)
		close(p->wake);
}
