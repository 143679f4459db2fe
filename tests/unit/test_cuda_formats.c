/* Models in all formats that the GPU computes with: the same logits as the CPU's, to the bit,
 * wherever the experts lie. Without a GPU the kernels are run by the program
 * (tests/cuda/fake_driver.c); MOEFS_GPU=real uses the one that is there. */
#include "golden.h"
#include "gpu_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Steps of 1, 4, 20 and 66 rows: each uses other kernels of products. */
static void text(struct test_gpu *g, struct test_record *r)
{
	struct context x;
	test_context_of(g, &x);
	test_rows_of(g, r, &x, 1, 20, ROW_PROMPT);
	for (int i = 0; i < 2; i++)
		test_rows_of(g, r, &x, 1, 1, ROW_ANSWER);
	test_rows_of(g, r, &x, 1, 4, ROW_DRAFT);
	test_rows_of(g, r, &x, 1, 66, ROW_PROMPT);
	context_free(&x);
}

static void compare(const char *path, const char *quant, const enum test_held *held, size_t count)
{
	struct test_record cpus = {0};
	test_gpu_model_be(path, quant);
	text(&test_cpu, &cpus);
	for (size_t i = 0; i < count; i++) {
		struct test_record gpus = {0};
		struct test_gpu g;
		test_gpu_open(&g, held[i]);
		text(&g, &gpus);
		if (!test_gpu_computes(&g))
			fail_msg("%s", test_gpu_no_card(&g).text);
		test_record_same(&gpus, &cpus);
		test_record_free(&gpus);
		test_gpu_close(&g);
	}
	test_record_free(&cpus);
}

/* Q4_K, Q5_K, Q6_K, Q8_0 and a router of F32. With few experts the GPU has all of them or none. */
static void a_file_of_q4_k_m_is_computed_as_by_the_cpu(void **state)
{
	static const enum test_held held[] = {HELD_ALL, HELD_NONE};
	char path[512];
	(void)state;
	if (!test_fixture("gguf"))
		skip();
	(void)snprintf(path, sizeof path, "%s/Q4_K_M.gguf", test_fixture("gguf"));
	compare(path, NULL, held, 2);
}

/* Of 4bit: TC4, Q5_0, Q8_0. Of 8bit: Q8_0. Of bf16: a router, and all else. */
static void recipes_with_blocks_and_floats_are_computed_as_by_the_cpu(void **state)
{
	static const enum test_held held[] = {HELD_SOME};
	static const char *const recipes[] = {"4bit", "8bit", "bf16"};
	(void)state;
	for (size_t i = 0; i < sizeof recipes / sizeof *recipes && test_fixture("qwen3_moe"); i++)
		compare(test_fixture("qwen3_moe"), recipes[i], held, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_q4_k_m_is_computed_as_by_the_cpu),
		cmocka_unit_test(recipes_with_blocks_and_floats_are_computed_as_by_the_cpu),
	};
	test_driver_load();
	return cmocka_run_group_tests(tests, test_gpu_setup, test_gpu_teardown);
}
