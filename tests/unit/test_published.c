/* Weights that are already quantised: those in the kernels' formats are stored unchanged, others
 * record their origin; and a store is itself such a checkpoint. */
#include "checkpoint_help.h"
#include "convert_help.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "golden.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char parent[32], source[64], store[64], other[64];
static struct test_checkpoint c;
static struct test_conversion conversion;
static struct err e;

static int setup(void **state)
{
	(void)state;
	test_folder_make(parent);
	(void)snprintf(source, sizeof source, "%s/source", parent);
	(void)snprintf(store, sizeof store, "%s/store", parent);
	(void)snprintf(other, sizeof other, "%s/other", parent);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_checkpoint_free(&c);
	test_folder_remove(parent);
	return 0;
}

static void convert(const char *from, const char *to, const char *quant)
{
	if (test_convert(&conversion, from, to, quant, 2, &e))
		fail_msg("%s", e.text);
}

static struct golden *file_of(const char *folder, const char *name)
{
	char path[128];
	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	return golden_open(path);
}

static void assert_same_file(const char *name)
{
	char path[128];
	size_t n, m;
	(void)snprintf(path, sizeof path, "%s/%s", store, name);
	uint8_t *one = test_file_read(path, &n);
	(void)snprintf(path, sizeof path, "%s/%s", other, name);
	uint8_t *two = test_file_read(path, &m);
	assert_int_equal(n, m);
	assert_memory_equal(one, two, n);
	free(one);
	free(two);
}

/* ---- as published ---- */

/* Every packed tensor of the fixture is in the store, byte for byte; others are as they were or,
 * for vectors, the same numbers. */
static void assert_kept(const struct golden *dense, const struct golden *experts,
			const struct test_tensor *t)
{
	struct golden_tensor got;
	if (!golden_find(dense, t->name, &got) && !golden_find(experts, t->name, &got))
		fail_msg("the store has no %s", t->name);
	if (t->dims > 1) {
		assert_string_equal(got.dtype, t->type);
		assert_int_equal(got.bytes, t->bytes);
		assert_memory_equal(got.data, t->data, t->bytes);
		return;
	}
	assert_string_equal(got.dtype, "F32");
	for (size_t i = 0; i < got.count; i++)
		assert_true(((const float *)got.data)[i] == test_tensor_get(t, i));
}

static void assert_all_kept(const char *checkpoint)
{
	convert(checkpoint, store, "auto");
	struct golden *dense = file_of(store, "dense.safetensors"),
		      *experts = file_of(store, "experts.safetensors");
	for (size_t k = 0; k < c.count; k++)
		assert_kept(dense, experts, &c.tensors[k]);
	golden_close(dense);
	golden_close(experts);
}

static void a_native_checkpoint_is_stored_byte_for_byte(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"tq3_native", "tq3_native_sensitive4"};
	for (int i = 0; i < 2; i++) {
		if (!test_fixture(fixtures[i]))
			skip();
		test_checkpoint_read(&c, fixtures[i]);
		assert_all_kept(test_fixture(fixtures[i]));
		test_checkpoint_free(&c);
		test_folder_remove(store);
	}
}

/* MLX stacks experts; a store has them one by one. */
static void assert_slice(const struct golden *experts, int layer, const char *part, int x)
{
	static const char *const endings[] = {"weight", "scales", "biases"};
	for (int i = 0; i < 3; i++) {
		char name[128], whole[128];
		struct golden_tensor got;
		(void)snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.%s.%s", layer, x,
			       part, endings[i]);
		(void)snprintf(whole, sizeof whole, "model.layers.%d.mlp.switch_mlp.%s.%s", layer,
			       part, endings[i]);
		const struct test_tensor *t = test_tensor_find(&c, whole);
		if (!golden_find(experts, name, &got))
			fail_msg("the store has no %s", name);
		assert_string_equal(got.dtype, t->type);
		assert_int_equal(got.bytes, t->bytes / 16);
		assert_memory_equal(got.data, t->data + (size_t)x * got.bytes, got.bytes);
	}
}

static void mlx_codes_are_stored_byte_for_byte(void **state)
{
	(void)state;
	test_checkpoint_read(&c, "qwen3_moe_mlx4");
	convert(test_fixture("qwen3_moe_mlx4"), store, "auto");
	struct golden *dense = file_of(store, "dense.safetensors"),
		      *experts = file_of(store, "experts.safetensors");
	for (size_t k = 0; k < c.count; k++)
		if (!strstr(c.tensors[k].name, "switch_mlp"))
			assert_kept(dense, experts, &c.tensors[k]);
	for (int layer = 0; layer < 3; layer++) {
		assert_slice(experts, layer, "gate_proj", 0);
		assert_slice(experts, layer, "up_proj", 15);
	}
	golden_close(dense);
	golden_close(experts);
}

/* The down projections of these experts of layer 1 in 4 bits, among others in 3. */
static void mix(int first, int end)
{
	static const char pattern[] = "model.layers.1.mlp.experts.%d.down_proj.weight.tq_%s";
	struct test_checkpoint four;
	test_checkpoint_read(&c, "tq3_native");
	test_checkpoint_read(&four, "tq3_native_sensitive4");
	for (int x = first; x < end; x++)
		for (int norms = 0; norms < 2; norms++) {
			char name[96];
			(void)snprintf(name, sizeof name, pattern, x, norms ? "norms" : "packed");
			struct test_tensor *to = test_tensor_find(&c, name),
					   *from = test_tensor_find(&four, name), kept = *to;
			*to = *from;
			*from = kept;
		}
	test_checkpoint_free(&four);
	test_checkpoint_make(&c, "tq3_native", source);
}

static void layers_may_have_different_bits(void **state)
{
	(void)state;
	if (!test_fixture("tq3_native"))
		skip();
	mix(0, 16);
	assert_all_kept(source);
}

/* A layer's records have one layout. */
static void experts_of_a_layer_that_differ_are_kept_as_the_numbers_they_are(void **state)
{
	(void)state;
	if (!test_fixture("tq3_native"))
		skip();
	mix(5, 6);
	convert(source, store, "auto");
	struct golden *experts = file_of(store, "experts.safetensors");
	for (int x = 4; x < 6; x++) {
		char name[96], packed[128], norms[128];
		(void)snprintf(name, sizeof name, "model.layers.1.mlp.experts.%d.down_proj.weight",
			       x);
		(void)snprintf(packed, sizeof packed, "%s.tq_packed", name);
		(void)snprintf(norms, sizeof norms, "%s.tq_norms", name);
		const float *got = golden_get(experts, name, "F32").data;
		float want[96];
		const struct shape row = {.format = x == 5 ? FORMAT_TQ4 : FORMAT_TQ3,
					  .norms = NORM_F32,
					  .rows = 1,
					  .cols = 96};
		format_dequantise_row(
			want, &row,
			&(struct pieces){.weights = test_tensor_find(&c, packed)->data,
					 .scales = test_tensor_find(&c, norms)->data});
		assert_memory_equal(got, want, sizeof want);
	}
	struct golden_tensor other_layer;
	assert_true(golden_find(experts, "model.layers.2.mlp.experts.5.down_proj.weight.tq_packed",
				&other_layer));
	golden_close(experts);
}

/* ---- a store as a checkpoint ---- */

static void a_store_is_a_checkpoint_of_the_very_weights(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen3_moe", "qwen2",	   "granitemoe", "mixtral",
					       "qwen2_moe", "qwen3_5_moe", "qwen3_next"};
	static const char *const recipes[] = {"tq3", "2bit", "3bit", "4bit", "6bit", "8bit"};
	enum { RECIPES = sizeof recipes / sizeof *recipes };
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures * RECIPES; i++) {
		convert(test_fixture(fixtures[i / RECIPES]), store, recipes[i % RECIPES]);
		convert(store, other, "auto");
		assert_same_file("dense.safetensors");
		assert_same_file("experts.safetensors");
		test_folder_remove(store);
		test_folder_remove(other);
	}
}

static void it_says_its_bits_to_other_readers(void **state)
{
	(void)state;
	char path[128];
	size_t n;
	convert(test_fixture("qwen3_moe"), store, "tq3");
	(void)snprintf(path, sizeof path, "%s/tq_config.json", store);
	char *text = (char *)test_file_read(path, &n);
	text[n - 1] = 0; /* its newline */
	assert_string_equal(text,
			    "{\"format\": \"tq3_native\", \"bits\": 3, \"group_size\": 128, "
			    "\"quantizer_seed\": 42, \"original_model\": \"qwen3_moe\", "
			    "\"sensitive_bits\": 4, \"sensitive_patterns\": "
			    "[\"self_attn.q_proj\", \"self_attn.k_proj\", \"self_attn.v_proj\", "
			    "\"self_attn.o_proj\", \"lm_head\"]}");
	free(text);
}

/* A reader that knows only TQ finds none of the names of its tensors. */
static void trellis_codes_have_names_of_their_own(void **state)
{
	(void)state;
	static const char *const files[] = {"dense.safetensors", "experts.safetensors"};
	char path[128];
	size_t n;
	convert(test_fixture("qwen3_moe"), store, "3bit");
	(void)snprintf(path, sizeof path, "%s/tc_config.json", store);
	char *text = (char *)test_file_read(path, &n);
	text[n - 1] = 0; /* its newline */
	assert_string_equal(text, "{\"format\": \"tc3_native\", \"bits\": 3, \"group_size\": 128, "
				  "\"quantizer_seed\": 42, \"original_model\": \"qwen3_moe\", "
				  "\"version\": 1}");
	free(text);
	(void)snprintf(path, sizeof path, "%s/tq_config.json", store);
	assert_int_not_equal(access(path, F_OK), 0);
	for (int i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", store, files[i]);
		uint8_t *bytes = test_file_read(path, &n);
		uint64_t head;
		memcpy(&head, bytes, sizeof head);
		assert_null(memmem(bytes + 8, head, ".tq_", 4));
		assert_non_null(memmem(bytes + 8, head, ".tc_packed", 10));
		assert_non_null(memmem(bytes + 8, head, ".tc_norms", 9));
		free(bytes);
	}
}

/* ---- words ---- */

static void the_recipe_says_what_the_weights_were_in(void **state)
{
	(void)state;
	static const struct {
		const char *fixture, *quant, *words;
	} models[] = {
		{"qwen3_moe", NULL, "4bit, the default for models whose experts fit the budget"},
		{"qwen3_moe", "auto", "4bit, the default for models whose experts fit the budget"},
		{"qwen3_moe", "3bit", "3bit"},
		{"qwen3", NULL, "8bit, the default for dense models of up to 1 billion weights"},
		{"qwen3_moe", "bf16", "bf16"},
		{"qwen3_moe_mlx4", NULL, "as published: MLX affine codes, in place"},
		{"qwen3_moe_mlx4", "tq3", "tq3 from MLX affine codes"},
		{"qwen3_moe_fp8", NULL, "4bit from FP8, the default for models whose experts fit the budget"},
		{"tq3_native", NULL, "as published: native TQ, in place"},
		{"qwen3_moe", "tq3", "tq3"},
		{"tq3_native", "2bit", "2bit from native TQ"},
		{"tq3_native", "tq4", "tq4 from native TQ"},
		{"tq3_native", "bf16", "bf16 from native TQ"},
	};
	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		const struct engine_options o = {
			.store = store, .quant = models[i].quant, .threads = 1};
		char path[512], text[128];
		struct engine *engine;
		struct model *model = NULL;
		if (!test_fixture(models[i].fixture))
			continue;
		(void)snprintf(path, sizeof path, "%s", test_fixture(models[i].fixture));
		if (engine_create(&engine, &o, &e) || model_open(&model, engine, path, &e))
			fail_msg("%s", e.text);
		assert_int_equal(model_fact(model, FACT_RECIPE, text, sizeof text), 0);
		assert_string_equal(text, models[i].words);
		model_close(model);
		engine_destroy(engine);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_native_checkpoint_is_stored_byte_for_byte),
		TEST(mlx_codes_are_stored_byte_for_byte),
		TEST(layers_may_have_different_bits),
		TEST(experts_of_a_layer_that_differ_are_kept_as_the_numbers_they_are),
		TEST(a_store_is_a_checkpoint_of_the_very_weights),
		TEST(it_says_its_bits_to_other_readers),
		TEST(trellis_codes_have_names_of_their_own),
		TEST(the_recipe_says_what_the_weights_were_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
