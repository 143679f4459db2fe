/* Encodings of published weights, each against a plain, bit-by-bit reading of its definition.
 * Tensors that do not fit together are errors that name the tensor. */
#include "checkpoint_help.h"
#include "engine/source/package.h"
#include "golden.h"
#include "kernels/tq.h"
#include "store_help.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[32];
static struct test_checkpoint c;
static struct package *package;
static struct err e;

static int setup(void **state)
{
	(void)state;
	test_folder_make(folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	package_close(package);
	package = NULL;
	test_checkpoint_free(&c);
	test_folder_remove(folder);
	return 0;
}

/* ---- checkpoints ---- */

static const char *in_folder(const char *name)
{
	static char path[64];
	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void write_text(const char *name, const char *text)
{
	test_file_write(in_folder(name), text, strlen(text));
}

/* A tensor of bytes that follow from their place; shape ends with 0. */
static struct test_tensor *add(const char *name, const char *type, const uint64_t *shape)
{
	size_t width = strstr(type, "32") ? 4 : strstr(type, "16") ? 2 : 1;
	c.tensors = realloc(c.tensors, (c.count + 1) * sizeof *c.tensors);
	assert_non_null(c.tensors);
	struct test_tensor *t = &c.tensors[c.count++];
	*t = (struct test_tensor){.name = strdup(name), .bytes = width};
	(void)snprintf(t->type, sizeof t->type, "%s", type);
	for (; shape[t->dims]; t->dims++) {
		t->shape[t->dims] = shape[t->dims];
		t->bytes *= shape[t->dims];
	}
	t->data = malloc(t->bytes);
	assert_non_null(t->data);
	for (size_t i = 0; i < t->bytes; i++)
		t->data[i] = (uint8_t)((i * 2654435761U) >> 13);
	return t;
}
#define SHAPE(...) ((const uint64_t[]){__VA_ARGS__, 0})

/* Floats of moderate size, and no two alike. */
static struct test_tensor *add_floats(const char *name, const char *type, const uint64_t *shape)
{
	struct test_tensor *t = add(name, type, shape);
	for (size_t i = 0; i < test_tensor_elements(t); i++)
		test_tensor_set(t, i, ((float)(i * 37 % 101) - 50) / 64 + (float)i / 4096);
	return t;
}

static int open_package(void)
{
	test_checkpoint_write(&c, 0, c.count, in_folder("model.safetensors"));
	return package_open(&package, folder, &e);
}

static const struct package_tensor *get(const char *name)
{
	if (!package && open_package())
		fail_msg("%s", e.text);
	const struct package_tensor *t = package_find(package, name);
	if (!t)
		fail_msg("no tensor %s", name);
	return t;
}

/* A whole tensor, read a few rows at a time, so that pieces begin anywhere. */
static float *numbers(const struct package_tensor *t, uint32_t cols)
{
	uint64_t rows = package_rows(t);
	float *all = malloc(rows * cols * sizeof *all);
	assert_non_null(all);
	for (uint64_t r = 0; r < rows; r += 5) {
		uint32_t n = rows - r < 5 ? (uint32_t)(rows - r) : 5;
		if (package_read(package, t, r, n, cols, all + r * cols, &e))
			fail_msg("%s", e.text);
	}
	return all;
}

static void assert_refused(int code, const char *words)
{
	int failed = open_package();
	if (!failed)
		fail_msg("was not refused; %s was expected", words);
	if (failed != -code || !strstr(e.text, words))
		fail_msg("%d: \"%s\" does not say %s", failed, e.text, words);
}

/* ---- FP8 ---- */

static const char fp8_config[] = "{\"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": "
				 "\"e4m3\", \"weight_block_size\": [3, 32]}}";

/* By the definition: sign, 4 bits of exponent, 3 of mantissa, bias 7, no infinities. */
static double e4m3(uint8_t code)
{
	double sign = code & 0x80 ? -1 : 1;
	int exponent = code >> 3 & 15, mantissa = code & 7;
	if (exponent == 15 && mantissa == 7)
		return NAN;
	return exponent ? sign * (1 + mantissa / 8.) * pow(2, exponent - 7)
			: sign * mantissa / 8. * pow(2, -6);
}

static void an_fp8_number_is_its_code_times_the_scale_of_its_block(void **state)
{
	(void)state;
	static const char *const types[] = {"F32", "BF16", "F16"};
	write_text("config.json", fp8_config);
	for (int i = 0; i < 3; i++) { /* two matrices of 7 x 70, cut in blocks of 3 x 32 */
		add("w", "F8_E4M3", SHAPE(2, 7, 70));
		add_floats("w_scale_inv", types[i], SHAPE(2, 3, 3));
		const struct package_tensor *t = get("w");
		float *got = numbers(t, 70);
		assert_true(package_fits(t, SHAPE(2, 7, 70), 3));
		assert_int_equal(package_count(package), 1);
		for (size_t k = 0; k < 2 * 7 * 70; k++) {
			size_t m = k / 490, row = k % 490 / 70, col = k % 70;
			double want = e4m3(c.tensors[0].data[k]) *
				      (double)test_tensor_get(&c.tensors[1],
							      m * 9 + row / 3 * 3 + col / 32);
			if (isnan(want) ? !isnan(got[k]) : got[k] != (float)want)
				fail_msg("%s, number %zu is %g, not %g", types[i], k,
					 (double)got[k], want);
		}
		free(got);
		package_close(package);
		package = NULL;
		test_checkpoint_free(&c);
	}
}

/* DeepSeek-V4's names, and factors that are powers of two. */
static void an_fp8_number_may_be_its_code_times_a_power_of_two(void **state)
{
	(void)state;
	write_text("config.json", fp8_config);
	add("w.weight", "F8_E4M3", SHAPE(7, 70));
	add("w.scale", "F8_E8M0", SHAPE(3, 3));
	c.tensors[1].data[4] = 255;
	const struct package_tensor *t = get("w.weight");
	float *got = numbers(t, 70);
	assert_true(package_fits(t, SHAPE(7, 70), 2));
	assert_int_equal(package_count(package), 1);
	for (size_t k = 0; k < 7 * 70; k++) {
		uint8_t exponent = c.tensors[1].data[k / 70 / 3 * 3 + k % 70 / 32];
		double want = exponent == 255 ? NAN
					      : e4m3(c.tensors[0].data[k]) *
							pow(2, (double)exponent - 127);
		if (isnan(want) ? !isnan(got[k]) : got[k] != (float)want)
			fail_msg("number %zu is %g, not %g", k, (double)got[k], want);
	}
	free(got);
}

/* ---- MLX ---- */

/* The code that begins at bit i · bits of a stream, read bit by bit. */
static uint32_t code_of(const uint8_t *stream, size_t i, uint32_t bits)
{
	uint32_t code = 0;
	for (uint32_t b = 0; b < bits; b++) {
		size_t at = i * bits + b;
		code |= (uint32_t)(stream[at / 8] >> at % 8 & 1) << b;
	}
	return code;
}

static void check_affine(uint32_t bits, uint32_t group, const char *type)
{
	const uint32_t groups = 3, rows = 4, cols = groups * group;
	char config[128];
	(void)snprintf(config, sizeof config,
		       "{\"quantization\": {\"group_size\": %u, \"bits\": %u}}", group, bits);
	write_text("config.json", config);
	add("m.weight", "U32", SHAPE(2, rows, cols * bits / 32));
	add_floats("m.scales", type, SHAPE(2, rows, groups));
	add_floats("m.biases", type, SHAPE(2, rows, groups));
	const struct package_tensor *t = get("m.weight");
	assert_true(package_fits(t, SHAPE(2, rows, cols), 3));
	float *got = numbers(t, cols);
	for (size_t k = 0; k < (size_t)2 * rows * cols; k++) {
		double scale = (double)test_tensor_get(&c.tensors[1], k / group),
		       bias = (double)test_tensor_get(&c.tensors[2], k / group);
		float want = (float)(code_of(c.tensors[0].data, k, bits) * scale + bias);
		if (got[k] != want)
			fail_msg("%u bits in groups of %u, number %zu is %g, not %g", bits, group,
				 k, (double)got[k], (double)want);
	}
	free(got);
	package_close(package);
	package = NULL;
	test_checkpoint_free(&c);
}

static void an_mlx_number_is_its_code_times_the_scale_plus_the_bias_of_its_group(void **state)
{
	(void)state;
	static const uint32_t bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
	static const char *const types[] = {"BF16", "F16", "F32"};
	for (int b = 0; b < 6; b++)
		for (int g = 0; g < 3; g++)
			check_affine(bits[b], groups[g], types[(b + g) % 3]);
}

static void a_module_may_have_bits_of_its_own(void **state)
{
	(void)state;
	write_text("config.json",
		   "{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"a.gate\": "
		   "{\"group_size\": 32, \"bits\": 8}, \"a.up\": true, \"a.down\": false}}");
	static const char *const names[] = {"a.gate", "a.up"};
	for (int i = 0; i < 2; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "%s.weight", names[i]);
		add(name, "U32", SHAPE(2, 16));
		(void)snprintf(name, sizeof name, "%s.scales", names[i]);
		add_floats(name, "BF16", SHAPE(2, 2));
		(void)snprintf(name, sizeof name, "%s.biases", names[i]);
		add_floats(name, "BF16", SHAPE(2, 2));
	}
	add_floats("a.down.weight", "BF16", SHAPE(2, 5));
	assert_true(package_fits(get("a.gate.weight"), SHAPE(2, 64), 2));
	assert_true(package_fits(get("a.up.weight"), SHAPE(2, 128), 2));
	assert_true(package_fits(get("a.down.weight"), SHAPE(2, 5), 2));
	assert_int_equal(package_count(package), 3);
}

/* ---- MXFP4 ---- */

static void check_mxfp4(const char *codes, const char *type, const uint64_t *shape,
			const char *powers, const char *power_type)
{
	static const double values[16] = {0,   .5,  1,	1.5,  2,  3,  4,  6,
					  -0., -.5, -1, -1.5, -2, -3, -4, -6};
	add(codes, type, shape);
	struct test_tensor *scales = add(powers, power_type, SHAPE(2, 5, 3));
	for (size_t i = 0; i < scales->bytes; i++)
		scales->data[i] = (uint8_t)(i < 2 ? 254 * i : 120 + i % 14);
	scales->data[2] = 255;
	const struct package_tensor *t = get(codes);
	assert_true(package_fits(t, SHAPE(2, 5, 96), 3));
	assert_int_equal(package_count(package), 1);
	float *got = numbers(t, 96);
	for (size_t k = 0; k < 2 * 5 * 96; k++) {
		uint8_t code = c.tensors[0].data[k / 2] >> k % 2 * 4 & 15,
			scale = c.tensors[1].data[k / 32];
		float want = scale == 255 ? NAN : (float)(values[code] * pow(2, scale - 127));
		if (isnan(want) ? !isnan(got[k]) : got[k] != want)
			fail_msg("number %zu is %g, not %g", k, (double)got[k], (double)want);
	}
	free(got);
}

static void an_mxfp4_number_is_its_code_times_a_power_of_two(void **state)
{
	(void)state;
	check_mxfp4("w_blocks", "U8", SHAPE(2, 5, 3, 16), "w_scales", "U8");
}

/* DeepSeek-V4's. */
static void mxfp4_by_other_names_is_the_same(void **state)
{
	(void)state;
	check_mxfp4("w.weight", "I8", SHAPE(2, 5, 48), "w.scale", "F8_E8M0");
}

/* ---- native TQ ---- */

/* first: the format of 2 bits; kind: the part of its tensor and file names. */
static void check_groups(enum format first, const char *kind)
{
	static const char *const types[] = {"F32", "F16"};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		char name[32];
		bool old = bits & 1;
		/* The config says 3 bits for all of them; only their shapes count. */
		(void)snprintf(name, sizeof name, "%s_config.json", kind);
		write_text(name, "{\"format\": \"tq3_native\", \"bits\": 3, "
				 "\"group_size\": 128, \"quantizer_seed\": 42}");
		const char *stem = old ? "q.weight" : "q";
		(void)snprintf(name, sizeof name, "%s.%s_packed", stem, kind);
		add(name, "U8", SHAPE(6 * 2, 16 * bits));
		(void)snprintf(name, sizeof name, "%s.%s_norms", stem, kind);
		add_floats(name, types[bits % 2], SHAPE(6, 2));
		const struct package_tensor *t = get("q.weight");
		assert_ptr_equal(t, package_find(package, stem));
		/* Two matrices of three rows of 200 columns, flattened and padded. */
		assert_true(package_fits(t, SHAPE(2, 3, 200), 3));
		assert_true(package_fits(t, SHAPE(6, 256), 2));
		assert_false(package_fits(t, SHAPE(6, 128), 2));
		assert_false(package_fits(t, SHAPE(5, 200), 2));
		assert_int_equal(t->format, (int)first + (int)bits - 2);
		float *got = numbers(t, 200), want[200];
		const struct shape row = {
			.format = t->format, .norms = t->norms, .rows = 1, .cols = 200};
		for (size_t r = 0; r < 6; r++) {
			format_dequantise_row(
				want, &row,
				&(struct pieces){.weights = c.tensors[0].data + r * 32 * bits,
						 .scales = c.tensors[1].data +
							   r * c.tensors[1].bytes / 6});
			assert_memory_equal(got + r * 200, want, sizeof want);
		}
		free(got);
		package_close(package);
		package = NULL;
		test_checkpoint_free(&c);
	}
}

static void tq_is_read_with_the_bits_of_its_packed_shape_by_old_names_and_new(void **state)
{
	(void)state;
	check_groups(FORMAT_TQ2, "tq");
}

static void tc_is_read_in_the_same_way_by_names_of_its_own(void **state)
{
	(void)state;
	check_groups(FORMAT_TC2, "tc");
}

/* Two blocks: a scale of 1 and one of 2 (in F16), and whole numbers. */
static void blocks_of_8_bits_are_read_as_stores_have_them(void **state)
{
	(void)state;
	add("q.q8_0", "U8", SHAPE(3, 68));
	uint8_t *row = test_tensor_find(&c, "q.q8_0")->data;
	for (int k = 0; k < 2; k++) {
		const uint16_t scale = k ? 0x4000 : 0x3c00;
		memcpy(row + 34 * k, &scale, sizeof scale);
		for (int i = 0; i < 32; i++)
			row[34 * k + 2 + i] = (uint8_t)(int8_t)(i * 7 - 100);
	}
	const struct package_tensor *t = get("q.weight");
	assert_int_equal(t->format, FORMAT_Q8_0);
	assert_true(package_fits(t, SHAPE(3, 64), 2));
	assert_false(package_fits(t, SHAPE(3, 68), 2));
	float *got = numbers(t, 64);
	for (int i = 0; i < 64; i++)
		assert_true(got[i] == (float)((i % 32 * 7 - 100) * (1 + i / 32)));
	free(got);
}

/* ---- against the numbers that were encoded ---- */

static double relative_error(const float *got, const float *want, size_t n)
{
	double error = 0, norm = 0;
	for (size_t i = 0; i < n; i++) {
		double d = (double)got[i] - (double)want[i];
		error += d * d;
		norm += (double)want[i] * (double)want[i];
	}
	return sqrt(error / norm);
}

static struct package *open_fixture(const char *name)
{
	struct package *p;
	const char *path = test_fixture(name);
	if (!path)
		skip();
	if (package_open(&p, path, &e))
		fail_msg("%s", e.text);
	return p;
}

static float *all_of(const struct package *p, const char *name, size_t *count)
{
	const struct package_tensor *t = package_find(p, name);
	assert_non_null(t);
	uint64_t rows = package_rows(t);
	uint32_t cols = (uint32_t)t->shape[t->dims - 1];
	uint8_t *raw = malloc(rows * cols * sizeof(float));
	float *all = malloc(rows * cols * sizeof *all);
	assert_true(raw && all);
	if (package_read(p, t, 0, (uint32_t)rows, cols, raw, &e))
		fail_msg("%s", e.text);
	const struct shape s = {
		.format = package_read_format(t), .rows = 1, .cols = (uint32_t)(rows * cols)};
	format_dequantise_row(all, &s, &(struct pieces){.weights = raw});
	free(raw);
	*count = rows * cols;
	return all;
}

/* FP8 with 4 significant bits is off by at most 1/16, and by 2.6 % in the mean of squares. */
static void fp8_weights_are_near_those_they_were_made_of(void **state)
{
	(void)state;
	/* The one that may be missing first: a skip leaves nothing open. */
	struct package *from = open_fixture("deepseek_v3"), *p = open_fixture("deepseek_v3_fp8");
	size_t compared = 0;
	for (size_t i = 0; i < package_count(p); i++) {
		const struct package_tensor *t = package_tensor(p, i);
		size_t n, m;
		if (t->encoding != &encoding_fp8)
			continue;
		float *got = all_of(p, t->name, &n), *want = all_of(from, t->name, &m);
		assert_int_equal(n, m);
		double error = relative_error(got, want, n);
		if (!(error < .035))
			fail_msg("%s: %.3f", t->name, error);
		free(got);
		free(want);
		compared++;
	}
	assert_true(compared > 100);
	package_close(p);
	package_close(from);
}

/* The 16-bit experts lie [experts, in, out], the blocks [experts, out, in]. */
static void mxfp4_experts_are_near_those_they_were_made_of(void **state)
{
	(void)state;
	static const char *const names[] = {"gate_up_proj", "down_proj"};
	struct package *from = open_fixture("gpt_oss"), *p = open_fixture("gpt_oss_mxfp4");
	for (int i = 0; i < 6; i++) {
		char name[96];
		size_t n, m;
		(void)snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%s", i / 2,
			       names[i % 2]);
		float *want = all_of(from, name, &m);
		strcat(name, "_blocks");
		float *got = all_of(p, name, &n), *turned = malloc(n * sizeof *turned);
		assert_true(turned && n == m);
		const uint64_t *shape = package_find(p, name)->shape;
		for (size_t k = 0; k < n; k++) {
			size_t out = shape[1], in = shape[2], x = k / (out * in),
			       row = k / in % out, col = k % in;
			turned[k] = want[x * out * in + col * out + row];
		}
		double error = relative_error(got, turned, n);
		if (!(error < .16))
			fail_msg("%s: %.3f", name, error);
		free(got);
		free(want);
		free(turned);
	}
	package_close(p);
	package_close(from);
}

/* ---- hostile ---- */

/* An encoding's tensors, whole, and their config. */
static void make_whole(const char *kind)
{
	test_checkpoint_free(&c);
	package_close(package);
	package = NULL;
	write_text("tq_config.json", "{}");
	write_text("config.json", "{}");
	if (!strcmp(kind, "fp8")) {
		write_text("config.json", fp8_config);
		add("a.weight", "F8_E4M3", SHAPE(7, 70));
		add_floats("a.weight_scale_inv", "BF16", SHAPE(3, 3));
	} else if (!strcmp(kind, "mlx")) {
		write_text("config.json", "{\"quantization\": {\"group_size\": 64, \"bits\": 4}}");
		add("a.weight", "U32", SHAPE(4, 16));
		add_floats("a.scales", "BF16", SHAPE(4, 2));
		add_floats("a.biases", "BF16", SHAPE(4, 2));
	} else if (!strcmp(kind, "mlx-mxfp4")) {
		write_text("config.json", "{\"quantization\": {\"group_size\": 32, \"bits\": 4, "
					  "\"mode\": \"mxfp4\"}}");
		add("a.weight", "U32", SHAPE(4, 12));
		add("a.scales", "U8", SHAPE(4, 3));
	} else if (!strcmp(kind, "mxfp4")) {
		add("a_blocks", "U8", SHAPE(4, 3, 16));
		add("a_scales", "U8", SHAPE(4, 3));
	} else if (!strcmp(kind, "tc")) {
		add("a.weight.tc_packed", "U8", SHAPE(4 * 2, 48));
		add_floats("a.weight.tc_norms", "F32", SHAPE(4, 2));
	} else if (!strcmp(kind, "q8")) {
		add("a.weight.q8_0", "U8", SHAPE(4, 68));
	} else {
		add("a.weight.tq_packed", "U8", SHAPE(4 * 2, 48));
		add_floats("a.weight.tq_norms", "F32", SHAPE(4, 2));
	}
}

static void what_belongs_together_is_there_and_fits(void **state)
{
	(void)state;
	static const struct {
		const char *kind, *tensor, *type; /* NULL: it is not there */
		uint64_t shape[5];
		const char *words;
	} wrong[] = {
		{"fp8", "a.weight_scale_inv", NULL, {0}, "a.weight_scale_inv"},
		{"fp8", "a.weight_scale_inv", "BF16", {3, 2}, "a.weight_scale_inv"},
		{"fp8", "a.weight_scale_inv", "BF16", {2, 3}, "a.weight_scale_inv"},
		{"fp8", "a.weight_scale_inv", "BF16", {9}, "a.weight_scale_inv"},
		{"fp8", "a.weight_scale_inv", "I32", {3, 3}, "a.weight_scale_inv"},
		{"fp8", "a.weight", "F8_E4M3", {70}, "a.weight"},
		{"mlx", "a.scales", NULL, {0}, "a.scales"},
		{"mlx", "a.biases", NULL, {0}, "a.biases"},
		{"mlx", "a.biases", "U32", {4, 2}, "a.biases"},
		{"mlx", "a.scales", "BF16", {4, 3}, "a.scales"},
		{"mlx", "a.scales", "BF16", {2, 4}, "a.scales"},
		{"mlx", "a.weight", "U32", {4, 15}, "a.weight"},
		{"mlx", "a.weight", "U32", {4, 32}, "a.weight"},
		{"mlx", "a.weight", "U32", {64}, "a.weight"},
		{"mlx", "a.scales", "U8", {4, 2}, "config.json says affine codes"},
		{"mlx-mxfp4", "a.scales", NULL, {0}, "a.scales"},
		{"mlx-mxfp4", "a.scales", "U8", {4, 4}, "a.scales"},
		{"mlx-mxfp4", "a.scales", "U8", {12}, "a.scales"},
		{"mlx-mxfp4", "a.weight", "U32", {4, 13}, "a.weight"},
		{"mlx-mxfp4", "a.weight", "U32", {12}, "a.weight"},
		{"mxfp4", "a_scales", NULL, {0}, "a_scales"},
		{"mxfp4", "a_scales", "U8", {4, 4}, "a_scales"},
		{"mxfp4", "a_scales", "U8", {12}, "a_scales"},
		{"mxfp4", "a_scales", "F16", {4, 3}, "a_scales"},
		{"mxfp4", "a_blocks", "U8", {4, 3, 32}, "a_blocks"},
		{"tq", "a.weight.tq_norms", NULL, {0}, "a.weight.tq_norms"},
		{"tq", "a.weight.tq_norms", "F32", {8}, "a.weight.tq_norms"},
		{"tq", "a.weight.tq_norms", "F32", {4, 3}, "a.weight.tq_norms"},
		{"tq", "a.weight.tq_norms", "BF16", {4, 2}, "a.weight.tq_norms"},
		{"tq", "a.weight.tq_packed", "U8", {8, 40}, "a.weight.tq_packed"},
		{"tq", "a.weight.tq_packed", "U8", {8, 6, 8}, "a.weight.tq_packed"},
		{"tc", "a.weight.tc_norms", NULL, {0}, "a.weight.tc_norms"},
		{"tc", "a.weight.tc_norms", "F32", {4, 3}, "a.weight.tc_norms"},
		{"tc", "a.weight.tc_packed", "U8", {8, 40}, "a.weight.tc_packed"},
		{"q8", "a.weight.q8_0", "U8", {4, 67}, "a.weight.q8_0"},
		{"q8", "a.weight.q8_0", "U8", {4, 2, 34}, "a.weight.q8_0"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		make_whole(wrong[i].kind);
		assert_int_equal(open_package(), 0);
		package_close(package);
		package = NULL;
		test_tensor_remove(&c, wrong[i].tensor);
		if (wrong[i].type)
			add(wrong[i].tensor, wrong[i].type, wrong[i].shape);
		assert_refused(wrong[i].type ? EINVAL : ENOENT, wrong[i].words);
	}
}

static void what_config_json_says_of_codes_is_checked(void **state)
{
	(void)state;
	static const struct {
		const char *kind, *config;
		int code;
		const char *words;
	} wrong[] = {
		{"fp8", "{}", EINVAL, "weight_block_size"},
		{"fp8", "{\"quantization_config\": {\"quant_method\": \"fp8\"}}", ENOTSUP,
		 "weight_block_size"},
		{"fp8", "{\"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e5m2\"}}",
		 ENOTSUP, "e5m2"},
		{"fp8",
		 "{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": "
		 "[0, 128]}}",
		 EINVAL, "weight_block_size"},
		{"fp8",
		 "{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": "
		 "[128]}}",
		 EINVAL, "weight_block_size"},
		{"mlx", "{}", EINVAL, "\"quantization\""},
		{"mlx", "{\"quantization\": {\"group_size\": 64, \"bits\": 7}}", ENOTSUP, "7 bits"},
		{"mlx", "{\"quantization\": {\"group_size\": 48, \"bits\": 4}}", ENOTSUP,
		 "groups of 48"},
		{"mlx", "{\"quantization\": {\"group_size\": 64, \"bits\": 8}}", EINVAL,
		 "a.weight"},
		{"mlx",
		 "{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"a\": {\"bits\": 4}}}",
		 EINVAL, "group_size"},
		{"mlx",
		 "{\"quantization\": {\"group_size\": 32, \"bits\": 4, \"mode\": \"nvfp4\"}}",
		 ENOTSUP, "nvfp4"},
		{"mlx-mxfp4", "{}", EINVAL, "\"quantization\""},
		{"mlx-mxfp4", "{\"quantization\": {\"group_size\": 32, \"bits\": 4}}", EINVAL,
		 "config.json says affine codes"},
		{"mlx-mxfp4",
		 "{\"quantization\": {\"group_size\": 64, \"bits\": 4, \"mode\": \"mxfp4\"}}",
		 ENOTSUP, "groups of 64"},
		{"mxfp4", "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}",
		 ENOTSUP, "GPTQ"},
		{"mxfp4", "{\"quantization_config\": {\"quant_method\": \"awq\"}}", ENOTSUP, "AWQ"},
		{"mxfp4", "{\"quantization_config\": {\"quant_method\": \"bitsandbytes\"}}",
		 ENOTSUP, "bitsandbytes"},
		{"mxfp4", "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\"}}",
		 ENOTSUP, "compressed-tensors"},
		{"mxfp4",
		 "{\"text_config\": {\"quantization_config\": {\"quant_method\": \"new\"}}}",
		 ENOTSUP, "new"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		make_whole(wrong[i].kind);
		write_text("config.json", wrong[i].config);
		assert_refused(wrong[i].code, wrong[i].words);
	}
	make_whole("tq");
	write_text("tq_config.json", "{\"quantizer_seed\": 7}");
	assert_refused(ENOTSUP, "seed 7");
	make_whole("tq");
	write_text("tq_config.json", "{\"group_size\": 64}");
	assert_refused(ENOTSUP, "groups of 64");
	make_whole("tc");
	write_text("tc_config.json", "{\"quantizer_seed\": 7, \"version\": 1}");
	assert_refused(ENOTSUP, "seed 7");
	make_whole("tc");
	write_text("tc_config.json", "{\"version\": 2}");
	assert_refused(ENOTSUP, "version 2");
}

static void encodings_that_are_not_read_are_named_by_their_tensors(void **state)
{
	(void)state;
	static const char *const foreign[][2] = {{"q.qweight", "GPTQ"},
						 {"q.weight_packed", "compressed-tensors"},
						 {"q.weight.absmax", "bitsandbytes"}};
	for (int i = 0; i < 3; i++) {
		make_whole("tq");
		add(foreign[i][0], "I32", SHAPE(2, 2));
		assert_refused(ENOTSUP, foreign[i][1]);
	}
}

static void a_tensor_that_is_there_in_two_ways_is_refused(void **state)
{
	(void)state;
	make_whole("tq");
	add_floats("a.weight", "F16", SHAPE(4, 256));
	assert_refused(EINVAL, "twice");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_fp8_number_is_its_code_times_the_scale_of_its_block),
		TEST(an_mlx_number_is_its_code_times_the_scale_plus_the_bias_of_its_group),
		TEST(a_module_may_have_bits_of_its_own),
		TEST(an_mxfp4_number_is_its_code_times_a_power_of_two),
		TEST(mxfp4_by_other_names_is_the_same),
		TEST(an_fp8_number_may_be_its_code_times_a_power_of_two),
		TEST(tq_is_read_with_the_bits_of_its_packed_shape_by_old_names_and_new),
		TEST(tc_is_read_in_the_same_way_by_names_of_its_own),
		TEST(blocks_of_8_bits_are_read_as_stores_have_them),
		TEST(fp8_weights_are_near_those_they_were_made_of),
		TEST(mxfp4_experts_are_near_those_they_were_made_of),
		TEST(what_belongs_together_is_there_and_fits),
		TEST(what_config_json_says_of_codes_is_checked),
		TEST(encodings_that_are_not_read_are_named_by_their_tensors),
		TEST(a_tensor_that_is_there_in_two_ways_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
