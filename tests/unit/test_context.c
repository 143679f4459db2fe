/* Key-value memory: counted memory equals mapped memory and is returned to the system. */
#include "engine/compute/context.h"
#include "memory_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>

/* A block of 1 MiB in F16. */
static const struct config wide = {.mixers = {[MIXER_ATTENTION] = 8},
				   .kv_width = {(uint64_t)8 * 2 * 4 * 128}};
enum { WIDE_BLOCK = 1 << 20 };
static const struct config hybrid = {
	.mixers = {[MIXER_ATTENTION] = 8, [MIXER_DELTA_NET] = 1},
	.kv_width = {(uint64_t)8 * 2 * 4 * 128},
	.delta_net = {
		.key_heads = 1, .value_heads = 1, .key_dim = 16, .value_dim = 16, .width = 4}};

static struct context_budget budget;
static struct err e;

static int setup(void **state)
{
	(void)state;
	context_budget_init(&budget, 1 << 30);
	return 0;
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void blocks_are_counted_in_the_pages_that_they_take(void **state)
{
	(void)state;
	static const struct config small = {.mixers = {[MIXER_ATTENTION] = 1}, .kv_width = {2 * 8}};
	struct context x;
	context_init(&x, &budget, &small, KV_F16); /* 2048 bytes a block */
	assert_int_equal(context_reserve(&x, 1, &e), 0);
	assert_int_equal(budget.used, page_bytes());
	assert_int_equal(context_reserve(&x, KV_BLOCK, &e), 0);
	assert_int_equal(budget.used, page_bytes());
	assert_int_equal(context_reserve(&x, 3 * KV_BLOCK + 1, &e), 0);
	assert_int_equal(budget.used, 4 * page_bytes());
	const struct kv_table *t = &x.kv[KV_WHOLE];
	for (uint32_t i = 0; i < t->count; i++) {
		assert_int_equal((uintptr_t)t->blocks[i] % 64, 0);
		memset((void *)t->blocks[i], 0xff, t->bytes);
	}
	context_free(&x);
	assert_int_equal(budget.used, 0);
}

/* Gaps that ended sessions leave between the blocks of others must not stay in memory. */
static void what_a_context_gives_up_the_system_has_back(void **state)
{
	(void)state;
	enum { BLOCKS = 64, KEPT = 16 };
	void *between[BLOCKS];
	struct context x;
	context_init(&x, &budget, &wide, KV_F16);
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < BLOCKS; i++) {
			assert_int_equal(context_reserve(&x, (i + 1) * KV_BLOCK, &e), 0);
			assert_int_equal(budget.used, (uint64_t)(i + 1) * WIDE_BLOCK);
			memset((void *)x.kv[KV_WHOLE].blocks[i], 1, WIDE_BLOCK);
			between[i] = malloc(100);
			assert_non_null(between[i]);
		}
		const struct test_memory used = test_memory_used();
		x.tokens.count = KEPT * KV_BLOCK;
		context_rollback(&x, KEPT * KV_BLOCK);
		assert_int_equal(budget.used, (uint64_t)KEPT * WIDE_BLOCK);
		const struct test_memory left = test_memory_used();
		assert_true(used.mapped - left.mapped >= (BLOCKS - KEPT) * (uint64_t)WIDE_BLOCK);
		/* The kernel counts with an error of some pages for each thread. */
		assert_true(used.resident - left.resident >=
			    (BLOCKS - KEPT - 2) * (uint64_t)WIDE_BLOCK);
		context_rollback(&x, 0);
		assert_int_equal(budget.used, 0);
		for (uint32_t i = 0; i < BLOCKS; i++)
			free(between[i]);
	}
	context_free(&x);
}

static void a_budget_that_is_used_up_takes_no_memory(void **state)
{
	(void)state;
	struct context x;
	budget.limit = 2 * WIDE_BLOCK + WIDE_BLOCK / 2;
	context_init(&x, &budget, &wide, KV_F16);
	assert_int_equal(context_reserve(&x, 3 * KV_BLOCK, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "context_budget"));
	assert_int_equal(budget.used, 2 * WIDE_BLOCK);
	context_free(&x);
	assert_int_equal(budget.used, 0);
}

/* A hybrid's first step reserves its state before its blocks; there may be no room for the blocks.
 */
static void a_state_that_was_never_moved_on_is_given_back(void **state)
{
	(void)state;
	struct context x;
	budget.limit = WIDE_BLOCK;
	context_init(&x, &budget, &hybrid, KV_F16);
	assert_int_equal(context_reserve(&x, 1, &e), -ENOSPC);
	assert_int_equal(budget.used, x.recurrent.bytes);
	context_rollback(&x, 0); /* as a session that is reset does */
	assert_int_equal(budget.used, 0);
	assert_int_equal(context_reserve(&x, 1, &e), -ENOSPC);
	context_free(&x);
	assert_int_equal(budget.used, 0);
}

static void a_text_that_grows_goes_before_copies_of_where_it_was(void **state)
{
	(void)state;
	struct context x;
	context_init(&x, &budget, &hybrid, KV_F16);
	budget.limit = 2 * WIDE_BLOCK + x.recurrent.bytes;
	assert_int_equal(context_reserve(&x, KV_BLOCK, &e), 0);
	for (size_t i = 1; i <= RECURRENT_CHECKPOINTS; i++)
		recurrent_checkpoint(&x.recurrent, x.tokens.count = i);
	assert_int_equal(budget.used, WIDE_BLOCK + (1 + RECURRENT_CHECKPOINTS) * x.recurrent.bytes);
	assert_int_equal(context_reserve(&x, 2 * KV_BLOCK, &e), 0);
	assert_int_equal(x.recurrent.checkpoint_count, 0);
	assert_int_equal(context_reserve(&x, 3 * KV_BLOCK, &e), -ENOSPC);
	context_free(&x);
	assert_int_equal(budget.used, 0);
}

/* Copies that were not used for longest are dropped first, the text's own copies last. */
static void a_text_that_grows_goes_before_copies_of_other_texts(void **state)
{
	(void)state;
	struct config large = hybrid; /* two copies of its state are a block or more */
	large.delta_net.value_heads = 16;
	large.delta_net.key_dim = 64;
	large.delta_net.value_dim = 128;
	struct context old, idle, x, *all[] = {&old, &idle, &x};
	for (int i = 0; i < 3; i++) {
		context_init(all[i], &budget, &large, KV_F16);
		assert_int_equal(context_reserve(all[i], KV_BLOCK, &e), 0);
		for (size_t k = 1; k <= 2; k++)
			recurrent_checkpoint(&all[i]->recurrent, all[i]->tokens.count = k);
	}
	size_t copy = x.recurrent.bytes;
	assert_true(WIDE_BLOCK > copy && WIDE_BLOCK <= 2 * copy);
	budget.limit = budget.used;
	assert_int_equal(context_reserve(&x, 2 * KV_BLOCK, &e), 0);
	assert_int_equal(old.recurrent.checkpoint_count, 0);
	assert_int_equal(idle.recurrent.checkpoint_count, 2);
	assert_int_equal(context_reserve(&x, 3 * KV_BLOCK, &e), 0);
	assert_int_equal(idle.recurrent.checkpoint_count, 0);
	assert_int_equal(x.recurrent.checkpoint_count, 2);
	assert_int_equal(context_reserve(&x, 4 * KV_BLOCK, &e), 0);
	assert_int_equal(x.recurrent.checkpoint_count, 0);
	assert_int_equal(context_reserve(&x, 5 * KV_BLOCK, &e), -ENOSPC);
	assert_int_equal(context_rollback(&old, 1), 0); /* there is no copy to go back to */
	assert_true(budget.used <= budget.limit);
	for (int i = 0; i < 3; i++)
		context_free(all[i]);
	assert_int_equal(budget.used, 0);
}

static void without_memory_nothing_is_counted(void **state)
{
	(void)state;
	struct context x;
	struct rlimit before;
	test_memory_limitable();
	context_init(&x, &budget, &wide, KV_F16);
	assert_int_equal(context_reserve(&x, KV_BLOCK, &e), 0); /* and the table with it */
	test_memory_limit(RLIMIT_AS, 0, &before);
	int failed = context_reserve(&x, 2 * KV_BLOCK, &e);
	test_memory_unlimit(RLIMIT_AS, &before);
	assert_int_equal(failed, -ENOMEM);
	assert_non_null(strstr(e.text, "1048576 bytes of context"));
	assert_int_equal(budget.used, WIDE_BLOCK);
	assert_int_equal(context_reserve(&x, 2 * KV_BLOCK, &e), 0);
	context_free(&x);
	assert_int_equal(budget.used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(blocks_are_counted_in_the_pages_that_they_take, setup),
		cmocka_unit_test_setup(what_a_context_gives_up_the_system_has_back, setup),
		cmocka_unit_test_setup(a_budget_that_is_used_up_takes_no_memory, setup),
		cmocka_unit_test_setup(a_state_that_was_never_moved_on_is_given_back, setup),
		cmocka_unit_test_setup(a_text_that_grows_goes_before_copies_of_where_it_was, setup),
		cmocka_unit_test_setup(a_text_that_grows_goes_before_copies_of_other_texts, setup),
		cmocka_unit_test_setup(without_memory_nothing_is_counted, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
