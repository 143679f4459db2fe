/* Models that are unloaded, on request or by themselves, and loaded again by the next prompt. */
#include "cache/store.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <errno.h>

static const char capital[] = "What is the capital of France?";
static const char paris[] = "The capital of France is Paris.\n";
static const char tale[] = "Tell me a tale of a fox.";

static void unload(struct test_model *m)
{
	struct err e;
	struct pager_stats st;
	if (model_unload(m->model, &e))
		fail_msg("%s", e.text);
	assert_int_equal(model_state(m->model), MODEL_UNLOADED);
	engine_cache_stats(m->engine, &st);
	assert_int_equal(st.used, 0);
}

/* ---- what stays ---- */

static void a_conversation_goes_on_to_the_bit(void **state)
{
	(void)state;
	struct test_model m;
	test_model_ready(&m, test_fable(), &(struct engine_options){0});
	struct session *s = test_session(&m), *undisturbed = test_session(&fable);
	struct session *both[] = {s, undisturbed};
	for (int i = 0; i < 2; i++) {
		test_set(both[i], "seed", "7");
		test_set(both[i], "max_tokens", "30");
	}
	for (int turn = 0; turn < 3; turn++) {
		test_same_text(test_ask(s, tale), test_ask(undisturbed, tale));
		assert_int_equal(test_stats(s).cached_tokens,
				 test_stats(undisturbed).cached_tokens);
		test_same_text(test_text(s, SESSION_MESSAGES),
			       test_text(undisturbed, SESSION_MESSAGES));
		unload(&m);
		test_same_text(test_text(s, SESSION_RENDERED),
			       test_text(undisturbed, SESSION_RENDERED));
	}
	session_end(s);
	session_end(undisturbed);
	test_model_close(&m);
}

static void counters_never_go_back(void **state)
{
	(void)state;
	struct test_model m;
	struct pager_stats before = {0}, now;
	test_model_ready(&m, test_fable(), &(struct engine_options){0});
	struct session *s = test_greedy_session(&m);
	for (int turn = 0; turn < 4; turn++) {
		test_answer(s, capital, paris);
		unload(&m);
		model_cache_stats(m.model, &now);
		assert_true(now.hits + now.misses > before.hits + before.misses);
		before = now;
		struct err e;
		assert_int_equal(session_reset(s, &e), 0);
	}
	session_end(s);
	test_model_close(&m);
}

/* ---- when ---- */

static void a_model_whose_session_works_is_busy(void **state)
{
	(void)state;
	struct err e;
	struct test_model m;
	test_model_open(&m, test_fable(), &(struct engine_options){0});
	struct session *s = test_greedy_session(&m);
	test_set(s, "chat", "off");
	test_hold(s, 10);
	struct answer *a = test_submit(s, "Once upon a time there was a fox who lived");
	assert_int_equal(model_unload(m.model, &e), -EBUSY); /* while it is loaded for it, too */
	test_wait_held();
	assert_int_equal(model_unload(m.model, &e), -EBUSY);
	assert_non_null(strstr(e.text, "working"));
	assert_int_equal(model_state(m.model), MODEL_READY);
	session_stop(s);
	test_wait(a);
	unload(&m);
	unload(&m); /* again: nothing changes */
	answer_unref(a);
	session_end(s);
	test_model_close(&m);
}

static void what_is_being_loaded_is_unloaded_as_well(void **state)
{
	(void)state;
	struct test_model m;
	test_model_open(&m, test_fable(), &(struct engine_options){0});
	for (int i = 0; i < 20; i++) {
		model_load(m.model);
		for (int k = 0; k < i; k++)
			sched_yield();
		unload(&m);
	}
	struct session *s = test_greedy_session(&m);
	test_answer(s, capital, paris);
	session_end(s);
	model_load(m.model);
	test_model_close(&m);
}

static void a_reader_of_an_unloaded_model_gets_an_error(void **state)
{
	(void)state;
	struct err e;
	char words[256];
	struct test_model m;
	test_model_ready(&m, test_fable(), &(struct engine_options){0});
	unload(&m);
	model_error(m.model, words, sizeof words);
	assert_string_equal(words, "");
	assert_int_equal(model_wait(m.model, &e), 0); /* and the next prompt gets it */
	test_model_close(&m);
}

static bool knows_bits(struct test_model *m)
{
	char bits[64];
	assert_int_equal(model_fact(m->model, FACT_BITS_PER_WEIGHT, bits, sizeof bits), 0);
	return strcmp(bits, "unknown until converted") != 0;
}

static void a_conversion_goes_on_with_the_next_load(void **state)
{
	(void)state;
	char stores[32], folder[256];
	struct test_model m;
	struct store_key key;
	struct model_progress p;
	test_folder_make(stores);
	test_model_open(&m, test_fable(), &(struct engine_options){.store = stores});
	struct session *s = test_greedy_session(&m);
	test_answer(s, capital, paris);
	bool complete = knows_bits(&m);
	unload(&m);
	complete |= knows_bits(&m);
	model_progress(m.model, &p);
	assert_string_equal(p.doing, "idle");
	model_fact(m.model, FACT_STORE, folder, sizeof folder);
	assert_int_equal(store_unfinished(folder, &key), complete ? -ENOENT : 0);
	test_answer(s, "What is 12 x 6?", "12 x 6 = 72\n");
	test_wait_converted(m.model);
	unload(&m);
	assert_true(knows_bits(&m));
	test_answer(s, capital, paris);
	session_end(s);
	test_model_close(&m);
	test_folder_remove(stores);
}

/* ---- by itself ---- */

static void wait_until_unloaded(struct test_model *m)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	while (model_state(m->model) != MODEL_UNLOADED)
		nanosleep(&moment, NULL);
}

static void an_idle_model_is_unloaded(void **state)
{
	(void)state;
	char stores[32];
	struct test_model m;
	test_folder_make(stores);
	test_model_ready(&m, test_fable(), &(struct engine_options){.store = stores, .idle = 1});
	wait_until_unloaded(&m);
	assert_true(knows_bits(&m)); /* not before its conversion had ended */
	struct session *s = test_greedy_session(&m), *other = test_greedy_session(&m);
	test_answer(s, capital, paris);
	test_answer(other, capital, paris);
	wait_until_unloaded(&m);
	/* Not even the turn that was asked while it was loaded makes it load again. */
	pthread_mutex_lock(&m.model->run->lock);
	assert_false(run_must_load(m.model));
	pthread_mutex_unlock(&m.model->run->lock);
	test_answer(s, "What is 12 x 6?", "12 x 6 = 72\n");
	session_end(other);
	session_end(s);
	test_model_close(&m);
	test_folder_remove(stores);
}

/* ---- all at once ---- */

struct crowd {
	struct test_model m;
	_Atomic bool over;
	_Atomic unsigned unloads, busy;
};

static void *keep_asking(void *arg)
{
	struct crowd *c = arg;
	struct session *s = test_greedy_session(&c->m);
	struct err e;
	int code;
	for (int i = 0; i < 12; i++) {
		char *text = test_read(test_submit(s, capital), &code);
		if (code || strcmp(text, paris) != 0)
			abort(); /* cmocka's assertions are for its own thread */
		free(text);
		if (session_reset(s, &e))
			abort();
	}
	session_end(s);
	return NULL;
}

static void *keep_unloading(void *arg)
{
	struct crowd *c = arg;
	struct err e;
	while (!c->over) {
		int failed = model_unload(c->m.model, &e);
		if (failed && failed != -EBUSY)
			abort();
		failed ? c->busy++ : c->unloads++;
		sched_yield();
	}
	return NULL;
}

static void *keep_looking(void *arg)
{
	struct crowd *c = arg;
	struct model *m = c->m.model;
	struct session *s = test_session(&c->m);
	struct err e;
	while (!c->over) {
		char text[4096];
		size_t length;
		struct model_expert x;
		struct pager_stats st;
		uint32_t done, total;
		for (int fact = 0; fact < FACT_COUNT; fact++)
			(void)model_fact(m, (enum model_fact)fact, text, sizeof text);
		model_expert_inspect(m, 1, 3, &x);
		model_cache_stats(m, &st);
		model_warming(m, &done, &total);
		(void)model_expert_read(m, 1, 3, 0, text, sizeof text, &e);
		free(session_text_get(s, SESSION_RENDERED, &length, &e));
		free(session_param_get(s, 0));
		answer_unref(model_encode(m, "abc", 3, NULL, &e));
		model_load(m);
		sched_yield();
	}
	session_end(s);
	return NULL;
}

static void everybody_at_once(void **state)
{
	(void)state;
	static void *(*const each[])(void *) = {keep_asking, keep_asking, keep_unloading,
						keep_unloading, keep_looking};
	enum { COUNT = sizeof each / sizeof *each, ASKERS = 2 };
	pthread_t threads[COUNT];
	struct crowd c = {0};
	test_model_open(&c.m, test_fable(), &(struct engine_options){0});
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, each[i], &c), 0);
	for (int i = 0; i < COUNT; i++) {
		c.over = i >= ASKERS;
		pthread_join(threads[i], NULL);
	}
	test_model_close(&c.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_conversation_goes_on_to_the_bit),
		cmocka_unit_test(counters_never_go_back),
		cmocka_unit_test(a_model_whose_session_works_is_busy),
		cmocka_unit_test(what_is_being_loaded_is_unloaded_as_well),
		cmocka_unit_test(a_reader_of_an_unloaded_model_gets_an_error),
		cmocka_unit_test(a_conversion_goes_on_with_the_next_load),
		cmocka_unit_test(an_idle_model_is_unloaded),
		cmocka_unit_test(everybody_at_once),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
