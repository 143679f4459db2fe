/* Deferred units: a store's writer commits them in the background, in bounded memory, and reports
 * them; a disk that hangs, fails or is cut off costs no more than these units. */
#include "fault_io.h"
#include "store_help.h"

#include "cache/store_files.h"
#include "cache/store_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sched.h>
#include <sys/wait.h>

struct fixture {
	char parent[32];
	struct test_store t;
	struct store_writer *w;
	struct store *view;
	struct err e, said; /* the last one that a failure was reported for */
	_Atomic uint32_t done, failed;
};

static void told(void *ctx, uint32_t unit, int failed, const struct err *e)
{
	struct fixture *f = ctx;
	assert_int_equal(store_writer_has(f->w, unit), !failed);
	if (failed) {
		f->said = *e;
		f->failed++;
	}
	f->done++;
}

static void begin(struct fixture *f)
{
	if (store_writer_open(&f->w, f->t.folder, &f->t.plan, &f->e) ||
	    store_writer_defer(f->w, told, f, &f->e) || store_writer_view(f->w, &f->view, &f->e))
		fail_msg("%s", f->e.text);
}

static void end(struct fixture *f, bool keep)
{
	store_writer_close(f->w, keep);
	store_close(f->view);
	f->view = NULL;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	memset(&faults, 0, sizeof faults);
	test_folder_make(f->parent);
	test_store_init(&f->t, f->parent, "store");
	*state = f;
	return 0;
}

static int setup_coded(void **state)
{
	(void)setup(state);
	struct fixture *f = *state;
	f->t.codec = STORE_CODED;
	test_store_plan(&f->t);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	memset(&faults, 0, sizeof faults);
	test_folder_remove(f->parent);
	free(f);
	return 0;
}

static int leave(struct fixture *f, uint32_t unit)
{
	uint8_t bytes[TEST_UNIT_MOST];
	struct store_put *p;
	int rc = store_put_begin(f->w, unit, &p, &f->e);
	if (rc)
		return rc;
	test_unit_fill(&f->t, unit, bytes);
	rc = store_put_bytes(p, bytes, test_unit_bytes(&f->t, unit), &f->e);
	if (!rc)
		return store_put_defer(p, &f->e);
	store_put_abandon(p);
	return rc;
}

static bool has(const struct fixture *f, uint32_t unit)
{
	return store_has_expert(f->view, unit / f->t.experts, unit % f->t.experts);
}

static void wait_for(const _Atomic uint32_t *count, uint32_t n)
{
	while (*count < n)
		sched_yield();
}

/* Leaves one unit, of which the sync hangs, and others meanwhile. */
static void leave_while_one_is_synced(struct fixture *f)
{
	faults.hold_sync = "experts";
	assert_int_equal(leave(f, 0), 0);
	while (!faults.syncs_held)
		sched_yield();
	for (uint32_t unit = 1; unit < 5; unit++)
		assert_int_equal(leave(f, unit), 0);
}

/* ---- nobody waits ---- */

static void deferred_units_are_committed_when_the_disk_has_them(void **state)
{
	struct fixture *f = *state;
	begin(f);
	leave_while_one_is_synced(f);
	assert_int_equal(leave(f, 3), -EEXIST);
	for (uint32_t unit = 0; unit < 5; unit++)
		assert_false(has(f, unit));
	assert_int_equal(f->done, 0);
	faults.hold_sync = NULL;
	wait_for(&f->done, 5);
	assert_int_equal(f->failed, 0);
	for (uint32_t unit = 0; unit < 5; unit++)
		assert_true(has(f, unit));
	assert_int_equal(test_write_rest(&f->t, f->w, false, &f->e), 0);
	assert_true(test_store_right(&f->t, f->view));
	store_close(f->view);
}

static void closing_commits_deferred_units(void **state)
{
	struct fixture *f = *state;
	begin(f);
	for (uint32_t unit = 0; unit < 17; unit += 3)
		assert_int_equal(leave(f, unit), 0);
	end(f, true);
	assert_int_equal(f->done, 6);
	begin(f);
	for (uint32_t unit = 0; unit < 17; unit++)
		assert_int_equal(store_writer_has(f->w, unit), unit % 3 == 0);
	end(f, false);
}

/* ---- bounded ---- */

struct leaver {
	struct fixture *f;
	pthread_t thread;
	uint8_t *record;
	_Atomic bool released, early; /* the last came back before the sync did */
};

enum { LARGE = 12 << 20, MOST = 32 << 20 };

static void *leave_large(void *arg)
{
	struct leaver *l = arg;
	for (uint32_t unit = 0; unit < 3; unit++) {
		struct store_put *p;
		if (store_put_begin(l->f->w, unit, &p, &l->f->e) ||
		    store_put_bytes(p, l->record, LARGE, &l->f->e) || store_put_defer(p, &l->f->e))
			fail_msg("%s", l->f->e.text);
	}
	l->early = !l->released;
	return NULL;
}

static uint64_t bytes_behind(struct store_writer *w)
{
	pthread_mutex_lock(&w->mutex);
	uint64_t bytes = w->deferred_bytes;
	pthread_mutex_unlock(&w->mutex);
	return bytes;
}

static void who_leaves_more_than_the_bound_waits(void **state)
{
	struct fixture *f = *state;
	struct leaver l = {.f = f, .record = calloc(1, LARGE)};
	f->t.record_bytes = LARGE;
	test_store_plan(&f->t);
	begin(f);
	faults.hold_sync = "experts";
	assert_int_equal(pthread_create(&l.thread, NULL, leave_large, &l), 0);
	while (bytes_behind(f->w) <= MOST)
		sched_yield();
	assert_int_equal(bytes_behind(f->w), 3 * LARGE);
	l.released = true;
	faults.hold_sync = NULL;
	pthread_join(l.thread, NULL);
	assert_false(l.early);
	wait_for(&f->done, 3);
	assert_int_equal(bytes_behind(f->w), 0);
	end(f, false);
	free(l.record);
}

/* ---- a disk that fails ---- */

/* Units written during a failed sync may be lost as well, so later ones do not count. */
static void a_failed_sync_fails_units_deferred_meanwhile(void **state)
{
	struct fixture *f = *state;
	begin(f);
	leave_while_one_is_synced(f);
	faults.fail_on = OP_SYNC;
	faults.fail_code = EIO;
	faults.fail_at = 1;
	faults.hold_sync = NULL;
	wait_for(&f->done, 5);
	assert_int_equal(f->failed, 5);
	assert_non_null(strstr(f->said.text, STORE_EXPERTS));
	assert_true(store_writer_failed(f->w));
	assert_int_equal(leave(f, 7), -EIO);
	end(f, true);
	begin(f);
	for (uint32_t unit = 0; unit < 17; unit++)
		assert_false(store_writer_has(f->w, unit));
	end(f, false);
}

static void an_unwritable_entry_is_reported_and_costs_only_its_unit(void **state)
{
	struct fixture *f = *state;
	begin(f);
	faults.fail_on = OP_WRITE;
	faults.fail_code = ENOSPC;
	faults.fail_at = 2; /* after the data */
	assert_int_equal(leave(f, 6), 0);
	wait_for(&f->done, 1);
	assert_int_equal(f->said.code, ENOSPC);
	assert_non_null(strstr(f->said.text, STORE_JOURNAL));
	assert_false(store_writer_failed(f->w));
	assert_int_equal(leave(f, 6), 0);
	wait_for(&f->done, 2);
	assert_int_equal(f->failed, 1);
	assert_true(has(f, 6));
	end(f, false);
}

static void an_unwritable_coded_record_is_reported_and_ends_the_conversion(void **state)
{
	struct fixture *f = *state;
	begin(f);
	faults.fail_on = OP_WRITE;
	faults.fail_code = ENOSPC;
	assert_int_equal(leave(f, 6), 0);
	wait_for(&f->done, 1);
	assert_int_equal(f->said.code, ENOSPC);
	assert_true(store_writer_failed(f->w));
	faults.fail_on = 0;
	end(f, true);
}

/* ---- cut off anywhere ---- */

/* True if it lived to the end. */
static bool leave_until(struct fixture *f, long n, enum cut cut)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		faults.kill_at = n;
		faults.cut = cut;
		faults.operations = 0;
		begin(f);
		for (uint32_t unit = 0; unit < 17; unit += 2)
			if (!store_writer_has(f->w, unit) && leave(f, unit))
				_exit(1);
		end(f, true);
		_exit(f->failed ? 1 : 0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFEXITED(status);
}

static void cut_everywhere(struct fixture *f, enum cut cut)
{
	bool lived = false;
	for (long n = 1; !lived; n++) {
		lived = leave_until(f, n, cut);
		if (n % 2) /* and the one that takes it up dies as well */
			leave_until(f, n / 2 + 1, cut);
		begin(f);
		if (test_write_rest(&f->t, f->w, false, &f->e))
			fail_msg("%s", f->e.text);
		assert_true(test_store_right(&f->t, f->view));
		store_close(f->view);
		test_folder_remove(f->t.folder);
		assert_true(n < 1000);
	}
}

static void what_was_left_and_cut_off_is_taken_up(void **state)
{
	static const enum cut cuts[] = {CUT_NOTHING, CUT_ALL, CUT_HALF};
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
		cut_everywhere(*state, cuts[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_CODED(name) cmocka_unit_test_setup_teardown(name, setup_coded, teardown)

int main(void)
{
	faults_begin();
	const struct CMUnitTest plain[] = {
		TEST(deferred_units_are_committed_when_the_disk_has_them),
		TEST(closing_commits_deferred_units),
		TEST(who_leaves_more_than_the_bound_waits),
		TEST(a_failed_sync_fails_units_deferred_meanwhile),
		TEST(an_unwritable_entry_is_reported_and_costs_only_its_unit),
		TEST(what_was_left_and_cut_off_is_taken_up),
	};
	const struct CMUnitTest coded[] = {
		TEST_CODED(deferred_units_are_committed_when_the_disk_has_them),
		TEST_CODED(closing_commits_deferred_units),
		TEST_CODED(a_failed_sync_fails_units_deferred_meanwhile),
		TEST_CODED(an_unwritable_coded_record_is_reported_and_ends_the_conversion),
		TEST_CODED(what_was_left_and_cut_off_is_taken_up),
	};
	int failed = cmocka_run_group_tests_name("left, plain", plain, NULL, NULL);
	return failed + cmocka_run_group_tests_name("left, coded", coded, NULL, NULL);
}
