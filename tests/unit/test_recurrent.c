/* Recurrent states: a rollback ends at a copy that is the state of its position, copies are bounded
 * in number and by the context budget, and are dense where they are needed. */
#include "engine/compute/recurrent.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

enum { FLOATS = 3000 };

static struct context_budget budget;
static struct recurrent r;
static struct err e;

static int setup(void **state)
{
	(void)state;
	context_budget_init(&budget, 1 << 30);
	recurrent_init(&r, &budget, FLOATS);
	return recurrent_reserve(&r, &e);
}

static int teardown(void **state)
{
	(void)state;
	recurrent_free(&r);
	assert_int_equal(budget.used, 0);
	return 0;
}

/* A state that contains its position. */
static void advance(size_t position)
{
	for (size_t i = 0; i < FLOATS; i++)
		r.now[i] = (float)(position + i);
}

static void assert_is_at(size_t position)
{
	for (size_t i = 0; i < FLOATS; i++)
		assert_true(r.now[i] == (float)(position + i));
}

static void a_model_without_recurrent_layers_takes_nothing(void **state)
{
	(void)state;
	struct recurrent none;
	recurrent_init(&none, &budget, 0);
	uint64_t before = budget.used;
	assert_int_equal(recurrent_reserve(&none, &e), 0);
	recurrent_checkpoint(&none, 5);
	assert_int_equal(recurrent_rollback(&none, 9, 4), 4);
	assert_int_equal(budget.used, before);
	recurrent_free(&none);
}

static void a_new_state_is_zero(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLOATS; i++)
		assert_true(r.now[i] == 0);
	assert_int_equal(budget.used, r.bytes);
}

static void a_rollback_ends_at_the_mark_before(void **state)
{
	(void)state;
	advance(10);
	recurrent_checkpoint(&r, 10);
	advance(20);
	recurrent_checkpoint(&r, 20);
	advance(30);
	assert_int_equal(recurrent_rollback(&r, 30, 30), 30);
	assert_is_at(30);
	assert_int_equal(recurrent_rollback(&r, 30, 25), 20);
	assert_is_at(20);
	assert_int_equal(recurrent_rollback(&r, 20, 19), 10);
	assert_is_at(10);
	assert_int_equal(recurrent_rollback(&r, 10, 9), 0);
	assert_null(r.now);
	assert_int_equal(budget.used, 0);
}

static void what_lies_beyond_a_rollback_is_forgotten(void **state)
{
	(void)state;
	for (size_t p = 10; p <= 30; p += 10) {
		advance(p);
		recurrent_checkpoint(&r, p);
	}
	assert_int_equal(recurrent_rollback(&r, 30, 15), 10);
	advance(31); /* another text */
	assert_int_equal(recurrent_rollback(&r, 31, 30), 10);
	assert_is_at(10);
}

static void after_a_failed_step_even_its_own_position_is_gone_back_from(void **state)
{
	(void)state;
	advance(10);
	recurrent_checkpoint(&r, 10);
	advance(20);
	r.spoiled = true;
	recurrent_checkpoint(&r, 20);
	assert_int_equal(recurrent_rollback(&r, 20, 20), 10);
	assert_is_at(10);
	assert_false(r.spoiled);
}

/* Of a long text the last copy always exists, and going back by n positions costs at most a few
 * times n. */
static void marks_are_few_and_denser_towards_the_end(void **state)
{
	(void)state;
	enum { STEP = 100, END = 100 * STEP };
	for (size_t p = STEP; p <= END; p += STEP) {
		advance(p);
		recurrent_checkpoint(&r, p);
		assert_true(r.checkpoint_count <= RECURRENT_CHECKPOINTS);
		assert_int_equal(r.checkpoints[r.checkpoint_count - 1].position, p);
		if (r.checkpoint_count > 1 && p > 2 * STEP)
			assert_true(r.checkpoints[r.checkpoint_count - 2].position >= p - 2 * STEP);
	}
	assert_int_equal(r.checkpoint_count, RECURRENT_CHECKPOINTS);
	assert_int_equal(budget.used, (RECURRENT_CHECKPOINTS + 1) * r.bytes);
	for (size_t back = STEP; back <= END / 2; back += STEP) {
		size_t at = 0; /* where there is no checkpoint before it */
		for (uint32_t i = 0; i < r.checkpoint_count; i++)
			if (r.checkpoints[i].position <= END - back)
				at = r.checkpoints[i].position;
		assert_true(END - back - at <= 3 * back);
	}
}

static void without_room_a_copy_takes_the_place_of_another(void **state)
{
	(void)state;
	budget.limit = 3 * r.bytes;
	for (size_t p = 10; p <= 50; p += 10) {
		advance(p);
		recurrent_checkpoint(&r, p);
		assert_true(budget.used <= budget.limit);
	}
	assert_int_equal(r.checkpoint_count, 2);
	assert_int_equal(recurrent_rollback(&r, 60, 55), 50);
	assert_is_at(50);
}

static void without_room_for_any_copy_there_is_none(void **state)
{
	(void)state;
	budget.limit = r.bytes;
	advance(10);
	recurrent_checkpoint(&r, 10);
	assert_int_equal(r.checkpoint_count, 0);
	assert_int_equal(recurrent_rollback(&r, 20, 15), 0);
	assert_int_equal(recurrent_reserve(&r, &e), 0);
	assert_true(r.now[1] == 0);
	struct recurrent second;
	recurrent_init(&second, &budget, FLOATS);
	assert_int_equal(recurrent_reserve(&second, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "context_budget"));
	recurrent_free(&second);
}

/* A text that continues and back while others take its copies' memory: the remaining copies are
 * intact. */
enum { TAKES = 1000 };
static _Atomic bool over;
static _Atomic uint32_t taken;

static void *take_and_give(void *arg)
{
	struct recurrent other;
	struct err own;
	(void)arg;
	recurrent_init(&other, &budget, FLOATS);
	while (!atomic_load(&over)) {
		if (!recurrent_reserve(&other, &own))
			atomic_fetch_add(&taken, 1);
		recurrent_free(&other);
	}
	return NULL;
}

static void copies_may_give_way_at_any_moment(void **state)
{
	(void)state;
	pthread_t threads[2];
	budget.limit = 3 * r.bytes;
	atomic_store(&over, false);
	atomic_store(&taken, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, NULL), 0);
	for (size_t end = 100; atomic_load(&taken) < TAKES; end++) {
		for (size_t p = end - 40; p <= end; p += 10) {
			advance(p);
			recurrent_checkpoint(&r, p);
		}
		size_t at = recurrent_rollback(&r, end + 1, end - 5);
		if (at)
			assert_is_at(at);
		while (!r.now) /* the others' turn */
			(void)recurrent_reserve(&r, &e);
	}
	atomic_store(&over, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_true(budget.used <= budget.limit);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_model_without_recurrent_layers_takes_nothing),
		TEST(a_new_state_is_zero),
		TEST(a_rollback_ends_at_the_mark_before),
		TEST(what_lies_beyond_a_rollback_is_forgotten),
		TEST(after_a_failed_step_even_its_own_position_is_gone_back_from),
		TEST(marks_are_few_and_denser_towards_the_end),
		TEST(without_room_a_copy_takes_the_place_of_another),
		TEST(without_room_for_any_copy_there_is_none),
		TEST(copies_may_give_way_at_any_moment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
