/* The budgets: how they follow from the request and the available memory, and how they change
 * while memory is watched. The machine is a fake one with a control group of version 2. */
#include "engine/memory/budgets.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "fake_system.h"
#include "pager_help.h"

#define SECONDS UINT64_C(1000000000)

static char root[32];
static struct budgets b;
static struct context_budget contexts;
static struct err e;

enum { EXPERTS = 16, SLOTS = 32 };

static void put_group(uint64_t limit, uint64_t used)
{
	char number[32];
	(void)snprintf(number, sizeof number, "%" PRIu64, limit);
	put_v2(root, "/sys/fs/cgroup/a", number, used, 0);
}

static int begin(void **state)
{
	(void)state;
	test_folder_make(root);
	put_machine(root, 64 * GIB, 60 * GIB);
	put(root, "/proc/self/cgroup", "0::/a\n");
	put(root, "/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put_group(4 * GIB, GIB);
	contexts = (struct context_budget){0};
	return 0;
}

static int end(void **state)
{
	(void)state;
	budgets_free(&b);
	test_folder_remove(root);
	return 0;
}

static void init(uint64_t asked, uint64_t context_bytes)
{
	if (budgets_init(&b, root, asked, context_bytes, &contexts, &e))
		fail_msg("%s", e.text);
}

/* The rest of 4 GiB with `used` in use, less the margin of 128 MiB. */
static uint64_t spare(uint64_t used)
{
	return 4 * GIB - used - 128 * MIB;
}

static bool look_at(uint64_t seconds)
{
	return budgets_look(&b, PRESSURE_NONE, seconds * SECONDS);
}

/* ---- decisions ---- */

static void without_a_request_the_budget_is_all_but_the_contexts_room(void **state)
{
	(void)state;
	init(BUDGET_AUTOMATIC, 512 * MIB);
	assert_true(b.in_force == spare(GIB) - 512 * MIB);
}

static void contexts_get_an_eighth_by_default(void **state)
{
	(void)state;
	init(BUDGET_AUTOMATIC, 0);
	assert_true(contexts.limit == spare(GIB) / 8);
	assert_true(b.in_force == spare(GIB) - contexts.limit);
}

static void contexts_return_to_an_eighth_when_the_request_is_removed(void **state)
{
	(void)state;
	init(BUDGET_AUTOMATIC, 512 * MIB);
	budgets_ask_contexts(&b, BUDGET_AUTOMATIC);
	assert_true(contexts.limit == spare(GIB) / 8);
	assert_true(b.in_force == spare(GIB) - contexts.limit);
	budgets_ask_contexts(&b, 256 * MIB);
	assert_true(contexts.limit == 256 * MIB);
}

static void contexts_without_bound_leave_the_experts_half(void **state)
{
	(void)state;
	init(BUDGET_AUTOMATIC, UINT64_C(1) << 60);
	assert_true(b.in_force == spare(GIB) / 2);
}

static void what_contexts_hold_is_not_counted_twice(void **state)
{
	(void)state;
	init(BUDGET_AUTOMATIC, 512 * MIB);
	uint64_t before = b.in_force;
	atomic_store(&contexts.used, 256 * MIB);
	put_group(4 * GIB, GIB + 256 * MIB);
	look_at(1);
	assert_true(b.in_force == before);
}

static void a_requested_budget_is_in_force_if_there_is_memory(void **state)
{
	(void)state;
	init(2 * GIB, 512 * MIB);
	assert_true(b.in_force == 2 * GIB);
	assert_int_equal(budgets_ask(&b, GIB, &e), 0);
	assert_true(b.in_force == GIB && b.asked == GIB);
}

static void more_than_all_memory_may_be_requested_but_is_not_in_force(void **state)
{
	(void)state;
	init(100 * GIB, 512 * MIB);
	assert_true(b.in_force == spare(GIB)); /* contexts get no room: the budget was requested */
	assert_true(b.asked == 100 * GIB);
}

static void without_any_numbers_the_budget_is_a_gigabyte_or_as_requested(void **state)
{
	(void)state;
	test_folder_remove(root);
	init(BUDGET_AUTOMATIC, 0);
	assert_true(b.in_force == GIB && contexts.limit == GIB / 8);
	assert_int_equal(budgets_ask(&b, 7 * GIB, &e), 0);
	assert_true(b.in_force == 7 * GIB);
	test_folder_make(root);
}

/* ---- models ---- */

static void a_model_that_is_mounted_is_left_room_for_its_weights(void **state)
{
	(void)state;
	struct budget_need one = {.bytes = 900 * MIB}, other = {.bytes = 100 * MIB};
	init(BUDGET_AUTOMATIC, 0);
	budgets_add(&b, &one);
	budgets_add(&b, &other);
	assert_true(contexts.limit == (spare(GIB) - 1000 * MIB) / 8 / MIB * MIB);
	assert_true(b.in_force == spare(GIB) - 1000 * MIB - contexts.limit);
	budgets_remove(&b, &one);
	assert_true(b.in_force == spare(GIB) - 100 * MIB - contexts.limit);
	budgets_remove(&b, &one); /* which is not there any more */
	budgets_remove(&b, &other);
	assert_true(b.in_force == spare(GIB) - contexts.limit);
}

static void weights_that_are_being_loaded_are_not_counted_twice(void **state)
{
	(void)state;
	struct budget_need model = {.bytes = GIB};
	init(BUDGET_AUTOMATIC, 512 * MIB);
	budgets_add(&b, &model);
	uint64_t before = b.in_force;
	budgets_need(&b, &model, NEED_COMING);
	assert_true(b.in_force == before);
	for (uint64_t i = 1; i <= 4; i++) { /* it is taken bit by bit */
		put_group(4 * GIB, GIB + i * GIB / 4);
		look_at(10 * i);
		assert_true(b.in_force == before);
	}
	budgets_need(&b, &model, NEED_TAKEN);
	assert_true(b.in_force == before);
}

static void an_estimate_that_was_wrong_is_put_right_when_the_model_is_loaded(void **state)
{
	(void)state;
	struct budget_need model = {.bytes = GIB};
	init(BUDGET_AUTOMATIC, 512 * MIB);
	budgets_add(&b, &model);
	budgets_need(&b, &model, NEED_COMING);
	put_group(4 * GIB, GIB + 300 * MIB);
	budgets_need(&b, &model, NEED_TAKEN);
	assert_true(b.in_force == spare(GIB + 300 * MIB) - 512 * MIB);
}

static void loading_takes_its_room_from_a_requested_budget(void **state)
{
	(void)state;
	struct budget_need model = {.bytes = GIB};
	init(5 * GIB, 512 * MIB);
	budgets_add(&b, &model);
	assert_true(b.in_force == spare(GIB));
	budgets_need(&b, &model, NEED_COMING);
	assert_true(b.in_force == spare(GIB) - GIB);
	budgets_need(&b, &model, NEED_AHEAD); /* it could not be loaded */
	assert_true(b.in_force == spare(GIB));
}

static void temporary_memory_is_taken_from_the_experts_at_once(void **state)
{
	(void)state;
	struct budget_need scratch = {.bytes = 300 * MIB, .state = NEED_COMING};
	init(BUDGET_AUTOMATIC, 0);
	uint64_t before = b.in_force, limit = contexts.limit;
	assert_true(budgets_beside(&b) == 0);
	budgets_add(&b, &scratch);
	assert_true(b.in_force == before - 300 * MIB && contexts.limit == limit);
	put_group(4 * GIB, GIB + 300 * MIB);
	budgets_need(&b, &scratch, NEED_TAKEN);
	assert_in_range(b.in_force, before - 300 * MIB,
			before - 200 * MIB); /* contexts give, too */
	put_group(4 * GIB, GIB);
	budgets_remove(&b, &scratch);
	assert_true(b.in_force == before && contexts.limit == limit);
}

static void memory_outside_a_requested_budget_is_taken_first(void **state)
{
	(void)state;
	struct budget_need scratch = {.bytes = GIB, .state = NEED_COMING};
	init(2 * GIB, 512 * MIB);
	assert_true(budgets_beside(&b) == spare(GIB) - 2 * GIB);
	budgets_add(&b, &scratch);
	assert_true(b.in_force == spare(GIB) - GIB);
	budgets_remove(&b, &scratch);
	scratch = (struct budget_need){.bytes = 800 * MIB, .state = NEED_COMING};
	budgets_add(&b, &scratch);
	assert_true(b.in_force == 2 * GIB);
	budgets_remove(&b, &scratch);
}

static void the_experts_of_one_layer_always_fit(void **state)
{
	(void)state;
	struct budget_need model = {.bytes = 100 * GIB, .least = 48 * MIB};
	init(BUDGET_AUTOMATIC, 512 * MIB);
	budgets_add(&b, &model);
	assert_true(b.in_force == 48 * MIB);
	put_group(4 * GIB, 5 * GIB);
	look_at(1);
	assert_true(b.in_force == 48 * MIB);
	assert_int_equal(budgets_ask(&b, 20 * MIB, &e), 0); /* the request was smaller */
	assert_true(b.in_force == 20 * MIB);
}

/* ---- a pool, under pressure ---- */

/* A pool that holds SLOTS experts of 8 KiB, full; 1 MiB for all, of which a quarter is margin. */
static struct test_pager pool;
enum { SMALL_GROUP = 1 << 20, SMALL_MARGIN = SMALL_GROUP / 4, POOL = SLOTS * 8192 };

static struct pager_stats stats(void)
{
	struct pager_stats s;
	pager_stats(pool.pager, &s);
	return s;
}

static void fill_pool(void)
{
	uint32_t experts[EXPERTS];
	for (uint32_t i = 0; i < EXPERTS; i++)
		experts[i] = i;
	for (uint32_t layer = 0; layer < 2; layer++)
		assert_int_equal(test_batch(&pool, layer, experts, EXPERTS), EXPERTS);
}

static int begin_pool(void **state)
{
	begin(state);
	put_group(SMALL_GROUP, POOL);
	init(POOL, 4096);
	test_pager_open(&pool, EXPERTS, SLOTS, PAGER_IO_PREAD);
	budgets_govern(&b, pool.pager);
	fill_pool();
	assert_true(stats().used == POOL && stats().budget == POOL);
	return 0;
}

static int end_pool(void **state)
{
	end(state);
	test_pager_close(&pool);
	return 0;
}

/* Others take memory until `missing` bytes are missing. */
static void squeeze(uint64_t missing)
{
	put_group(SMALL_GROUP, SMALL_GROUP - SMALL_MARGIN + missing);
}

static void a_shortage_evicts_the_missing_amount_at_once(void **state)
{
	(void)state;
	squeeze(10 * SLOT);
	look_at(1);
	assert_true(b.in_force == POOL - 10 * SLOT);
	assert_true(stats().budget == b.in_force && stats().used == b.in_force);
	assert_true(b.asked == POOL);
}

static void a_small_part_of_the_margin_changes_nothing(void **state)
{
	(void)state;
	squeeze(SMALL_MARGIN / 4);
	look_at(1);
	assert_true(b.in_force == POOL);
}

static void short_memory_stops_at_the_experts_of_one_layer(void **state)
{
	(void)state;
	struct budget_need model = {.least = 3 * SLOT, .state = NEED_TAKEN};
	budgets_add(&b, &model);
	squeeze(SMALL_GROUP);
	look_at(1);
	assert_true(b.in_force == 3 * SLOT && stats().used == 3 * SLOT);
	uint32_t experts[] = {0, 1, 2};
	assert_int_equal(test_batch(&pool, 0, experts, 3), 3);
	budgets_remove(&b, &model);
}

static void it_rises_again_slowly_and_only_after_a_while(void **state)
{
	(void)state;
	squeeze(16 * SLOT);
	look_at(10);
	uint64_t low = b.in_force;
	put_group(SMALL_GROUP, stats().used);
	look_at(11);
	assert_true(b.in_force == low);
	look_at(12);
	assert_true(b.in_force > low && b.in_force < POOL);
	for (int i = 0; i < 40; i++)
		look_at(13);
	assert_true(b.in_force == POOL && stats().budget == POOL);
}

static void an_unexplained_signal_lowers_the_budget_once_a_second(void **state)
{
	(void)state;
	budgets_look(&b, PRESSURE_SHORT, 100 * SECONDS);
	uint64_t first = b.in_force;
	assert_true(first < POOL && stats().used <= first);
	budgets_look(&b, PRESSURE_SHORT, 100 * SECONDS + 1);
	assert_true(b.in_force == first);
	budgets_look(&b, PRESSURE_SHORT, 101 * SECONDS);
	uint64_t second = b.in_force;
	assert_true(second < first);
	look_at(105); /* numbers that were wrong once are not trusted for a while */
	assert_true(b.in_force == second);
	look_at(111);
	assert_true(b.in_force > second);
}

static void a_signal_to_look_alone_changes_nothing(void **state)
{
	(void)state;
	budgets_look(&b, PRESSURE_LOOK, 100 * SECONDS);
	assert_true(b.in_force == POOL);
}

static void fast_falling_memory_is_measured_again_soon(void **state)
{
	(void)state;
	assert_false(look_at(1));
	put_group(SMALL_GROUP, POOL + SMALL_MARGIN);
	assert_true(look_at(2));
	assert_false(look_at(3));
}

static void less_than_an_expert_is_refused_and_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(budgets_ask(&b, SLOT - 1, &e), -ERANGE);
	assert_true(b.asked == POOL && b.in_force == POOL && stats().budget == POOL);
}

static void a_requested_size_is_in_force_at_once_in_both_directions(void **state)
{
	(void)state;
	assert_int_equal(budgets_ask(&b, 4 * SLOT, &e), 0);
	assert_true(stats().budget == 4 * SLOT && stats().used == 4 * SLOT);
	assert_int_equal(budgets_ask(&b, POOL, &e), 0);
	assert_true(stats().budget == POOL);
	fill_pool();
	assert_true(stats().used == POOL);
}

static void wait_for_budget(bool at_least, uint64_t bytes)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	while (at_least ? stats().budget < bytes : stats().budget > bytes)
		nanosleep(&pause, NULL);
}

static void the_thread_lowers_and_raises_by_itself(void **state)
{
	(void)state;
	if (budgets_watch(&b, &e))
		fail_msg("%s", e.text);
	squeeze(10 * SLOT);
	wait_for_budget(false, POOL - 10 * SLOT);
	put_group(SMALL_GROUP, 0);
	wait_for_budget(true, POOL);
	assert_true(b.asked == POOL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define POOL_TEST(name) cmocka_unit_test_setup_teardown(name, begin_pool, end_pool)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_a_request_the_budget_is_all_but_the_contexts_room),
		TEST(contexts_get_an_eighth_by_default),
		TEST(contexts_return_to_an_eighth_when_the_request_is_removed),
		TEST(contexts_without_bound_leave_the_experts_half),
		TEST(what_contexts_hold_is_not_counted_twice),
		TEST(a_requested_budget_is_in_force_if_there_is_memory),
		TEST(more_than_all_memory_may_be_requested_but_is_not_in_force),
		TEST(without_any_numbers_the_budget_is_a_gigabyte_or_as_requested),
		TEST(a_model_that_is_mounted_is_left_room_for_its_weights),
		TEST(weights_that_are_being_loaded_are_not_counted_twice),
		TEST(an_estimate_that_was_wrong_is_put_right_when_the_model_is_loaded),
		TEST(loading_takes_its_room_from_a_requested_budget),
		TEST(temporary_memory_is_taken_from_the_experts_at_once),
		TEST(memory_outside_a_requested_budget_is_taken_first),
		TEST(the_experts_of_one_layer_always_fit),
		POOL_TEST(a_shortage_evicts_the_missing_amount_at_once),
		POOL_TEST(a_small_part_of_the_margin_changes_nothing),
		POOL_TEST(short_memory_stops_at_the_experts_of_one_layer),
		POOL_TEST(it_rises_again_slowly_and_only_after_a_while),
		POOL_TEST(an_unexplained_signal_lowers_the_budget_once_a_second),
		POOL_TEST(a_signal_to_look_alone_changes_nothing),
		POOL_TEST(fast_falling_memory_is_measured_again_soon),
		POOL_TEST(less_than_an_expert_is_refused_and_changes_nothing),
		POOL_TEST(a_requested_size_is_in_force_at_once_in_both_directions),
		POOL_TEST(the_thread_lowers_and_raises_by_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
