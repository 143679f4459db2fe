/* The pager: right contents, the budget, LRU, several batches at once; each by io_uring (if this
 * machine has it) and by pread. Faulty disks are in test_pager_faults.c. */
#include "pager_help.h"

#include "cache/pager_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static enum pager_io io; /* which of the two this round of tests uses */

static const uint32_t all[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static int teardown(void **state)
{
	test_pager_close(*state);
	free(*state);
	return 0;
}

static int setup_slots(void **state, uint32_t slots)
{
	struct test_pager *f = malloc(sizeof *f);
	test_pager_open(f, 12, slots, io);
	*state = f;
	return 0;
}

static int one_slot(void **state)
{
	return setup_slots(state, 1);
}

static int four_slots(void **state)
{
	return setup_slots(state, 4);
}

static int many_slots(void **state)
{
	return setup_slots(state, 36);
}

static struct pager_stats stats_of(const struct test_pager *f)
{
	struct pager_stats s;
	pager_stats(f->pager, &s);
	return s;
}

static bool resident(const struct test_pager *f, uint32_t layer, uint32_t expert)
{
	struct pager_expert x;
	pager_inspect(f->source, layer, expert, &x);
	return x.resident;
}

/* The experts of a layer that are resident, one bit each. */
static uint32_t residents(const struct test_pager *f, uint32_t layer)
{
	uint32_t bits = 0;
	for (uint32_t i = 0; i < f->t.experts; i++)
		bits |= (uint32_t)resident(f, layer, i) << i;
	return bits;
}

static void assert_words(const struct test_pager *f, int rc, int code, const char *words)
{
	assert_int_equal(rc, -code);
	if (!strstr(f->e.text, words))
		fail_msg("\"%s\" does not say \"%s\"", f->e.text, words);
}

/* ---- contents and counts ---- */

static void every_expert_comes_arranged_and_once(void **state)
{
	struct test_pager *f = *state;
	for (uint32_t layer = 0; layer < 3; layer++)
		assert_int_equal(test_batch(f, layer, all, 12), 12);
	for (uint32_t layer = 0; layer < 3; layer++)
		assert_int_equal(test_batch(f, layer, all, 12), 12);
	assert_int_equal(stats_of(f).hits, 36);
}

static void an_empty_batch_ends_at_once(void **state)
{
	struct test_pager *f = *state;
	assert_int_equal(test_batch(f, 0, NULL, 0), 0);
}

static void hits_misses_and_bytes_are_counted(void **state)
{
	struct test_pager *f = *state;
	const uint32_t first[] = {0, 1, 2}, second[] = {2, 3};
	test_batch(f, 1, first, 3);
	test_batch(f, 1, second, 2);
	struct pager_stats s = stats_of(f), own;
	assert_int_equal(s.hits, 1);
	assert_int_equal(s.misses, 4);
	assert_int_equal(s.experts_resident, 4);
	assert_int_equal(s.used, 4 * SLOT);
	assert_int_equal(s.evictions, 0);
	assert_true(s.bytes_read >= 20000 && s.bytes_read <= 20000 + 8 * 4096U);
	pager_source_stats(f->source, &own);
	assert_memory_equal(&own, &s, sizeof s);

	struct pager_expert x;
	pager_inspect(f->source, 1, 2, &x);
	assert_true(x.resident);
	assert_int_equal(x.bytes, SLOT);
	assert_int_equal(x.hits, 1);
	assert_int_equal(x.misses, 1);
	assert_int_equal(x.holders, 0);
	assert_int_equal(x.last_token, 1);
	assert_true(x.last_used > 0);
	pager_inspect(f->source, 2, 2, &x);
	assert_false(x.resident);
	assert_int_equal(x.bytes + x.hits + x.misses + x.last_used, 0);
}

static void looking_changes_nothing(void **state)
{
	struct test_pager *f = *state;
	struct pager_expert before, after;
	test_batch(f, 0, all, 4);
	pager_inspect(f->source, 0, 0, &before);
	struct pager_stats s = stats_of(f);
	pager_inspect(f->source, 0, 0, &after);
	assert_int_equal(before.last_used, after.last_used);
	assert_int_equal(before.hits + before.misses, after.hits + after.misses);
	struct pager_stats again = stats_of(f);
	assert_memory_equal(&s, &again, sizeof s);
	assert_int_equal(test_batch(f, 0, (const uint32_t[]){4}, 1), 1); /* 0 is still the oldest */
	assert_false(resident(f, 0, 0));
}

static void an_expert_is_not_evicted_while_it_is_held(void **state)
{
	struct test_pager *f = *state;
	struct pager_batch b;
	struct pager_ready ready;
	struct pager_expert x;
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 1, 7, &f->e), 0);
	assert_int_equal(pager_next(&b, &ready, 1, &f->e), 1);
	pager_inspect(f->source, 0, 0, &x);
	assert_int_equal(x.holders, 1);
	for (uint32_t layer = 1; layer < 3; layer++)
		assert_int_equal(test_batch(f, layer, all, 12), 12);
	assert_true(test_slot_right(&f->t, 0, 0, ready.data));
	pager_put(&b, &ready);
	assert_int_equal(pager_next(&b, &ready, 1, &f->e), 0);
	pager_end(&b);
	pager_inspect(f->source, 0, 0, &x);
	assert_int_equal(x.holders, 0);
	assert_int_equal(x.last_token, 7);
}

static void missing_experts_and_layers_are_refused(void **state)
{
	struct test_pager *f = *state;
	assert_words(f, test_batch(f, 3, all, 1), EINVAL, "layer 3");
	assert_words(f, test_batch(f, 0, all, 13), EINVAL, "expert 12");
}

static void the_way_of_reading_is_reported(void **state)
{
	struct test_pager *f = *state;
	const char *name = stats_of(f).io;
	if (io == PAGER_IO_PREAD)
		assert_string_equal(name, "pread");
	else if (strcmp(name, "io_uring") != 0) {
		print_message("this machine has no io_uring: pread was tested instead\n");
		skip();
	}
}

/* ---- the budget ---- */

static void a_budget_of_one_expert_serves_a_batch_of_eight(void **state)
{
	struct test_pager *f = *state;
	for (uint32_t layer = 0; layer < 3; layer++)
		assert_int_equal(test_batch(f, layer, all, 8), 8);
	struct pager_stats s = stats_of(f);
	assert_int_equal(s.peak, SLOT);
	assert_int_equal(s.evictions, 23);
	assert_int_equal(s.misses, 24);
}

static void a_budget_smaller_than_a_batch_is_never_exceeded(void **state)
{
	struct test_pager *f = *state;
	for (uint32_t round = 0; round < 20; round++)
		assert_int_equal(test_batch(f, round % 3, all + round % 4, 8), 8);
	assert_int_equal(stats_of(f).peak, 4 * SLOT);
}

static void a_budget_below_one_expert_is_out_of_range(void **state)
{
	struct test_pager *f = *state;
	struct pager *p;
	struct pager_source *s;
	assert_words(f, pager_set_budget(f->pager, SLOT - 1, &f->e), ERANGE, "8192");
	assert_int_equal(stats_of(f).budget, 4 * SLOT);
	assert_int_equal(pager_create(&p, SLOT - 1, &f->e), 0);
	assert_words(f, test_pager_add(f, p, &s, 5000, test_arrange, NULL), ERANGE, "-o budget=");
	pager_destroy(p);
}

static void a_holder_of_all_the_room_that_asks_for_more_is_told_to_put_first(void **state)
{
	struct test_pager *f = *state;
	struct pager_batch b;
	struct pager_ready held[4], more;
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 5, 1, &f->e), 0);
	for (int n = 0; n < 4;) {
		int got = pager_next(&b, held + n, (uint32_t)(4 - n), &f->e);
		assert_true(got > 0);
		n += got;
	}
	assert_words(f, pager_next(&b, &more, 1, &f->e), EAGAIN, "holds 4");
	pager_put(&b, &held[2]);
	assert_int_equal(pager_next(&b, &more, 1, &f->e), 1);
	assert_true(test_slot_right(&f->t, 0, 4, more.data));
	pager_put(&b, &more);
	for (int i = 0; i < 4; i++)
		if (i != 2)
			pager_put(&b, &held[i]);
	assert_int_equal(pager_next(&b, &more, 1, &f->e), 0);
	pager_end(&b);
}

static void shrinking_evicts_at_once_and_the_held_when_put(void **state)
{
	struct test_pager *f = *state;
	struct pager_batch b;
	struct pager_ready ready[2];
	assert_int_equal(test_batch(f, 1, all, 2), 2);
	assert_int_equal(test_batch(f, 0, all, 2), 2);
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 2, 1, &f->e), 0);
	assert_int_equal(pager_next(&b, ready, 2, &f->e), 2);
	assert_int_equal(pager_set_budget(f->pager, SLOT, &f->e), 0);
	assert_int_equal(stats_of(f).used, 2 * SLOT);
	assert_true(test_slot_right(&f->t, 0, 0, ready[0].data));
	pager_put(&b, &ready[0]);
	assert_int_equal(stats_of(f).used, SLOT);
	pager_put(&b, &ready[1]);
	pager_end(&b);
	assert_int_equal(residents(f, 0), 2); /* expert 1 alone */
	assert_int_equal(test_batch(f, 0, all, 8), 8);
	assert_int_equal(stats_of(f).used, SLOT);

	assert_int_equal(pager_set_budget(f->pager, 36 * SLOT, &f->e), 0);
	assert_int_equal(test_batch(f, 0, all, 12), 12);
	assert_int_equal(stats_of(f).used, 12 * SLOT);
}

static void removing_a_source_frees_its_bytes(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *second;
	assert_int_equal(test_pager_add(f, f->pager, &second, 3 * SLOT, test_arrange, NULL), 0);
	assert_int_equal(test_batch(f, 0, all, 5), 5);
	assert_int_equal(test_batch_most(second, &f->t, 0, all, 3, 16, &f->e), 3);
	struct pager_stats own;
	pager_source_stats(second, &own);
	assert_int_equal(own.used, 9 * SLOT);
	assert_int_equal(stats_of(f).used, 14 * SLOT);
	pager_remove(second);
	assert_int_equal(stats_of(f).used, 5 * SLOT);
	assert_int_equal(residents(f, 0), 0x1f);
}

static void slots_of_two_sizes_share_a_budget(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *large;
	assert_int_equal(test_pager_add(f, f->pager, &large, 3 * SLOT, test_arrange, NULL), 0);
	for (uint32_t round = 0; round < 10; round++) {
		assert_int_equal(test_batch(f, round % 3, all + round % 5, 6), 6);
		assert_int_equal(test_batch_most(large, &f->t, round % 3, all, 4, 2, &f->e), 4);
	}
	assert_true(stats_of(f).peak <= 4 * SLOT);
	pager_remove(large);
}

/* ---- LRU ---- */

static void the_least_recently_used_goes_first(void **state)
{
	struct test_pager *f = *state;
	assert_int_equal(test_batch(f, 0, (const uint32_t[]){0, 1, 2, 3}, 4), 4);
	test_batch(f, 0, (const uint32_t[]){0}, 1); /* a hit makes it the newest */
	test_batch(f, 0, (const uint32_t[]){4}, 1);
	assert_int_equal(residents(f, 0), 0x1d); /* 1 went */
	test_batch(f, 0, (const uint32_t[]){5, 6}, 2);
	assert_int_equal(residents(f, 0), 0x71); /* 2 and 3 went, in the order of the first batch */
	test_batch(f, 0, (const uint32_t[]){7}, 1);
	assert_int_equal(residents(f, 0), 0xf0);
}

static void hits_of_a_batch_are_used_in_the_order_of_its_array(void **state)
{
	struct test_pager *f = *state;
	test_batch(f, 0, (const uint32_t[]){0, 1, 2, 3}, 4);
	test_batch(f, 0, (const uint32_t[]){3, 1, 0, 2}, 4);
	test_batch(f, 1, (const uint32_t[]){0, 1}, 2);
	assert_int_equal(residents(f, 0), 0x5); /* 3 and 1 went */
}

static void a_batch_does_not_evict_what_it_is_yet_to_take(void **state)
{
	struct test_pager *f = *state;
	test_batch(f, 0, (const uint32_t[]){0, 1, 2, 3}, 4);
	struct pager_batch b;
	struct pager_ready ready;
	int n = 0;
	/* One at a time: while 0 is held and more is read, 1, 2 and 3 wait and must stay. */
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 8, 1, &f->e), 0);
	while (pager_next(&b, &ready, 1, &f->e) > 0) {
		n++;
		pager_put(&b, &ready);
	}
	pager_end(&b);
	assert_int_equal(n, 8);
	struct pager_stats s = stats_of(f);
	assert_int_equal(s.hits, 4);
	assert_int_equal(s.evictions, 4); /* 8 reads in all, 4 of them into room that was free */
}

static void what_a_batch_is_yet_to_take_goes_when_nothing_else_can(void **state)
{
	struct test_pager *f = *state;
	struct pager_batch b;
	struct pager_ready ready;
	assert_int_equal(test_batch(f, 0, all, 1), 1);
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 1, 1, &f->e), 0);
	assert_int_equal(test_batch(f, 1, all, 2), 2); /* while the first holds nothing */
	assert_int_equal(pager_next(&b, &ready, 1, &f->e), 1);
	assert_true(test_slot_right(&f->t, 0, 0, ready.data));
	pager_put(&b, &ready);
	pager_end(&b);
}

/* ---- several batches at once ---- */

struct runner {
	struct test_pager *f;
	struct pager_source *source;
	unsigned seed;
	int rounds, wrong;
};

static void *run_batches(void *ctx)
{
	struct runner *r = ctx;
	for (int round = 0; round < r->rounds; round++) {
		uint32_t experts[8];
		uint32_t n = 1 + (uint32_t)rand_r(&r->seed) % 8, at = (uint32_t)rand_r(&r->seed);
		for (uint32_t i = 0; i < n; i++)
			experts[i] =
				(at + i * 5) % 12; /* 5 and 12 have no common factor: distinct */
		uint32_t layer = (uint32_t)rand_r(&r->seed) % 3;
		uint32_t most = 1 + (uint32_t)rand_r(&r->seed) % 8;
		r->wrong += test_batch_most(r->source, &r->f->t, layer, experts, n, most, NULL) !=
			    (int)n;
	}
	return NULL;
}

static void *run_one(void *ctx)
{
	struct runner *r = ctx;
	r->wrong = test_batch_most(r->source, &r->f->t, 1, all, 1, 1, NULL) != 1;
	return NULL;
}

static void run_together(struct test_pager *f, struct pager_source *const sources[], int n,
			 int rounds, void (*meanwhile)(struct test_pager *))
{
	pthread_t thread[8];
	struct runner r[8];
	for (int i = 0; i < n; i++) {
		r[i] = (struct runner){f, sources[i], (unsigned)i + 1, rounds, 0};
		assert_int_equal(pthread_create(&thread[i], NULL, run_batches, &r[i]), 0);
	}
	if (meanwhile)
		meanwhile(f);
	for (int i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(r[i].wrong, 0);
	}
}

static void threads_that_share_experts_and_one_slot_all_get_theirs(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *const s[] = {f->source, f->source, f->source};
	run_together(f, s, 3, 100, NULL);
	assert_int_equal(stats_of(f).peak, SLOT);
}

static void threads_that_share_experts_and_a_small_pool_all_get_theirs(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *const s[] = {f->source, f->source};
	run_together(f, s, 2, 300, NULL);
	assert_int_equal(stats_of(f).peak, 4 * SLOT);
}

/* More batches than readers, and slots that fit only after all others have returned theirs. */
static void many_threads_of_two_sources_with_large_and_small_slots_all_get_theirs(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *large;
	assert_int_equal(test_pager_add(f, f->pager, &large, 4 * SLOT, test_arrange, NULL), 0);
	struct pager_source *const s[] = {f->source, f->source, f->source, f->source, large, large};
	run_together(f, s, 6, 60, NULL);
	assert_int_equal(stats_of(f).peak, 4 * SLOT);
	pager_remove(large);
}

static void shrink_and_grow(struct test_pager *f)
{
	for (uint32_t i = 0; i < 200; i++) {
		if (pager_set_budget(f->pager, (1 + i * 7 % 20) * (uint64_t)SLOT, NULL))
			fail();
		for (uint32_t k = 0; k < 12; k++)
			(void)resident(f, i % 3, k);
	}
	if (pager_set_budget(f->pager, 2 * SLOT, NULL))
		fail();
}

static void the_budget_may_change_and_lookers_look_while_batches_run(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *const s[] = {f->source, f->source};
	run_together(f, s, 2, 300, shrink_and_grow);
	assert_true(stats_of(f).used <= 2 * SLOT);
}

static void rest_often(struct test_pager *f)
{
	for (int i = 0; i < 2000; i++)
		pager_rest(f->pager);
}

static void what_is_read_into_is_given_back_while_batches_run(void **state)
{
	struct test_pager *f = *state;
	struct pager_source *const s[] = {f->source, f->source};
	run_together(f, s, 2, 300, rest_often);
}

struct waiter {
	struct test_pager *f;
	uint32_t expert;
	int got;
};

static void *take_one(void *ctx)
{
	struct waiter *w = ctx;
	w->got = test_batch(w->f, 1, &w->expert, 1);
	return NULL;
}

/* Returns when a miss of the other batch has been counted; from there it can only wait. */
static void await_misses(const struct test_pager *f, uint64_t n)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	while (stats_of(f).misses < n)
		nanosleep(&moment, NULL);
}

static void a_batch_without_room_waits_until_another_puts(void **state)
{
	struct test_pager *f = *state;
	struct pager_batch b;
	struct pager_ready ready;
	struct waiter w = {f, 3, 0};
	pthread_t thread;
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 1, 1, &f->e), 0);
	assert_int_equal(pager_next(&b, &ready, 1, &f->e), 1);
	assert_int_equal(pthread_create(&thread, NULL, take_one, &w), 0);
	await_misses(f, 2);
	assert_true(test_slot_right(&f->t, 0, 0, ready.data));
	pager_put(&b, &ready);
	pthread_join(thread, NULL);
	pager_end(&b);
	assert_int_equal(w.got, 1);
	assert_int_equal(stats_of(f).peak, SLOT);
}

static void a_grown_budget_wakes_a_batch_that_waits_for_room(void **state)
{
	struct test_pager *f = *state;
	struct pager_batch b;
	struct pager_ready ready;
	struct waiter w = {f, 3, 0};
	pthread_t thread;
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 1, 1, &f->e), 0);
	assert_int_equal(pager_next(&b, &ready, 1, &f->e), 1);
	assert_int_equal(pthread_create(&thread, NULL, take_one, &w), 0);
	await_misses(f, 2);
	assert_int_equal(pager_set_budget(f->pager, 2 * SLOT, &f->e), 0);
	pthread_join(thread, NULL);
	assert_int_equal(w.got, 1);
	pager_put(&b, &ready);
	pager_end(&b);
}

static _Atomic int served; /* experts arranged by note_order */

static void note_order(void *ctx, uint32_t layer, void *slot, const void *record)
{
	*(int *)ctx = ++served;
	test_arrange(NULL, layer, slot, record);
}

static bool somebody_in_line(struct pager *p)
{
	pthread_mutex_lock(&p->lock);
	bool waits = p->first_in_line != NULL;
	pthread_mutex_unlock(&p->lock);
	return waits;
}

/* A large expert needs the whole pool; a small one that comes later would fit at once. */
static void room_is_given_in_order_of_waiting(void **state)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	struct test_pager *f = *state;
	struct pager_source *source[2];
	struct pager_batch b;
	struct pager_ready ready;
	int order[2] = {0, 0};
	struct runner r[2];
	pthread_t thread[2];
	served = 0;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(test_pager_add(f, f->pager, &source[i], i ? 5000 : 4 * SLOT,
						note_order, &order[i]),
				 0);
		r[i] = (struct runner){f, source[i], 1, 1, 0};
	}
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 1, 1, &f->e), 0);
	assert_int_equal(pager_next(&b, &ready, 1, &f->e), 1);
	assert_int_equal(pthread_create(&thread[0], NULL, run_one, &r[0]), 0);
	while (!somebody_in_line(f->pager))
		nanosleep(&moment, NULL);
	assert_int_equal(pthread_create(&thread[1], NULL, run_one, &r[1]), 0);
	while (stats_of(f).waiting < 2) /* it found no room for it */
		nanosleep(&moment, NULL);
	pager_put(&b, &ready);
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(r[i].wrong, 0);
		assert_int_equal(order[i], i + 1);
	}
	pager_end(&b);
	pager_remove(source[0]);
	pager_remove(source[1]);
}

static _Atomic int arranged; /* by slow_arrange */

static void slow_arrange(void *ctx, uint32_t layer, void *slot, const void *record)
{
	struct test_pager *f = ctx;
	arranged++;
	await_misses(f, 2); /* until the other batch needs the same expert */
	test_arrange(NULL, layer, slot, record);
}

static void an_expert_that_two_batches_need_is_read_once(void **state)
{
	struct test_pager *f = *state;
	struct waiter a = {f, 5, 0}, b = {f, 5, 0};
	pthread_t one, two;
	pager_remove(f->source);
	arranged = 0;
	assert_int_equal(test_pager_add(f, f->pager, &f->source, 5000, slow_arrange, f), 0);
	assert_int_equal(pthread_create(&one, NULL, take_one, &a), 0);
	assert_int_equal(pthread_create(&two, NULL, take_one, &b), 0);
	pthread_join(one, NULL);
	pthread_join(two, NULL);
	assert_int_equal(a.got, 1);
	assert_int_equal(b.got, 1);
	assert_int_equal(arranged, 1);
}

/* ---- damage ---- */

static void a_damaged_record_is_an_error_and_the_others_still_work(void **state)
{
	struct test_pager *f = *state;
	char path[128];
	uint8_t byte = 0;
	(void)snprintf(path, sizeof path, "%s/experts.safetensors", f->t.folder);
	int fd = open(path, O_RDWR);
	off_t at = (off_t)store_expert(f->store, 1, 3).offset + 17;
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 4;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	assert_words(f, test_batch(f, 1, all, 8), EIO, "layer 1 expert 3");
	assert_false(resident(f, 1, 3));
	assert_int_equal(test_batch(f, 1, all, 3), 3);
	assert_int_equal(test_batch(f, 1, all + 4, 8), 8);
	byte ^= 4;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
	assert_int_equal(test_batch(f, 1, all, 8), 8);
}

static void a_batch_given_up_in_the_middle_leaves_the_pool_whole(void **state)
{
	struct test_pager *f = *state;
	struct pager_batch b;
	struct pager_ready ready;
	assert_int_equal(pager_begin(&b, f->source, 0, all, NULL, 8, 1, &f->e), 0);
	assert_int_equal(pager_next(&b, &ready, 1, &f->e), 1);
	pager_put(&b, &ready);
	pager_end(&b);
	test_pager_settle(f);
	for (uint32_t layer = 0; layer < 3; layer++)
		assert_int_equal(test_batch(f, layer, all, 12), 12);
}

#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_expert_comes_arranged_and_once, many_slots),
		TEST(an_empty_batch_ends_at_once, one_slot),
		TEST(hits_misses_and_bytes_are_counted, many_slots),
		TEST(looking_changes_nothing, four_slots),
		TEST(an_expert_is_not_evicted_while_it_is_held, four_slots),
		TEST(missing_experts_and_layers_are_refused, four_slots),
		TEST(the_way_of_reading_is_reported, one_slot),
		TEST(a_budget_of_one_expert_serves_a_batch_of_eight, one_slot),
		TEST(a_budget_smaller_than_a_batch_is_never_exceeded, four_slots),
		TEST(a_budget_below_one_expert_is_out_of_range, four_slots),
		TEST(a_holder_of_all_the_room_that_asks_for_more_is_told_to_put_first, four_slots),
		TEST(shrinking_evicts_at_once_and_the_held_when_put, four_slots),
		TEST(removing_a_source_frees_its_bytes, many_slots),
		TEST(slots_of_two_sizes_share_a_budget, four_slots),
		TEST(the_least_recently_used_goes_first, four_slots),
		TEST(hits_of_a_batch_are_used_in_the_order_of_its_array, four_slots),
		TEST(a_batch_does_not_evict_what_it_is_yet_to_take, four_slots),
		TEST(what_a_batch_is_yet_to_take_goes_when_nothing_else_can, one_slot),
		TEST(threads_that_share_experts_and_one_slot_all_get_theirs, one_slot),
		TEST(threads_that_share_experts_and_a_small_pool_all_get_theirs, four_slots),
		TEST(many_threads_of_two_sources_with_large_and_small_slots_all_get_theirs,
		     four_slots),
		TEST(the_budget_may_change_and_lookers_look_while_batches_run, four_slots),
		TEST(what_is_read_into_is_given_back_while_batches_run, four_slots),
		TEST(a_batch_without_room_waits_until_another_puts, one_slot),
		TEST(a_grown_budget_wakes_a_batch_that_waits_for_room, one_slot),
		TEST(room_is_given_in_order_of_waiting, four_slots),
		TEST(an_expert_that_two_batches_need_is_read_once, four_slots),
		TEST(a_damaged_record_is_an_error_and_the_others_still_work, many_slots),
		TEST(a_batch_given_up_in_the_middle_leaves_the_pool_whole, many_slots),
	};
	io = PAGER_IO_URING;
	int failed = cmocka_run_group_tests_name("pager by io_uring", tests, NULL, NULL);
	io = PAGER_IO_PREAD;
	return failed + cmocka_run_group_tests_name("pager by pread", tests, NULL, NULL);
}
