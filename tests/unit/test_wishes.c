/* Users' requests for a model's experts: before it is loaded, while it generates, against the
 * budget. */
#include "session_help.h"
#include "store_help.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <errno.h>

/* Of the demonstration model. */
enum { EXPERTS = 32, LAYERS = 8, PER_TOKEN = 4, SLOT = 28672 };
static const char capital[] = "What is the capital of France?";
static const char paris[] = "The capital of France is Paris.\n";

static struct err e;

/* n experts from one of a layer on. */
static const struct pager_id *ids(uint32_t layer, uint32_t first, size_t n)
{
	static struct pager_id list[LAYERS * EXPERTS];
	for (uint32_t i = 0; i < n; i++)
		list[i] = (struct pager_id){layer + (first + i) / EXPERTS, (first + i) % EXPERTS};
	return list;
}

static struct model_expert look(const struct test_model *m, uint32_t layer, uint32_t expert)
{
	struct model_expert x;
	model_expert_inspect(m->model, layer, expert, &x);
	return x;
}

static void await(const struct test_model *m, uint32_t layer, uint32_t expert)
{
	static const struct timespec moment = {.tv_nsec = 1000000};
	while (!look(m, layer, expert).resident)
		nanosleep(&moment, NULL);
}

static void mount(struct test_model *m, uint32_t slots)
{
	test_model_open(m, test_fable(),
			&(struct engine_options){.budget = (uint64_t)slots * SLOT});
}

static void assert_refused(int rc, int code, const char *words)
{
	assert_int_equal(rc, -code);
	if (!strstr(e.text, words))
		fail_msg("\"%s\" does not say \"%s\"", e.text, words);
}

static void what_is_asked_before_a_model_is_loaded_loads_it_and_holds_then(void **state)
{
	(void)state;
	struct test_model m;
	mount(&m, 36);
	assert_refused(model_experts_pin(m.model, ids(0, 0, 33), 33, &e), ENOSPC, "must stay free");
	assert_refused(model_experts_load(m.model, ids(0, 0, 33), 33, &e), ENOSPC, "budget");
	assert_int_equal(model_state(m.model), MODEL_UNLOADED);
	assert_int_equal(model_experts_pin(m.model, ids(2, 0, 8), 8, &e), 0);
	assert_true(look(&m, 2, 7).pinned);
	assert_int_equal(model_experts_unpin(m.model, ids(2, 7, 1), 1, &e), 0);
	assert_int_equal(model_experts_load(m.model, ids(3, 4, 2), 2, &e), 0);
	assert_refused(model_experts_evict(m.model, ids(2, 0, 8), 8, &e), EBUSY, "unpin");
	for (uint32_t i = 0; i < 7; i++)
		await(&m, 2, i);
	await(&m, 3, 4);
	await(&m, 3, 5);
	assert_false(look(&m, 2, 7).pinned || look(&m, 3, 4).pinned);
	struct model_layer layer;
	model_layer_inspect(m.model, 2, &layer);
	assert_int_equal(layer.experts, EXPERTS);
	assert_int_equal(layer.pinned, 7);
	assert_true(layer.resident >= 7);
	assert_int_equal(layer.bytes, (uint64_t)layer.resident * SLOT);
	test_model_close(&m);
}

static void a_budget_that_pins_do_not_fit_into_is_refused(void **state)
{
	(void)state;
	struct test_model m;
	mount(&m, 64);
	assert_int_equal(model_wait(m.model, &e), 0);
	assert_int_equal(model_experts_pin(m.model, ids(0, 0, 20), 20, &e), 0);
	uint64_t least = (20 + PER_TOKEN) * (uint64_t)SLOT;
	assert_refused(engine_set_budget(m.engine, least - 1, &e), ERANGE, "unpin");
	assert_int_equal(engine_budget_asked(m.engine), 64 * SLOT);
	assert_int_equal(engine_set_budget(m.engine, least, &e), 0);
	struct session *s = test_greedy_session(&m);
	test_answer(s, capital, paris);
	session_end(s);
	for (uint32_t i = 0; i < 20; i++)
		await(&m, 0, i);
	assert_int_equal(model_experts_unpin(m.model, ids(0, 0, 20), 20, &e), 0);
	assert_int_equal(engine_set_budget(m.engine, SLOT, &e), 0);
	test_model_close(&m);
}

/* ---- while it generates ---- */

struct asker {
	struct model *model;
	_Atomic bool stop;
};

static void *asks(void *arg)
{
	struct asker *a = arg;
	struct err why;
	struct model_layer layer;
	for (uint32_t i = 0; !atomic_load(&a->stop); i++) {
		struct pager_id list[8];
		for (uint32_t k = 0; k < 8; k++)
			list[k] = (struct pager_id){(i + k) % LAYERS, (i / 7 + 5 * k) % EXPERTS};
		if (model_experts_pin(a->model, list, 8, &why) ||
		    model_experts_load(a->model, list, 4, &why) ||
		    model_experts_evict(a->model, list, 8, &why) != -EBUSY ||
		    model_experts_unpin(a->model, list, 8, &why) ||
		    model_experts_evict(a->model, list, 4, &why))
			abort();
		model_layer_inspect(a->model, i % LAYERS, &layer);
		if (layer.resident > EXPERTS || layer.pinned)
			abort();
	}
	return NULL;
}

static void a_text_is_the_same_whatever_is_asked_meanwhile(void **state)
{
	(void)state;
	struct test_model m;
	pthread_t thread;
	mount(&m, 24);
	struct asker a = {.model = m.model};
	assert_int_equal(model_wait(m.model, &e), 0);
	assert_int_equal(pthread_create(&thread, NULL, asks, &a), 0);
	for (int i = 0; i < 3; i++) {
		struct session *s = test_greedy_session(&m);
		test_answer(s, capital, paris);
		session_end(s);
	}
	atomic_store(&a.stop, true);
	pthread_join(thread, NULL);
	struct pager_stats s;
	model_cache_stats(m.model, &s);
	assert_int_equal(s.pinned, 0);
	test_model_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_asked_before_a_model_is_loaded_loads_it_and_holds_then),
		cmocka_unit_test(a_budget_that_pins_do_not_fit_into_is_refused),
		cmocka_unit_test(a_text_is_the_same_whatever_is_asked_meanwhile),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
