/* Turns are prepared beside the steps of others: while one is being prepared, answers go on, and
 * the session may be stopped or removed, and the model unloaded or closed. Each test holds a
 * preparation where it begins. */
#include "session_help.h"

#include "engine/model/engine_state.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const struct session *session; /* whose preparation is held; NULL: none */
	bool held;
	uint64_t unloads; /* of the model, when a preparation that was held had ended */
	bool loaded;	  /* then */
	const struct session *order[8];
	uint32_t count; /* of preparations since the last hold */
} preparation = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int __real_turn_prepare(struct turn_state *t, struct turn_event *ev, struct err *e);
int __wrap_turn_prepare(struct turn_state *t, struct turn_event *ev, struct err *e);

int __wrap_turn_prepare(struct turn_state *t, struct turn_event *ev, struct err *e)
{
	const struct model *m = t->env->model;
	pthread_mutex_lock(&preparation.lock);
	bool held = preparation.session == t->session;
	while (preparation.session == t->session) {
		preparation.held = true;
		pthread_cond_broadcast(&preparation.changed);
		pthread_cond_wait(&preparation.changed, &preparation.lock);
	}
	if (preparation.count < sizeof preparation.order / sizeof *preparation.order)
		preparation.order[preparation.count++] = t->session;
	pthread_mutex_unlock(&preparation.lock);
	int failed = __real_turn_prepare(t, ev, e);
	if (held) {
		preparation.unloads = m->run->unloads;
		preparation.loaded = atomic_load(&m->state) == MODEL_READY;
	}
	return failed;
}

/* NULL: lets go. */
static void hold_preparation(const struct session *s)
{
	pthread_mutex_lock(&preparation.lock);
	preparation.session = s;
	preparation.held = false;
	preparation.count = 0;
	pthread_cond_broadcast(&preparation.changed);
	pthread_mutex_unlock(&preparation.lock);
}

static void let_prepare(void)
{
	pthread_mutex_lock(&preparation.lock);
	preparation.session = NULL;
	pthread_cond_broadcast(&preparation.changed);
	pthread_mutex_unlock(&preparation.lock);
}

static struct answer *submit_unprepared(struct session *s, const char *prompt)
{
	hold_preparation(s);
	struct answer *a = test_submit(s, prompt);
	pthread_mutex_lock(&preparation.lock);
	while (!preparation.held)
		pthread_cond_wait(&preparation.changed, &preparation.lock);
	pthread_mutex_unlock(&preparation.lock);
	return a;
}

static const char FRANCE[] = "What is the capital of France?";
static const char LEAF[] = "What is the plural of leaf?";

static char *text_alone(const char *prompt)
{
	struct session *s = test_greedy_session(&fable);
	char *text = test_ask(s, prompt);
	session_end(s);
	return text;
}

static void an_answer_goes_on_while_another_turn_is_prepared(void **state)
{
	(void)state;
	int code;
	char *france = text_alone(FRANCE), *leaf = text_alone(LEAF);
	struct session *runs = test_greedy_session(&fable), *waits = test_greedy_session(&fable);
	struct answer *a = test_submit_held(runs, FRANCE, 1);
	struct answer *b = submit_unprepared(waits, LEAF);
	test_same_text(test_read(a, &code), france);
	assert_int_equal(code, 0);
	assert_int_equal(session_status(waits), SESSION_QUEUED);
	let_prepare();
	test_same_text(test_read(b, &code), leaf);
	assert_int_equal(code, 0);
	session_end(runs);
	session_end(waits);
}

/* The stop is there before the turn is prepared, and the turn has no step. */
static void a_turn_is_stopped_while_it_is_prepared(void **state)
{
	(void)state;
	int code;
	struct session *s = test_greedy_session(&fable);
	char *alone = text_alone(LEAF);
	struct answer *a = submit_unprepared(s, LEAF);
	session_stop(s);
	test_record_places();
	let_prepare();
	char *text = test_read(a, &code);
	size_t places;
	(void)test_places(&places);
	assert_int_equal(code, 0);
	assert_string_equal(text, "\n");
	assert_int_equal(session_status(s), SESSION_STOPPED);
	assert_string_equal(test_stats(s).finish, "stopped");
	assert_int_equal(places, 0);
	free(text);
	test_same_text(test_ask(s, LEAF), alone); /* nothing is left of the turn */
	session_end(s);
}

/* A turn that waits to be prepared ends at once, although the thread is held. */
static void a_turn_is_stopped_before_it_is_prepared(void **state)
{
	(void)state;
	int code;
	struct session *first = test_greedy_session(&fable), *s = test_greedy_session(&fable);
	struct answer *a = submit_unprepared(first, LEAF), *b = test_submit(s, FRANCE);
	session_stop(s);
	free(test_read(b, &code));
	assert_int_equal(code, 0);
	assert_int_equal(session_status(s), SESSION_STOPPED);
	let_prepare();
	test_same_text(test_read(a, &code), text_alone(LEAF));
	session_end(first);
	session_end(s);
}

static void a_session_is_removed_while_its_turn_is_prepared(void **state)
{
	(void)state;
	int code;
	struct session *s = test_greedy_session(&fable), *other = test_greedy_session(&fable);
	struct answer *a = submit_unprepared(s, LEAF);
	session_end(s);
	free(test_read(a, &code));
	assert_int_equal(code, -EIO);
	let_prepare();
	test_same_text(test_ask(other, FRANCE), text_alone(FRANCE));
	session_end(other);
}

/* What is wrong with a turn is said although a running answer is held in its step. */
static void a_turn_that_cannot_be_prepared_waits_for_no_step(void **state)
{
	(void)state;
	int code;
	char words[256];
	struct session *runs = test_greedy_session(&fable), *s = test_greedy_session(&fable);
	struct answer *a = test_submit_held(runs, FRANCE, 1);
	test_set(s, "format", "regex");
	struct answer *b = test_submit(s, LEAF);
	bool complete = false;
	for (const struct timespec moment = {.tv_nsec = 1000000}; !complete;
	     (void)nanosleep(&moment, NULL))
		(void)answer_size(b, &complete);
	session_error(s, words, sizeof words);
	assert_non_null(strstr(words, "params/grammar is empty"));
	answer_unref(b);
	test_same_text(test_read(a, &code), text_alone(FRANCE));
	session_end(runs);
	session_end(s);
}

/* Turns of a priority in the order in which they were asked, and between priorities in shares. */
static void turns_are_prepared_in_order(void **state)
{
	(void)state;
	enum { COUNT = 6 };
	static const size_t want[COUNT] = {0, 4, 1, 5, 2, 3};
	int code;
	struct session *s[COUNT];
	struct answer *a[COUNT];
	for (size_t i = 0; i < COUNT; i++) {
		s[i] = test_greedy_session(&fable);
		test_set(s[i], "priority", i < 4 ? "normal" : "high");
	}
	a[0] = submit_unprepared(s[0], LEAF);
	for (size_t i = 1; i < COUNT; i++)
		a[i] = test_submit(s[i], LEAF);
	let_prepare();
	for (size_t i = 0; i < COUNT; i++) {
		free(test_read(a[i], &code));
		assert_int_equal(code, 0);
	}
	assert_int_equal(preparation.count, COUNT);
	for (size_t i = 0; i < COUNT; i++)
		assert_ptr_equal(preparation.order[i], s[want[i]]);
	for (size_t i = 0; i < COUNT; i++)
		session_end(s[i]);
}

/* ---- the model ---- */

static void *unload_model(void *arg)
{
	struct err e;
	return (void *)(intptr_t)model_unload(arg, &e);
}

static void *close_model(void *arg)
{
	model_close(arg);
	return NULL;
}

static bool is_asked_to_leave(struct model *m)
{
	pthread_mutex_lock(&m->run->lock);
	bool asked = m->run->unload_wanted || atomic_load(&m->run->quit);
	pthread_mutex_unlock(&m->run->lock);
	return asked;
}

/* Calls `leave` while the turn of a session that is gone is being prepared. */
static void *leave_while_prepared(struct model *m, void *(*leave)(void *))
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	int code;
	void *result;
	pthread_t thread;
	struct test_model x = {NULL, m};
	struct session *s = test_greedy_session(&x);
	struct answer *a = submit_unprepared(s, LEAF);
	session_end(s);
	free(test_read(a, &code));
	assert_int_equal(code, -EIO);
	assert_int_equal(pthread_create(&thread, NULL, leave, m), 0);
	while (!is_asked_to_leave(m))
		(void)nanosleep(&moment, NULL);
	let_prepare();
	assert_int_equal(pthread_join(thread, &result), 0);
	return result;
}

static void unloading_waits_for_a_turn_that_is_prepared(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	char *alone = text_alone(FRANCE);
	uint64_t before = fable.model->run->unloads;
	assert_null(leave_while_prepared(fable.model, unload_model));
	assert_int_equal(preparation.unloads, before);
	assert_true(preparation.loaded);
	assert_int_equal(fable.model->run->unloads, before + 1);
	test_same_text(test_ask(s, FRANCE), alone);
	session_end(s);
}

static void a_turn_that_is_prepared_keeps_a_model_loaded(void **state)
{
	(void)state;
	int code;
	struct err e;
	struct session *s = test_greedy_session(&fable);
	struct answer *a = submit_unprepared(s, LEAF);
	assert_int_equal(model_unload(fable.model, &e), -EBUSY);
	let_prepare();
	test_same_text(test_read(a, &code), text_alone(LEAF));
	session_end(s);
}

static void closing_waits_for_a_turn_that_is_prepared(void **state)
{
	(void)state;
	struct test_model m;
	test_model_ready(&m, test_fable(), &(struct engine_options){0});
	(void)leave_while_prepared(m.model, close_model);
	engine_destroy(m.engine);
}

static int preparing_let_go(void **state)
{
	(void)state;
	let_prepare();
	test_let_go();
	return 0;
}

#define TEST(f) cmocka_unit_test_teardown(f, preparing_let_go)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_answer_goes_on_while_another_turn_is_prepared),
		TEST(a_turn_is_stopped_while_it_is_prepared),
		TEST(a_turn_is_stopped_before_it_is_prepared),
		TEST(a_session_is_removed_while_its_turn_is_prepared),
		TEST(a_turn_that_cannot_be_prepared_waits_for_no_step),
		TEST(turns_are_prepared_in_order),
		TEST(unloading_waits_for_a_turn_that_is_prepared),
		TEST(a_turn_that_is_prepared_keeps_a_model_loaded),
		TEST(closing_waits_for_a_turn_that_is_prepared),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
