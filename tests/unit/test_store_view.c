/* A store that is read while it grows: the contents of its view, which outlives the writer; a
 * continued conversion has a view again, whatever interrupted it. */
#include "fault_io.h"
#include "store_help.h"

#include "cache/store_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

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
	if (store_read_record(f->view, unit / f->t.experts, unit % f->t.experts, got,
			      f->t.record_bytes, &f->e))
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
	assert_int_equal(store_read_dense(f->view, 2, got, 777, &f->e), -ENODATA);
	assert_non_null(strstr(f->e.text, "not converted yet"));
	put(f, 12 + 2);
	assert_int_equal(store_read_dense(f->view, 2, got, 777, &f->e), 0);
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

/* ---- conversions that were interrupted ---- */

/* From here on the fixture's store is coded: its file of experts is as long as its content. */
static void begin_coded(struct fixture *f)
{
	store_writer_close(f->w, false);
	store_close(f->view);
	f->t.codec = STORE_CODED;
	test_store_plan(&f->t);
	begin(f);
}

/* Continues an interrupted conversion: the view has the units already committed, then the new
 * ones. */
static void goes_on(struct fixture *f)
{
	begin(f);
	for (uint32_t unit = 0; unit < 12; unit++) {
		bool left = store_writer_has(f->w, unit);
		assert_int_equal(has(f, unit), left);
		if (!left)
			put(f, unit);
		assert_readable(f, unit);
	}
	if (test_write_rest(&f->t, f->w, false, &f->e))
		fail_msg("%s", f->e.text);
	assert_true(test_store_right(&f->t, f->view));
}

static void an_interrupted_coded_conversion_goes_on_with_its_view(void **state)
{
	struct fixture *f = *state;
	begin_coded(f);
	put(f, 3);
	put(f, 12 + 1);
	put(f, 7);
	store_writer_close(f->w, true);
	store_close(f->view);
	begin(f);
	assert_true(store_writer_resumed(f->w));
	assert_true(store_writer_has(f->w, 3));
	assert_true(store_writer_has(f->w, 7));
	assert_false(store_writer_has(f->w, 4));
	assert_readable(f, 3);
	assert_readable(f, 7);
	store_writer_close(f->w, true);
	store_close(f->view);
	goes_on(f);
}

/* True once it has been killed at an operation so late that it came to its end before. */
static bool killed_at(struct fixture *f, long operation)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		memset(&faults, 0, sizeof faults);
		faults.kill_at = operation;
		if (store_writer_open(&f->w, f->t.folder, &f->t.plan, &f->e) ||
		    store_writer_view(f->w, &f->view, &f->e))
			_exit(2);
		for (uint32_t unit = 0; unit < 12; unit += 2)
			if (test_put(&f->t, f->w, unit, &f->e))
				_exit(3);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFEXITED(status);
}

static void a_coded_conversion_killed_at_any_moment_goes_on_with_its_view(void **state)
{
	struct fixture *f = *state;
	begin_coded(f);
	store_writer_close(f->w, false);
	for (long operation = 1;; operation++) {
		store_close(f->view);
		f->view = NULL;
		bool end = killed_at(f, operation);
		goes_on(f);
		test_folder_remove(f->t.folder);
		if (end)
			break;
	}
}

static void a_coded_conversion_on_a_full_disk_goes_on_with_its_view(void **state)
{
	struct fixture *f = *state;
	begin_coded(f);
	put(f, 5);
	faults.fail_on = OP_WRITE;
	faults.fail_code = ENOSPC;
	assert_int_equal(test_put(&f->t, f->w, 6, &f->e), -ENOSPC);
	assert_true(store_writer_failed(f->w));
	faults.fail_on = 0;
	store_writer_close(f->w, true);
	store_close(f->view);
	goes_on(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	faults_begin();
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
		TEST(an_interrupted_coded_conversion_goes_on_with_its_view),
		TEST(a_coded_conversion_killed_at_any_moment_goes_on_with_its_view),
		TEST(a_coded_conversion_on_a_full_disk_goes_on_with_its_view),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
