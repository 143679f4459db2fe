/* Sessions on a bad disk: whichever read fails, hangs or returns wrong data, a turn ends with the
 * right text or with EIO and a sentence, other sessions do not notice, and the next prompt is
 * answered. */
#include "fault_io.h"
#include "session_help.h"
#include "store_help.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char capital[] = "What is the capital of France?";
static const char paris[] = "The capital of France is Paris.\n";

/* A model of this size in two: with a cache for a seventh of its experts, so that every turn reads.
 */
static struct test_model neighbour;
enum { SMALL_CACHE = 1 << 20 };

static void open_loaded(struct test_model *m)
{
	test_model_open(m, test_fable(), &(struct engine_options){.budget = SMALL_CACHE});
	test_model_load_calm(m); /* a prefetch that fails is nobody's error */
}

/* The rows of the embedding that a prompt needs are read together, and where that fails once more
 * one by one: a single failed read is no failure. From here on they are recent, and not read. */
static void read_rows(struct test_model *m)
{
	struct session *s = test_greedy_session(m);
	test_answer(s, capital, paris);
	session_end(s);
	(void)test_context_used(m); /* nothing is kept */
}

static int open_models(void **state)
{
	(void)state;
	open_loaded(&fable);
	open_loaded(&neighbour);
	read_rows(&fable);
	return 0;
}

static int close_models(void **state)
{
	(void)state;
	test_model_close(&fable);
	test_model_close(&neighbour);
	test_stores_remove();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	faults.fail_on = 0;
	faults.stutter = false;
	faults.hold_at = 0;
	return 0;
}

static void fail_read(long at, int code)
{
	faults.fail_at = at;
	faults.fail_code = code;
	faults.failable = 0;
	faults.fail_on = OP_READ;
}

/* ---- reads that fail ---- */

/* No read is for a draft alone: a step that fails because of a draft is repeated without it
 * (test_draft_damaged.c), so a single failed read would be no failure. */
static struct session *undrafted_session(void)
{
	struct session *s = test_greedy_session(&fable);
	test_set(s, "draft", "off");
	return s;
}

static void whichever_read_of_a_turn_fails_it_says_so_and_the_next_is_answered(void **state)
{
	(void)state;
	struct session *s = undrafted_session();
	for (long n = 1; n < 300; n += n < 12 ? 1 : 37) {
		fail_read(n, EIO);
		test_ask_refused(s, capital, "cannot read");
		faults.fail_on = 0;
		test_answer(s, capital, paris);
		assert_int_equal(session_reset(s, NULL), 0);
		(void)test_context_used(&fable); /* nothing is kept: all is read again */
	}
	session_end(s);
}

static void a_disk_that_reads_nothing_fails_the_turn(void **state)
{
	(void)state;
	struct session *s = undrafted_session();
	fail_read(0, EIO); /* every one */
	test_ask_refused(s, "A river, a hill and a boat.", "cannot read");
	faults.fail_on = 0;
	assert_int_equal(session_reset(s, NULL), 0);
	test_answer(s, capital, paris);
	session_end(s);
}

static void a_file_that_ends_too_early_fails_the_turn(void **state)
{
	(void)state;
	struct session *s = undrafted_session();
	for (long n = 1; n < 60; n += 19) {
		fail_read(n, 0);
		test_ask_refused(s, capital, "ends ");
		faults.fail_on = 0;
		test_answer(s, capital, paris);
		assert_int_equal(session_reset(s, NULL), 0);
		(void)test_context_used(&fable); /* nothing is kept: all is read again */
	}
	session_end(s);
}

static void of_two_turns_one_fails_and_the_other_is_right(void **state)
{
	(void)state;
	for (long n = 20; n < 200; n += 45) {
		struct session *s[2] = {undrafted_session(), undrafted_session()};
		struct answer *a[2];
		int code, failed = 0;
		fail_read(n, EIO);
		for (int i = 0; i < 2; i++)
			a[i] = test_submit(s[i], capital);
		for (int i = 0; i < 2; i++) {
			char *text = test_read(a[i], &code);
			failed += code == -EIO;
			if (code == 0)
				assert_string_equal(text, paris);
			free(text);
			session_end(s[i]);
		}
		assert_int_equal(failed, 1);
		faults.fail_on = 0;
	}
}

static void short_and_interrupted_reads_change_no_text(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	faults.stutter = true;
	test_answer(s, capital, paris);
	faults.stutter = false;
	session_end(s);
}

static void whichever_read_of_the_loading_fails_it_says_so_and_the_next_prompt_loads(void **state)
{
	(void)state;
	long reads = LONG_MAX; /* that loading takes: known when none has failed */
	for (long n = 1; n <= reads; n += n < 4 ? 1 : 30) {
		struct test_model m;
		struct err e = {0};
		test_model_open(&m, test_fable(), &(struct engine_options){.budget = SMALL_CACHE});
		fail_read(n, EIO);
		int failed = model_wait(m.model, &e);
		faults.fail_on = 0;
		if (failed) {
			assert_int_equal(failed, -EIO);
			assert_non_null(strstr(e.text, "dense.safetensors"));
		} else {
			reads = faults.failable;
		}
		struct session *s = test_greedy_session(&m);
		test_answer(s, capital, paris);
		session_end(s);
		test_model_close(&m);
	}
	assert_in_range(reads, 4, LONG_MAX - 1);
}

/* ---- a disk that hangs ---- */

/* A turn whose 50th read hangs when this returns. */
static struct answer *submit_hanging(struct session *s)
{
	faults.reads = 0;
	faults.hold_at = 50;
	struct answer *a = test_submit(s, capital);
	while (!faults.held)
		(void)nanosleep(&fault_moment, NULL);
	return a;
}

/* Returns when the read goes on: else the next hold could hold the same read once more. */
static void let_go(void)
{
	faults.hold_at = 0;
	while (faults.held)
		(void)nanosleep(&fault_moment, NULL);
}

static void another_model_answers_while_a_read_hangs(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable), *other = test_greedy_session(&neighbour);
	struct answer *a = submit_hanging(s);
	int code;
	test_answer(other, capital, paris);
	assert_true(session_working(s));
	let_go();
	test_same_text(test_read(a, &code), strdup(paris));
	assert_int_equal(code, 0);
	session_end(other);
	session_end(s);
}

static void reads_and_settings_do_not_wait_for_it(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	struct answer *a = submit_hanging(s);
	struct model_expert x;
	struct pager_stats pool;
	char words[256];
	int code;
	assert_int_equal(session_status(s), SESSION_PROMPTING);
	session_error(s, words, sizeof words);
	assert_string_equal(words, "");
	(void)test_stats(s);
	(void)session_log_size(s);
	model_expert_inspect(fable.model, 0, 0, &x);
	engine_cache_stats(fable.engine, &pool);
	assert_int_equal(model_fact(fable.model, FACT_STATE, words, sizeof words), 0);
	session_end(test_session(&fable));
	test_set(s, "max_tokens", "5");
	assert_int_equal(engine_set_budget(fable.engine, 2ULL * SMALL_CACHE, NULL), 0);
	assert_int_equal(engine_set_budget(fable.engine, SMALL_CACHE, NULL), 0);
	let_go();
	test_same_text(test_read(a, &code), strdup(paris)); /* as it was submitted */
	session_end(s);
}

static void
a_turn_that_is_stopped_meanwhile_ends_at_once_and_the_next_waits_for_the_disk(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	struct answer *a = submit_hanging(s);
	int code;
	session_stop(s);
	test_same_text(test_read(a, &code), strdup("\n"));
	assert_int_equal(code, 0);
	assert_int_equal(session_status(s), SESSION_STOPPED);
	assert_true(faults.held);
	a = test_submit(s, capital); /* needs the hanging expert */
	assert_true(session_working(s));
	assert_true(faults.held);
	let_go();
	test_same_text(test_read(a, &code), strdup(paris));
	session_end(s);
}

static void a_turn_can_be_stopped_again_and_again_while_one_read_hangs(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable), *beside = test_greedy_session(&fable);
	struct answer *a = submit_hanging(s), *other = test_submit(beside, capital);
	int code;
	for (int i = 0; i < 20; i++) {
		session_stop(s);
		free(test_read(a, &code));
		assert_int_equal(code, 0);
		a = test_submit(s, capital);
	}
	assert_true(faults.held);
	let_go();
	test_same_text(test_read(a, &code), strdup(paris));
	test_same_text(test_read(other, &code), strdup(paris));
	session_end(beside);
	session_end(s);
}

static void a_session_that_is_ended_meanwhile_ends_at_once(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	struct answer *a = submit_hanging(s);
	int code;
	session_end(s);
	free(test_read(a, &code));
	assert_int_equal(code, -EIO);
	while (test_context_used(&fable)) /* its experts come back */
		(void)nanosleep(&fault_moment, NULL);
	assert_true(faults.held);
	let_go();
	s = test_greedy_session(&fable);
	test_answer(s, capital, paris);
	session_end(s);
}

static void turns_queued_behind_it_are_answered_when_it_comes(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable), *behind = test_greedy_session(&fable);
	struct answer *a = submit_hanging(s), *b = test_submit(behind, capital);
	int code;
	let_go();
	test_same_text(test_read(b, &code), strdup(paris));
	test_same_text(test_read(a, &code), strdup(paris));
	session_end(behind);
	session_end(s);
}

static void a_turn_can_be_stopped_or_ended_while_loading_hangs(void **state)
{
	(void)state;
	int code;
	struct test_model m;
	test_model_open(&m, test_fable(), &(struct engine_options){0});
	faults.reads = 0;
	faults.hold_at = 1; /* the first prompt loads it */
	struct session *s = test_greedy_session(&m), *ended = test_greedy_session(&m),
		       *kept = test_greedy_session(&m);
	struct answer *stopped = test_submit(s, capital), *failed = test_submit(ended, capital),
		      *answered = test_submit(kept, capital);
	session_stop(s);
	session_end(ended);
	free(test_read(failed, &code));
	assert_int_equal(code, -EIO);
	free(test_read(stopped, &code));
	assert_int_equal(code, 0);
	while (!faults.held) /* the loading may not have come so far yet */
		(void)nanosleep(&fault_moment, NULL);
	let_go();
	test_same_text(test_read(answered, &code), strdup(paris));
	session_end(s);
	session_end(kept);
	test_model_close(&m);
}

/* ---- a store that is gone ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct answer *second;
} again = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

/* Sends the next prompt as soon as a turn has failed, before anything else can happen. */
static void ask_again(void *ctx, void *user)
{
	struct err e;
	struct session **s = user;
	(void)ctx;
	bool failed = session_status(*s) == SESSION_ERROR;
	pthread_mutex_lock(&again.lock);
	if (failed && !again.second &&
	    session_submit(*s, capital, strlen(capital), &again.second, &e))
		abort();
	pthread_cond_signal(&again.changed);
	pthread_mutex_unlock(&again.lock);
}

static void wait_for_second(void)
{
	bool complete = false;
	pthread_mutex_lock(&again.lock);
	while (!again.second || (answer_size(again.second, &complete), !complete))
		pthread_cond_wait(&again.changed, &again.lock);
	pthread_mutex_unlock(&again.lock);
}

/* Empties the files that are open, and removes the folder. */
static void lose_store(struct model *m)
{
	char folder[PATH_MAX], path[PATH_MAX + 32];
	assert_int_equal(model_fact(m, FACT_STORE, folder, sizeof folder), 0);
	(void)snprintf(path, sizeof path, "%s/experts.safetensors", folder);
	assert_int_equal(truncate(path, 0), 0);
	test_folder_remove(folder);
}

static void a_turn_that_follows_a_failed_one_at_once_has_a_lost_store_made_anew(void **state)
{
	(void)state;
	char stores[32];
	int code;
	struct err e;
	struct session *s;
	struct test_model m;
	test_folder_make(stores);
	const struct engine_options options = {
		.store = stores, .budget = SMALL_CACHE, .threads = 1, .changed = ask_again};
	assert_int_equal(engine_create(&m.engine, &options, &e), 0);
	assert_int_equal(model_open(&m.model, m.engine, test_fable(), &e), 0);
	test_wait_converted(m.model);
	assert_int_equal(engine_set_policy(m.engine, "scales no-prefetch", &e), 0);
	assert_int_equal(session_create(&s, m.model, NULL, &s, &e), 0);
	test_set(s, "temperature", "0");
	lose_store(m.model);
	struct answer *first;
	assert_int_equal(session_submit(s, capital, strlen(capital), &first, &e), 0);
	wait_for_second();
	char *text = test_read(again.second, &code);
	assert_string_equal(text, paris);
	free(text);
	answer_unref(first);
	session_end(s);
	test_model_close(&m);
	test_folder_remove(stores);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		TEST(whichever_read_of_a_turn_fails_it_says_so_and_the_next_is_answered),
		TEST(a_disk_that_reads_nothing_fails_the_turn),
		TEST(a_file_that_ends_too_early_fails_the_turn),
		TEST(of_two_turns_one_fails_and_the_other_is_right),
		TEST(short_and_interrupted_reads_change_no_text),
		TEST(whichever_read_of_the_loading_fails_it_says_so_and_the_next_prompt_loads),
		TEST(another_model_answers_while_a_read_hangs),
		TEST(reads_and_settings_do_not_wait_for_it),
		TEST(a_turn_that_is_stopped_meanwhile_ends_at_once_and_the_next_waits_for_the_disk),
		TEST(a_turn_can_be_stopped_again_and_again_while_one_read_hangs),
		TEST(a_session_that_is_ended_meanwhile_ends_at_once),
		TEST(turns_queued_behind_it_are_answered_when_it_comes),
		TEST(a_turn_can_be_stopped_or_ended_while_loading_hangs),
		TEST(a_turn_that_follows_a_failed_one_at_once_has_a_lost_store_made_anew),
	};
	return cmocka_run_group_tests(tests, open_models, close_models);
}
