/* The store under faults: killed or cut off anywhere, a full disk, failing syncs, partial system
 * calls. Never a store that looks complete and is not. */
#include "fault_io.h"
#include "store_help.h"

#include "cache/store_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/wait.h>

struct fixture {
	char parent[32];
	struct test_store t;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	memset(&faults, 0, sizeof faults);
	test_folder_make(f->parent);
	test_store_init(&f->t, f->parent, "store");
	f->t.layers = f->t.experts = 2;
	f->t.dense_units = 3;
	f->t.record_bytes = 1500;
	test_store_plan(&f->t);
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

/* A whole conversion: 0, or the first failure's code. */
static int convert(struct fixture *f, bool keep)
{
	struct store_writer *w;
	f->e = (struct err){0};
	int rc = store_writer_open(&w, f->t.folder, &f->t.plan, &f->e);
	return rc ? rc : test_write_rest(&f->t, w, keep, &f->e);
}

static bool head_right(const struct test_store *t, const char *name, const void *head, size_t bytes)
{
	char path[128];
	uint8_t got[STORE_ALIGN];
	(void)snprintf(path, sizeof path, "%s/%s", t->folder, name);
	int fd = open(path, O_RDONLY);
	bool right =
		fd >= 0 && read(fd, got, bytes) == (ssize_t)bytes && memcmp(got, head, bytes) == 0;
	close(fd);
	return right;
}

/* The result of opening a store by this test's key; a store that opens must be right. */
static int look(const struct test_store *t, struct err *e)
{
	struct store *s;
	int rc = store_open(&s, t->folder, &t->key, e);
	if (rc == 0 && !test_store_right(t, s))
		fail_msg("a store that opens has wrong bytes");
	if (rc == 0 && (!head_right(t, STORE_EXPERTS, t->head, sizeof t->head) ||
			!head_right(t, STORE_DENSE, t->dense_head, sizeof t->dense_head)))
		fail_msg("a store that opens has a wrong head");
	store_close(s);
	return rc;
}

/* Converts in a process that dies before its n-th operation. True if it lived to the end. */
static bool convert_until(struct fixture *f, long n, enum cut cut)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		faults.kill_at = n;
		faults.cut = cut;
		faults.operations = 0;
		int rc = convert(f, true);
		_exit(rc == 0 || rc == -EEXIST ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
		return false;
	}
	assert_int_equal(WEXITSTATUS(status), 0);
	return true;
}

static void assert_recovers(struct fixture *f)
{
	int rc = look(&f->t, &f->e);
	assert_true(rc == 0 || rc == -ENOENT || rc == -ESTALE);
	rc = convert(f, true);
	if (rc && rc != -EEXIST)
		fail_msg("%s", f->e.text);
	if (look(&f->t, &f->e))
		fail_msg("%s", f->e.text);
}

static void die_everywhere(struct fixture *f, enum cut cut)
{
	bool lived = false;
	for (long n = 1; !lived; n++) {
		lived = convert_until(f, n, cut);
		if (n % 2) /* and the one that takes it up dies as well */
			convert_until(f, n / 2 + 1, cut);
		assert_recovers(f);
		test_folder_remove(f->t.folder);
		assert_true(n < 1000);
	}
}

static void a_conversion_killed_anywhere_is_taken_up(void **state)
{
	die_everywhere(*state, CUT_NOTHING);
}

static void a_power_cut_that_loses_all_unsynced_is_survived_anywhere(void **state)
{
	die_everywhere(*state, CUT_ALL);
}

static void a_power_cut_that_loses_some_unsynced_is_survived_anywhere(void **state)
{
	die_everywhere(*state, CUT_HALF);
}

static void the_head_of_a_file_without_units_survives_a_power_cut(void **state)
{
	struct fixture *f = *state;
	f->t.dense_units = 0;
	test_store_plan(&f->t);
	die_everywhere(f, CUT_ALL);
}

/* The same over a published store of another key and the same sizes. */
static void die_everywhere_replacing(struct fixture *f, enum cut cut)
{
	struct test_store old = f->t;
	f->t.key.fingerprint[0]++;
	f->t.seed++;
	test_store_plan(&f->t);
	test_store_plan(&old); /* a plan points into its own struct */
	bool lived = false;
	for (long n = 1; !lived; n++) {
		test_store_write(&old);
		lived = convert_until(f, n, cut);
		int rc = look(&old, &f->e);
		assert_true(rc == 0 || rc == -ESTALE || rc == -ENOENT);
		assert_recovers(f);
		test_folder_remove(f->t.folder);
		assert_true(n < 1000);
	}
}

static void replacing_a_stale_store_may_be_killed_anywhere(void **state)
{
	die_everywhere_replacing(*state, CUT_NOTHING);
}

static void replacing_a_stale_store_may_lose_power_anywhere(void **state)
{
	die_everywhere_replacing(*state, CUT_ALL);
}

static void a_journal_entry_follows_the_sync_of_its_data(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	faults.tracing = true;
	assert_int_equal(test_put(&f->t, w, 0, &f->e), 0);
	faults.tracing = false;
	/* 3 pieces of data, their sync, the sync of the journal's head, the entry. */
	assert_int_equal(faults.traced, 6);
	int data = faults.trace[0].fd, journal = faults.trace[5].fd;
	assert_true(data != journal);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(faults.trace[i].op, i == 3 || i == 4 ? OP_SYNC : OP_WRITE);
		assert_int_equal(faults.trace[i].fd, i < 4 ? data : journal);
	}
	store_writer_close(w, false);
}

static void a_killed_conversion_loses_at_most_the_unit_in_work(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	assert_false(convert_until(f, 30, CUT_NOTHING));
	uint32_t has = 0;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	for (uint32_t i = 0; i < test_units(&f->t); i++)
		has += store_writer_has(w, i);
	/* 14 operations begin it, and a unit takes 6 (the first of each file and the last have 1
	 * less or more): by the 30th at least 2 are in. */
	assert_in_range(has, 2, 3);
	store_writer_close(w, false);
}

static void partial_and_interrupted_system_calls_are_continued(void **state)
{
	struct fixture *f = *state;
	faults.stutter = true;
	if (convert(f, false))
		fail_msg("%s", f->e.text);
	assert_int_equal(look(&f->t, &f->e), 0);
}

/* Fails the n-th of some operations, for every n. */
static void fail_everywhere(struct fixture *f, unsigned operations, int code)
{
	for (long n = 1;; n++) {
		faults.fail_on = operations;
		faults.fail_code = code;
		faults.fail_at = n;
		faults.failable = 0;
		int rc = convert(f, false);
		faults.fail_on = 0;
		if (faults.failable < n) {
			assert_int_equal(rc, 0);
			return;
		}
		if (rc == -code)
			assert_non_null(strstr(f->e.text, f->t.folder));
		else
			assert_int_equal(rc, 0); /* what failed only tidies up */
		assert_recovers(f);
		test_folder_remove(f->t.folder);
	}
}

static void a_disk_that_fills_up_at_any_write_is_an_error_in_words(void **state)
{
	fail_everywhere(*state, OP_WRITE | OP_RESERVE, ENOSPC);
}

static void a_sync_that_fails_anywhere_publishes_nothing_wrong(void **state)
{
	fail_everywhere(*state, OP_SYNC, EIO);
}

static void a_folder_that_fails_anywhere_publishes_nothing_wrong(void **state)
{
	fail_everywhere(*state, OP_FOLDER, EIO);
}

/* A writer that has all units. */
static struct store_writer *written(struct fixture *f)
{
	struct store_writer *w;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	for (uint32_t unit = 0; unit < test_units(&f->t); unit++)
		assert_int_equal(test_put(&f->t, w, unit, &f->e), 0);
	return w;
}

/* Fails the n-th of these operations of publishing, for every n there is, and tries again. */
static void publish_again_after(struct fixture *f, unsigned operations, int code)
{
	for (long n = 1, failed = 0;; n++) {
		struct store_writer *w = written(f);
		faults.fail_code = code;
		faults.fail_at = n;
		faults.failable = 0;
		faults.fail_on = operations;
		int rc = store_writer_publish(w, &f->e);
		faults.fail_on = 0;
		if (rc) {
			assert_int_equal(rc, -code);
			assert_non_null(strstr(f->e.text, f->t.folder));
			failed++;
			if (!store_writer_failed(w))
				assert_int_equal(store_writer_publish(w, &f->e), 0);
			else /* data may be lost, which shows only when it is read */
				assert_int_equal(store_writer_publish(w, &f->e), -code);
		}
		bool published = !store_writer_failed(w);
		store_writer_close(w, true);
		if (!published)
			assert_int_equal(convert(f, false), 0);
		assert_int_equal(look(&f->t, &f->e), 0);
		test_folder_remove(f->t.folder);
		if (faults.failable < n) {
			assert_true(failed > 0);
			return;
		}
	}
}

static void a_failed_publication_is_continued(void **state)
{
	publish_again_after(*state, OP_FOLDER, EIO);
	publish_again_after(*state, OP_WRITE, ENOSPC);
	publish_again_after(*state, OP_SYNC, EIO);
}

static void a_full_disk_leaves_nothing_behind(void **state)
{
	struct fixture *f = *state;
	faults.fail_on = OP_WRITE;
	faults.fail_at = 12;
	faults.fail_code = ENOSPC;
	assert_int_equal(convert(f, false), -ENOSPC);
	assert_non_null(strstr(f->e.text, "-o store="));
	assert_int_equal(access(f->t.folder, F_OK), -1);
}

static void too_little_space_is_reported_before_anything_is_written(void **state)
{
	struct fixture *f = *state;
	faults.free_bytes = 5000;
	assert_int_equal(convert(f, true), -ENOSPC);
	assert_non_null(strstr(f->e.text, "too few"));
	assert_int_equal(access(f->t.folder, F_OK), -1);
}

static void too_little_space_for_the_rest_keeps_what_is_there(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	assert_int_equal(test_put(&f->t, w, 1, &f->e), 0);
	store_writer_close(w, true);
	faults.free_bytes = 1;
	assert_int_equal(convert(f, false), -ENOSPC);
	faults.free_bytes = 0;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	assert_true(store_writer_has(w, 1));
	store_writer_close(w, false);
}

static void after_a_failed_sync_nothing_more_is_accepted(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	struct store_put *p;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	faults.fail_on = OP_SYNC;
	faults.fail_at = 1;
	faults.fail_code = EIO;
	assert_int_equal(test_put(&f->t, w, 0, &f->e), -EIO);
	assert_false(store_writer_has(w, 0));
	assert_int_equal(store_put_begin(w, 1, &p, &f->e), -EIO);
	assert_non_null(strstr(f->e.text, STORE_EXPERTS));
	assert_int_equal(store_writer_finish(w, &f->e), -EINVAL);
	assert_recovers(f);
}

static void a_coded_record_that_cannot_be_written_ends_the_conversion(void **state)
{
	struct fixture *f = *state;
	struct store_writer *w;
	struct store_put *p;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	assert_int_equal(test_put(&f->t, w, 0, &f->e), 0);
	faults.fail_on = OP_WRITE;
	faults.fail_at = 1;
	faults.fail_code = ENOSPC;
	assert_int_equal(test_put(&f->t, w, 1, &f->e), -ENOSPC);
	assert_non_null(strstr(f->e.text, STORE_EXPERTS));
	assert_int_equal(store_put_begin(w, 1, &p, &f->e), -ENOSPC);
	store_writer_close(w, true);
	faults.fail_on = 0;
	assert_int_equal(store_writer_open(&w, f->t.folder, &f->t.plan, &f->e), 0);
	assert_true(store_writer_has(w, 0));
	assert_false(store_writer_has(w, 1));
	assert_int_equal(test_write_rest(&f->t, w, false, &f->e), 0);
	assert_int_equal(look(&f->t, &f->e), 0);
}

static void space_for_a_coded_store_is_what_it_is_expected_to_take(void **state)
{
	struct fixture *f = *state;
	f->t.plan.expected_bytes = 1 << 20;
	faults.free_bytes = 4 << 20;
	assert_int_equal(convert(f, true), -ENOSPC);
	assert_non_null(strstr(f->e.text, "too few"));
	faults.free_bytes = 5 << 20;
	assert_int_equal(convert(f, true), 0);
	assert_int_equal(look(&f->t, &f->e), 0);
}

/* Opening a store while another version replaces it gives one of them, complete. */
struct opening {
	const struct test_store *t;
	struct store *store;
	int rc;
	struct err e;
};

static void *open_it(void *ctx)
{
	struct opening *o = ctx;
	o->rc = store_open(&o->store, o->t->folder, NULL, &o->e);
	return NULL;
}

/* As it is published: the index goes first, and comes last. */
static void take_place(const struct test_store *t, const struct test_store *of)
{
	static const char *const names[] = {STORE_EXPERTS, STORE_DENSE, STORE_INDEX};
	char from[128], to[128];
	(void)snprintf(to, sizeof to, "%s/" STORE_INDEX, of->folder);
	assert_int_equal(unlink(to), 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		(void)snprintf(from, sizeof from, "%s/%s", t->folder, names[i]);
		(void)snprintf(to, sizeof to, "%s/%s", of->folder, names[i]);
		assert_int_equal(rename(from, to), 0);
	}
}

static void what_takes_the_place_of_a_store_is_never_opened_by_its_index(void **state)
{
	struct fixture *f = *state;
	struct test_store next = f->t;
	char path[128];
	struct stat st;
	pthread_t thread;
	struct opening o = {.t = &f->t};
	test_store_write(&f->t);
	test_store_init(&next, f->parent, "next");
	next.layers = f->t.layers;
	next.experts = f->t.experts;
	next.dense_units = f->t.dense_units;
	next.record_bytes = f->t.record_bytes;
	next.seed = f->t.seed + 1;
	test_store_plan(&next);
	test_store_write(&next);

	(void)snprintf(path, sizeof path, "%s/" STORE_INDEX, f->t.folder);
	assert_int_equal(stat(path, &st), 0);
	faults.hang_file = st.st_ino;
	assert_int_equal(pthread_create(&thread, NULL, open_it, &o), 0);
	while (!faults.hanging)
		(void)nanosleep(&fault_moment, NULL);
	take_place(&next, &f->t);
	faults.hang_file = 0;
	pthread_join(thread, NULL);
	if (o.rc)
		fail_msg("%s", o.e.text);
	assert_true(test_store_right(&next, o.store));
	store_close(o.store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define CODED(name)                                                \
	{                                                          \
#name "_coded", name, setup_coded, teardown, NULL, \
	}

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		TEST(what_takes_the_place_of_a_store_is_never_opened_by_its_index),
		TEST(a_conversion_killed_anywhere_is_taken_up),
		TEST(a_power_cut_that_loses_all_unsynced_is_survived_anywhere),
		TEST(a_power_cut_that_loses_some_unsynced_is_survived_anywhere),
		TEST(the_head_of_a_file_without_units_survives_a_power_cut),
		TEST(replacing_a_stale_store_may_be_killed_anywhere),
		TEST(replacing_a_stale_store_may_lose_power_anywhere),
		TEST(a_journal_entry_follows_the_sync_of_its_data),
		TEST(a_killed_conversion_loses_at_most_the_unit_in_work),
		TEST(partial_and_interrupted_system_calls_are_continued),
		TEST(a_disk_that_fills_up_at_any_write_is_an_error_in_words),
		TEST(a_sync_that_fails_anywhere_publishes_nothing_wrong),
		TEST(a_folder_that_fails_anywhere_publishes_nothing_wrong),
		TEST(a_failed_publication_is_continued),
		TEST(a_full_disk_leaves_nothing_behind),
		TEST(too_little_space_is_reported_before_anything_is_written),
		TEST(too_little_space_for_the_rest_keeps_what_is_there),
		TEST(after_a_failed_sync_nothing_more_is_accepted),
		CODED(a_conversion_killed_anywhere_is_taken_up),
		CODED(a_power_cut_that_loses_all_unsynced_is_survived_anywhere),
		CODED(a_power_cut_that_loses_some_unsynced_is_survived_anywhere),
		CODED(replacing_a_stale_store_may_be_killed_anywhere),
		CODED(replacing_a_stale_store_may_lose_power_anywhere),
		CODED(partial_and_interrupted_system_calls_are_continued),
		CODED(a_disk_that_fills_up_at_any_write_is_an_error_in_words),
		CODED(a_sync_that_fails_anywhere_publishes_nothing_wrong),
		CODED(a_folder_that_fails_anywhere_publishes_nothing_wrong),
		CODED(a_failed_publication_is_continued),
		CODED(after_a_failed_sync_nothing_more_is_accepted),
		CODED(a_coded_record_that_cannot_be_written_ends_the_conversion),
		CODED(space_for_a_coded_store_is_what_it_is_expected_to_take),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
