/* Models in all formats that the GPU computes with: the same logits as the CPU's, to the bit,
 * wherever the experts lie. Without a GPU the kernels are run by the program
 * (tests/cuda/fake_driver.c); MOEFS_GPU=real uses the one that is there. */
#include "affine_help.h"
#include "checkpoint_help.h"
#include "gguf_help.h"
#include "golden.h"
#include "gpu_help.h"
#include "store_help.h"
#include "tests/unit/random_blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[32]; /* for models that tests make */

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

/* No part of a layer is the CPU's. */
static void assert_computes_all(const struct test_gpu *g)
{
	char said[512];
	if (!test_gpu_computes(g))
		fail_msg("%s", test_gpu_no_card(g).text);
	assert_true(model_fact(g->m.model, FACT_COMPUTES, said, sizeof said) >= 0);
	if (!strstr(said, "gpu: all layers"))
		fail_msg("%s", said);
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
		assert_computes_all(&g);
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

/* Of 2bit: TC2. Of 4bit: TC4, Q5_0, Q8_0. Of 8bit: Q8_0. Of bf16: a router, and all else. */
static void recipes_with_blocks_and_floats_are_computed_as_by_the_cpu(void **state)
{
	static const enum test_held held[] = {HELD_SOME};
	static const char *const recipes[] = {"2bit", "4bit", "8bit", "bf16", "tq2", "tq3", "tq4"};
	(void)state;
	for (size_t i = 0; i < sizeof recipes / sizeof *recipes && test_fixture("qwen3_moe"); i++)
		compare(test_fixture("qwen3_moe"), recipes[i], held, 1);
}

/* A shared expert and gates of queries. In 8bit the router's launch has all of the shared expert's products, in 4bit its
 * scale, in the others none; in bf16 gates are opened by themselves, and in tq3 the shared expert is not beside the
 * others. */
static void shared_experts_of_all_formats_are_computed_as_by_the_cpu(void **state)
{
	static const enum test_held held[] = {HELD_ALL, HELD_SOME};
	static const char *const recipes[] = {"8bit", "4bit", "bf16", "tq3"};
	(void)state;
	for (size_t i = 0; i < sizeof recipes / sizeof *recipes && test_fixture("qwen3_next"); i++)
		compare(test_fixture("qwen3_next"), recipes[i], held, 2);
}

static void published_formats_are_computed_as_by_the_cpu(void **state)
{
	static const enum test_held held[] = {HELD_ALL, HELD_SOME};
	static const char *const fixtures[] = {"gpt_oss_mxfp4", "qwen3_moe_mlx4"};
	(void)state;
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++)
		if (test_fixture(fixtures[i]))
			compare(test_fixture(fixtures[i]), NULL, held, 2);
}

/* Experts whose rows are not whole groups have floats, too. */
static void mlx_codes_of_all_sizes_are_computed_as_by_the_cpu(void **state)
{
	static const enum test_held held[] = {HELD_ALL};
	static const uint32_t kinds[][2] = {{2, 32}, {3, 64}, {5, 128}, {6, 32}, {8, 32}};
	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds && test_fixture("qwen3_moe"); i++) {
		char path[64];
		(void)snprintf(path, sizeof path, "%s/affine%u", folder, kinds[i][0]);
		test_affine_make("qwen3_moe", kinds[i][0], kinds[i][1], path);
		compare(path, NULL, held, 1);
	}
}

/* ---- GGUF files ---- */

/* Types of GGUF files, with their numbers there. */
static const struct gguf_kind_of {
	uint32_t number;
	enum format format;
} gguf_kinds[] = {{39, FORMAT_MXFP4_GGUF}, {20, FORMAT_IQ4_NL}, {23, FORMAT_IQ4_XS}, {2, FORMAT_Q4_0},
		  {3, FORMAT_Q4_1},	   {11, FORMAT_Q3_K},	{10, FORMAT_Q2_K},   {7, FORMAT_Q5_1},
		  {21, FORMAT_IQ3_S},	   {6, FORMAT_Q5_0},	{8, FORMAT_Q8_0}};
enum { GGUF_FORMATS = sizeof gguf_kinds / sizeof *gguf_kinds };

/* A matrix of another format: random codes, and scales so small that no sum overflows. */
static void put_matrix(struct test_gguf *to, const struct checkpoint_tensor *t,
		       const struct gguf_kind_of *kind)
{
	struct random random = {t->offset};
	struct shape s = {.format = kind->format, .rows = 1, .cols = (uint32_t)t->shape[t->dims - 1]};
	const uint8_t *at;
	const size_t halves = block_halves(s.format, &at), block = format_block_bytes(s.format);
	for (uint32_t i = 0; i + 1 < t->dims; i++)
		s.rows *= (uint32_t)t->shape[i];
	const size_t n = format_packed_bytes(&s);
	uint8_t *bytes = malloc(n);
	assert_non_null(bytes);
	random_blocks(&random, &s, bytes, NULL, NULL);
	for (size_t i = 0; i < n; i += block)
		for (size_t h = 0; h < halves; h++) {
			uint16_t half;
			memcpy(&half, bytes + i + at[h], sizeof half);
			half = f16_from_f32(f16_to_f32(half) / 64);
			memcpy(bytes + i + at[h], &half, sizeof half);
		}
	test_gguf_tensor(to, t->name, kind->number, t->shape, t->dims, bytes, n);
	free(bytes);
}

/* The keys of a GGUF file as they are. */
static void put_keys(struct test_gguf *to, const struct gguf *from)
{
	enum { BEFORE_KEYS = 24 };
	const uint8_t *end = from->header + BEFORE_KEYS;
	for (size_t i = 0; i < from->count; i++) {
		const struct gguf_value *v = &from->values[i];
		end = v->bytes + v->size > end ? v->bytes + v->size : end;
	}
	to->keys = from->count;
	test_bytes_add(&to->key_bytes, from->header + BEFORE_KEYS,
		       (size_t)(end - from->header) - BEFORE_KEYS);
}

/* Matrix i of a copy of the file has format first + i. */
static void gguf_of_formats(const char *path, const char *from, size_t first)
{
	struct test_gguf to = {0};
	struct gguf *g;
	size_t n, next = first;
	struct err e;
	uint8_t *bytes = test_file_read(from, &n);
	if (gguf_open(&g, from, 0, &e))
		fail_msg("%s", e.text);
	put_keys(&to, g);
	for (size_t i = 0; i < g->tensors.count; i++) {
		const struct checkpoint_tensor *t = &g->tensors.tensors[i];
		const bool kept = t->dims < 2 || strstr(t->name, "ffn_gate_inp");
		if (kept)
			test_gguf_tensor(&to, t->name, 0, t->shape, t->dims, bytes + t->place, t->bytes);
		else
			put_matrix(&to, t, &gguf_kinds[next++ % GGUF_FORMATS]);
	}
	test_gguf_write(&to, path);
	test_gguf_free(&to);
	gguf_close(g);
	free(bytes);
}

static void gguf_files_of_all_formats_are_computed_as_by_the_cpu(void **state)
{
	static const enum test_held held[] = {HELD_ALL};
	char from[512], path[64];
	(void)state;
	if (!test_fixture("gguf"))
		skip();
	(void)snprintf(from, sizeof from, "%s/Q4_K_M.gguf", test_fixture("gguf"));
	for (size_t first = 0; first < GGUF_FORMATS; first += 4) {
		(void)snprintf(path, sizeof path, "%s/formats%zu.gguf", folder, first);
		gguf_of_formats(path, from, first);
		compare(path, NULL, held, 1);
	}
}

static int setup(void **state)
{
	test_folder_make(folder);
	return test_gpu_setup(state);
}
static int teardown(void **state)
{
	test_folder_remove(folder);
	return test_gpu_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_q4_k_m_is_computed_as_by_the_cpu),
		cmocka_unit_test(recipes_with_blocks_and_floats_are_computed_as_by_the_cpu),
		cmocka_unit_test(shared_experts_of_all_formats_are_computed_as_by_the_cpu),
		cmocka_unit_test(published_formats_are_computed_as_by_the_cpu),
		cmocka_unit_test(mlx_codes_of_all_sizes_are_computed_as_by_the_cpu),
		cmocka_unit_test(gguf_files_of_all_formats_are_computed_as_by_the_cpu),
	};
	test_driver_load();
	return cmocka_run_group_tests(tests, setup, teardown);
}
