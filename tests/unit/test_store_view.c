/* A store that is read while it grows: what its view has, and that it outlives the writer. */
#include "fault_io.h"
#include "store_help.h"

#include "cache/store_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

struct fixture {
	char parent[32];
	struct test_store t;
	struct store_writer *w;
	struct store *view;
	struct err e;
};

static void begin(struct fixture *f)
{
	if (store_writer_open(&f->w, f->t.folder, &f->t.plan, &f->e) ||
	    store_writer_view(f->w, &f->view, &f->e))
		fail_msg("%s", f->e.text);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	memset(&faults, 0, sizeof faults);
	test_folder_make(f->parent);
	test_store_init(&f->t, f->parent, "store");
	begin(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	memset(&faults, 0, sizeof faults);
	store_close(f->view);
	test_folder_remove(f->parent);
	free(f);
	return 0;
}

static void put(struct fixture *f, uint32_t unit)
{
	if (test_put(&f->t, f->w, unit, &f->e))
		fail_msg("%s", f->e.text);
}

static bool has(const struct fixture *f, uint32_t unit)
{
	return store_has_expert(f->view, unit / f->t.experts, unit % f->t.experts);
}

static void assert_readable(struct fixture *f, uint32_t unit)
{
	uint8_t got[TEST_UNIT_MOST], want[TEST_UNIT_MOST];
	test_unit_fill(&f->t, unit, want);
	if (store_read_record(f->view, unit / f->t.experts, unit % f->t.experts, got, &f->e))
		fail_msg("%s", f->e.text);
	assert_memory_equal(got, want, f->t.record_bytes);
}

static void a_view_has_the_experts_that_are_in(void **state)
{
	struct fixture *f = *state;
	for (uint32_t unit = 0; unit < 12; unit += 5) {
		assert_false(has(f, unit));
		put(f, unit);
		assert_true(has(f, unit));
		assert_false(has(f, unit + 1));
		assert_readable(f, unit);
	}
	store_writer_close(f->w, true);
}

static void dense_units_can_be_read_when_they_are_in(void **state)
{
	struct fixture *f = *state;
	uint8_t got[TEST_UNIT_MOST], want[TEST_UNIT_MOST];
	assert_int_equal(store_read_dense(f->view, 2, got, &f->e), -ENODATA);
	assert_non_null(strstr(f->e.text, "not converted yet"));
	put(f, 12 + 2);
	assert_int_equal(store_read_dense(f->view, 2, got, &f->e), 0);
	test_unit_fill(&f->t, 12 + 2, want);
	assert_memory_equal(got, want, test_unit_bytes(&f->t, 12 + 2));
	store_writer_close(f->w, true);
}

static void a_view_goes_on_when_the_store_is_published(void **state)
{
	struct fixture *f = *state;
	struct store *again;
	put(f, 7);
	assert_int_equal(test_write_rest(&f->t, f->w, false, &f->e), 0);
	assert_true(test_store_right(&f->t, f->view));
	assert_int_equal(store_open(&again, f->t.folder, &f->t.key, &f->e), 0);
	assert_true(test_store_right(&f->t, again));
	store_close(again);
}

static void a_view_goes_on_when_the_conversion_is_given_up(void **state)
{
	struct fixture *f = *state;
	put(f, 7);
	store_writer_close(f->w, false);
	assert_int_equal(access(f->t.folder, F_OK), -1);
	assert_readable(f, 7);
	assert_false(has(f, 8));
}

static void what_an_earlier_conversion_left_is_in_once_it_was_checked(void **state)
{
	struct fixture *f = *state;
	put(f, 3);
	put(f, 4);
	store_writer_close(f->w, true);
	store_close(f->view);
	assert_true(store_interrupted(f->t.folder, &f->t.plan));
	char path[128];
	(void)snprintf(path, sizeof path, "%s/" STORE_EXPERTS STORE_PARTIAL, f->t.folder);
	int fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "changed", 7, (off_t)(STORE_ALIGN + 4 * f->t.record_bytes)), 7);
	close(fd);
	begin(f);
	assert_true(store_writer_resumed(f->w));
	assert_false(has(f, 3));
	assert_true(store_writer_has(f->w, 3));
	assert_true(has(f, 3));
	assert_readable(f, 3);
	assert_false(store_writer_has(f->w, 4));
	assert_false(has(f, 4));
	put(f, 4);
	assert_readable(f, 4);
	store_writer_close(f->w, true);
}

static void opening_does_not_read_what_an_earlier_conversion_left(void **state)
{
	struct fixture *f = *state;
	for (uint32_t unit = 0; unit < 12; unit++)
		put(f, unit);
	store_writer_close(f->w, true);
	store_close(f->view);
	long before = faults.operations;
	faults.fail_on = OP_READ;
	faults.fail_at = 1000;
	begin(f);
	/* The index (there is none), the journal's head and its 12 entries. */
	assert_in_range(faults.failable, 12, 14);
	assert_true(faults.operations > before);
	store_writer_close(f->w, true);
}

static void a_conversion_by_another_plan_is_not_taken_for_this_one(void **state)
{
	struct fixture *f = *state;
	struct test_store other = f->t;
	put(f, 0);
	store_writer_close(f->w, true);
	other.key.fingerprint[1]++;
	test_store_plan(&other);
	assert_false(store_interrupted(other.folder, &other.plan));
	test_store_plan(&f->t);
	assert_true(store_interrupted(f->t.folder, &f->t.plan));
	assert_false(store_interrupted("/nonexistent", &f->t.plan));
}

static void an_entry_that_cannot_be_written_costs_its_unit_alone(void **state)
{
	struct fixture *f = *state;
	faults.fail_on = OP_WRITE;
	faults.fail_code = ENOSPC;
	faults.failable = 0;
	faults.fail_at = 4; /* after three pieces of data */
	assert_int_equal(test_put(&f->t, f->w, 0, &f->e), -ENOSPC);
	assert_non_null(strstr(f->e.text, STORE_JOURNAL));
	assert_false(has(f, 0));
	assert_false(store_writer_failed(f->w));
	faults.fail_on = 0;
	put(f, 1);
	put(f, 0);
	store_writer_close(f->w, true);
	store_close(f->view);
	begin(f);
	assert_true(store_writer_has(f->w, 0) && store_writer_has(f->w, 1));
	assert_int_equal(test_write_rest(&f->t, f->w, false, &f->e), 0);
	assert_true(test_store_right(&f->t, f->view));
}

static void *write_all(void *arg)
{
	struct fixture *f = arg;
	struct err e;
	for (uint32_t unit = 12; unit-- > 0;)
		if (test_put(&f->t, f->w, unit, &e))
			fail_msg("%s", e.text);
	return NULL;
}

static void waiting_ends_when_the_unit_is_no_longer_open(void **state)
{
	struct fixture *f = *state;
	struct store_put *open_put;
	pthread_t thread;
	assert_true(store_writer_wait(f->w, 5, 0)); /* nobody has it */
	assert_int_equal(store_put_begin(f->w, 11, &open_put, &f->e), 0);
	assert_false(store_writer_wait(f->w, 11, 1));
	store_put_abandon(open_put);
	assert_int_equal(pthread_create(&thread, NULL, write_all, f), 0);
	for (uint32_t unit = 12; unit-- > 0;) {
		while (!store_writer_has(f->w, unit))
			assert_true(store_writer_wait(f->w, unit, 60000));
		assert_readable(f, unit);
	}
	pthread_join(thread, NULL);
	store_writer_close(f->w, true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_view_has_the_experts_that_are_in),
		TEST(dense_units_can_be_read_when_they_are_in),
		TEST(a_view_goes_on_when_the_store_is_published),
		TEST(a_view_goes_on_when_the_conversion_is_given_up),
		TEST(what_an_earlier_conversion_left_is_in_once_it_was_checked),
		TEST(opening_does_not_read_what_an_earlier_conversion_left),
		TEST(a_conversion_by_another_plan_is_not_taken_for_this_one),
		TEST(an_entry_that_cannot_be_written_costs_its_unit_alone),
		TEST(waiting_ends_when_the_unit_is_no_longer_open),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
