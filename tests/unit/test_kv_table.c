/* Keys and values with a window: positions that no later row sees are freed, positions that a text
 * may go back to are kept, and wherever it goes back to, everything that the next row sees is
 * there. */
#include "engine/compute/kv_table.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

enum { WINDOW = 128, USED = 4000, MOST = 4096 };

static struct context_budget budget;
static struct kv_table t;
static size_t held; /* positions of t */
static struct err e;

static int setup(void **state)
{
	(void)state;
	held = 0;
	context_budget_init(&budget, UINT64_C(1) << 30);
	kv_init(&t, &budget, WINDOW, USED);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kv_free(&t);
	assert_int_equal(budget.used, 0);
	return 0;
}

/* A position's keys: the text that it belongs to. */
static uint32_t *key_of(const struct kv_table *x, size_t position)
{
	return (uint32_t *)(void *)x->blocks[position / KV_BLOCK] + position % KV_BLOCK;
}

/* A step of n rows, each of which must see its own text. */
static int go_on(uint32_t n, uint32_t *text, uint32_t version)
{
	int failed = kv_reserve(&t, held, (uint32_t)held + n, &e);
	for (uint32_t i = 0; i < n && !failed; i++, held++) {
		*key_of(&t, held) = text[held] = version;
		for (size_t p = held < WINDOW ? 0 : held + 1 - WINDOW; p <= held; p++)
			assert_int_equal(*key_of(&t, p), text[p]);
	}
	return failed;
}

static void must_go_on(uint32_t n)
{
	static uint32_t text[MOST];
	if (go_on(n, text, 1))
		fail_msg("%s", e.text);
}

static uint32_t blocks_there(void)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < t.count; i++)
		n += t.blocks[i] != NULL;
	assert_int_equal(budget.used, n * t.bytes);
	return n;
}

/* ---- continuing ---- */

static void a_long_text_holds_no_more_than_its_end(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 5; n += 2) {
		while (held + n <= 2000) {
			size_t before = held;
			must_go_on(n);
			size_t from = before > WINDOW - 1 + KV_BACK
					      ? (before - (WINDOW - 1) - KV_BACK) / KV_BLOCK
					      : 0;
			assert_int_equal(blocks_there(), (held - 1) / KV_BLOCK + 1 - from);
			assert_in_range(blocks_there(), 1, 4);
		}
		held = kv_rollback(&t, 0);
		assert_int_equal(blocks_there(), 0);
	}
}

static void a_long_step_is_given_back_with_the_next(void **state)
{
	(void)state;
	must_go_on(1024);
	assert_int_equal(blocks_there(), 16);
	must_go_on(1024); /* sees what lies before it, and nothing further back */
	assert_int_equal(blocks_there(), 16 + 3);
	must_go_on(1);
	assert_int_equal(blocks_there(), 3 + 1);
}

static void without_a_window_all_stays(void **state)
{
	(void)state;
	kv_init(&t, &budget, 0, USED);
	for (int i = 0; i < 10; i++)
		must_go_on(100);
	kv_checkpoint(&t, held, held);
	assert_int_equal(blocks_there(), 16);
	assert_int_equal(kv_rollback(&t, 77), 77);
	assert_int_equal(blocks_there(), 2);
	assert_int_equal(kv_full_bytes(&t, 1000, 64), 16 * t.bytes);
}

/* The numbers of a large model: half of 36 layers of 8 heads of 64 see 128 of 131072 positions. */
static void a_full_context_takes_the_windows_and_no_more(void **state)
{
	(void)state;
	struct kv_table half;
	kv_init(&half, &budget, WINDOW, (size_t)18 * 2 * 8 * 64 * KV_BLOCK * 2);
	/* A step of 512 and the 131 positions before it, begun anywhere; eight times as many. */
	assert_int_equal(kv_full_bytes(&half, 131072, 512), (12 + 8 * 4) * half.bytes);
	assert_int_equal(kv_full_bytes(&half, 1000, 512), 16 * half.bytes); /* no more than all */
	half.window = 0;
	assert_int_equal(kv_full_bytes(&half, 131072, 512), 2048 * half.bytes);
}

static void a_text_fits_whose_keys_as_a_whole_do_not(void **state)
{
	(void)state;
	budget.limit = 5 * t.bytes;
	while (held < MOST)
		must_go_on(64);
	assert_int_equal(blocks_there(), 4);
	assert_int_equal(kv_reserve(&t, held, MOST + 5 * KV_BLOCK, &e), -ENOSPC);
}

/* ---- going back ---- */

static void drafts_that_do_not_stand_are_taken_back(void **state)
{
	(void)state;
	while (held + 5 < 1000) {
		size_t before = held;
		must_go_on(5);
		held = kv_rollback(&t, before + 1);
		assert_int_equal(held, before + 1);
	}
}

static void without_a_mark_it_goes_back_to_the_beginning(void **state)
{
	(void)state;
	while (held < 1000)
		must_go_on(10);
	assert_int_equal(kv_rollback(&t, 996), 996);
	assert_int_equal(kv_rollback(&t, 500), 0);
	assert_int_equal(blocks_there(), 0);
	held = 0;
	must_go_on(100);
}

static void a_mark_is_gone_back_to(void **state)
{
	(void)state;
	while (held < 1000) {
		must_go_on(10);
		if (held == 500)
			kv_checkpoint(&t, held, 497); /* within the step */
	}
	/* Its window: 366 … 496 in blocks 5 … 7; the end's: 859 … 999 in 13 … 15. */
	assert_int_equal(blocks_there(), 3 + 3);
	assert_int_equal(kv_rollback(&t, 900),
			 512); /* the last that the checkpoint's blocks have */
	assert_int_equal(kv_rollback(&t, 490), 490); /* they reach back further than to 370 */
	assert_int_equal(t.checkpoint_count, 0);
	held = 490;
	must_go_on(300);
	assert_int_equal(kv_rollback(&t, 470), 470);
}

static void what_windows_have_in_common_is_there_once(void **state)
{
	(void)state;
	must_go_on(640);
	kv_checkpoint(&t, held, held);
	uint32_t before = blocks_there();
	for (int i = 0; i < 7; i++) {
		must_go_on(8);
		kv_checkpoint(&t, held, held);
	}
	assert_int_equal(t.checkpoint_count, 8);
	assert_int_equal(blocks_there(), before + 1);
}

static void marks_are_bounded_and_denser_towards_the_end(void **state)
{
	(void)state;
	while (held < MOST) {
		must_go_on(32);
		kv_checkpoint(&t, held, held);
	}
	assert_int_equal(t.checkpoint_count, KV_CHECKPOINTS);
	assert_true(budget.used <= kv_full_bytes(&t, MOST, 32));
	assert_in_range(t.checkpoints[0], 1, MOST / 2);
	assert_int_equal(t.checkpoints[7], MOST);
	assert_int_equal(t.checkpoints[6], MOST - 32);
}

/* Wherever it goes back to, and over whatever it wrote there before: see go_on. */
static void on_any_way_all_is_there_that_is_seen(void **state)
{
	(void)state;
	static uint32_t text[MOST];
	uint32_t random = 1;
	for (uint32_t i = 1; i < 4000; i++) {
		random = random * 1103515245 + 12345;
		uint32_t n = (random >> 16) % 100 + 1;
		if (i % 7 == 0 || held + n > MOST) {
			size_t to = (random >> 8) % (held + 1), at = kv_rollback(&t, to);
			assert_true(at <= to);
			held = at;
			if (i % 3 == 0)
				kv_checkpoint(&t, held, held);
			continue;
		}
		assert_int_equal(go_on(n, text, i), 0);
		if ((random >> 4) % 3 == 0) {
			kv_checkpoint(&t, held, held - n / 2);
			kv_checkpoint(&t, held, held);
		}
		assert_true(blocks_there() * t.bytes <= kv_full_bytes(&t, MOST, 100));
	}
}

/* ---- others ---- */

static void marks_give_way_to_what_a_text_needs(void **state)
{
	(void)state;
	struct kv_table other;
	kv_init(&other, &budget, 0, USED);
	must_go_on(512);
	kv_checkpoint(&t, held, held);
	must_go_on(512);
	kv_checkpoint(&t, held, held);
	must_go_on(512);
	must_go_on(1);
	assert_int_equal(t.checkpoint_count, 2);
	assert_int_equal(blocks_there(), 3 + 3 + 4);
	budget.limit = budget.used + 2 * other.bytes;
	assert_int_equal(kv_reserve(&other, 0, 5 * KV_BLOCK, &e), 0);
	assert_int_equal(t.checkpoint_count, 1);
	assert_int_equal(kv_reserve(&other, 0, 8 * KV_BLOCK, &e), 0);
	assert_int_equal(t.checkpoint_count, 0);
	assert_int_equal(kv_reserve(&other, 0, 9 * KV_BLOCK, &e), -ENOSPC);
	kv_free(&other);
	blocks_there();
	must_go_on(100); /* what the text itself sees is not spare */
	assert_int_equal(kv_rollback(&t, 1000), 0);
}

/* The table, of a text that had `own` so far, continues with another. */
static void part(size_t own, uint32_t *text, uint32_t other)
{
	held = own;
	for (size_t p = 0; p < held; p++)
		text[p] = 1;
	assert_int_equal(go_on(300, text, other), 0);
}

static void a_fork_has_what_its_rows_see(void **state)
{
	(void)state;
	static uint32_t text[MOST];
	struct kv_table fork, mine;
	must_go_on(500);
	kv_checkpoint(&t, held, held);
	for (int i = 0; i < 10; i++)
		must_go_on(50);
	uint32_t before = blocks_there();
	kv_init(&fork, &budget, WINDOW, USED);
	assert_int_equal(kv_share(&fork, &t, held, &e), 0);
	assert_int_equal(blocks_there(), before); /* counted once */
	assert_int_equal(fork.checkpoint_count, 0);
	assert_int_equal(kv_rollback(&fork, 998), 998);
	mine = t;
	t = fork;
	part(998, text, 2);
	fork = t;
	t = mine;
	part(1000, text, 3);
	assert_int_equal(*key_of(&fork, 999), 2);
	kv_free(&fork);
	assert_int_equal(kv_rollback(&t, 500), 500); /* its own checkpoint */
}

static void what_is_moved_keeps_its_marks(void **state)
{
	(void)state;
	struct kv_table from;
	must_go_on(500);
	kv_checkpoint(&t, held, held);
	must_go_on(500);
	must_go_on(1);
	from = t;
	t = (struct kv_table){0};
	kv_init(&t, &budget, WINDOW, USED);
	/* The list of what is spare knows where it lies. */
	pthread_mutex_lock(&budget.lock);
	budget.spares = &from.spare;
	pthread_mutex_unlock(&budget.lock);
	kv_move(&t, &from);
	assert_int_equal(from.count, 0);
	assert_ptr_equal(budget.spares, &t.spare);
	assert_int_equal(kv_rollback(&t, 600), 512);
}

static void taken_anew_it_has_the_windows_and_no_more(void **state)
{
	(void)state;
	static const uint64_t checkpoints[] = {500, 1000};
	uint32_t seen = 0;
	assert_int_equal(kv_take(&t, 2000, checkpoints, 2, &e), 0);
	for (uint32_t i = 0; i < t.count; i++) {
		bool want = kv_sees(WINDOW, 500, i) || kv_sees(WINDOW, 1000, i) ||
			    kv_sees(WINDOW, 2000, i);
		assert_int_equal(t.blocks[i] != NULL, want);
		seen += want;
	}
	assert_int_equal(blocks_there(), seen);
	kv_set_checkpoints(&t, checkpoints, 2);
	assert_int_equal(t.checkpoint_count, 2);
	assert_int_equal(blocks_there(), seen);
	assert_int_equal(kv_rollback(&t, 1500), 1024);
	assert_int_equal(kv_rollback(&t, 999), 999);
	assert_int_equal(kv_rollback(&t, 700), 512);
}

static void without_room_the_earlier_marks_are_left_out(void **state)
{
	(void)state;
	static const uint64_t checkpoints[] = {500, 1000};
	budget.limit = (3 + 2 + 1) * t.bytes;
	assert_int_equal(kv_take(&t, 2000, checkpoints, 2, &e), 0);
	kv_set_checkpoints(&t, checkpoints, 2);
	assert_int_equal(t.checkpoint_count, 1);
	assert_int_equal(t.checkpoints[0], 1000);
	blocks_there();
	kv_rollback(&t, 0);
	budget.limit = t.bytes;
	assert_int_equal(kv_take(&t, 2000, checkpoints, 2, &e), -ENOSPC);
	kv_rollback(&t, 0);
	assert_int_equal(budget.used, 0);
}

/* ---- threads ---- */

static _Atomic bool done;

static void *take_and_give(void *arg)
{
	(void)arg;
	while (!atomic_load(&done)) {
		struct err ignored;
		const size_t bytes = 6 * context_pages(USED);
		context_give(&budget, context_take(&budget, bytes, &ignored), bytes);
	}
	return NULL;
}

/* Checkpoints' memory may be taken at any moment by whoever needs memory. */
static void marks_give_way_while_their_text_goes_on(void **state)
{
	static uint32_t text[MOST];
	pthread_t thread;
	uint32_t refused = 0;
	(void)state;
	budget.limit = 14 * t.bytes;
	atomic_store(&done, false);
	assert_int_equal(pthread_create(&thread, NULL, take_and_give, NULL), 0);
	for (uint32_t i = 1; i < 2000; i++) {
		uint32_t n = i * 37 % 60 + 1;
		if (held + n > MOST || i % 11 == 0)
			held = kv_rollback(&t, held * (i % 5) / 5);
		else if (go_on(n, text, i))
			refused++;
		if (i % 2)
			kv_checkpoint(&t, held, held);
	}
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	assert_true(refused < 2000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_long_text_holds_no_more_than_its_end),
		TEST(a_long_step_is_given_back_with_the_next),
		TEST(without_a_window_all_stays),
		TEST(a_full_context_takes_the_windows_and_no_more),
		TEST(a_text_fits_whose_keys_as_a_whole_do_not),
		TEST(drafts_that_do_not_stand_are_taken_back),
		TEST(without_a_mark_it_goes_back_to_the_beginning),
		TEST(a_mark_is_gone_back_to),
		TEST(what_windows_have_in_common_is_there_once),
		TEST(marks_are_bounded_and_denser_towards_the_end),
		TEST(on_any_way_all_is_there_that_is_seen),
		TEST(marks_give_way_to_what_a_text_needs),
		TEST(a_fork_has_what_its_rows_see),
		TEST(what_is_moved_keeps_its_marks),
		TEST(taken_anew_it_has_the_windows_and_no_more),
		TEST(without_room_the_earlier_marks_are_left_out),
		TEST(marks_give_way_while_their_text_goes_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
