/* The memory of the GPU that models share, and the state of an engine's GPU, without a GPU. */
#include "engine/model/engine_state.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const uint64_t MB = 1 << 20;

static void nothing_can_be_taken_before_a_card_is_open(void **state)
{
	struct gpu_budget b;

	(void)state;
	gpu_budget_init(&b, 100 * MB);
	assert_false(gpu_budget_take(&b, GPU_DENSE, 1));
	gpu_budget_found(&b, 1000 * MB);
	assert_true(gpu_budget_take(&b, GPU_DENSE, 100 * MB));
	assert_false(gpu_budget_take(&b, GPU_CONTEXTS, 1));
	gpu_budget_free(&b);
}

static void the_automatic_limit_leaves_a_reserve(void **state)
{
	struct gpu_budget b;

	(void)state;
	gpu_budget_init(&b, 0);
	gpu_budget_found(&b, GPU_RESERVE - 1);
	assert_int_equal(b.limit, 0);
	gpu_budget_found(&b, GPU_RESERVE + 10 * MB);
	assert_int_equal(b.limit, 10 * MB);
	gpu_budget_free(&b);
}

static void more_than_is_free_is_not_given(void **state)
{
	struct gpu_budget b;

	(void)state;
	gpu_budget_init(&b, 4000 * MB);
	gpu_budget_found(&b, 3000 * MB);
	assert_int_equal(b.limit, 3000 * MB);
	gpu_budget_free(&b);
}

/* Another model's card is opened later, or the same one again. */
static void what_models_use_is_not_lost_to_them(void **state)
{
	struct gpu_budget b;

	(void)state;
	gpu_budget_init(&b, 0);
	gpu_budget_found(&b, GPU_RESERVE + 10 * MB);
	assert_true(gpu_budget_take(&b, GPU_EXPERTS, 6 * MB));
	gpu_budget_found(&b, GPU_RESERVE + 4 * MB);
	assert_int_equal(b.limit, 10 * MB);
	gpu_budget_free(&b);
}

static void a_lower_limit_says_how_much_is_to_be_given_back(void **state)
{
	struct gpu_budget b;

	(void)state;
	gpu_budget_init(&b, 0);
	gpu_budget_found(&b, 1000 * MB);
	assert_true(gpu_budget_take(&b, GPU_DENSE, 20 * MB));
	assert_true(gpu_budget_take(&b, GPU_EXPERTS, 30 * MB));
	assert_int_equal(gpu_budget_over(&b), 0);
	gpu_budget_ask(&b, 40 * MB);
	assert_int_equal(gpu_budget_over(&b), 10 * MB);
	assert_false(gpu_budget_take(&b, GPU_CONTEXTS, 1));
	gpu_budget_give(&b, GPU_EXPERTS, 15 * MB);
	assert_int_equal(gpu_budget_over(&b), 0);
	assert_true(gpu_budget_take(&b, GPU_CONTEXTS, 5 * MB));
	gpu_budget_ask(&b, 0);
	assert_int_equal(b.limit, 1000 * MB - GPU_RESERVE);
	gpu_budget_free(&b);
}

static struct engine *engine_with(int gpu)
{
	struct engine *g;
	struct err e;

	assert_int_equal(engine_create(&g, &(struct engine_options){.threads = 1, .gpu = gpu}, &e),
			 0);
	return g;
}

static void an_engine_uses_no_gpu_unless_asked_to(void **state)
{
	const struct {
		int asked, ordinal;
	} cases[] = {{0, -1}, {GPU_OFF, -1}, {GPU_AUTO, 0}, {GPU_NUMBER, 0}, {GPU_NUMBER + 3, 3}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct engine *g = engine_with(cases[i].asked);
		assert_int_equal(g->gpu.ordinal, cases[i].ordinal);
		assert_int_equal(atomic_load(&g->gpu.off), cases[i].ordinal < 0);
		engine_destroy(g);
	}
}

static void a_gpu_that_failed_stays_off_for_the_first_reason(void **state)
{
	struct engine *g = engine_with(GPU_AUTO);
	struct card c = {.facts = {.name = "Card", .memory = 2000 * MB, .free = 1000 * MB}};
	struct err why;

	(void)state;
	gpu_budget_found(&g->gpu.budget, c.facts.free);
	engine_gpu_found(g, &c);
	engine_gpu_failure(g, &why);
	assert_int_equal(why.code, 0);
	err_set(&why, EIO, "the first");
	engine_gpu_fail(g, &why);
	err_set(&why, EIO, "the second");
	engine_gpu_fail(g, &why);
	assert_true(atomic_load(&g->gpu.off));
	engine_gpu_failure(g, &why);
	assert_string_equal(why.text, "the first");
	engine_destroy(g);
}

static void only_a_gpu_that_was_asked_for_or_used_is_missed(void **state)
{
	const struct {
		int asked;
		bool missed;
	} cases[] = {{GPU_OFF, false}, {GPU_AUTO, false}, {GPU_NUMBER, true}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct engine *g = engine_with(cases[i].asked);
		struct err why;
		err_set(&why, ENODEV, "there is none");
		engine_gpu_fail(g, &why);
		engine_gpu_failure(g, &why);
		assert_int_equal(why.code != 0, cases[i].missed);
		engine_destroy(g);
	}
}

static void stats_say_who_uses_the_gpus_memory(void **state)
{
	struct engine *g = engine_with(GPU_AUTO);
	struct card c = {.facts = {.name = "Card", .memory = 3000 * MB, .free = 2000 * MB}};
	struct engine_gpu_stats s;
	struct err e;

	(void)state;
	gpu_budget_found(&g->gpu.budget, c.facts.free);
	engine_gpu_found(g, &c);
	assert_int_equal(engine_set_gpu_budget(g, 0, &e), -ERANGE);
	assert_int_equal(engine_set_gpu_budget(g, 1000 * MB, &e), 0);
	assert_true(gpu_budget_take(&g->gpu.budget, GPU_DENSE, 1 * MB));
	assert_true(gpu_budget_take(&g->gpu.budget, GPU_CONTEXTS, 2 * MB));
	assert_true(gpu_budget_take(&g->gpu.budget, GPU_EXPERTS, 3 * MB));
	atomic_store(&g->gpu.counters.experts, 4);
	engine_gpu_stats(g, &s);
	assert_string_equal(s.name, "Card");
	assert_int_equal(s.memory, 3000 * MB);
	assert_int_equal(s.budget, 1000 * MB);
	assert_int_equal(s.budget_asked, 1000 * MB);
	assert_int_equal(s.dense, 1 * MB);
	assert_int_equal(s.contexts, 2 * MB);
	assert_int_equal(s.expert_bytes, 3 * MB);
	assert_int_equal(s.experts, 4);
	engine_automatic_gpu_budget(g);
	engine_gpu_stats(g, &s);
	assert_int_equal(s.budget, 2000 * MB - GPU_RESERVE);
	assert_int_equal(s.budget_asked, 0);
	engine_destroy(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_can_be_taken_before_a_card_is_open),
		cmocka_unit_test(the_automatic_limit_leaves_a_reserve),
		cmocka_unit_test(more_than_is_free_is_not_given),
		cmocka_unit_test(what_models_use_is_not_lost_to_them),
		cmocka_unit_test(a_lower_limit_says_how_much_is_to_be_given_back),
		cmocka_unit_test(an_engine_uses_no_gpu_unless_asked_to),
		cmocka_unit_test(a_gpu_that_failed_stays_off_for_the_first_reason),
		cmocka_unit_test(only_a_gpu_that_was_asked_for_or_used_is_missed),
		cmocka_unit_test(stats_say_who_uses_the_gpus_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
