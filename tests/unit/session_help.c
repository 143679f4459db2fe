/* The demonstration model behind sessions; see the header. */
#include "session_help.h"

#include "engine/admin/observe.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session/session_state.h"
#include "golden.h"
#include "memory_help.h"
#include "store_help.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <errno.h>

/* Signalled whenever a session changes, and when a turn is held or released. */
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

/* ---- held turns ---- */

/* (bell.lock) */
static struct {
	struct session *session; /* the session whose turn is held; NULL: none */
	uint64_t bytes;
	bool held; /* the turn's thread waits */
	uint32_t most_together, between_layers;
	void (*watch)(void *ctx, const struct run_place *p);
	void *watch_ctx;
} hold;

static struct {
	struct test_place places[1 << 14];
	size_t count;
} record; /* (bell.lock) */

/* The caller holds the bell's lock. */
static void record_place(const struct run_place *p)
{
	const struct run_party *party = p->session->model->run->parties;
	party += p < party->places || p >= party->places + RUN_PLACES;
	if (record.count == sizeof record.places / sizeof *record.places)
		return;
	record.places[record.count] = (struct test_place){
		.session = p->session,
		.first = (uint32_t)(record.count - (size_t)(p - party->places)),
		.together = party->count,
		.begins = !p->session->turn->admitted,
	};
	record.count++;
}

void test_record_places(void)
{
	pthread_mutex_lock(&bell.lock);
	record.count = 0;
	pthread_mutex_unlock(&bell.lock);
}

const struct test_place *test_places(size_t *count)
{
	pthread_mutex_lock(&bell.lock);
	*count = record.count;
	pthread_mutex_unlock(&bell.lock);
	return record.places;
}

/* Wraps a turn's steps (--wrap in the Makefile). Between two steps the computing thread holds no
 * lock; in the callback it would hold the lock that session_end takes. */
void __real_run_begin_place(struct run_place *p);
void __wrap_run_begin_place(struct run_place *p);

/* The caller holds the bell's lock. */
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

void __wrap_run_begin_place(struct run_place *p)
{
	pthread_mutex_lock(&bell.lock);
	const struct run_party *party = p->session->model->run->parties;
	uint32_t together = party[0].count > party[1].count ? party[0].count : party[1].count;
	if (hold.most_together < together)
		hold.most_together = together;
	hold.between_layers += party[1].count;
	while (to_be_held(p->session)) {
		hold.held = true;
		pthread_cond_broadcast(&bell.rung);
		pthread_cond_wait(&bell.rung, &bell.lock);
	}
	void (*watch)(void *ctx, const struct run_place *p) = hold.watch;
	void *ctx = hold.watch_ctx;
	record_place(p);
	pthread_mutex_unlock(&bell.lock);
	if (watch)
		watch(ctx, p);
	__real_run_begin_place(p);
}

void test_watch(void (*f)(void *ctx, const struct run_place *p), void *ctx)
{
	pthread_mutex_lock(&bell.lock);
	hold.watch = f;
	hold.watch_ctx = ctx;
	pthread_mutex_unlock(&bell.lock);
}

uint32_t test_most_together(void)
{
	pthread_mutex_lock(&bell.lock);
	uint32_t most = hold.most_together;
	hold.most_together = 0;
	pthread_mutex_unlock(&bell.lock);
	return most;
}

uint32_t test_between_layers(void)
{
	pthread_mutex_lock(&bell.lock);
	uint32_t steps = hold.between_layers;
	hold.between_layers = 0;
	pthread_mutex_unlock(&bell.lock);
	return steps;
}

void test_hold(struct session *s, uint64_t bytes)
{
	pthread_mutex_lock(&bell.lock);
	hold.session = s;
	hold.bytes = bytes;
	hold.held = false;
	pthread_cond_broadcast(&bell.rung); /* releases turns that a failed test left held */
	pthread_mutex_unlock(&bell.lock);
}

/* Whether the preparing thread has something to do while the run's thread is held. */
static bool still_prepares(struct model *m)
{
	struct run *r = m->run;
	struct session *first[SESSION_PRIORITIES];
	pthread_mutex_lock(&r->lock);
	bool may = !r->unload_wanted && !m->stored.doubted && !run_must_load(m);
	bool prepares = r->preparing || (may && run_find_unprepared(r, first));
	pthread_mutex_unlock(&r->lock);
	return prepares;
}

void test_wait_prepared(struct model *m)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	while (still_prepares(m))
		(void)nanosleep(&moment, NULL);
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
	test_wait_prepared(s->model);
}

void test_let_go(void)
{
	test_hold(NULL, 0);
}

int test_end_watch(void **state)
{
	(void)state;
	test_watch(NULL, NULL);
	test_let_go();
	return 0;
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

/* Under a sanitizer the default's trellis takes many times as long to make, in each program;
 * test_tc and test_convert cover it. */
const char *test_recipe(const char *quant)
{
	return quant ? quant : SANITIZED ? "tq3" : "3bit";
}

void test_model_open(struct test_model *m, const char *directory, const struct engine_options *o)
{
	struct engine_options options = *o;
	struct err e;
	options.changed = ring;
	if (strstr(directory, "models/fable-"))
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
	observe_model(m->model, &view);
	do { /* waits for a warm start and its reads */
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
	static unsigned count;
	char word[24];
	if (session_create(&s, m->model, NULL, m, &e))
		fail_msg("%s", e.text);
	(void)snprintf(word, sizeof word, "alone-%u", ++count);
	test_set(s, "share_with", word);
	return s;
}

void test_come_to_rest(const struct test_model *m)
{
	while (model_working(m->model))
		(void)sched_yield();
}

uint64_t test_context_used(struct test_model *m)
{
	struct model_prefix p;
	struct err e;
	test_come_to_rest(m);
	for (uint64_t id = 0; model_prefix_next(m->model, id, &p); id = p.id + 1)
		if (model_prefix_remove(m->model, p.id, &e))
			fail_msg("%s", e.text);
	return engine_context_used(m->engine);
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
