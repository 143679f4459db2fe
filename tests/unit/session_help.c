/* The demonstration model behind sessions; see the header. */
#include "session_help.h"

#include "engine/serve/observe.h"
#include "golden.h"
#include "memory_help.h"
#include "store_help.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <errno.h>

/* Rung whenever anything of any session changes, and when a turn is held or let go. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t rung;
} bell = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

static void ring(void *ctx, void *user)
{
	(void)ctx;
	(void)user;
	pthread_mutex_lock(&bell.lock);
	pthread_cond_broadcast(&bell.rung);
	pthread_mutex_unlock(&bell.lock);
}

/* ---- turns that stand still ---- */

/* (bell.lock) */
static struct {
	struct session *session; /* whose turn; NULL: none is to be held */
	uint64_t bytes;
	bool held; /* its thread waits */
} hold;

/* A turn's steps, which the linker puts these around (Makefile): between two of them the thread
 * that computes holds no lock; in the callback it would hold that which session_end takes. */
bool __real_turn_step(struct session *s);
bool __wrap_turn_step(struct session *s);

/* Bell's lock held. */
static bool to_be_held(struct session *s)
{
	bool complete;
	if (hold.session != s)
		return false;
	struct answer *a = session_answer(s);
	uint64_t size = a ? answer_size(a, &complete) : 0;
	answer_unref(a);
	return size >= hold.bytes;
}

bool __wrap_turn_step(struct session *s)
{
	pthread_mutex_lock(&bell.lock);
	while (to_be_held(s)) {
		hold.held = true;
		pthread_cond_broadcast(&bell.rung);
		pthread_cond_wait(&bell.rung, &bell.lock);
	}
	pthread_mutex_unlock(&bell.lock);
	return __real_turn_step(s);
}

void test_hold(struct session *s, uint64_t bytes)
{
	pthread_mutex_lock(&bell.lock);
	hold.session = s;
	hold.bytes = bytes;
	hold.held = false;
	pthread_cond_broadcast(&bell.rung); /* what a failed test left standing goes on */
	pthread_mutex_unlock(&bell.lock);
}

void test_wait_held(void)
{
	pthread_mutex_lock(&bell.lock);
	struct session *s = hold.session;
	while (!hold.held && session_working(s))
		pthread_cond_wait(&bell.rung, &bell.lock);
	bool held = hold.held;
	pthread_mutex_unlock(&bell.lock);
	if (!held)
		fail_msg("the turn ended before it had what it is held at");
}

void test_let_go(void)
{
	test_hold(NULL, 0);
}

const char *test_fable(void)
{
	return test_data("../../examples/models/fable-moe-15m");
}

/* ---- models ---- */

static char stores[32];

const char *test_stores(void)
{
	if (!*stores)
		test_folder_make(stores);
	return stores;
}

void test_stores_remove(void)
{
	if (*stores)
		test_folder_remove(stores);
	*stores = 0;
}

int stores_remove(void **state)
{
	(void)state;
	test_stores_remove();
	return 0;
}

/* Making it by the default's trellis takes a sanitizer many times as long, in each program; test_tc
 * and test_convert have that looked through. */
const char *test_recipe(const char *quant)
{
	return SANITIZED && !quant ? "tq3" : quant;
}

void test_model_open(struct test_model *m, const char *directory, const struct engine_options *o)
{
	struct engine_options options = *o;
	struct err e;
	options.changed = ring;
	if (strstr(directory, "fable-moe-15m"))
		options.quant = test_recipe(options.quant);
	if (!options.store)
		options.store = test_stores();
	if (!options.budget)
		options.budget = 64 << 20;
	if (!options.threads)
		options.threads = 2;
	*m = (struct test_model){0};
	if (engine_create(&m->engine, &options, &e) ||
	    model_open(&m->model, m->engine, directory, &e))
		fail_msg("%s", e.text);
}

void test_model_ready(struct test_model *m, const char *directory, const struct engine_options *o)
{
	struct err e;
	test_model_open(m, directory, o);
	if (model_wait(m->model, &e))
		fail_msg("%s", e.text);
}

void test_model_load_calm(struct test_model *m)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	struct pager_stats st;
	struct err e;
	uint32_t done, total;
	uint64_t slot;
	struct model_view view;
	if (engine_set_policy(m->engine, "scales no-prefetch", &e) || model_wait(m->model, &e))
		fail_msg("%s", e.text);
	model_observe(m->model, &view);
	do { /* a warm start ends, and its reads land */
		nanosleep(&moment, NULL);
		model_warming(m->model, &done, &total);
		model_cache_stats(m->model, &st);
		slot = pager_slot_bytes(view.plan->slot_bytes);
	} while (total || st.used != st.experts_resident * slot);
}

void test_model_close(struct test_model *m)
{
	test_let_go();
	model_close(m->model);
	engine_destroy(m->engine);
	*m = (struct test_model){0};
}

void test_wait_converted(struct model *m)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	struct model_progress p;
	struct err e = {0};
	int failed = model_wait(m, &e);
	for (model_progress(m, &p); p.total && !failed; model_progress(m, &p)) {
		if (!strcmp(p.doing, "stopped"))
			failed = err_set(&e, EIO, "the conversion stopped");
		nanosleep(&moment, NULL);
	}
	if (failed || model_wait(m, &e))
		fail_msg("%s", e.text);
}

struct test_model fable;

int fable_load(void **state)
{
	(void)state;
	test_model_ready(&fable, test_fable(), &(struct engine_options){0});
	return 0;
}

int fable_close(void **state)
{
	(void)state;
	test_model_close(&fable);
	test_stores_remove();
	return 0;
}

/* ---- sessions ---- */

struct session *test_session(struct test_model *m)
{
	struct session *s;
	struct err e;
	if (session_create(&s, m->model, NULL, m, &e))
		fail_msg("%s", e.text);
	return s;
}

struct session *test_greedy_session(struct test_model *m)
{
	struct session *s = test_session(m);
	test_set(s, "temperature", "0");
	return s;
}

void test_set(struct session *s, const char *param, const char *value)
{
	struct err e;
	for (size_t i = 0; i < params_count(); i++)
		if (!strcmp(params_name(i), param)) {
			if (session_param_set(s, i, value, strlen(value), &e))
				fail_msg("%s", e.text);
			return;
		}
	fail_msg("no param %s", param);
}

struct answer *test_submit(struct session *s, const char *prompt)
{
	struct answer *a;
	struct err e;
	if (session_submit(s, prompt, strlen(prompt), &a, &e))
		fail_msg("%s", e.text);
	return a;
}

struct answer *test_submit_held(struct session *s, const char *prompt, uint64_t bytes)
{
	test_hold(s, bytes);
	struct answer *a = test_submit(s, prompt);
	test_wait_held();
	return a;
}

void test_wait_bytes(struct answer *a, uint64_t bytes)
{
	bool complete;
	test_let_go();
	pthread_mutex_lock(&bell.lock);
	while (answer_size(a, &complete) < bytes && !complete)
		pthread_cond_wait(&bell.rung, &bell.lock);
	pthread_mutex_unlock(&bell.lock);
}

void test_wait(struct answer *a)
{
	test_wait_bytes(a, UINT64_MAX);
}

char *test_read(struct answer *a, int *code)
{
	bool complete;
	test_wait(a);
	size_t size = answer_size(a, &complete), done = 0;
	char *text = malloc(size + 1);
	assert_non_null(text);
	ssize_t n;
	while ((n = answer_read(a, done, text + done, size - done + 1, &complete)) > 0)
		done += (size_t)n;
	text[done] = 0;
	*code = (int)n;
	answer_unref(a);
	return text;
}

char *test_ask(struct session *s, const char *prompt)
{
	int code;
	char *text = test_read(test_submit(s, prompt), &code), words[1024];
	session_error(s, words, sizeof words);
	if (code)
		fail_msg("%s: %s", prompt, words);
	assert_string_equal(words, "");
	return text;
}

void test_answer(struct session *s, const char *prompt, const char *want)
{
	test_same_text(test_ask(s, prompt), strdup(want));
}

void test_same_text(char *one, char *other)
{
	assert_string_equal(one, other);
	free(one);
	free(other);
}

char *test_text(const struct session *s, enum session_text what)
{
	struct err e = {0};
	size_t n;
	char *text = session_text_get(s, what, &n, &e);
	if (!text)
		fail_msg("%s", e.text);
	assert_int_equal(strlen(text), n);
	return text;
}

void test_expect_text(const struct session *s, enum session_text what, const char *want)
{
	test_same_text(test_text(s, what), strdup(want));
	if (what != SESSION_RENDERED && what != SESSION_RENDERED_TOKENS)
		assert_int_equal(session_text_bytes(s, what), strlen(want));
}

void test_write_text(struct session *s, enum session_text what, const char *text)
{
	struct err e = {0};
	if (session_text_set(s, what, text, strlen(text), &e))
		fail_msg("%s", e.text);
}

struct session_stats test_stats(const struct session *s)
{
	struct session_stats st;
	session_stats(s, &st);
	return st;
}

void test_ask_refused(struct session *s, const char *prompt, const char *words)
{
	int code;
	char text[1024];
	free(test_read(test_submit(s, prompt), &code));
	session_error(s, text, sizeof text);
	assert_int_equal(code, -EIO);
	assert_int_equal(session_status(s), SESSION_ERROR);
	if (!strstr(text, words))
		fail_msg("\"%s\" does not say \"%s\"", text, words);
}
