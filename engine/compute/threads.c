/* See threads.h.
 *
 * Each thread has a part of a loop's pieces, and its part has a 64-bit ticket: the loop's number in
 * the high half, the pieces not yet taken in the low half. Taking a piece is one compare-and-swap
 * on the ticket, so a thread that wakes late cannot take a piece of a loop that it has not seen.
 * The caller returns only when all pieces are done, so a thread that holds a piece may read the
 * loop's description without a lock.
 *
 * A thread takes from its own part first, whose ticket nobody else writes meanwhile, and then from
 * the parts of others. What it has finished it counts in a word of its own, once it finds nothing
 * more: with one ticket and one count for all, 16 threads spent 20 µs of a loop handing two cache
 * lines around. */
#include "engine/compute/threads.h"
#include "cache/clock.h"
#include "cache/thread_trim.h"
#include "engine/compute/loop_order.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_NS = 50000 };

/* How many sleepers each thread wakes that begins a loop or has been woken for one: to wake
 * fifteen takes longer than many a loop. */
enum { WAKE_AT_ONCE = 4 };

/* What belongs to one thread. The caller of a loop is number 0. */
struct threads_part {
	_Alignas(64) _Atomic uint64_t ticket;
	/* The number of the last loop it has seen, and how many pieces of it the thread has
	 * finished; written by this thread alone. */
	_Alignas(64) _Atomic uint64_t finished;
	struct threads_pool *pool;
	pthread_t thread;
};

struct threads_pool {
	/* The loop in progress; written by its caller before the ticket, constant while pieces are
	 * left. */
	threads_fn *fn;
	void *ctx;
	uint32_t items, grain, pieces;
	uint32_t count; /* of parts; never changes */

	_Alignas(64) _Atomic uint32_t loop; /* the loop's number; the idle threads' futex */
	_Atomic uint64_t awake_until; /* of clock_ns: idle threads do not sleep before */
	_Alignas(64) _Atomic uint32_t sleepers;
	_Atomic uint32_t calls; /* to a sleeping caller: its futex */
	_Atomic bool caller_sleeps, quit;

	pthread_mutex_t lock; /* of the order; nothing is taken under it */
	pthread_cond_t ended; /* a loop, or a user */
	struct loop_order order;
	uint32_t started; /* threads, the caller among them */
	struct threads_part part[];
};

struct threads {
	struct threads_pool *pool;
	struct loop_user user; /* (lock) */
	bool owns_pool;
};

/* timeout: NULL: none. False: it is over. */
static bool threads_futex_wait(_Atomic uint32_t *word, uint32_t seen,
			       const struct timespec *timeout)
{
	return !syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout, NULL, 0) ||
	       errno != ETIMEDOUT;
}

static void threads_futex_wake(_Atomic uint32_t *word, int most)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
}

void threads_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* ---- the scheduler ---- */

/* sched_setattr's struct sched_attr in its first version (<linux/sched/types.h>), which all later
 * kernels accept. The C library has neither the call nor the structure. */
struct threads_scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

void threads_ask_long_slice(void)
{
	/* The most that a kernel grants. With a tenth of it the loop thread still waits when a
	 * compute thread is near the end of its slice: the thread with the earliest deadline runs
	 * first, even if another one has just woken. */
	static const uint64_t longest_ns = 100000000;
	struct threads_scheduling now = {.size = sizeof now};
	if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0))
		return;
	now.runtime_ns = longest_ns;
	(void)syscall(SYS_sched_setattr, 0, &now, 0);
}

/* ---- loops ---- */

/* Part i has pieces [first, first of part i + 1). */
static uint32_t threads_first_piece(const struct threads_pool *t, uint32_t i)
{
	return (uint32_t)((uint64_t)t->pieces * i / t->count);
}

static void threads_do_piece(const struct threads_pool *t, uint32_t piece)
{
	uint32_t begin = piece * t->grain;
	uint32_t end = t->items - begin > t->grain ? begin + t->grain : t->items;
	t->fn(t->ctx, begin, end);
}

/* Takes pieces of part i until none is left, and adds them to *finished, as a part has it. Where
 * the number is a later loop's than that of *finished, all of that one have been reported. */
static void threads_take_part(struct threads_pool *t, uint32_t i, uint64_t *finished)
{
	_Atomic uint64_t *part = &t->part[i].ticket;
	uint64_t ticket = atomic_load_explicit(part, memory_order_acquire);
	while ((uint32_t)ticket) {
		if (!atomic_compare_exchange_weak_explicit(part, &ticket, ticket - 1,
							   memory_order_acq_rel,
							   memory_order_acquire))
			continue;
		threads_do_piece(t, threads_first_piece(t, i + 1) - (uint32_t)ticket);
		if (*finished >> 32 != ticket >> 32)
			*finished = ticket >> 32 << 32;
		++*finished;
		ticket = atomic_load_explicit(part, memory_order_acquire);
	}
}

/* What a thread has reported and must keep, of loop `number` or of the next one: it may have taken pieces of
 * a loop that was not announced yet. */
static bool threads_reported_now(uint64_t finished, uint64_t number)
{
	return (uint32_t)(finished >> 32) - (uint32_t)number <= 1;
}

/* Takes pieces until none is left, and reports them. own: the thread's number; number: of a loop
 * that it has seen. A thread that got none says so, too, since numbers come again after 2^32 loops.
 */
static void threads_take_pieces(struct threads_pool *t, uint32_t own, uint64_t number)
{
	_Atomic uint64_t *reported = &t->part[own].finished;
	uint64_t before = atomic_load_explicit(reported, memory_order_relaxed),
		 finished = threads_reported_now(before, number) ? before : number << 32;
	for (uint32_t i = 0; i < t->count; i++)
		threads_take_part(t, own + i < t->count ? own + i : own + i - t->count, &finished);
	if (finished == before)
		return;
	atomic_store(reported, finished);
	if (atomic_load(&t->caller_sleeps)) {
		atomic_fetch_add(&t->calls, 1);
		threads_futex_wake(&t->calls, 1);
	}
}

/* Whether all pieces of a loop are finished. */
static bool threads_all_finished(const struct threads_pool *t, uint64_t number)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < t->count; i++) {
		uint64_t finished = atomic_load(&t->part[i].finished);
		sum += finished >> 32 == number ? (uint32_t)finished : 0;
	}
	return sum == t->pieces;
}

/* Sleeps until there is a loop other than number `seen`. What the thread's loops have left in its
 * cache of the allocator is given back after a while (thread_trim.h). */
static void threads_sleep(struct threads_pool *t, uint32_t seen)
{
	static const struct timespec WHILE = {.tv_nsec = 500000000};
	bool keeps = true;
	atomic_fetch_add(&t->sleepers, 1);
	while (atomic_load(&t->loop) == seen) {
		if (threads_futex_wait(&t->loop, seen, keeps ? &WHILE : NULL))
			continue;
		thread_trim();
		keeps = false;
	}
	if (atomic_fetch_sub(&t->sleepers, 1) > 1)
		threads_futex_wake(&t->loop, WAKE_AT_ONCE);
}

/* Waits for a loop other than number `seen`: spins for SPIN_NS, or as long as threads stay awake, then sleeps.
 * Returns its number. */
static uint32_t threads_wait_for_loop(struct threads_pool *t, uint32_t seen)
{
	uint64_t until = clock_ns() + SPIN_NS;
	while (atomic_load(&t->loop) == seen) {
		threads_relax();
		uint64_t now = clock_ns();
		if (now >= until && now >= atomic_load_explicit(&t->awake_until, memory_order_relaxed))
			threads_sleep(t, seen);
	}
	return atomic_load(&t->loop);
}

static void *threads_main(void *arg)
{
	const struct threads_part *part = arg;
	struct threads_pool *t = part->pool;
	uint32_t seen = 0, own = (uint32_t)(part - t->part);
	threads_ask_long_slice();
	for (;;) {
		seen = threads_wait_for_loop(t, seen);
		if (atomic_load(&t->quit))
			return NULL;
		threads_take_pieces(t, own, seen);
	}
}

/* wake: how many sleepers, each of which wakes others. */
static void threads_announce_loop(struct threads_pool *t, int wake)
{
	atomic_fetch_add(&t->loop, 1);
	if (atomic_load(&t->sleepers))
		threads_futex_wake(&t->loop, wake);
}

static void threads_wait_for_pieces(struct threads_pool *t, uint64_t number)
{
	uint64_t start = clock_ns();
	while (!threads_all_finished(t, number)) {
		threads_relax();
		if (clock_ns() - start < SPIN_NS)
			continue;
		atomic_store(&t->caller_sleeps, true);
		for (uint32_t seen = atomic_load(&t->calls); !threads_all_finished(t, number);
		     seen = atomic_load(&t->calls))
			(void)threads_futex_wait(&t->calls, seen, NULL);
		atomic_store(&t->caller_sleeps, false);
	}
}

/* ---- callers ---- */

/* Waits until the user may have a loop; returns when it has begun. */
static uint64_t threads_begin_loop(struct threads *t)
{
	struct threads_pool *p = t->pool;
	pthread_mutex_lock(&p->lock);
	uint64_t now = clock_ns(), until;
	loop_order_ask(&p->order, &t->user, now);
	while ((until = loop_order_wait(&p->order, &t->user, now))) {
		const struct timespec at = {.tv_sec = (time_t)(until / 1000000000u),
					    .tv_nsec = (long)(until % 1000000000u)};
		if (until == UINT64_MAX)
			pthread_cond_wait(&p->ended, &p->lock);
		else
			(void)pthread_cond_timedwait(&p->ended, &p->lock, &at);
		now = clock_ns();
	}
	loop_order_begin(&p->order, &t->user);
	pthread_mutex_unlock(&p->lock);
	return now;
}

static void threads_end_loop(struct threads *t, uint64_t began)
{
	struct threads_pool *p = t->pool;
	pthread_mutex_lock(&p->lock);
	loop_order_end(&p->order, &t->user, began, clock_ns());
	pthread_cond_broadcast(&p->ended);
	pthread_mutex_unlock(&p->lock);
}

/* Gives each thread its part. The loop's description is written. */
static void threads_hand_out(struct threads_pool *p, uint64_t number)
{
	for (uint32_t i = 0; i < p->count; i++) {
		uint32_t n = threads_first_piece(p, i + 1) - threads_first_piece(p, i);
		atomic_store_explicit(&p->part[i].ticket, number << 32 | n, memory_order_release);
	}
}

void threads_run(struct threads *t, uint32_t items, uint32_t grain, threads_fn *fn, void *ctx)
{
	if (!items)
		return;
	struct threads_pool *p = t->pool;
	uint32_t pieces = (items - 1) / grain + 1;
	if (p->count == 1 || pieces == 1) {
		fn(ctx, 0, items);
		return;
	}
	uint64_t began = threads_begin_loop(t);
	p->fn = fn;
	p->ctx = ctx;
	p->items = items;
	p->grain = grain;
	p->pieces = pieces;
	uint64_t number = atomic_load(&p->loop) + 1u;
	threads_hand_out(p, number);
	threads_announce_loop(p, WAKE_AT_ONCE);
	threads_take_pieces(p, 0, number);
	threads_wait_for_pieces(p, number);
	threads_end_loop(t, began);
}

/* ---- the pool and its users ---- */

static void threads_pool_free(struct threads_pool *p)
{
	atomic_store(&p->quit, true);
	threads_announce_loop(p, INT_MAX);
	for (uint32_t i = 1; i < p->started; i++)
		pthread_join(p->part[i].thread, NULL);
	pthread_cond_destroy(&p->ended);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static int threads_start(struct threads_pool *p, uint32_t count, struct err *e)
{
	for (uint32_t i = 1; i < count; i++) {
		int code = pthread_create(&p->part[i].thread, NULL, threads_main, &p->part[i]);
		if (code)
			return err_sys(e, code,
				       "cannot start compute thread %u of %u; use -o threads=", i,
				       count);
		p->started = i + 1;
	}
	return 0;
}

/* NULL: out of memory. */
static struct threads_pool *threads_pool_new(uint32_t count)
{
	struct threads_pool *p = NULL;
	size_t size = sizeof *p + count * sizeof *p->part;
	pthread_condattr_t monotonic;
	if (!(p = aligned_alloc(64, (size + 63) / 64 * 64)))
		return NULL;
	*p = (struct threads_pool){.count = count, .started = 1};
	for (uint32_t i = 0; i < count; i++)
		p->part[i] = (struct threads_part){.pool = p};
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&p->ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return p;
}

static struct threads *threads_join_pool(struct threads_pool *p)
{
	struct threads *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->pool = p;
	t->user.weight = 1;
	pthread_mutex_lock(&p->lock);
	loop_order_add(&p->order, &t->user);
	pthread_mutex_unlock(&p->lock);
	return t;
}

int threads_share(struct threads **out, struct threads *of, struct err *e)
{
	struct threads *t = threads_join_pool(of->pool);
	if (!t)
		return err_set(e, ENOMEM, "out of memory for a user of the compute threads");
	*out = t;
	return 0;
}

int threads_create(struct threads **out, uint32_t count, struct err *e)
{
	struct threads_pool *p = threads_pool_new(count);
	struct threads *t = p ? threads_join_pool(p) : NULL;
	if (!t) {
		if (p)
			threads_pool_free(p);
		return err_set(e, ENOMEM, "out of memory for %u compute threads", count);
	}
	t->owns_pool = true;
	int failed = threads_start(p, count, e);
	if (failed)
		threads_destroy(t);
	else
		*out = t;
	return failed;
}

void threads_destroy(struct threads *t)
{
	if (!t)
		return;
	struct threads_pool *p = t->pool;
	pthread_mutex_lock(&p->lock);
	loop_order_remove(&p->order, &t->user);
	pthread_cond_broadcast(&p->ended);
	pthread_mutex_unlock(&p->lock);
	if (t->owns_pool)
		threads_pool_free(p);
	free(t);
}

void threads_stay_awake(struct threads *t, uint64_t ns)
{
	atomic_store_explicit(&t->pool->awake_until, clock_ns() + ns, memory_order_relaxed);
}

void threads_weigh(struct threads *t, uint32_t weight)
{
	pthread_mutex_lock(&t->pool->lock);
	t->user.weight = weight;
	pthread_mutex_unlock(&t->pool->lock);
}

uint32_t threads_count(const struct threads *t)
{
	return t->pool->count;
}
