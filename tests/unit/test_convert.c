/* Stores that conversions write, compared tensor by tensor with the checkpoint by the test's own
 * reader and dequantiser; and checkpoints that they refuse. */
#include "checkpoint_help.h"
#include "convert_help.h"
#include "engine/source/tensor_list.h"
#include "fault_io.h" /* it syncs nothing, so that many conversions take little time */
#include "golden.h"
#include "kernels/tc.h"
#include "memory_help.h"
#include "store_help.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

static char parent[32], source[64], store[64];
static struct test_checkpoint c;
static struct test_conversion conversion;
static struct err e;

static int setup(void **state)
{
	(void)state;
	test_folder_make(parent);
	(void)snprintf(source, sizeof source, "%s/source", parent);
	(void)snprintf(store, sizeof store, "%s/store", parent);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_checkpoint_free(&c);
	test_folder_remove(parent);
	return 0;
}

/* ---- TQ by the book (kernels/README.md), in double ---- */

static double level(uint32_t bits, uint32_t index)
{
	static const double tq2[] = {.040039923, .133466408};
	static const double tq3[] = {.2450940, .7560047, 1.3439084,
				     2.1519449}; /* times sqrt(128) */
	static const uint32_t tq4[] = {0x3c3669ec, 0x3d09e98b, 0x3d69b0e4, 0x3da7f06a,
				       0x3de059fc, 0x3e10d520, 0x3e39af1a, 0x3e75ed5a};
	uint32_t half = 1u << (bits - 1), i = index < half ? half - 1 - index : index - half;
	float four;
	memcpy(&four, &tq4[i % 8], sizeof four);
	double value = bits == 2 ? tq2[i % 2] : bits == 3 ? tq3[i % 4] / sqrt(128) : (double)four;
	return index < half ? -value : value;
}

static void flip_signs(double x[128], const char *mask)
{
	for (size_t i = 0; i < 128; i++) {
		char byte[3] = {mask[i / 8 * 2], mask[i / 8 * 2 + 1], 0};
		if (!(strtoul(byte, NULL, 16) >> i % 8 & 1))
			x[i] = -x[i];
	}
}

static void dequantise_group(double x[128], const uint8_t *packed, uint32_t bits, double norm)
{
	for (unsigned i = 0; i < 128; i++) {
		uint32_t index = 0;
		for (unsigned b = 0; b < bits; b++) {
			unsigned at = i * bits + b;
			index |= (uint32_t)(packed[at / 8] >> at % 8 & 1) << b;
		}
		x[i] = norm * level(bits, index) / sqrt(128);
	}
	flip_signs(x, "07d021a85ce6402438d201c5cbbf2514");
	for (unsigned h = 1; h < 128; h *= 2)
		for (unsigned i = 0; i < 128; i++)
			if (!(i & h)) {
				double a = x[i], b = x[i + h];
				x[i] = a + b;
				x[i + h] = a - b;
			}
	flip_signs(x, "2242d73f177cab01f6ba4affe75f6b65");
}

/* ---- a store against its source ---- */

struct quant {
	const char *name;
	uint32_t expert_bits, dense_bits; /* 0: kept */
	bool trellis;
	uint32_t out_bits, value_bits, small_bits; /* of a trellis; small_bits 0: in blocks */
};
static const struct quant quants[] = {
	{"tq2", 2, 4, false, 0, 0, 0}, {"tq3", 3, 4, false, 0, 0, 0},
	{"tq4", 4, 4, false, 0, 0, 0}, {"bf16", 0, 0, false, 0, 0, 0},
	{"2bit", 2, 2, true, 3, 3, 4}, {"3bit", 3, 3, true, 3, 4, 4},
};
/* Recipes with blocks: the formats of values, of a dense feed-forward's down, and of all others;
 * and of rows that are no whole groups. */
static const struct mixture {
	const char *name;
	enum format values, down, last, others, uneven;
} mixtures[] = {
	{"4bit", FORMAT_Q6_K, FORMAT_Q6_K, FORMAT_Q6_K, FORMAT_TC4, FORMAT_Q5_0},
	{"6bit", FORMAT_Q8_0, FORMAT_Q6_K, FORMAT_Q6_K, FORMAT_Q6_K, FORMAT_Q6_K},
	{"8bit", FORMAT_Q8_0, FORMAT_Q8_0, FORMAT_Q8_0, FORMAT_Q8_0, FORMAT_Q8_0},
};
/* Squared error of a group of Gaussian weights, relative, per bits. */
static const double expected_error[] = {[2] = .115, [3] = .0340, [4] = .0095},
		    expected_trellis_error[] = {[2] = .079, [3] = .022, [4] = .0059};

/* Routers and the like. */
static bool is_small(const char *name)
{
	static const char *const small[] = {"mlp.gate.weight", "block_sparse_moe.gate.weight",
					    "shared_expert_gate.weight"};
	for (size_t i = 0; i < sizeof small / sizeof *small; i++)
		if (strstr(name, small[i]))
			return true;
	return false;
}

static uint32_t bits_of(const struct quant *q, const char *name)
{
	if (strstr(name, ".experts."))
		return q->expert_bits;
	if (strstr(name, "shared_expert.down_proj.")) /* sensitive */
		return q->value_bits;
	if (strstr(name, ".v_proj.weight") && q->trellis)
		return q->value_bits;
	if (strstr(name, ".o_proj.weight") && q->trellis)
		return q->out_bits;
	if (is_small(name))
		return q->small_bits;
	bool feed = strstr(name, ".mlp.gate_proj.weight") || strstr(name, ".mlp.up_proj.weight") ||
		    strstr(name, ".mlp.down_proj.weight");
	if (feed && q->trellis) /* a dense model's feed-forwards */
		return q->expert_bits;
	return strstr(name, "_proj.weight") || !strcmp(name, "lm_head.weight") ? q->dense_bits : 0;
}

static void compare_tq(const struct golden *g, const struct test_tensor *t, const char *name,
		       uint32_t bits, const char *norm_type)
{
	char part[256];
	(void)snprintf(part, sizeof part, "%s.tq_packed", name);
	struct golden_tensor packed = golden_get(g, part, "U8");
	(void)snprintf(part, sizeof part, "%s.tq_norms", name);
	struct golden_tensor norms = golden_get(g, part, norm_type);
	size_t rows = t->shape[0], cols = t->shape[1], groups = (cols + 127) / 128;
	assert_int_equal(packed.shape[0], rows * groups);
	assert_int_equal(packed.shape[1], 16 * bits);
	assert_int_equal(norms.shape[0], rows);
	assert_int_equal(norms.shape[1], groups);
	double error = 0, power = 0;
	for (size_t i = 0; i < rows * groups; i++) {
		double x[128];
		uint16_t half;
		float norm;
		memcpy(&half, (const uint8_t *)norms.data + 2 * i, sizeof half);
		if (!strcmp(norm_type, "F32"))
			memcpy(&norm, (const uint8_t *)norms.data + 4 * i, sizeof norm);
		else
			norm = f16_to_f32(half);
		dequantise_group(x, (const uint8_t *)packed.data + i * 16 * bits, bits, norm);
		for (size_t k = 0; k < 128 && i % groups * 128 + k < cols; k++) {
			double w = test_tensor_get(t, i / groups * cols + i % groups * 128 + k);
			error += (x[k] - w) * (x[k] - w);
			power += w * w;
		}
	}
	/* Part of a padded group's error may be in the padding, which is never read. */
	double most = 1.2 * expected_error[bits],
	       least = .8 * expected_error[bits] * (double)cols / (double)(groups * 128);
	if (!(error / power > least && error / power < most))
		fail_msg("%s: relative error %.4f, not %.4f", name, error / power,
			 expected_error[bits]);
}

static void compare_tc(const struct golden *g, const struct test_tensor *t, const char *name,
		       uint32_t bits, const char *norm_type)
{
	char part[256];
	(void)snprintf(part, sizeof part, "%s.tc_packed", name);
	struct golden_tensor packed = golden_get(g, part, "U8");
	(void)snprintf(part, sizeof part, "%s.tc_norms", name);
	struct golden_tensor norms = golden_get(g, part, norm_type);
	const bool half = !strcmp(norm_type, "F16");
	size_t rows = t->shape[0], cols = t->shape[1], groups = (cols + 127) / 128;
	assert_int_equal(packed.shape[0], rows * groups);
	assert_int_equal(packed.shape[1], 16 * bits);
	const struct shape row = {
		.format = (enum format)(FORMAT_TC2 + bits - 2),
		.norms = half ? NORM_F16 : NORM_F32,
		.rows = 1,
		.cols = (uint32_t)cols};
	float x[1024];
	double error = 0, power = 0;
	assert_true(cols <= 1024);
	for (size_t r = 0; r < rows; r++) {
		format_dequantise_row(
			x, &row,
			&(struct pieces){(const uint8_t *)packed.data + r * groups * 16 * bits,
					 (const uint8_t *)norms.data + r * groups * (half ? 2 : 4),
					 NULL});
		for (size_t i = 0; i < cols; i++) {
			double w = test_tensor_get(t, r * cols + i);
			error += (x[i] - w) * (x[i] - w);
			power += w * w;
		}
	}
	double most = 1.2 * expected_trellis_error[bits],
	       least = .7 * expected_trellis_error[bits] * (double)cols / (double)(groups * 128);
	if (!(error / power > least && error / power < most))
		fail_msg("%s: relative error %.4f, not %.4f", name, error / power,
			 expected_trellis_error[bits]);
}

/* By the relative squared error of normally distributed numbers in this format. */
static void compare_blocks(const struct golden *g, const struct test_tensor *t, const char *name,
			   enum format format)
{
	static const double errors[FORMAT_COUNT] = {
		[FORMAT_Q8_0] = 2.8e-5, [FORMAT_Q6_K] = 3e-4, [FORMAT_Q5_0] = 1.65e-3};
	const struct shape row = {.format = format, .rows = 1, .cols = (uint32_t)t->shape[1]};
	const size_t bytes = format_packed_bytes(&row);
	char part[256];
	float x[1024];
	double error = 0, power = 0;
	(void)snprintf(part, sizeof part, "%s.%s", name, format_name(format));
	struct golden_tensor got = golden_get(g, part, "U8");
	assert_true(got.shape[0] == t->shape[0] && got.shape[1] == bytes && row.cols <= 1024);
	for (size_t r = 0; r < t->shape[0]; r++) {
		format_dequantise_row(
			x, &row,
			&(struct pieces){.weights = (const uint8_t *)got.data + r * bytes});
		for (size_t i = 0; i < row.cols; i++) {
			double w = test_tensor_get(t, r * row.cols + i);
			error += (x[i] - w) * (x[i] - w);
			power += w * w;
		}
	}
	if (!(error / power > .6 * errors[format] && error / power < 1.3 * errors[format]))
		fail_msg("%s: relative error %.2e, not %.2e", part, error / power, errors[format]);
}

static void compare_kept(const struct golden *g, const struct test_tensor *t, const char *name)
{
	struct golden_tensor got = golden_get(g, name, t->dims == 1 ? "F32" : t->type);
	assert_int_equal(got.dims, t->dims);
	assert_memory_equal(got.shape, t->shape, t->dims * sizeof *t->shape);
	if (t->dims == 2) {
		assert_int_equal(got.bytes, t->bytes);
		assert_memory_equal(got.data, t->data, t->bytes);
		return;
	}
	for (size_t i = 0; i < got.count; i++) {
		float value;
		memcpy(&value, (const uint8_t *)got.data + 4 * i, sizeof value);
		assert_true(value == test_tensor_get(t, i));
	}
}

static struct golden *open_part(const char *name)
{
	char path[128];
	(void)snprintf(path, sizeof path, "%s/%s", store, name);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_size ? golden_open(path) : NULL;
}

/* The number of tensors in a file by the engine's strict reader, which checks that they cover the
 * file without a gap. */
static size_t count_tensors(const char *name)
{
	char path[128];
	size_t n;
	uint64_t header;
	struct tensor_list list = {0};
	(void)snprintf(path, sizeof path, "%s/%s", store, name);
	uint8_t *bytes = test_file_read(path, &n);
	if (!n) {
		free(bytes);
		return 0;
	}
	memcpy(&header, bytes, sizeof header);
	assert_int_equal((8 + header) % 4096, 0);
	if (safetensors_parse(&list, (const char *)bytes + 8, header, n - 8 - header, 0, path, &e))
		fail_msg("%s", e.text);
	size_t count = list.count;
	tensor_list_free(&list);
	free(bytes);
	return count;
}

static void compare_store(const struct quant *q, const char *norm_type)
{
	struct golden *dense = open_part("dense.safetensors"),
		      *experts = open_part("experts.safetensors");
	size_t want = 0;
	for (size_t i = 0; i < c.count; i++) {
		const struct test_tensor *t = &c.tensors[i];
		const struct golden *g = strstr(t->name, ".experts.") ? experts : dense;
		uint32_t bits = bits_of(q, t->name);
		want += bits ? 2 : 1;
		if (bits && q->trellis)
			compare_tc(g, t, t->name, bits, norm_type);
		else if (bits)
			compare_tq(g, t, t->name, bits, norm_type);
		else
			compare_kept(g, t, t->name);
	}
	if (conversion.config.tied_head) {
		const struct test_tensor *t = test_tensor_find(&c, "model.embed_tokens.weight");
		want += q->dense_bits ? 2 : 1;
		if (q->dense_bits && q->trellis)
			compare_tc(dense, t, "lm_head.weight", q->dense_bits, norm_type);
		else if (q->dense_bits)
			compare_tq(dense, t, "lm_head.weight", q->dense_bits, norm_type);
		else
			compare_kept(dense, t, "lm_head.weight");
	}
	assert_int_equal(count_tensors("dense.safetensors") + count_tensors("experts.safetensors"),
			 want);
	golden_close(dense);
	if (experts)
		golden_close(experts);
}

static void convert_and_compare(const char *fixture, const struct quant *q, const char *norm_type)
{
	test_checkpoint_make(&c, fixture, source);
	if (test_convert(&conversion, source, store, q->name, 2, &e))
		fail_msg("%s, %s: %s", fixture, q->name, e.text);
	compare_store(q, norm_type);
	test_folder_remove(store);
}

/* ---- recipes with blocks ---- */

/* FORMAT_COUNT: it is kept. */
static enum format format_in_mixture(const struct mixture *q, const char *name, size_t cols)
{
	char last[32];
	(void)snprintf(last, sizeof last, "layers.%u.", conversion.config.layers - 1);
	enum format f = q->others;
	if (is_small(name))
		f = FORMAT_Q8_0;
	else if (strstr(name, ".v_proj.weight"))
		f = q->values;
	else if (strstr(name, ".mlp.down_proj.weight"))
		f = q->down;
	else if (strstr(name, last) && !conversion.config.experts)
		f = q->last;
	else if (!strstr(name, "_proj.weight") && strcmp(name, "lm_head.weight") != 0 &&
		 !strstr(name, ".experts."))
		return FORMAT_COUNT;
	if (format_is_tq(f) && cols % TQ_GROUP && cols % 32 == 0)
		f = strstr(name, ".q_proj.") || strstr(name, ".k_proj.") ? FORMAT_Q8_0 : q->uneven;
	if (f == FORMAT_Q6_K && cols % 256)
		f = FORMAT_Q8_0;
	return format_is_tq(f) || cols % 32 == 0 ? f : FORMAT_COUNT;
}

static void compare_in_mixture(const struct mixture *q, const struct golden *g,
			       const struct test_tensor *t, const char *name)
{
	enum format f = t->dims == 2 ? format_in_mixture(q, name, t->shape[1]) : FORMAT_COUNT;
	if (f == FORMAT_COUNT)
		compare_kept(g, t, name);
	else if (format_is_tq(f))
		compare_tc(g, t, name, format_tq_bits(f), "F16");
	else
		compare_blocks(g, t, name, f);
}

static void compare_mixture(const struct mixture *q)
{
	struct golden *dense = open_part("dense.safetensors"),
		      *experts = open_part("experts.safetensors");
	for (size_t i = 0; i < c.count; i++) {
		const struct test_tensor *t = &c.tensors[i];
		compare_in_mixture(q, strstr(t->name, ".experts.") ? experts : dense, t, t->name);
	}
	if (conversion.config.tied_head)
		compare_in_mixture(q, dense, test_tensor_find(&c, "model.embed_tokens.weight"),
				   "lm_head.weight");
	golden_close(dense);
	if (experts)
		golden_close(experts);
}

static void recipes_with_blocks_store_each_class_in_its_format(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen2", "qwen3", "qwen3_moe", "qwen2_moe"};
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++)
		for (size_t k = 0; k < sizeof mixtures / sizeof *mixtures; k++) {
			test_checkpoint_read(&c, fixtures[i]);
			test_checkpoint_make(&c, fixtures[i], source);
			if (test_convert(&conversion, source, store, mixtures[k].name, 2, &e))
				fail_msg("%s, %s: %s", fixtures[i], mixtures[k].name, e.text);
			compare_mixture(&mixtures[k]);
			test_folder_remove(store);
			test_checkpoint_free(&c);
		}
}

/* Under a sanitizer each recipe on two fixtures: the others differ only in numbers. */
static void every_fixture_and_recipe_is_stored_as_its_name_says(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen2",	    "qwen3",   "qwen3_moe",
					       "qwen2_moe", "mixtral", "olmoe"};
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		test_checkpoint_read(&c, fixtures[i]);
		for (size_t k = 0; k < sizeof quants / sizeof *quants; k++)
			if (!SANITIZED || (i + k) % 3 == 0)
				convert_and_compare(fixtures[i], &quants[k], "F16");
		test_checkpoint_free(&c);
	}
}

/* A trellis' rows are encoded some together; whether this tensor is stored so. Under a sanitizer,
 * where encoding a row again takes long, one of each 16. */
static bool compare_trellis(const struct golden *g, const struct test_tensor *t)
{
	struct golden_tensor packed, norms;
	char part[256];
	(void)snprintf(part, sizeof part, "%s.tc_packed", t->name);
	if (!golden_find(g, part, &packed))
		return false;
	(void)snprintf(part, sizeof part, "%s.tc_norms", t->name);
	norms = golden_get(g, part, "F16");
	const size_t cols = t->shape[1], groups = tq_groups((uint32_t)cols),
		     bytes = packed.shape[1];
	assert_in_range(cols, 1, 512);
	for (size_t r = 0; r < t->shape[0]; r += SANITIZED ? 16 : 1) {
		float x[512], norm[4];
		uint8_t want[4 * 64];
		for (size_t k = 0; k < cols; k++)
			x[k] = test_tensor_get(t, r * cols + k);
		assert_true(tc_quantise_row(want, norm, x, (uint32_t)cols, (uint32_t)bytes / 16));
		assert_memory_equal((const uint8_t *)packed.data + r * groups * bytes, want,
				    groups * bytes);
		for (size_t i = 0; i < groups; i++) {
			const uint16_t half = f16_from_f32(norm[i]);
			assert_memory_equal((const uint8_t *)norms.data + 2 * (r * groups + i),
					    &half, sizeof half);
		}
	}
	return true;
}

static void rows_of_a_trellis_are_stored_as_each_is_by_itself(void **state)
{
	(void)state;
	static const char *const names[] = {"2bit", "3bit", "4bit"};
	test_checkpoint_read(&c, "qwen3_moe");
	test_checkpoint_make(&c, "qwen3_moe", source);
	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		size_t whole = 0, padded = 0;
		if (test_convert(&conversion, source, store, names[k], 2, &e))
			fail_msg("%s: %s", names[k], e.text);
		struct golden *dense = open_part("dense.safetensors"),
			      *experts = open_part("experts.safetensors");
		for (size_t i = 0; i < c.count; i++) {
			const struct test_tensor *t = &c.tensors[i];
			const struct golden *g = strstr(t->name, ".experts.") ? experts : dense;
			if (t->dims == 2 && compare_trellis(g, t))
				*(t->shape[1] % TQ_GROUP ? &padded : &whole) += 1;
		}
		assert_true(whole > 0 && (padded > 0) == (k < 2)); /* 4bit pads no row */
		golden_close(dense);
		golden_close(experts);
		test_folder_remove(store);
	}
	test_checkpoint_free(&c);
}

static void all_three_float_types_are_kept_as_they_are(void **state)
{
	(void)state;
	static const char *const types[] = {"F16", "F32", "BF16"};
	test_checkpoint_read(&c, "qwen2");
	for (size_t i = 0; i < 3; i++) {
		for (size_t k = 0; k < c.count; k++)
			test_tensor_retype(&c.tensors[k], types[i]);
		convert_and_compare("qwen2", &quants[1], "F16");
		convert_and_compare("qwen2", &quants[3], "F16");
	}
}

static void matrices_of_different_types_are_kept_in_f32(void **state)
{
	(void)state;
	test_checkpoint_read(&c, "qwen3_moe");
	test_tensor_retype(test_tensor_find(&c, "model.layers.1.mlp.gate.weight"), "F32");
	test_checkpoint_make(&c, "qwen3_moe", source);
	assert_int_equal(test_convert(&conversion, source, store, "tq3", 2, &e), 0);
	for (size_t i = 0; i < c.count; i++)
		test_tensor_retype(&c.tensors[i], "F32");
	compare_store(&quants[1], "F16");
}

static void vectors_may_be_f32_beside_matrices_of_16_bits(void **state)
{
	(void)state;
	test_checkpoint_read(&c, "qwen3");
	for (size_t i = 0; i < c.count; i++)
		if (c.tensors[i].dims == 1)
			test_tensor_retype(&c.tensors[i], "F32");
	convert_and_compare("qwen3", &quants[1], "F16");
	/* Every byte of the source was counted, none twice. */
	size_t bytes = 0;
	for (size_t i = 0; i < c.count; i++)
		bytes += c.tensors[i].bytes;
	assert_int_equal(conversion.progress.done, bytes);
}

static void the_parts_of_an_expert_lie_side_by_side(void **state)
{
	(void)state;
	static const char *const parts[] = {
		"gate_proj.weight.tq_packed", "gate_proj.weight.tq_norms",
		"up_proj.weight.tq_packed",   "up_proj.weight.tq_norms",
		"down_proj.weight.tq_packed", "down_proj.weight.tq_norms"};
	test_checkpoint_read(&c, "qwen3_moe");
	test_checkpoint_make(&c, "qwen3_moe", source);
	assert_int_equal(test_convert(&conversion, source, store, "tq3", 2, &e), 0);
	struct golden *g = open_part("experts.safetensors");
	const uint8_t *next = NULL;
	for (unsigned layer = 0; layer < 3; layer++)
		for (unsigned x = 0; x < 16; x++)
			for (size_t i = 0; i < 6; i++) {
				char name[128];
				struct golden_tensor t;
				(void)snprintf(name, sizeof name,
					       "model.layers.%u.mlp.experts.%u.%s", layer, x,
					       parts[i]);
				t = golden_get(g, name, i % 2 ? "F16" : "U8");
				assert_true(!next || next == t.data);
				next = (const uint8_t *)t.data + t.bytes;
			}
	golden_close(g);
}

static void the_files_do_not_depend_on_the_number_of_threads(void **state)
{
	(void)state;
	static const char *const files[] = {"experts.safetensors", "dense.safetensors", "index"};
	char other[80], path[128];
	test_checkpoint_read(&c, "qwen3_moe");
	test_checkpoint_make(&c, "qwen3_moe", source);
	(void)snprintf(other, sizeof other, "%s/other", parent);
	assert_int_equal(test_convert(&conversion, source, store, NULL, 1, &e), 0);
	assert_int_equal(test_convert(&conversion, source, other, NULL, 5, &e), 0);
	for (size_t i = 0; i < 3; i++) {
		size_t n, m;
		(void)snprintf(path, sizeof path, "%s/%s", store, files[i]);
		uint8_t *one = test_file_read(path, &n);
		(void)snprintf(path, sizeof path, "%s/%s", other, files[i]);
		uint8_t *five = test_file_read(path, &m);
		assert_int_equal(n, m);
		assert_memory_equal(one, five, n);
		free(one);
		free(five);
	}
}

/* ---- norms ---- */

static void scale(const char *name, float factor)
{
	struct test_tensor *t = test_tensor_find(&c, name);
	for (size_t i = 0; i < test_tensor_elements(t); i++)
		test_tensor_set(t, i, test_tensor_get(t, i) * factor);
}

static void norms_beyond_f16_are_stored_in_f32(void **state)
{
	(void)state;
	static const float factors[] = {0x1p-24f, 0x1p20f};
	for (size_t i = 0; i < 2; i++) {
		test_checkpoint_read(&c, "qwen3_moe");
		scale("model.layers.2.mlp.experts.7.down_proj.weight", factors[i]);
		convert_and_compare("qwen3_moe", &quants[1], "F32");
		test_checkpoint_free(&c);
		test_checkpoint_read(&c, "qwen3");
		scale("model.layers.0.self_attn.v_proj.weight", factors[i]);
		convert_and_compare("qwen3", &quants[1], "F32");
		test_checkpoint_free(&c);
	}
}

/* Rows that are no whole groups are in blocks, whose scales are F16: then they are padded instead, in
 * the first table of the same recipe. */
static void numbers_beyond_blocks_are_stored_in_padded_groups(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen3_moe", "qwen3"},
			  *const names[] = {"model.layers.2.mlp.experts.7.down_proj.weight",
					    "model.layers.0.mlp.up_proj.weight"};
	for (size_t i = 0; i < 2; i++) {
		struct store *s;
		struct recipe asked;
		struct recipe stored;
		test_checkpoint_read(&c, fixtures[i]);
		scale(names[i], 0x1p30F);
		test_checkpoint_make(&c, fixtures[i], source);
		if (test_convert(&conversion, source, store, "4bit", 2, &e))
			fail_msg("%s: %s", fixtures[i], e.text);
		assert_int_equal(store_open(&s, store, NULL, &e), 0);
		const char *text = store_info(s)->key.recipe;
		assert_string_equal(text, "4bit kept bf16 norms f32");
		assert_int_equal(recipe_find(&asked, "4bit", &e), 0);
		assert_true(recipe_from_text(&stored, text) && recipe_includes(&asked, &stored));
		store_close(s);
		struct golden *g = open_part(i ? "dense.safetensors" : "experts.safetensors");
		compare_tc(g, test_tensor_find(&c, names[i]), names[i], 4, "F32");
		golden_close(g);
		test_folder_remove(store);
		test_checkpoint_free(&c);
	}
}

static void a_row_of_zeros_is_no_reason_for_f32_norms(void **state)
{
	(void)state;
	test_checkpoint_read(&c, "qwen3");
	struct test_tensor *t = test_tensor_find(&c, "model.layers.0.self_attn.v_proj.weight");
	memset(t->data, 0, t->shape[1] * 2);
	convert_and_compare("qwen3", &quants[1], "F16");
}

/* ---- refused checkpoints ---- */

/* The error names the tensor, and no store is left behind. */
static void assert_refused(const char *quant, int code, const char *word)
{
	struct store *s;
	struct err other;
	test_checkpoint_make(&c, "qwen3_moe", source);
	int failed = test_convert(&conversion, source, store, quant, 2, &e);
	if (failed != -code || !strstr(e.text, word))
		fail_msg("gave %d, \"%s\", not %d with \"%s\"", failed, e.text, -code, word);
	assert_int_equal(store_open(&s, store, NULL, &other), -ENOENT);
	assert_int_equal(access(store, F_OK), -1);
	test_checkpoint_free(&c);
}

static void a_tensor_that_the_model_does_not_know_is_named(void **state)
{
	(void)state;
	static const char *const names[] = {"model.layers.3.self_attn.q_proj.weight",
					    "model.layers.0.mlp.experts.16.up_proj.weight",
					    "model.layers.0.self_attn.q_proj.bias",
					    "model.layers.00.self_attn.q_proj.weight",
					    "",
					    "%s%n"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		test_checkpoint_read(&c, "qwen3_moe");
		test_tensor_copy(&c, "model.layers.0.self_attn.q_proj.weight", names[i]);
		assert_refused(NULL, EINVAL, names[i]);
	}
}

static void a_missing_tensor_is_named(void **state)
{
	(void)state;
	static const char *const names[] = {"model.embed_tokens.weight", "lm_head.weight",
					    "model.norm.weight", "model.layers.1.mlp.gate.weight",
					    "model.layers.2.mlp.experts.15.down_proj.weight"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		test_checkpoint_read(&c, "qwen3_moe");
		test_tensor_remove(&c, names[i]);
		assert_refused(NULL, ENOENT, names[i]);
	}
}

static void a_misshapen_tensor_is_named_with_both_shapes(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		size_t dims;
		uint64_t shape[3];
	} wrong[] = {
		{"model.layers.0.mlp.experts.3.up_proj.weight", 2, {128, 96}},
		{"model.layers.0.mlp.experts.3.up_proj.weight", 1, {12288}},
		{"model.layers.0.mlp.experts.3.up_proj.weight", 3, {96, 128, 1}},
		{"model.norm.weight", 2, {128, 1}},
		{"model.norm.weight", 2, {1, 128}},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		test_checkpoint_read(&c, "qwen3_moe");
		struct test_tensor *t = test_tensor_find(&c, wrong[i].name);
		t->dims = wrong[i].dims;
		memcpy(t->shape, wrong[i].shape, sizeof wrong[i].shape);
		assert_refused(NULL, EINVAL, wrong[i].name);
		assert_non_null(strstr(e.text, "128"));
	}
}

static void a_type_that_is_not_computed_with_is_named(void **state)
{
	(void)state;
	test_checkpoint_read(&c, "qwen3_moe");
	struct test_tensor *t = test_tensor_find(&c, "model.layers.0.self_attn.k_proj.weight");
	(void)snprintf(t->type, sizeof t->type, "I16");
	assert_refused(NULL, ENOTSUP, t->name);
	assert_non_null(strstr(e.text, "I16"));
}

static void a_weight_that_is_no_number_is_an_error_that_names_its_tensor(void **state)
{
	(void)state;
	static const char *const names[] = {"model.layers.1.mlp.experts.5.gate_proj.weight",
					    "model.layers.0.self_attn.o_proj.weight",
					    "model.layers.1.mlp.gate.weight",
					    "model.embed_tokens.weight", "model.norm.weight"};
	static const char *const quant[] = {"bf16", "tq3", "3bit"};
	static const float values[] = {NAN, INFINITY, -INFINITY};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		for (size_t k = 0; k < 3; k++) {
			test_checkpoint_read(&c, "qwen3_moe");
			struct test_tensor *t = test_tensor_find(&c, names[i]);
			test_tensor_set(t, test_tensor_elements(t) - 1, values[(i + k) % 3]);
			assert_refused(quant[k], EINVAL, names[i]);
			assert_non_null(strstr(e.text, "holds a NaN or an infinity"));
		}
	for (size_t k = 1; k < 3; k++) {
		test_checkpoint_read(&c, "qwen3_moe");
		test_tensor_set(test_tensor_find(&c, names[0]), 7, 3e38f);
		assert_refused(quant[k], EINVAL, names[0]);
		assert_non_null(strstr(e.text, "numbers above 1e18"));
	}
}

static void a_model_of_absurd_size_is_refused_before_memory_is_taken(void **state)
{
	(void)state;
	static struct config absurd;
	static struct plan p;
	static const char text[] =
		"{\"model_type\":\"qwen2\",\"hidden_size\":1048576,\"num_hidden_layers\":1024,"
		"\"vocab_size\":16777216,\"max_position_embeddings\":4096,"
		"\"num_attention_heads\":256,\"head_dim\":4096,"
		"\"intermediate_size\":1048576,\"rope_theta\":10000}";
	struct recipe r;
	assert_int_equal(config_parse(&absurd, text, sizeof text - 1, "config.json", &e), 0);
	assert_int_equal(recipe_find(&r, NULL, &e), 0);
	assert_int_equal(plan_make(&p, &absurd, &r, &e), -EFBIG);
	assert_non_null(strstr(e.text, "config.json"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		TEST(every_fixture_and_recipe_is_stored_as_its_name_says),
		TEST(recipes_with_blocks_store_each_class_in_its_format),
		TEST(rows_of_a_trellis_are_stored_as_each_is_by_itself),
		TEST(all_three_float_types_are_kept_as_they_are),
		TEST(matrices_of_different_types_are_kept_in_f32),
		TEST(vectors_may_be_f32_beside_matrices_of_16_bits),
		TEST(the_parts_of_an_expert_lie_side_by_side),
		TEST(the_files_do_not_depend_on_the_number_of_threads),
		TEST(norms_beyond_f16_are_stored_in_f32),
		TEST(numbers_beyond_blocks_are_stored_in_padded_groups),
		TEST(a_row_of_zeros_is_no_reason_for_f32_norms),
		TEST(a_tensor_that_the_model_does_not_know_is_named),
		TEST(a_missing_tensor_is_named),
		TEST(a_misshapen_tensor_is_named_with_both_shapes),
		TEST(a_type_that_is_not_computed_with_is_named),
		TEST(a_model_of_absurd_size_is_refused_before_memory_is_taken),
		TEST(a_weight_that_is_no_number_is_an_error_that_names_its_tensor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
