/* Forecasts: which ranks are worth a read, by the rule and in a pager that learns what came true. */
#include "pager_help.h"

#include "cache/pager_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

/* ---- the rule ---- */

enum { LONG = 1000 }; /* more than is remembered */

/* `of` out of ten forecasts of a rank come true. */
static void learn(struct ahead *a, uint32_t distance, uint32_t rank, uint32_t of)
{
	for (uint32_t i = 0; i < LONG; i++)
		ahead_learn(a, distance, rank, i * 7 % 10 < of);
}

/* Of ten batches `of` have to ask for something. */
static void count(struct ahead *a, uint32_t of)
{
	for (uint32_t i = 0; i < LONG; i++)
		ahead_count(a, i * 7 % 10 < of);
}

static void all_ranks_are_worth_a_read_until_they_were_measured(void **state)
{
	struct ahead a;
	(void)state;
	ahead_init(&a);
	count(&a, 10);
	for (uint32_t d = 0; d < AHEAD_LAYERS; d++)
		for (uint32_t r = 0; r < 2 * AHEAD_RANKS; r++)
			assert_true(ahead_is_worth(&a, d, r));
}

static void with_demands_in_every_layer_half_of_the_forecasts_must_come_true(void **state)
{
	struct ahead a;
	(void)state;
	ahead_init(&a);
	count(&a, 10);
	for (uint32_t of = 0; of <= 10; of++) {
		learn(&a, 0, of, of);
		if (of != 5)
			assert_int_equal(ahead_is_worth(&a, 0, of), of > 5);
	}
}

static void the_fewer_demands_the_less_must_come_true(void **state)
{
	struct ahead a;
	(void)state;
	ahead_init(&a);
	learn(&a, 1, 3, 2); /* right once for four times wrong */
	count(&a, 5);
	assert_false(ahead_is_worth(&a, 1, 3));
	count(&a, 1);
	assert_true(ahead_is_worth(&a, 1, 3));
}

static void distances_and_ranks_are_measured_apart_and_far_ranks_together(void **state)
{
	struct ahead a;
	(void)state;
	ahead_init(&a);
	count(&a, 10);
	learn(&a, 1, 2, 0);
	learn(&a, 0, AHEAD_RANKS + 5, 0);
	for (uint32_t r = 0; r < AHEAD_RANKS; r++) {
		assert_int_equal(ahead_is_worth(&a, 0, r), r != AHEAD_RANKS - 1);
		assert_int_equal(ahead_is_worth(&a, 1, r), r != 2);
	}
	assert_false(ahead_is_worth(&a, 0, 10 * AHEAD_RANKS));
}

/* ---- a pager ---- */

enum { EXPERTS = 12, RIGHT = 3, WRONG = 7, DEMANDED = 9 };

static int setup(void **state)
{
	static struct test_pager f;
	test_pager_open(&f, EXPERTS, 3 * EXPERTS, PAGER_IO_URING);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	test_pager_close(*state);
	return 0;
}

static void settle(const struct test_pager *f)
{
	static const struct timespec moment = {.tv_nsec = 100000};
	for (bool queued = true; queued;) {
		pthread_mutex_lock(&f->pager->lock);
		queued = f->pager->prefetches.first != NULL;
		pthread_mutex_unlock(&f->pager->lock);
		if (queued)
			nanosleep(&moment, NULL);
	}
	test_pager_settle(f);
}

static struct pager_ahead counts(const struct test_pager *f, uint32_t distance, uint32_t rank)
{
	struct pager_ahead a[AHEAD_LAYERS][AHEAD_RANKS];
	pager_ahead_stats(f->pager, a);
	return a[distance][rank];
}

/* Layer 1 is forecast from layer 0 with nothing of it in memory, and then wants its first rank, its
 * second if `second`, and one more. */
static void pass(struct test_pager *f, bool second)
{
	static const uint32_t forecast[] = {RIGHT, WRONG}, ranks[] = {0, 1};
	static const struct pager_id layer_1[] = {{1, RIGHT}, {1, WRONG}, {1, DEMANDED}};
	const uint32_t used[] = {RIGHT, DEMANDED, WRONG};
	assert_int_equal(pager_evict(f->source, layer_1, 3, &f->e), 0);
	assert_int_equal(test_batch(f, 0, (const uint32_t[]){0}, 1), 1);
	pager_predict(f->source, 1, forecast, ranks, 2);
	settle(f);
	assert_int_equal(test_batch(f, 1, used, second ? 3 : 2), second ? 3 : 2);
}

static void a_rank_that_comes_out_wrong_is_read_no_more_until_it_comes_true(void **state)
{
	struct test_pager *f = *state;
	for (uint32_t i = 0; i < LONG; i++)
		pass(f, false);
	struct pager_ahead first = counts(f, 0, 0), second = counts(f, 0, 1);
	assert_int_equal(first.forecast, LONG);
	assert_int_equal(first.came_true, LONG);
	assert_int_equal(first.read, LONG);
	assert_int_equal(second.forecast, LONG); /* measured all the same */
	assert_int_equal(second.came_true, 0);
	assert_in_range(second.read, 1, LONG / 4);
	assert_false(test_resident(f->source, 1, WRONG));
	struct pager_stats s = test_pager_settle(f);
	assert_int_equal(s.prefetched, LONG + second.read);
	assert_int_equal(s.prefetch_hits, LONG);
	for (uint32_t i = 0; i < LONG; i++)
		pass(f, true);
	assert_in_range(counts(f, 0, 1).read, second.read + LONG / 2, second.read + LONG);
	assert_int_equal(counts(f, 0, 1).came_true, LONG);
}

static void what_is_in_memory_or_has_no_rank_teaches_nothing(void **state)
{
	struct test_pager *f = *state;
	static const uint32_t forecast[] = {RIGHT, WRONG}, ranks[] = {0, 1};
	assert_int_equal(test_batch(f, 1, forecast, 1), 1);
	assert_int_equal(test_batch(f, 0, (const uint32_t[]){0}, 1), 1);
	pager_predict(f->source, 1, forecast, ranks, 2);
	settle(f);
	assert_int_equal(test_batch(f, 1, forecast, 1), 1);
	assert_int_equal(counts(f, 0, 0).forecast, 0);
	assert_int_equal(counts(f, 0, 1).forecast, 1);
	assert_int_equal(test_batch(f, 0, (const uint32_t[]){1}, 1), 1);
	pager_predict(f->source, 1, (const uint32_t[]){4, 5}, NULL, 2);
	settle(f);
	assert_true(test_resident(f->source, 1, 5));
	assert_int_equal(test_batch(f, 1, (const uint32_t[]){4}, 1), 1);
	assert_int_equal(counts(f, 0, 0).forecast + counts(f, 0, 1).forecast, 1);
}

static void two_layers_ahead_is_measured_apart_and_a_forecast_that_is_made_again_once(void **state)
{
	struct test_pager *f = *state;
	static const uint32_t ranks[] = {0, 1};
	assert_int_equal(test_batch(f, 0, (const uint32_t[]){0}, 1), 1);
	pager_predict(f->source, 1, (const uint32_t[]){3, 4}, ranks, 2);
	pager_predict(f->source, 2, (const uint32_t[]){8, 9}, ranks, 2);
	pager_predict(f->source, 2, (const uint32_t[]){5, 6}, ranks, 2);
	settle(f);
	assert_int_equal(test_batch(f, 1, (const uint32_t[]){4}, 1), 1);
	pager_predict(f->source, 2, (const uint32_t[]){5, 7}, ranks, 2); /* 5 is there by now */
	settle(f);
	assert_int_equal(test_batch(f, 2, (const uint32_t[]){5, 7}, 2), 2);
	assert_int_equal(counts(f, 0, 0).forecast, 1); /* layer 1's first */
	assert_int_equal(counts(f, 0, 0).came_true, 0);
	assert_int_equal(counts(f, 0, 1).forecast, 2);
	assert_int_equal(counts(f, 0, 1).came_true, 2);
	assert_int_equal(counts(f, 1, 0).forecast, 1);
	assert_int_equal(counts(f, 1, 0).came_true, 1);
	assert_int_equal(counts(f, 1, 1).forecast, 1);
	assert_int_equal(counts(f, 1, 1).came_true, 0);
}

static void a_pass_that_breaks_off_teaches_nothing(void **state)
{
	struct test_pager *f = *state;
	static const uint32_t ranks[] = {0};
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(test_batch(f, 0, (const uint32_t[]){0}, 1), 1);
		pager_predict(f->source, 1, (const uint32_t[]){3}, ranks, 1);
		pager_predict(f->source, 2, (const uint32_t[]){3}, ranks, 1);
	}
	assert_int_equal(test_batch(f, 0, (const uint32_t[]){0}, 1), 1);
	assert_int_equal(test_batch(f, 1, (const uint32_t[]){5}, 1), 1);
	assert_int_equal(test_batch(f, 2, (const uint32_t[]){5}, 1), 1);
	assert_int_equal(counts(f, 0, 0).forecast + counts(f, 1, 0).forecast, 0);
}

static void other_ranks_than_there_can_be_do_no_harm(void **state)
{
	struct test_pager *f = *state;
	static const uint32_t forecast[] = {3, 4}, ranks[] = {UINT32_MAX, AHEAD_RANKS};
	assert_int_equal(test_batch(f, 0, (const uint32_t[]){0}, 1), 1);
	pager_predict(f->source, 1, forecast, ranks, 2);
	settle(f);
	assert_int_equal(test_batch(f, 1, forecast, 2), 2);
	assert_int_equal(counts(f, 0, AHEAD_RANKS - 1).came_true, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_ranks_are_worth_a_read_until_they_were_measured),
		cmocka_unit_test(with_demands_in_every_layer_half_of_the_forecasts_must_come_true),
		cmocka_unit_test(the_fewer_demands_the_less_must_come_true),
		cmocka_unit_test(distances_and_ranks_are_measured_apart_and_far_ranks_together),
		cmocka_unit_test_setup_teardown(
			a_rank_that_comes_out_wrong_is_read_no_more_until_it_comes_true, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			what_is_in_memory_or_has_no_rank_teaches_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(
			two_layers_ahead_is_measured_apart_and_a_forecast_that_is_made_again_once,
			setup, teardown),
		cmocka_unit_test_setup_teardown(a_pass_that_breaks_off_teaches_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(other_ranks_than_there_can_be_do_no_harm, setup,
						teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
