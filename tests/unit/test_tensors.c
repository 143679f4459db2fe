/* Tensors by their published names: for every family's layout of experts and heads they show the
 * numbers that are used, with and without a store, wherever a read begins; reading them loads
 * nothing. */
#include "checkpoint_help.h"
#include "engine/family/view.h"
#include "engine/model.h"
#include "engine/source/package.h"
#include "gguf_convert.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[32];
static struct err e;

static int setup(void **state)
{
	(void)state;
	test_folder_make(folder);
	e = (struct err){0};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_folder_remove(folder);
	return 0;
}

/* ---- reading ---- */

enum { HEAD = 10 };

/* The file of a tensor, read in pieces of a given size. */
static uint8_t *whole_file(const struct model *m, size_t i, size_t each)
{
	uint64_t size = model_tensor_bytes(m, i);
	uint8_t *bytes = malloc(size + 1);
	for (uint64_t at = 0; at < size;) {
		int64_t n = model_tensor_read(m, i, at, bytes + at, each, &e);
		if (n <= 0)
			fail_msg("%s at %llu: %s", model_tensor_name(m, i), (unsigned long long)at,
				 n ? e.text : "ends early");
		at += (uint64_t)n;
	}
	assert_int_equal(model_tensor_read(m, i, size, bytes, 1, &e), 0);
	return bytes;
}

static size_t head_bytes(const uint8_t *file)
{
	assert_memory_equal(file, "\x93NUMPY\x01\x00", 8);
	size_t n = HEAD + (size_t)file[8] + 256 * (size_t)file[9];
	assert_int_equal(n % 64, 0);
	assert_int_equal(file[n - 1], '\n');
	return n;
}

static const float *numbers(const uint8_t *file)
{
	return (const float *)(const void *)(file + head_bytes(file));
}

static void assert_shape(const uint8_t *file, const uint64_t *shape, uint32_t dims)
{
	char wanted[256] = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
	for (uint32_t d = 0; d < dims; d++)
		(void)snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%llu%s",
			       (unsigned long long)shape[d],
			       dims == 1      ? ","
			       : d + 1 < dims ? ", "
					      : "");
	(void)snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "), }");
	assert_memory_equal(file + HEAD, wanted, strlen(wanted));
}

/* ---- models ---- */

static struct test_model model;
static uint8_t **before; /* of each tensor, from the source */
static size_t count;

static void open_with(const char *directory, const char *quant, const char *codec)
{
	static char stores[64];
	(void)snprintf(stores, sizeof stores, "%s/stores", folder);
	test_model_open(&model, directory,
			&(struct engine_options){
				.threads = 2, .store = stores, .quant = quant, .codec = codec});
	assert_false(model_tensors_are_open(model.model));
	assert_int_equal(model_tensors(model.model), 0);
	if (model_tensors_open(model.model, &e))
		fail_msg("%s: %s", directory, e.text);
	count = model_tensors(model.model);
	before = calloc(count, sizeof *before);
}

static void close_all(void)
{
	test_model_close(&model);
	for (size_t i = 0; i < count; i++)
		free(before[i]);
	free(before);
}

static void assert_nothing_loaded(void)
{
	struct pager_stats s;
	engine_cache_stats(model.engine, &s);
	assert_int_equal(model_state(model.model), MODEL_UNLOADED);
	assert_int_equal(s.experts_resident, 0);
	assert_int_equal(s.bytes_read, 0);
}

static void read_once(void)
{
	for (size_t i = 0; i < count; i++)
		before[i] = whole_file(model.model, i, 1 << 20);
	assert_nothing_loaded();
}

/* From the source, then the same bytes from the store. */
static void read_twice(void)
{
	read_once();
	test_wait_converted(model.model);
	for (size_t i = 0; i < count; i++) {
		uint64_t size = model_tensor_bytes(model.model, i);
		uint8_t *after = whole_file(model.model, i, 77777);
		if (memcmp(before[i], after, size) != 0)
			fail_msg("%s is another from the store", model_tensor_name(model.model, i));
		free(after);
	}
}

/* The squared error against the published numbers, relative to their power. */
static double error_of(const float *is, const float *published, size_t n)
{
	double error = 0, power = 0;
	for (size_t i = 0; i < n; i++) {
		double d = (double)is[i] - published[i];
		error += d * d;
		power += (double)published[i] * published[i];
	}
	return power > 0 ? error / power : error;
}

static float *published_numbers(const struct package *p, const struct package_tensor *t, size_t n)
{
	uint64_t rows = package_rows(t), cols = n / rows;
	enum format f = package_read_format(t);
	float *x = malloc(n * sizeof *x + 1);
	uint8_t *at = (uint8_t *)x + n * (f == FORMAT_F32 ? 0 : 2);
	for (uint64_t r = 0; r < rows; r++) /* one by one: they may be of several matrices */
		if (package_read(p, t, r, 1, (uint32_t)cols,
				 at + r * cols * (f == FORMAT_F32 ? 4 : 2), &e))
			fail_msg("%s", e.text);
	format_dequantise_row(x, &(struct shape){.format = f, .rows = 1, .cols = (uint32_t)n},
			      &(struct pieces){.weights = at});
	return x;
}

/* Of all tensors together. The worst of one: `most`, or the same bits where it is 0. */
static void compare(const char *what, const char *directory, double most)
{
	struct package *p;
	double worst = 0;
	size_t others = 0;
	assert_int_equal(package_open(&p, directory, &e), 0);
	assert_int_equal(package_count(p), count);
	for (size_t i = 0; i < count; i++) {
		const struct package_tensor *t = package_tensor(p, i);
		size_t n = (model_tensor_bytes(model.model, i) - head_bytes(before[i])) / 4;
		assert_string_equal(t->name, model_tensor_name(model.model, i));
		if (!t->padded) { /* otherwise the file lacks digits */
			assert_shape(before[i], t->shape, t->dims);
			assert_int_equal(n, package_rows(t) * t->shape[t->dims - 1]);
		}
		float *published = published_numbers(p, t, n);
		double error = error_of(numbers(before[i]), published, n);
		if (error > most ||
		    (most == 0 && memcmp(numbers(before[i]), published, 4 * n) != 0))
			fail_msg("%s: %s is off by %g", what, t->name, error);
		worst = error > worst ? error : worst;
		others += error > 0;
		free(published);
	}
	printf("%s: %zu of %zu tensors are others than published, by %.4f at most\n", what, others,
	       count, worst);
	package_close(p);
}

static void check(const char *what, const char *directory, const char *quant, double most)
{
	open_with(directory, quant, NULL);
	if (!strcmp(quant, "tq3"))
		read_twice();
	else /* tensors kept as published are always read from there */
		read_once();
	compare(what, directory, most);
	close_all();
	char stores[64];
	(void)snprintf(stores, sizeof stores, "%s/stores", folder);
	test_folder_remove(stores);
}

/* ---- every family ---- */

/* A number in the wrong place would be off by 2. What is in codes of fewer rows than a group has
 * columns is coarse. */
static const double tq3_most = 0.06;

static const char *const fixtures[] = {
	"qwen2",       "qwen2_moe",	    "qwen3",	"qwen3_moe",   "mixtral",    "granitemoe",
	"olmoe",       "qwen3_next",	    "qwen3_5",	"qwen3_5_moe", "gemma4_moe", "gpt_oss",
	"deepseek_v3", "qwen3_5_moe_fused", "glm4_moe", "minimax_m2",
};

static void check_families(const char *quant, double most)
{
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		if (!test_fixture(fixtures[i]))
			continue;
		char directory[512];
		(void)snprintf(directory, sizeof directory, "%s", test_fixture(fixtures[i]));
		check(fixtures[i], directory, quant, most);
	}
}

static void of_every_family_have_the_numbers_that_are_computed_with(void **state)
{
	(void)state;
	check_families("tq3", tq3_most);
}

static void are_as_published_where_nothing_is_quantised(void **state)
{
	(void)state;
	check_families("bf16", 0);
}

/* The tensor's numbers repeated along a dimension; no two copies are alike. */
static void repeat(struct test_checkpoint *c, const char *name, size_t dim, size_t times)
{
	struct test_tensor *t = test_tensor_find(c, name);
	size_t inner = 1, n = test_tensor_elements(t), at = 0;
	for (size_t d = dim; d < t->dims; d++)
		inner *= t->shape[d];
	struct test_tensor from = *t;
	t->bytes = from.bytes * times;
	t->data = malloc(t->bytes);
	t->shape[dim] *= times;
	for (size_t outer = 0; outer < n; outer += inner)
		for (size_t k = 0; k < times; k++)
			for (size_t i = 0; i < inner; i++)
				test_tensor_set(t, at++,
						test_tensor_get(&from, outer + i) *
							(1 + (float)k / 4));
	free(from.data);
}

/* Rows that lie across, over more than one group of what is coded together. */
static void of_experts_that_lie_across_come_from_every_group(void **state)
{
	char copy[64], path[128], name[128];
	size_t n;
	struct test_checkpoint c;
	(void)state;
	if (!test_fixture("gpt_oss"))
		skip();
	(void)snprintf(copy, sizeof copy, "%s/copy", folder);
	(void)snprintf(path, sizeof path, "%s/config.json", copy);
	test_checkpoint_read(&c, "gpt_oss");
	for (unsigned layer = 0; layer < 3; layer++) {
		int at = snprintf(name, sizeof name, "model.layers.%u.mlp.experts.", layer);
		char *end = name + at;
		strcpy(end, "down_proj");
		repeat(&c, name, 1, 3);
		strcpy(end, "gate_up_proj");
		repeat(&c, name, 2, 3);
		strcpy(end, "gate_up_proj_bias");
		repeat(&c, name, 1, 3);
	}
	test_checkpoint_make(&c, "gpt_oss", copy);
	test_checkpoint_free(&c);
	char *config = (char *)test_file_read(path, &n);
	config = realloc(config, n + 2);
	config[n] = 0;
	char *size = strstr(config, "\"intermediate_size\": 96");
	assert_non_null(size);
	memmove(size + 24, size + 23, strlen(size + 23) + 1);
	memcpy(size + 21, "288", 3);
	test_file_write(path, config, n + 1);
	free(config);
	check("gpt_oss, wide", copy, "tq3", tq3_most);
	check("gpt_oss, wide", copy, "bf16", 0);
}

/* Quantised once, they are not quantised again. */
static void that_were_published_in_codes_are_those(void **state)
{
	static const char *const quantised[] = {"gpt_oss_mxfp4",   "qwen3_moe_mlx4",
						"deepseek_v3_fp8", "qwen3_moe_fp8",
						"tq3_native",	   "tq3_native_sensitive4"};
	(void)state;
	for (size_t i = 0; i < sizeof quantised / sizeof *quantised; i++) {
		if (!test_fixture(quantised[i]))
			continue;
		char directory[512];
		bool fp8 = strstr(quantised[i], "fp8");
		(void)snprintf(directory, sizeof directory, "%s", test_fixture(quantised[i]));
		check(quantised[i], directory, fp8 ? "tq3" : "auto", fp8 ? tq3_most : 0);
	}
}

/* ---- GGUF ---- */

static const struct gguf_conversion conversions[] = {
	{.fixture = "qwen3_moe", .architecture = "qwen3moe", .type = "F32"},
	{.fixture = "mixtral", .architecture = "llama", .type = "BF16", .parts = 2},
	{.fixture = "mixtral", .architecture = "llama", .type = "F16", .apart = true},
	{.fixture = "qwen3_5_moe", .architecture = "qwen35moe", .type = "BF16"},
	{.fixture = "qwen3_next", .architecture = "qwen3next", .type = "F32", .fused = true},
	{.fixture = "qwen3_moe", .architecture = "qwen3moe", .type = "Q8_0"},
};

static void of_a_file_have_its_names_and_places(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++) {
		char path[512], name[16];
		if (!test_fixture(conversions[i].fixture))
			continue;
		(void)snprintf(name, sizeof name, "file%zu", i);
		test_gguf_convert(&conversions[i], folder, name, path);
		check(conversions[i].architecture, path, "tq3", tq3_most);
		/* Zero-centred norms, with what is added to them, and -exp of what is kept as its
		 * logarithm, are rounded. */
		check(conversions[i].architecture, path, "bf16", 1e-12);
		check(conversions[i].architecture, path, "auto", tq3_most);
	}
}

/* ---- an independent decoding ---- */

static uint32_t tq3_index(const uint8_t *packed, size_t i)
{
	size_t bit = 3 * i;
	uint32_t two = packed[bit / 8] | (bit % 8 > 5 ? (uint32_t)packed[bit / 8 + 1] << 8 : 0);
	return two >> bit % 8 & 7;
}

/* As the format's description has it: levels, D2, Hadamard's matrix, D1. */
static void decode_tq3_group(const uint8_t *packed, double norm, double out[128])
{
	static const double level[] = {.2450940, .7560047, 1.3439084, 2.1519449};
	static const uint8_t signs1[] = {0x22, 0x42, 0xd7, 0x3f, 0x17, 0x7c, 0xab, 0x01,
					 0xf6, 0xba, 0x4a, 0xff, 0xe7, 0x5f, 0x6b, 0x65};
	static const uint8_t signs2[] = {0x07, 0xd0, 0x21, 0xa8, 0x5c, 0xe6, 0x40, 0x24,
					 0x38, 0xd2, 0x01, 0xc5, 0xcb, 0xbf, 0x25, 0x14};
	double x[128];
	for (size_t i = 0; i < 128; i++) {
		uint32_t k = tq3_index(packed, i);
		x[i] = (k < 4 ? -level[3 - k] : level[k - 4]) / sqrt(128) *
		       (signs2[i / 8] >> i % 8 & 1 ? 1 : -1);
	}
	for (size_t i = 0; i < 128; i++) {
		double sum = 0;
		for (size_t k = 0; k < 128; k++)
			sum += __builtin_popcountll(i & k) % 2 ? -x[k] : x[k];
		out[i] = norm * sum / sqrt(128) * (signs1[i / 8] >> i % 8 & 1 ? 1 : -1);
	}
}

static double f16(const uint8_t *at)
{
	uint16_t h = (uint16_t)(at[0] | at[1] << 8);
	int exponent = h >> 10 & 31;
	double m = h & 1023, x = exponent ? ldexp(1024 + m, exponent - 25) : ldexp(m, -24);
	return h >> 15 ? -x : x;
}

/* The store is a checkpoint of its own, in which experts are stored one by one. */
static void are_what_the_codes_of_the_store_say(void **state)
{
	static const char *const parts[] = {"gate", "up", "down"};
	char store[512], path[600], name[128];
	(void)state;
	open_with(test_fixture("qwen3_moe"), "tq3", NULL);
	test_wait_converted(model.model);
	assert_int_equal(model_fact(model.model, FACT_STORE, store, sizeof store), 0);
	(void)snprintf(path, sizeof path, "%s/experts.safetensors", store);
	struct golden *codes = golden_open(path);
	for (unsigned x = 0; x < 3 * 16; x++) {
		size_t i;
		int n = snprintf(name, sizeof name, "model.layers.1.mlp.experts.%u.%s_proj.weight",
				 x / 3, parts[x % 3]);
		assert_true(model_tensor_find(model.model, name, &i));
		uint8_t *file = whole_file(model.model, i, 4096);
		const float *is = numbers(file);
		(void)snprintf(name + n, sizeof name - (size_t)n, ".tq_packed");
		struct golden_tensor packed, norms;
		assert_true(golden_find(codes, name, &packed));
		(void)snprintf(name + n, sizeof name - (size_t)n, ".tq_norms");
		assert_true(golden_find(codes, name, &norms));
		size_t rows = norms.shape[0], groups = norms.shape[1];
		size_t cols = (model_tensor_bytes(model.model, i) - head_bytes(file)) / 4 / rows;
		for (size_t g = 0; g < rows * groups; g++) {
			double want[128];
			size_t at = g % groups * 128;
			decode_tq3_group((const uint8_t *)packed.data + 48 * g,
					 f16((const uint8_t *)norms.data + 2 * g), want);
			for (size_t k = 0; k < 128 && at + k < cols; k++)
				if (fabs(is[g / groups * cols + at + k] - want[k]) > 1e-6)
					fail_msg("%.60s, group %zu, column %zu", name, g, k);
		}
		free(file);
	}
	golden_close(codes);
	close_all();
}

/* ---- reading anywhere ---- */

static void can_be_read_from_any_byte_on(void **state)
{
	size_t i;
	(void)state;
	open_with(test_fixture("qwen3_moe"), "tq3", NULL);
	assert_true(
		model_tensor_find(model.model, "model.layers.0.mlp.experts.3.up_proj.weight", &i));
	uint8_t *all = whole_file(model.model, i, 1 << 20), some[5000];
	uint64_t size = model_tensor_bytes(model.model, i);
	for (uint64_t at = 0; at < size; at += 997)
		for (size_t n = 1; n <= sizeof some; n = n * 5 + 1) {
			int64_t got = model_tensor_read(model.model, i, at, some, n, &e);
			assert_int_equal(got, size - at < n ? size - at : n);
			assert_memory_equal(some, all + at, (size_t)got);
		}
	free(all);
	close_all();
}

static void of_a_coded_store_are_the_same(void **state)
{
	(void)state;
	open_with(test_fable(), "bf16", "zstd");
	count = 40; /* the experts of a layer are among them */
	read_twice();
	close_all();
}

static void are_found_by_their_names_alone(void **state)
{
	size_t i;
	(void)state;
	open_with(test_fixture("qwen3_moe"), "tq3", NULL);
	for (size_t k = 0; k < count; k++) {
		assert_true(model_tensor_find(model.model, model_tensor_name(model.model, k), &i));
		assert_int_equal(i, k);
	}
	assert_false(model_tensor_find(model.model, "model.embed_tokens", &i));
	assert_false(model_tensor_find(model.model, "", &i));
	assert_int_equal(model_tensor_bytes(model.model, count), 0);
	close_all();
}

/* A changed source has other numbers than the model. */
static void of_a_source_that_was_changed_are_refused(void **state)
{
	char copy[64], weights[128], byte;
	struct test_checkpoint c;
	size_t i;
	(void)state;
	(void)snprintf(copy, sizeof copy, "%s/copy", folder);
	(void)snprintf(weights, sizeof weights, "%s/model.safetensors", copy);
	test_checkpoint_read(&c, "qwen3_moe");
	test_checkpoint_make(&c, "qwen3_moe", copy);
	open_with(copy, "tq3", NULL);
	assert_true(model_tensor_find(model.model, "model.norm.weight", &i));
	assert_int_equal(model_tensor_read(model.model, i, 200, &byte, 1, &e), 1);
	test_checkpoint_write(&c, 0, c.count - 1, weights);
	assert_true(model_tensor_read(model.model, i, 200, &byte, 1, &e) < 0);
	test_checkpoint_free(&c);
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			of_every_family_have_the_numbers_that_are_computed_with, setup, teardown),
		cmocka_unit_test_setup_teardown(are_as_published_where_nothing_is_quantised, setup,
						teardown),
		cmocka_unit_test_setup_teardown(of_experts_that_lie_across_come_from_every_group,
						setup, teardown),
		cmocka_unit_test_setup_teardown(that_were_published_in_codes_are_those, setup,
						teardown),
		cmocka_unit_test_setup_teardown(of_a_file_have_its_names_and_places, setup,
						teardown),
		cmocka_unit_test_setup_teardown(are_what_the_codes_of_the_store_say, setup,
						teardown),
		cmocka_unit_test_setup_teardown(can_be_read_from_any_byte_on, setup, teardown),
		cmocka_unit_test_setup_teardown(of_a_coded_store_are_the_same, setup, teardown),
		cmocka_unit_test_setup_teardown(are_found_by_their_names_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(of_a_source_that_was_changed_are_refused, setup,
						teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
