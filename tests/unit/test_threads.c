/* The compute threads: every item exactly once, whatever the sizes and whoever calls. */
#include "engine/compute/loop_order.h"
#include "engine/compute/threads.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static struct err e;

static struct threads *open_threads(uint32_t count)
{
	struct threads *t;
	if (threads_create(&t, count, &e))
		fail_msg("%s", e.text);
	return t;
}

/* ---- record of a loop ---- */

struct visits {
	uint32_t items, grain;
	uint8_t *count; /* plain memory: two threads at one item would be a race */
	_Atomic uint32_t outside;
};

static void visit(void *ctx, uint32_t begin, uint32_t end)
{
	struct visits *v = ctx;
	if (begin >= end || end > v->items || begin % v->grain) {
		v->outside++;
		return;
	}
	for (uint32_t i = begin; i < end; i++)
		v->count[i]++;
}

static bool every_item_once(struct threads *t, uint32_t items, uint32_t grain)
{
	struct visits v = {.items = items, .grain = grain, .count = calloc(1, items + 1)};
	threads_run(t, items, grain, visit, &v);
	bool right = !v.outside;
	for (uint32_t i = 0; i < items; i++)
		right &= v.count[i] == 1;
	free(v.count);
	return right;
}

static void every_item_is_done_exactly_once(void **state)
{
	(void)state;
	static const uint32_t counts[] = {1, 2, 3, 8, 64},
			      items[] = {0, 1, 2, 3, 15, 16, 17, 100, 1000, 4099},
			      grains[] = {1, 2, 3, 16, 64, 5000, UINT32_MAX};
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
		struct threads *t = open_threads(counts[c]);
		assert_int_equal(threads_count(t), counts[c]);
		for (size_t i = 0; i < sizeof items / sizeof *items; i++)
			for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
				assert_true(every_item_once(t, items[i], grains[g]));
		threads_destroy(t);
	}
}

struct span {
	_Atomic uint64_t sum;
};

static void add(void *ctx, uint32_t begin, uint32_t end)
{
	((struct span *)ctx)->sum += end - begin;
}

static void the_largest_number_of_items_does_not_wrap(void **state)
{
	(void)state;
	static const uint32_t grains[] = {1u << 24, (1u << 31) + 1, UINT32_MAX - 1, UINT32_MAX};
	struct threads *t = open_threads(3);
	for (size_t i = 0; i < sizeof grains / sizeof *grains; i++) {
		struct span s = {0};
		threads_run(t, UINT32_MAX, grains[i], add, &s);
		assert_true(s.sum == UINT32_MAX);
	}
	threads_destroy(t);
}

/* Writes of one loop are visible when it returns, and to the next loop. */
static void accumulate(void *ctx, uint32_t begin, uint32_t end)
{
	uint32_t *x = ctx;
	for (uint32_t i = begin; i < end; i++)
		x[i] = x[i] * 3 + i;
}

static void a_loop_sees_what_the_one_before_it_wrote(void **state)
{
	(void)state;
	enum { N = 300, LOOPS = 500 };
	uint32_t x[N] = {0}, want[N] = {0};
	struct threads *t = open_threads(4);
	for (uint32_t loop = 0; loop < LOOPS; loop++) {
		threads_run(t, N, 7 + loop % 5, accumulate, x);
		accumulate(want, 0, N);
		assert_memory_equal(x, want, sizeof x);
	}
	threads_destroy(t);
}

/* Before and after they would sleep otherwise; and they end. */
static void threads_that_stay_awake_do_every_item(void **state)
{
	(void)state;
	struct threads *t = open_threads(3);
	for (int i = 0; i < 20; i++) {
		threads_stay_awake(t, 2000000);
		assert_true(every_item_once(t, 100, 3));
		(void)usleep((useconds_t)i * 200);
		assert_true(every_item_once(t, 100, 3));
	}
	threads_stay_awake(t, 1000000000);
	threads_destroy(t);
}

/* Many threads on few cores: some look for pieces during several loops, and may take those of a loop that they
 * have not been told of. What they report must not be lost, or the loop never ends. */
static void short_loops_of_many_threads_end(void **state)
{
	(void)state;
	enum { THREADS = 64, LOOPS = 3000 };
	struct threads *t = open_threads(THREADS);
	struct span s = {0};
	for (uint32_t loop = 0; loop < LOOPS; loop++)
		threads_run(t, THREADS, 1, add, &s);
	assert_true(s.sum == (uint64_t)LOOPS * THREADS);
	threads_destroy(t);
}

/* ---- several callers ---- */

struct caller {
	struct threads *threads;
	pthread_t thread;
	bool right;
};

static void *call(void *arg)
{
	struct caller *c = arg;
	c->right = true;
	for (uint32_t i = 0; i < 150; i++)
		c->right &= every_item_once(c->threads, 1 + i * 7, 1 + i % 20);
	return NULL;
}

static void several_callers_do_not_disturb_each_other(void **state)
{
	(void)state;
	enum { CALLERS = 4 };
	static const uint32_t counts[] = {1, 2, 4};
	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
		struct threads *t = open_threads(counts[k]);
		struct caller callers[CALLERS];
		for (int i = 0; i < CALLERS; i++) {
			callers[i].threads = t;
			assert_int_equal(
				pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
		}
		for (int i = 0; i < CALLERS; i++) {
			pthread_join(callers[i].thread, NULL);
			assert_true(callers[i].right);
		}
		threads_destroy(t);
	}
}

/* ---- threads without a core ---- */

/* A loop whose other threads lose their cores in their first piece: they stay there until all
 * pieces that nobody holds are done. */
struct lost {
	pthread_t caller;
	uint32_t pieces;
	_Atomic uint32_t done, held;
};

static void do_or_hold(void *ctx, uint32_t begin, uint32_t end)
{
	struct lost *l = ctx;
	(void)begin;
	(void)end;
	if (!pthread_equal(pthread_self(), l->caller)) {
		l->held++;
		while (l->done + l->held < l->pieces)
			sched_yield();
	}
	l->done++;
	l->held -= !pthread_equal(pthread_self(), l->caller);
}

static void the_pieces_of_a_thread_without_a_core_are_done_by_others(void **state)
{
	(void)state;
	static const uint32_t counts[] = {2, 3, 16};
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
		struct threads *t = open_threads(counts[c]);
		for (uint32_t loop = 0; loop < 20; loop++) {
			struct lost l = {.caller = pthread_self(), .pieces = 64};
			threads_run(t, l.pieces, 1, do_or_hold, &l);
			assert_int_equal(l.done, l.pieces);
		}
		threads_destroy(t);
	}
}

/* ---- users of one pool (loop_order.h) ---- */

enum { MS = 1000000 };

/* A user's loop, from `now` on; returns when it has ended. */
static uint64_t order_loop(struct loop_order *o, struct loop_user *u, uint64_t now, uint64_t takes)
{
	assert_int_equal(loop_order_wait(o, u, now), 0);
	loop_order_begin(o, u);
	loop_order_end(o, u, now, now + takes);
	return now + takes;
}

/* a wants long loops and b short ones, without a pause. Until `end`; what each has had. */
static void order_both(struct loop_order *o, struct loop_user *a, struct loop_user *b, uint64_t end,
		       uint64_t had[2])
{
	uint64_t now = 10 * MS;
	loop_order_ask(o, a, now);
	loop_order_ask(o, b, now);
	while (now < end) {
		bool first = !loop_order_wait(o, a, now);
		struct loop_user *u = first ? a : b;
		uint64_t takes = first ? 5 * MS : MS / 10;
		now = order_loop(o, u, now, takes);
		had[!first] += takes;
		loop_order_ask(o, u, now);
	}
}

static void users_get_equal_time_however_long_their_loops_are(void **state)
{
	(void)state;
	struct loop_order o = {0};
	struct loop_user a = {.weight = 1}, b = {.weight = 1};
	uint64_t had[2] = {0};
	loop_order_add(&o, &a);
	loop_order_add(&o, &b);
	order_both(&o, &a, &b, 1000 * MS, had);
	/* within a loop and two quanta */
	assert_in_range(had[0], had[1] - 9 * MS, had[1] + 9 * MS);
}

static void a_weight_of_two_is_half_of_the_time(void **state)
{
	(void)state;
	struct loop_order o = {0};
	struct loop_user a = {.weight = 2}, b = {.weight = 1};
	uint64_t had[2] = {0};
	loop_order_add(&o, &a);
	loop_order_add(&o, &b);
	order_both(&o, &a, &b, 1000 * MS, had);
	assert_in_range(2 * had[0], had[1] - 18 * MS, had[1] + 18 * MS);
}

static void who_has_just_left_is_waited_for_a_moment(void **state)
{
	(void)state;
	struct loop_order o = {0};
	struct loop_user a = {.weight = 1, .used = 50 * MS}, b = {.weight = 1};
	uint64_t now = 100 * MS;
	loop_order_add(&o, &a);
	loop_order_add(&o, &b);
	loop_order_ask(&o, &b, now);
	now = order_loop(&o, &b, now, MS);
	loop_order_ask(&o, &a, now);
	assert_int_equal(loop_order_wait(&o, &a, now), now + LOOP_GRACE_NS);
	loop_order_ask(&o, &b, now); /* it comes back, */
	assert_true(loop_order_wait(&o, &a, now) == UINT64_MAX);
	now = order_loop(&o, &b, now, MS);
	assert_int_equal(loop_order_wait(&o, &a, now + LOOP_GRACE_NS), 0); /* or not */
}

static void time_that_nobody_wanted_is_not_saved_up(void **state)
{
	(void)state;
	struct loop_order o = {0};
	struct loop_user a = {.weight = 1}, b = {.weight = 1};
	uint64_t now = 100 * MS;
	loop_order_add(&o, &a);
	loop_order_add(&o, &b);
	loop_order_ask(&o, &a, now);
	now = order_loop(&o, &a, now, 1000 * MS);
	loop_order_ask(&o, &a, now);
	loop_order_ask(&o, &b, now);
	assert_true(loop_order_wait(&o, &b, now) == UINT64_MAX);
	now = order_loop(&o, &a, now, 3 * MS); /* b began where a was, and a has had its quantum */
	loop_order_ask(&o, &a, now);
	assert_true(loop_order_wait(&o, &a, now) == UINT64_MAX);
	now = order_loop(&o, &b, now, 6 * MS);
	loop_order_ask(&o, &b, now);
	assert_int_equal(loop_order_wait(&o, &a, now), 0);
	loop_order_remove(&o, &a);
	assert_int_equal(loop_order_wait(&o, &b, now), 0);
}

/* A user's endless loops, until another one has had its own. */
struct greedy {
	struct threads *threads;
	_Atomic bool enough;
};

static void *be_greedy(void *arg)
{
	struct greedy *g = arg;
	while (!atomic_load(&g->enough))
		every_item_once(g->threads, 1000, 7);
	return NULL;
}

static void nobody_is_kept_out_by_another_users_loops(void **state)
{
	(void)state;
	struct greedy g = {.threads = open_threads(3)};
	struct threads *other = NULL;
	pthread_t thread;
	assert_int_equal(threads_share(&other, g.threads, &e), 0);
	threads_weigh(other, 4);
	assert_int_equal(pthread_create(&thread, NULL, be_greedy, &g), 0);
	for (uint32_t i = 0; i < 300; i++)
		assert_true(every_item_once(other, 1 + i * 7, 1 + i % 20));
	atomic_store(&g.enough, true);
	pthread_join(thread, NULL);
	assert_int_equal(threads_count(other), 3);
	threads_destroy(other);
	threads_destroy(g.threads);
}

/* ---- life ---- */

static void threads_come_and_go(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 60; i++) {
		struct threads *t = open_threads(1 + i % 5);
		if (i % 3)
			assert_true(every_item_once(t, i * 5, 2));
		threads_destroy(t);
	}
	threads_destroy(NULL);
}

/* ---- what the scheduler is asked for ---- */

struct slices {
	_Atomic uint32_t long_ones, unknown;
	_Atomic uint32_t met;
	pthread_t caller;
};

/* A compute thread's slice, as the kernel has it; older ones know none. Each piece waits for the
 * other's beginning, so that the second is not the caller's. */
static void see_slice(void *ctx, uint32_t begin, uint32_t end)
{
	(void)begin;
	(void)end;
	struct slices *s = ctx;
	s->met++;
	while (s->met < 2)
		sched_yield();
	if (pthread_equal(pthread_self(), s->caller))
		return;
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime_ns, deadline_ns, period_ns;
	} a = {0};
	if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) || !a.runtime_ns)
		s->unknown++;
	else if (a.runtime_ns == 100000000)
		s->long_ones++;
}

static void compute_threads_let_others_in(void **state)
{
	(void)state;
	struct threads *t = open_threads(2);
	struct slices s = {.caller = pthread_self()};
	threads_run(t, 2, 1, see_slice, &s);
	assert_int_equal(s.long_ones + s.unknown, 1);
	threads_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_item_is_done_exactly_once),
		cmocka_unit_test(the_largest_number_of_items_does_not_wrap),
		cmocka_unit_test(a_loop_sees_what_the_one_before_it_wrote),
		cmocka_unit_test(threads_that_stay_awake_do_every_item),
		cmocka_unit_test(short_loops_of_many_threads_end),
		cmocka_unit_test(several_callers_do_not_disturb_each_other),
		cmocka_unit_test(the_pieces_of_a_thread_without_a_core_are_done_by_others),
		cmocka_unit_test(users_get_equal_time_however_long_their_loops_are),
		cmocka_unit_test(a_weight_of_two_is_half_of_the_time),
		cmocka_unit_test(who_has_just_left_is_waited_for_a_moment),
		cmocka_unit_test(time_that_nobody_wanted_is_not_saved_up),
		cmocka_unit_test(nobody_is_kept_out_by_another_users_loops),
		cmocka_unit_test(threads_come_and_go),
		cmocka_unit_test(compute_threads_let_others_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
