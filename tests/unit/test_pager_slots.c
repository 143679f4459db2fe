/* Slots of real sizes: regions of several slots, three sizes at once, odd budgets, and a system
 * without memory; by io_uring and by pread.
 *
 * Slots are large here, but little of them is ever touched. */
#include "pager_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static enum pager_io io;

enum { EXPERTS = 12, LAYERS = 3, MIDDLE = 600 << 10, LARGE = 1900 << 10, MOST = 64 << 20 };

static const uint32_t all[EXPERTS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

/* ---- mmap, refusing where a test says so ---- */

static _Atomic size_t refused_from; /* bytes; 0: nothing is refused */

/* Wraps every call of mmap (--wrap in the Makefile). */
void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	size_t from = refused_from;
	if (from && bytes >= from && fd < 0) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(address, bytes, protection, flags, fd, offset);
}

/* ---- three models ---- */

struct three {
	struct test_pager f;
	struct pager_source *source[3]; /* of small, middle and large slots */
	size_t bytes[3];
};

static int setup(void **state)
{
	struct three *t = calloc(1, sizeof *t);
	const size_t slot[] = {5000, MIDDLE, LARGE};
	test_pager_open(&t->f, EXPERTS, MOST / SLOT, io);
	t->source[0] = t->f.source;
	for (int i = 0; i < 3; i++) {
		t->bytes[i] = i ? slot[i] : SLOT;
		if (i &&
		    test_pager_add(&t->f, t->f.pager, &t->source[i], slot[i], test_arrange, NULL))
			fail_msg("%s", t->f.e.text);
	}
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct three *t = *state;
	refused_from = 0;
	pager_remove(t->source[1]);
	pager_remove(t->source[2]);
	test_pager_close(&t->f);
	free(t);
	return 0;
}

static struct pager_stats stats_of(const struct three *t)
{
	struct pager_stats s;
	pager_stats(t->f.pager, &s);
	return s;
}

static int batch(struct three *t, int model, uint32_t layer, uint32_t n, uint32_t most)
{
	return test_batch_most(t->source[model], &t->f.t, layer, all, n, most, &t->f.e);
}

/* ---- regions ---- */

static void slots_of_a_size_fill_the_budget_up_to_less_than_one(void **state)
{
	struct three *t = *state;
	for (int model = 1; model < 3; model++) {
		uint64_t budget = t->bytes[model] * 25 + 12345;
		uint64_t most = budget / t->bytes[model];
		assert_int_equal(pager_set_budget(t->f.pager, LARGE, &t->f.e), 0); /* forget */
		assert_int_equal(batch(t, 0, 0, 1, 1), 1);
		assert_int_equal(pager_set_budget(t->f.pager, budget, &t->f.e), 0);
		for (uint32_t layer = 0; layer < LAYERS; layer++)
			assert_int_equal(batch(t, model, layer, EXPERTS, 3), EXPERTS);
		struct pager_stats own, s = stats_of(t);
		pager_source_stats(t->source[model], &own);
		assert_true(s.used <= budget);
		assert_int_equal(own.used, own.experts_resident * t->bytes[model]);
		/* The ends of regions are lost: less than a twentieth, and a slot. */
		assert_in_range(own.experts_resident, most - 2, most);
	}
}

static void three_sizes_share_any_budget_and_never_exceed_it(void **state)
{
	struct three *t = *state;
	static const uint64_t budgets[] = {40 << 20, LARGE, LARGE + SLOT,   (5 << 20) + 4095,
					   10 << 20, LARGE, (33 << 20) + 1, MOST - 1};
	for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
		assert_int_equal(pager_set_budget(t->f.pager, budgets[i], &t->f.e), 0);
		assert_true(stats_of(t).used <= budgets[i]);
		for (uint32_t k = 0; k < 3 * LAYERS; k++) {
			assert_int_equal(batch(t, (int)k % 3, k / 3, EXPERTS, 1 + k % 5), EXPERTS);
			assert_true(stats_of(t).used <= budgets[i]);
		}
		struct pager_stats own;
		uint64_t sum = 0;
		for (int model = 0; model < 3; model++) {
			pager_source_stats(t->source[model], &own);
			assert_int_equal(own.used, own.experts_resident * t->bytes[model]);
			sum += own.used;
		}
		assert_true(sum <= stats_of(t).used);
	}
}

static void removing_a_model_gives_all_of_its_regions_back(void **state)
{
	struct three *t = *state;
	assert_int_equal(batch(t, 1, 0, EXPERTS, 4), EXPERTS);
	uint64_t before = stats_of(t).used;
	assert_int_equal(batch(t, 2, 0, EXPERTS, 4), EXPERTS);
	assert_int_equal(batch(t, 2, 1, EXPERTS, 4), EXPERTS);
	pager_remove(t->source[2]);
	assert_int_equal(stats_of(t).used, before);
	assert_int_equal(
		test_pager_add(&t->f, t->f.pager, &t->source[2], LARGE, test_arrange, NULL), 0);
}

/* The region of a held expert has other slots, which are given back with it when the expert is
 * put. */
static void shrinking_to_one_slot_waits_for_a_region_that_is_held_in_part(void **state)
{
	struct three *t = *state;
	struct pager_batch b;
	struct pager_ready held;
	assert_int_equal(batch(t, 1, 1, EXPERTS, 4), EXPERTS);
	assert_int_equal(pager_begin(&b, t->source[1], 1, all + 3, NULL, 1, 1, &t->f.e), 0);
	assert_int_equal(pager_next(&b, &held, 1, &t->f.e), 1);
	assert_int_equal(pager_set_budget(t->f.pager, LARGE, &t->f.e), 0);
	assert_true(stats_of(t).used > LARGE);
	assert_true(test_slot_right(&t->f.t, 1, 3, held.data));
	pager_put(&b, &held);
	pager_end(&b);
	assert_true(stats_of(t).used <= LARGE);
	for (int model = 0; model < 3; model++)
		assert_int_equal(batch(t, model, 0, EXPERTS, 4), EXPERTS);
	assert_true(stats_of(t).used <= LARGE);
	assert_int_equal(pager_set_budget(t->f.pager, MOST, &t->f.e), 0);
	assert_int_equal(batch(t, 2, 0, EXPERTS, EXPERTS), EXPERTS);
	assert_int_equal(batch(t, 2, 0, EXPERTS, EXPERTS), EXPERTS);
	assert_int_equal(stats_of(t).experts_resident, EXPERTS);
}

static void hold(struct three *t, int model, struct pager_batch *b, struct pager_ready *held)
{
	assert_int_equal(pager_begin(b, t->source[model], 0, all, NULL, 1, 1, &t->f.e), 0);
	assert_int_equal(pager_next(b, held, 1, &t->f.e), 1);
}

/* One region of each of two sizes, full, and an expert held in either. The oldest expert is a
 * middle one, whose slot a large one cannot use, and whose region cannot go. */
static void where_the_oldest_is_of_no_use_another_of_the_right_size_goes(void **state)
{
	struct three *t = *state;
	struct pager_batch b[2];
	struct pager_ready held[2];
	for (int model = 1; model < 3; model++) { /* a region of each, with one expert in it */
		assert_int_equal(batch(t, model, 0, 1, 1), 1);
		hold(t, model, &b[model - 1], &held[model - 1]);
	}
	assert_int_equal(pager_set_budget(t->f.pager, stats_of(t).used, &t->f.e), 0);
	assert_int_equal(batch(t, 1, 1, 1, 1), 1); /* the oldest of all but the two */
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		assert_int_equal(batch(t, 2, layer, EXPERTS, 2), EXPERTS);
	assert_true(test_resident(t->source[1], 1, 0));
	assert_int_equal(stats_of(t).peak, stats_of(t).budget);
	for (int i = 0; i < 2; i++) {
		assert_true(test_slot_right(&t->f.t, 0, 0, held[i].data));
		pager_put(&b[i], &held[i]);
		pager_end(&b[i]);
	}
}

/* ---- several at once ---- */

struct runner {
	struct three *t;
	int model, wrong;
	pthread_t thread;
};

static void *run_batches(void *ctx)
{
	struct runner *r = ctx;
	for (uint32_t round = 0; round < 60; round++) {
		uint32_t layer = round % LAYERS, n = 1 + round * 7 % EXPERTS;
		pager_predict(r->t->source[r->model], layer, all, NULL, round % EXPERTS);
		r->wrong += test_batch_most(r->t->source[r->model], &r->t->f.t, layer, all, n,
					    1 + round % 4, NULL) != (int)n;
	}
	return NULL;
}

static void the_budget_shrinks_to_one_slot_and_grows_while_models_of_three_sizes_run(void **state)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	struct three *t = *state;
	struct runner r[5];
	for (int i = 0; i < 5; i++) {
		r[i] = (struct runner){.t = t, .model = i % 3};
		assert_int_equal(pthread_create(&r[i].thread, NULL, run_batches, &r[i]), 0);
	}
	for (uint64_t i = 0; i < 60; i++) {
		uint64_t budget = i % 3 ? LARGE + i * 777777 % MOST : LARGE;
		assert_int_equal(pager_set_budget(t->f.pager, budget, NULL), 0);
		nanosleep(&moment, NULL); /* for variety alone */
	}
	assert_int_equal(pager_set_budget(t->f.pager, LARGE, NULL), 0);
	for (int i = 0; i < 5; i++) {
		pthread_join(r[i].thread, NULL);
		assert_int_equal(r[i].wrong, 0);
	}
	while (stats_of(t).used > LARGE) /* predicted experts are still being read */
		nanosleep(&moment, NULL);
}

/* ---- no memory ---- */

static void without_memory_for_regions_single_slots_do(void **state)
{
	struct three *t = *state;
	refused_from = LARGE + 1;
	assert_int_equal(batch(t, 2, 0, EXPERTS, 4), EXPERTS);
	assert_int_equal(stats_of(t).used, (uint64_t)EXPERTS * LARGE);
}

static void without_more_memory_the_pool_goes_on_with_what_it_has(void **state)
{
	struct three *t = *state;
	assert_int_equal(batch(t, 2, 0, 4, 4), 4);
	uint64_t used = stats_of(t).used;
	refused_from = 1 << 20;
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		assert_int_equal(batch(t, 2, layer, EXPERTS, 4), EXPERTS);
	assert_true(stats_of(t).used <= used);
	refused_from = 0;
	assert_int_equal(batch(t, 2, 0, EXPERTS, 4), EXPERTS);
	assert_int_equal(batch(t, 2, 1, EXPERTS, 4), EXPERTS);
	assert_true(stats_of(t).experts_resident > EXPERTS);
}

static void without_any_memory_a_batch_fails_in_words_and_the_next_one_works(void **state)
{
	struct three *t = *state;
	refused_from = 1;
	assert_int_equal(batch(t, 1, 2, EXPERTS, 4), -ENOMEM);
	assert_non_null(strstr(t->f.e.text, "no memory for an expert of layer 2"));
	assert_non_null(strstr(t->f.e.text, "lower the budget"));
	assert_int_equal(stats_of(t).used, 0);
	refused_from = 0;
	assert_int_equal(batch(t, 1, 2, EXPERTS, 4), EXPERTS);
}

static void a_prediction_or_a_warm_start_without_memory_is_none(void **state)
{
	struct three *t = *state;
	assert_int_equal(pager_set_policy(t->f.pager, "lfu", &t->f.e), 0);
	test_use(&t->f, t->source[1], 0, 0, 1);
	assert_int_equal(pager_keep_heat(t->source[1], &t->f.e), 0);
	pager_remove(t->source[1]);
	assert_int_equal(
		test_pager_add(&t->f, t->f.pager, &t->source[1], MIDDLE, test_arrange, NULL), 0);
	refused_from = 1;
	assert_int_equal(pager_warm(t->source[1], &t->f.e), 0);
	pager_predict(t->source[1], 0, all, NULL, EXPERTS);
	assert_int_equal(batch(t, 1, 0, 1, 1), -ENOMEM); /* forgets both */
	assert_int_equal(stats_of(t).used + stats_of(t).prefetched, 0);
}

struct waiter {
	struct three *t;
	_Atomic int got;
};

static void *run_waiter(void *ctx)
{
	struct waiter *w = ctx;
	w->got = test_batch_most(w->t->source[1], &w->t->f.t, 1, all, 3, 3, NULL);
	return NULL;
}

/* All memory is held, and will be put. */
static void without_more_memory_a_batch_waits_for_what_others_hold(void **state)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	struct three *t = *state;
	struct waiter w = {.t = t};
	struct pager_batch b;
	struct pager_ready held;
	pthread_t thread;
	refused_from = MIDDLE + 1; /* no new regions: they would have free slots */
	assert_int_equal(pager_begin(&b, t->source[1], 0, all, NULL, 1, 1, &t->f.e), 0);
	assert_int_equal(pager_next(&b, &held, 1, &t->f.e), 1);
	refused_from = 1;
	assert_int_equal(pthread_create(&thread, NULL, run_waiter, &w), 0);
	while (stats_of(t).waiting == 0 && w.got == 0)
		nanosleep(&moment, NULL);
	assert_true(test_slot_right(&t->f.t, 0, 0, held.data));
	pager_put(&b, &held);
	pthread_join(thread, NULL);
	assert_int_equal(w.got, 3);
	pager_end(&b);
	assert_int_equal(stats_of(t).used, MIDDLE);
}

/* The other model's experts are given back, and their memory is free again. */
static void without_more_memory_experts_of_another_size_give_theirs(void **state)
{
	struct three *t = *state;
	assert_int_equal(batch(t, 2, 0, 4, 4), 4);
	refused_from = LARGE;
	assert_int_equal(batch(t, 1, 0, 4, 4), 4);
	assert_int_equal(batch(t, 1, 1, EXPERTS, 4), EXPERTS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slots_of_a_size_fill_the_budget_up_to_less_than_one),
		TEST(three_sizes_share_any_budget_and_never_exceed_it),
		TEST(removing_a_model_gives_all_of_its_regions_back),
		TEST(shrinking_to_one_slot_waits_for_a_region_that_is_held_in_part),
		TEST(where_the_oldest_is_of_no_use_another_of_the_right_size_goes),
		TEST(the_budget_shrinks_to_one_slot_and_grows_while_models_of_three_sizes_run),
		TEST(without_memory_for_regions_single_slots_do),
		TEST(without_more_memory_the_pool_goes_on_with_what_it_has),
		TEST(without_any_memory_a_batch_fails_in_words_and_the_next_one_works),
		TEST(a_prediction_or_a_warm_start_without_memory_is_none),
		TEST(without_more_memory_a_batch_waits_for_what_others_hold),
		TEST(without_more_memory_experts_of_another_size_give_theirs),
	};
	io = PAGER_IO_URING;
	int failed = cmocka_run_group_tests_name("slots by io_uring", tests, NULL, NULL);
	io = PAGER_IO_PREAD;
	return failed + cmocka_run_group_tests_name("slots by pread", tests, NULL, NULL);
}
