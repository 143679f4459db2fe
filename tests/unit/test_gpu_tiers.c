/* Where experts are, as users see it: those on the GPU are told from others, counted when they are used,
 * named in the trace, and kept there if they are pinned. */
#include "gpu_help.h"

#include "engine/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <errno.h>

/* Threads bring experts: steps, and milliseconds, after which what is waited for is taken not to come. */
enum { STEPS_HANG = 20000, HANGS = 300000 };

static struct model_expert look(const struct test_gpu *g, struct pager_id id)
{
	struct model_expert x;
	model_expert_inspect(g->m.model, id.layer, id.expert, &x);
	return x;
}

/* The n-th of the experts that are on the GPU, or of the others. */
static struct pager_id one(const struct test_gpu *g, bool on_gpu, uint32_t n)
{
	for (uint32_t l = 0; l < model_layers(g->m.model); l++)
		for (uint32_t e = 0; e < model_experts(g->m.model, l); e++)
			if (look(g, (struct pager_id){l, e}).on_gpu == on_gpu && !n--)
				return (struct pager_id){l, e};
	fail_msg("there are not so many experts");
	return (struct pager_id){0};
}

/* Computes the same token again and again. */
static void steps_of(struct test_gpu *g, uint32_t seed, uint32_t count)
{
	struct test_record ignored = {0};
	struct context x;
	test_context_of(g, &x);
	for (uint32_t i = 0; i < count; i++) {
		test_rows_of(g, &ignored, &x, seed, 1, ROW_ANSWER);
		context_rollback(&x, 0);
	}
	context_free(&x);
	test_record_free(&ignored);
}

static void steps(struct test_gpu *g, uint32_t count)
{
	steps_of(g, 1, count);
}

/* Waits, as steps go on. */
static void await(struct test_gpu *g, struct pager_id id)
{
	const struct timespec moment = {0, 1000000};
	for (int i = 0; i < STEPS_HANG && !look(g, id).on_gpu; i++) {
		steps(g, 1);
		nanosleep(&moment, NULL);
	}
	assert_true(look(g, id).on_gpu);
}

static void an_expert_on_the_gpu_is_told_from_others_and_counts_its_uses(void **state)
{
	struct test_gpu g;
	struct model_layer layer;
	struct model_gpu all;
	struct engine_gpu_stats stats;
	uint64_t experts = 0, bytes = 0, uses = 0;
	(void)state;
	test_gpu_open(&g, HELD_SOME);
	steps(&g, 3);
	for (uint32_t l = 0; l < model_layers(g.m.model); l++) {
		model_layer_inspect(g.m.model, l, &layer);
		experts += layer.on_gpu;
		bytes += layer.gpu_bytes;
		for (uint32_t e = 0; e < layer.experts; e++) {
			const struct model_expert x = look(&g, (struct pager_id){l, e});
			assert_int_equal(x.gpu_bytes > 0, x.on_gpu);
			uses += x.on_gpu ? x.hits + x.misses : 0;
			assert_int_equal(x.hits + x.misses > 0, x.last_used > 0);
		}
	}
	model_gpu_inspect(g.m.model, &all);
	engine_gpu_stats(g.m.engine, &stats);
	assert_true(experts > 0);
	assert_int_equal(all.experts, experts);
	assert_int_equal(stats.experts, experts);
	assert_int_equal(all.bytes, bytes);
	assert_int_equal(all.hits, stats.hits);
	assert_true(all.hits > 0 && all.hits <= uses);
	test_gpu_close(&g);
}

/* ---- heat ---- */

/* What was used, on the GPU or not, is hot; at the next mount the GPU has nothing that is colder than what is
 * elsewhere. */
static void the_hottest_of_an_earlier_mount_come_first(void **state)
{
	struct test_gpu g;
	float heat[1024], coldest = INFINITY, hottest = 0;
	struct err e;
	(void)state;
	test_gpu_open(&g, HELD_SOME);
	for (uint32_t seed = 2; seed < 7; seed++)
		steps_of(&g, seed, 5);
	assert_int_equal(pager_keep_heat(g.v.experts, &e), 0);
	test_gpu_close(&g);
	test_gpu_open(&g, HELD_SOME);
	assert_true(g.v.plan->routed_layers * g.v.plan->experts <= 1024);
	pager_heat(g.v.experts, heat);
	steps(&g, 1); /* which takes over what has come */
	for (uint32_t l = 0; l < g.v.plan->routed_layers; l++)
		for (uint32_t x = 0; x < g.v.plan->experts; x++) {
			const float own = heat[l * g.v.plan->experts + x];
			if (look(&g, (struct pager_id){l, x}).on_gpu)
				coldest = own < coldest ? own : coldest;
			else
				hottest = own > hottest ? own : hottest;
		}
	assert_true(coldest > 0);
	assert_true(coldest >= hottest);
	test_gpu_close(&g);
}

/* ---- the choice ---- */

struct seen {
	const struct test_gpu *g;
	uint64_t held;
};

static void see_held(void *ctx, const struct picks *p)
{
	struct seen *seen = ctx;
	for (uint32_t t = 0; t < p->span->n; t++)
		for (uint32_t i = 0; i < p->kept[t]; i++) {
			const uint32_t e = p->chosen[(size_t)t * p->stride + i];
			assert_int_equal(p->held[e], look(seen->g, (struct pager_id){p->layer, e}).on_gpu);
			assert_false(p->held[e] && p->absent[e]);
			seen->held += p->held[e];
		}
}

static void a_choice_says_which_experts_the_gpu_held(void **state)
{
	static const enum test_held helds[] = {HELD_ALL, HELD_SOME, HELD_NONE};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct test_gpu g;
		struct test_record r = {0};
		struct context x;
		struct test_step s;
		struct err e;
		struct seen seen = {.g = &g};
		test_gpu_open(&g, helds[i]);
		steps(&g, 1); /* which takes over what has come */
		test_context_of(&g, &x);
		test_step_begin(&s, &g, &r, &(struct test_rows){.x = &x, .seed = 2, .n = 12}, 1);
		s.account[0].picked = see_held;
		s.account[0].picked_ctx = &seen;
		assert_int_equal(forward_run(g.v.forward, &s.batch, s.logits, &e), 0);
		test_step_end(&s);
		assert_int_equal(seen.held > 0, helds[i] != HELD_NONE);
		context_free(&x);
		test_record_free(&r);
		test_gpu_close(&g);
	}
}

/* Computes other tokens often, and goes on until an expert that has become hot is on the GPU. */
static void become_hot(struct test_gpu *g)
{
	struct engine_gpu_stats before, after;
	engine_gpu_stats(g->m.engine, &before);
	for (uint32_t seed = 2; seed < 7; seed++)
		steps_of(g, seed, 70);
	engine_gpu_stats(g->m.engine, &after);
	for (int i = 0; i < STEPS_HANG && after.promotions == before.promotions; i++) {
		steps_of(g, 6, 1);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		engine_gpu_stats(g->m.engine, &after);
	}
	assert_true(after.promotions > before.promotions);
}

/* ---- pins ---- */

/* Experts on the GPU that no token has chosen; returns how many. */
static uint32_t unused(const struct test_gpu *g, struct pager_id *ids)
{
	uint32_t n = 0;
	for (uint32_t l = 0; l < model_layers(g->m.model); l++)
		for (uint32_t e = 0; e < model_experts(g->m.model, l); e++) {
			ids[n] = (struct pager_id){l, e};
			n += look(g, ids[n]).on_gpu && !look(g, ids[n]).hits;
		}
	return n;
}

/* All that is not used is pinned, and others become hot: these take no place but those of each other. */
static void what_is_pinned_stays_while_others_change_places(void **state)
{
	struct test_gpu g;
	struct pager_id pins[128];
	struct err e;
	(void)state;
	test_gpu_open(&g, HELD_SOME);
	steps(&g, 1);
	const uint32_t n = unused(&g, pins);
	assert_true(n > 0);
	assert_int_equal(model_experts_pin_gpu(g.m.model, pins, n, &e), 0);
	become_hot(&g);
	for (uint32_t i = 0; i < n; i++)
		assert_true(look(&g, pins[i]).on_gpu);
	test_gpu_close(&g);
}

/* Whether some expert is neither on the GPU nor in main memory. */
static bool some_nowhere(const struct test_gpu *g)
{
	bool some = false;
	for (uint32_t l = 0; l < model_layers(g->m.model); l++)
		for (uint32_t e = 0; e < model_experts(g->m.model, l); e++) {
			const struct model_expert x = look(g, (struct pager_id){l, e});
			some = some || !(x.on_gpu || x.resident);
		}
	return some;
}

/* No token has to wait for one that had to leave. */
static void what_leaves_the_gpu_comes_to_main_memory(void **state)
{
	const struct timespec moment = {0, 1000000};
	struct test_gpu g;
	(void)state;
	test_gpu_open(&g, HELD_SOME);
	steps(&g, 1);
	become_hot(&g);
	for (int i = 0; i < HANGS && some_nowhere(&g); i++)
		nanosleep(&moment, NULL);
	assert_false(some_nowhere(&g));
	test_gpu_close(&g);
}

static void a_pinned_expert_comes_in_the_place_of_another(void **state)
{
	enum { PINS = 3 };
	struct test_gpu g;
	struct cuda_experts_state before, after;
	struct pager_id pins[PINS];
	struct err e;
	(void)state;
	test_gpu_open(&g, HELD_SOME);
	steps(&g, 1);
	cuda_experts_look(g.v.forward->env.on_card, &before);
	for (uint32_t i = 0; i < PINS; i++)
		pins[i] = one(&g, false, 3 * i);
	assert_int_equal(model_experts_pin_gpu(g.m.model, pins, PINS, &e), 0);
	for (int i = 0; i < PINS; i++) {
		assert_true(look(&g, pins[i]).gpu_pinned);
		await(&g, pins[i]);
	}
	cuda_experts_look(g.v.forward->env.on_card, &after);
	assert_int_equal(after.held, before.held);
	assert_int_equal(model_experts_unpin(g.m.model, pins, PINS, &e), 0);
	assert_false(look(&g, pins[0]).gpu_pinned);
	test_gpu_close(&g);
}

static void pins_without_room_are_refused_whole(void **state)
{
	enum { TOO_MANY = 26 };
	struct test_gpu g;
	struct pager_id ids[TOO_MANY];
	struct err e;
	(void)state;
	test_gpu_open(&g, HELD_SOME); /* 25 */
	steps(&g, 1);
	for (uint32_t i = 0; i < TOO_MANY; i++)
		ids[i] = (struct pager_id){i / 16, i % 16};
	assert_int_equal(model_experts_pin_gpu(g.m.model, ids, TOO_MANY, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "room for 25 experts"));
	assert_false(look(&g, ids[0]).gpu_pinned);
	assert_int_equal(model_experts_pin_gpu(g.m.model, ids, TOO_MANY - 1, &e), 0);
	assert_int_equal(model_experts_pin_gpu(g.m.model, ids, TOO_MANY - 1, &e), 0);
	assert_int_equal(model_experts_pin_gpu(g.m.model, &ids[TOO_MANY - 1], 1, &e), -ENOSPC);
	assert_int_equal(model_experts_unpin(g.m.model, ids, 1, &e), 0);
	assert_int_equal(model_experts_pin_gpu(g.m.model, &ids[TOO_MANY - 1], 1, &e), 0);
	await(&g, ids[TOO_MANY - 1]);
	test_gpu_close(&g);
}

/* A pin outlives an unload, and is brought first by the next load. */
static void pins_are_kept_while_a_model_is_not_loaded(void **state)
{
	struct test_gpu g;
	struct cuda_experts_state now;
	struct err e;
	(void)state;
	test_gpu_open(&g, HELD_SOME);
	steps(&g, 1);
	const struct pager_id pin = one(&g, false, 20);
	assert_int_equal(model_experts_pin_gpu(g.m.model, &pin, 1, &e), 0);
	await(&g, pin);
	assert_int_equal(model_unload(g.m.model, &e), 0);
	assert_true(look(&g, pin).gpu_pinned);
	assert_false(look(&g, pin).on_gpu);
	test_model_load_calm(&g.m);
	observe_model(g.m.model, &g.v);
	/* Before any step: contexts could take what this small budget has left for experts. */
	test_gpu_wait(&g, &now);
	await(&g, pin);
	test_gpu_close(&g);
}

static void without_a_gpu_pins_on_it_are_refused_with_the_reason(void **state)
{
	const struct pager_id id = {0};
	struct err e;
	char text[512];
	(void)state;
	if (!test_cpu.m.engine)
		skip();
	assert_int_equal(model_experts_pin_gpu(test_cpu.m.model, &id, 1, &e), -ENODEV);
	assert_non_null(strstr(e.text, "gpu=off"));
	assert_false(look(&test_cpu, id).gpu_pinned);
	assert_int_equal(model_fact(test_cpu.m.model, FACT_COMPUTES, text, sizeof text), 0);
	assert_string_equal(text, "cpu: gpu=off");
}

/* ---- a GPU that fails ---- */

static void after_a_failure_no_expert_is_on_the_gpu(void **state)
{
	struct test_gpu g;
	struct model_gpu all;
	char text[512];
	(void)state;
	if (test_driver_is_real())
		skip();
	test_gpu_open(&g, HELD_ALL);
	steps(&g, 2);
	assert_int_equal(model_fact(g.m.model, FACT_COMPUTES, text, sizeof text), 0);
	assert_string_equal(text, "gpu: all layers; cpu: experts that are not on the GPU");
	const struct pager_id id = one(&g, true, 0);
	const uint64_t uses = look(&g, id).hits;
	test_driver_be("wild");
	steps(&g, 1);
	test_driver_be("");
	model_gpu_inspect(g.m.model, &all);
	assert_int_equal(all.experts, 0);
	assert_false(look(&g, id).on_gpu);
	assert_true(look(&g, id).hits >= uses);
	assert_int_equal(model_fact(g.m.model, FACT_COMPUTES, text, sizeof text), 0);
	assert_int_equal(strncmp(text, "cpu: ", 5), 0);
	test_gpu_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_expert_on_the_gpu_is_told_from_others_and_counts_its_uses),
		cmocka_unit_test(the_hottest_of_an_earlier_mount_come_first),
		cmocka_unit_test(a_choice_says_which_experts_the_gpu_held),
		cmocka_unit_test(what_leaves_the_gpu_comes_to_main_memory),
		cmocka_unit_test(a_pinned_expert_comes_in_the_place_of_another),
		cmocka_unit_test(what_is_pinned_stays_while_others_change_places),
		cmocka_unit_test(pins_without_room_are_refused_whole),
		cmocka_unit_test(pins_are_kept_while_a_model_is_not_loaded),
		cmocka_unit_test(without_a_gpu_pins_on_it_are_refused_with_the_reason),
		cmocka_unit_test(after_a_failure_no_expert_is_on_the_gpu),
	};
	test_driver_load();
	return cmocka_run_group_tests(tests, test_gpu_setup, test_gpu_teardown);
}
