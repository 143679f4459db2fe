/* Routers of layers whose experts are all on the GPU: it chooses there, and no step waits for the host. Whole models
 * are one sequence of launches. What is chosen is told as on the CPU. */
#include "golden.h"
#include "gpu_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Each with another router. */
static const struct case_of {
	const char *fixture;
	bool whole; /* the GPU computes all else, too */
} cases[] = {
	{"qwen3_moe", true},	    /* softmax, normalised */
	{"granitemoe", true},	    /* softmax of the chosen ones */
	{"gpt_oss_mxfp4", true},    /* the same with a bias */
	{"lfm2_moe", false},	    /* sigmoids and a correction */
	{"deepseek_v3_fp8", false}, /* the same with groups */
	{"kimi_linear", false},
	{"glm_moe_dsa", false},
	{"minimax_m3", false},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- who chooses ---- */

/* The GPU's backend; the host's choices are counted. */
static struct backend counting;
static uint32_t asked;

static void count_route(struct step *s, uint32_t layer)
{
	asked++;
	cuda_backend.route(s, layer);
}

static void count_choices(struct test_gpu *g)
{
	counting = cuda_backend;
	counting.route = count_route;
	asked = 0;
	assert_true(test_gpu_computes(g));
	g->v.forward->env.backend = &counting;
}

static void count_no_more(struct test_gpu *g)
{
	assert_ptr_equal(g->v.forward->env.backend, &counting); /* the GPU has not failed */
	g->v.forward->env.backend = &cuda_backend;
}

/* ---- steps ---- */

enum { FEW_STEPS = 4 }; /* of at most 32 rows */

/* Steps of one row, of some, and of more than a sequence has. */
static void free_steps(struct test_gpu *g, struct test_record *r)
{
	struct context x[2];
	for (uint32_t i = 0; i < 2; i++)
		test_context_of(g, &x[i]);
	test_rows_of(g, r, &x[0], 3, 40, ROW_PROMPT);
	test_rows_of(g, r, &x[1], 4, 7, ROW_PROMPT);
	test_rows_of(g, r, &x[0], 3, 1, ROW_ANSWER);
	test_rows_of(g, r, &x[1], 4, 1, ROW_ANSWER);
	test_step_of(g, r,
		     (struct test_rows[]){{&x[0], 3, 1, ROW_ANSWER, {0}, NULL},
					  {&x[1], 5, 4, ROW_DRAFT, {0}, NULL}},
		     2);
	for (uint32_t i = 0; i < 2; i++)
		context_free(&x[i]);
}

/* A step of a session that wants fewer experts. */
static void fewer_steps(struct test_gpu *g, struct test_record *r)
{
	struct context x;
	test_context_of(g, &x);
	test_step_of(g, r,
		     &(struct test_rows){&x, 6, 5, ROW_PROMPT, {.experts_per_token = 1}, NULL}, 1);
	context_free(&x);
}

static void compare(const struct case_of *c, const struct test_record *want)
{
	struct test_record got = {0};
	struct test_gpu g;
	test_gpu_open(&g, HELD_ALL);
	count_choices(&g);
	const long played = test_driver_played();
	free_steps(&g, &got);
	assert_int_equal(asked, 0);
	if (!test_driver_is_real())
		assert_int_equal(test_driver_played() - played, c->whole ? FEW_STEPS : 0);
	fewer_steps(&g, &got);
	assert_int_equal(asked, g.v.plan->routed_layers);
	count_no_more(&g);
	test_record_same(&got, want);
	test_record_free(&got);
	test_gpu_close(&g);
}

static void what_the_gpu_holds_it_chooses(void **state)
{
	for (uint32_t i = 0; i < CASES; i++) {
		struct test_record want = {0};
		if (!test_fixture(cases[i].fixture))
			continue;
		print_message("%s\n", cases[i].fixture);
		assert_int_equal(test_gpu_setup_of(state, cases[i].fixture), 0);
		free_steps(&test_cpu, &want);
		fewer_steps(&test_cpu, &want);
		compare(&cases[i], &want);
		test_record_free(&want);
		assert_int_equal(test_gpu_teardown(state), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_gpu_holds_it_chooses),
	};
	test_driver_load();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
