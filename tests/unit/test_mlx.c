/* Checkpoints as MLX' converter writes them, of families whose tensors it renames or changes: each
 * computes the same bits as a checkpoint in the published layout with the same numbers in F32. */
#include "checkpoint_help.h"
#include "golden_run.h"
#include "kernels/format.h"
#include "store_help.h"

#include <json-c/json.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GROUP = 32, CODES = 8 /* of a word */, TENSORS_MOST = 512, NAME = 256 };

static bool ends(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);
	return n >= k && !strcmp(name + n - k, ending);
}

/* ---- tensors ---- */

/* The tensor of that name, made if need be, of zeros. */
static struct test_tensor *tensor_of(struct test_checkpoint *c, const char *name, const char *type,
				     size_t dims, const uint64_t *shape)
{
	for (size_t i = 0; i < c->count; i++)
		if (!strcmp(c->tensors[i].name, name))
			return &c->tensors[i];
	assert_true(c->count < TENSORS_MOST);
	struct test_tensor *t = &c->tensors[c->count++];
	*t = (struct test_tensor){.name = strdup(name), .dims = dims};
	(void)snprintf(t->type, sizeof t->type, "%s", type);
	memcpy(t->shape, shape, dims * sizeof *shape);
	t->bytes = !strcmp(type, "U8") ? 1 : !strcmp(type, "BF16") ? 2 : 4;
	for (size_t i = 0; i < dims; i++)
		t->bytes *= shape[i];
	t->data = calloc(1, t->bytes);
	assert_non_null(t->data);
	return t;
}

/* One group in 4 bits; x becomes the decoded values. */
static void quantise(float *x, uint32_t *words, uint16_t *scale, uint16_t *bias)
{
	float least = x[0], most = x[0];
	for (int i = 1; i < GROUP; i++) {
		least = fminf(least, x[i]);
		most = fmaxf(most, x[i]);
	}
	*scale = bf16_from_f32((most - least) / 15);
	*bias = bf16_from_f32(least);
	float s = bf16_to_f32(*scale), b = bf16_to_f32(*bias);
	for (int i = 0; i < GROUP; i++) {
		float code = s > 0 ? roundf((x[i] - b) / s) : 0;
		code = fminf(fmaxf(code, 0), 15);
		words[i / CODES] |= (uint32_t)code << i % CODES * 4;
		x[i] = (float)((double)code * (double)s + (double)b);
	}
}

/* Rows [first, first + rows) of t, a matrix or a stack, as rows [at, at + rows) of NAME.weight and
 * its companions, of `all` matrices of so many rows; t's numbers become those. */
static void put_rows(struct test_checkpoint *to, const char *name, struct test_tensor *t,
		     size_t first, size_t rows, size_t at, size_t all)
{
	size_t cols = t->shape[t->dims - 1], groups = cols / GROUP;
	size_t skip = all > 1 ? 0 : 1, dims = 3 - skip;
	const uint64_t codes[] = {all, rows, cols / CODES}, each[] = {all, rows, groups};
	char part[NAME];
	(void)snprintf(part, sizeof part, "%s.weight", name);
	uint32_t *words = (void *)tensor_of(to, part, "U32", dims, codes + skip)->data;
	(void)snprintf(part, sizeof part, "%s.scales", name);
	uint16_t *scales = (void *)tensor_of(to, part, "BF16", dims, each + skip)->data;
	(void)snprintf(part, sizeof part, "%s.biases", name);
	uint16_t *biases = (void *)tensor_of(to, part, "BF16", dims, each + skip)->data;
	float *x = (float *)(void *)t->data + first * cols;
	for (size_t i = 0; i < rows * groups; i++)
		quantise(x + i * GROUP, words + (at * groups + i) * (GROUP / CODES),
			 scales + at * groups + i, biases + at * groups + i);
}

/* ---- the converter's rules ---- */

struct kind {
	const char *fixture;
	const char *from, *to; /* beginnings of names */
	const char *stack;     /* what experts are in, in place of "experts" */
	bool hybrid, wrapped;  /* norms plus one; the head has the beginning, too */
	bool plain_router;     /* it stays numbers */
};

static void name_of(const struct kind *k, const char *name, char out[NAME])
{
	size_t n = strlen(k->from);
	if (!strncmp(name, k->from, n))
		(void)snprintf(out, NAME, "%s%s", k->to, name + n);
	else
		(void)snprintf(out, NAME, "%s%s", k->wrapped ? "language_model." : "", name);
	if (ends(out, ".weight"))
		out[strlen(out) - strlen(".weight")] = 0;
}

static bool put_expert(const struct kind *k, struct test_checkpoint *to, struct test_tensor *t,
		       const char *as, uint32_t experts)
{
	static const char *const parts[][2] = {
		{"w1", "gate_proj"}, {"w2", "down_proj"}, {"w3", "up_proj"}};
	char name[NAME], part[32];
	const char *at = strstr(as, ".experts.");
	uint32_t expert;
	if (!at || sscanf(at, ".experts.%u.%31s", &expert, part) != 2)
		return false;
	for (int i = 0; i < 3; i++)
		if (!strcmp(part, parts[i][0]))
			(void)snprintf(part, sizeof part, "%s", parts[i][1]);
	(void)snprintf(name, sizeof name, "%.*s.%s.%s", (int)(at - as), as, k->stack, part);
	put_rows(to, name, t, 0, t->shape[0], expert * t->shape[0], experts);
	return true;
}

/* Gate above up: each apart. */
static bool put_fused(const struct kind *k, struct test_checkpoint *to, struct test_tensor *t,
		      const char *as)
{
	static const char *const parts[] = {"gate_proj", "up_proj"};
	const char *at = strstr(as, ".experts.");
	bool fused = ends(as, "gate_up_proj");
	if (!at || t->dims != 3)
		return false;
	size_t each = t->shape[1], rows = fused ? each / 2 : each;
	for (size_t e = 0; e < t->shape[0]; e++)
		for (size_t half = 0; half < (fused ? 2 : 1); half++) {
			char name[NAME];
			(void)snprintf(name, sizeof name, "%.*s.%s.%s", (int)(at - as), as,
				       k->stack, fused ? parts[half] : "down_proj");
			put_rows(to, name, t, e * each + half * rows, rows, e * rows, t->shape[0]);
		}
	return true;
}

/* Numbers that stay numbers. */
static void put_plain(const struct kind *k, struct test_checkpoint *to, struct test_tensor *t,
		      const char *as)
{
	char name[NAME + 8];
	bool norm = k->hybrid && ends(t->name, "norm.weight") &&
		    !ends(t->name, "linear_attn.norm.weight");
	(void)snprintf(name, sizeof name, "%s%s", as, ends(t->name, ".weight") ? ".weight" : "");
	struct test_tensor *o = tensor_of(to, name, norm ? "BF16" : "F32", t->dims, t->shape);
	for (size_t i = 0; i < test_tensor_elements(t); i++) {
		float x = test_tensor_get(t, i);
		test_tensor_set(o, i, norm ? x + 1 : x);
		if (norm) /* as it was rounded */
			test_tensor_set(t, i, test_tensor_get(o, i) - 1);
	}
	if (ends(name, "conv1d.weight")) { /* [channels, 1, width] */
		o->shape[1] = t->shape[2];
		o->shape[2] = 1;
	}
}

/* Keys and values of a latent each apart, the keys' rows across. */
static bool put_latent(struct test_checkpoint *to, struct test_tensor *t, const char *as)
{
	enum { HEADS = 4, NOPE = 32, VALUE = 32, RANK = 32 };
	static const uint64_t keys[] = {HEADS, RANK, NOPE}, values[] = {HEADS, VALUE, RANK};
	if (!ends(as, "kv_b_proj"))
		return false;
	struct test_checkpoint none = {calloc(2, sizeof *none.tensors), 0};
	struct test_tensor *half[] = {tensor_of(&none, "keys", "F32", 3, keys),
				      tensor_of(&none, "values", "F32", 3, values)};
	float *x[] = {(void *)half[0]->data, (void *)half[1]->data}, *from = (void *)t->data;
	for (int back = 0; back < 2; back++) {
		for (size_t h = 0; h < HEADS; h++)
			for (size_t r = 0; r < NOPE + VALUE; r++)
				for (size_t i = 0; i < RANK; i++) {
					float *a = &from[(h * (NOPE + VALUE) + r) * RANK + i],
					      *b = r < NOPE ? &x[0][(h * RANK + i) * NOPE + r]
							    : &x[1]
								[(h * VALUE + r - NOPE) * RANK + i];
					*(back ? a : b) = back ? *b : *a;
				}
		for (size_t h = 0; h < HEADS && !back; h++)
			for (int i = 0; i < 2; i++) {
				static const char *const names[] = {"embed_q", "unembed_out"};
				char name[NAME];
				(void)snprintf(name, sizeof name, "%.*s%s",
					       (int)(strlen(as) - strlen("kv_b_proj")), as,
					       names[i]);
				put_rows(to, name, half[i], h * 32, 32, h * 32, HEADS);
			}
	}
	test_checkpoint_free(&none);
	return true;
}

/* gpt-oss' experts: blocks of MXFP4 by other names, rows of gate and up apart. */
static bool put_turned(struct test_checkpoint *to, const struct test_tensor *t)
{
	static const char *const parts[][2] = {
		{"_blocks", ".weight"}, {"_scales", ".scales"}, {"_bias", ".bias"}};
	const char *at = strstr(t->name, ".mlp.experts.");
	int kind = 0;
	while (kind < 3 && !ends(t->name, parts[kind][0]))
		kind++;
	if (!at || kind == 3)
		return false;
	bool both = strstr(at, "gate_up_proj");
	size_t turns = both ? 2 : 1, rows = t->shape[1] / turns;
	size_t bytes = t->bytes / t->shape[0] / t->shape[1];
	uint64_t shape[] = {t->shape[0], rows, kind ? t->shape[2] : t->shape[2] * 4};
	for (size_t turn = 0; turn < turns; turn++) {
		char name[NAME];
		(void)snprintf(name, sizeof name, "%.*s.mlp.experts.%s%s", (int)(at - t->name),
			       t->name,
			       !both  ? "down_proj"
			       : turn ? "up_proj"
				      : "gate_proj",
			       parts[kind][1]);
		struct test_tensor *o =
			tensor_of(to, name, kind == 0 ? "U32" : t->type, kind == 2 ? 2 : 3, shape);
		assert_int_equal(o->bytes * turns, t->bytes);
		for (size_t i = 0; i < shape[0] * rows; i++)
			memcpy(o->data + i * bytes, t->data + (i * turns + turn) * bytes, bytes);
	}
	return true;
}

static void put(const struct kind *k, struct test_checkpoint *to, struct test_tensor *t,
		uint32_t experts)
{
	char as[NAME];
	name_of(k, t->name, as);
	bool matrix = t->dims > 1 && t->shape[t->dims - 1] % GROUP == 0 &&
		      !(k->plain_router && ends(as, "mlp.gate"));
	if (put_turned(to, t) || put_latent(to, t, as))
		return;
	if (matrix && (put_expert(k, to, t, as, experts) || put_fused(k, to, t, as)))
		return;
	if (matrix)
		put_rows(to, as, t, 0, t->shape[0], 0, 1);
	else
		put_plain(k, to, t, as);
}

static struct json_object *codes(const char *mode)
{
	struct json_object *o = json_object_new_object();
	json_object_object_add(o, "group_size", json_object_new_int(GROUP));
	json_object_object_add(o, "bits", json_object_new_int(4));
	if (mode)
		json_object_object_add(o, "mode", json_object_new_string(mode));
	return o;
}

/* If experts are in MXFP4, the config names all other tensors as not quantised. */
static void say_codes(const char *at, const struct test_checkpoint *c)
{
	char path[128];
	(void)snprintf(path, sizeof path, "%s/config.json", at);
	struct json_object *config = json_object_from_file(path);
	assert_non_null(config);
	bool mxfp4 = json_object_object_get_ex(config, "quantization_config", NULL);
	struct json_object *all = codes(mxfp4 ? "mxfp4" : NULL);
	for (size_t i = 0; i < c->count && mxfp4; i++)
		if (ends(c->tensors[i].name, ".biases")) {
			char *module = strdup(c->tensors[i].name);
			module[strlen(module) - strlen(".biases")] = 0;
			json_object_object_add(all, module, codes(NULL));
			free(module);
		}
	json_object_object_add(config, "quantization", all);
	if (mxfp4) /* the same again, as the converter leaves it */
		json_object_object_add(config, "quantization_config", json_object_get(all));
	assert_int_equal(json_object_to_file(path, config), 0);
	json_object_put(config);
}

/* Both checkpoints of a fixture: without what a converter leaves out. */
static void make(const struct kind *k, const char *published, const char *mlx)
{
	struct test_checkpoint c, to = {calloc(TENSORS_MOST, sizeof *to.tensors), 0};
	uint32_t experts = 0, number;
	assert_non_null(to.tensors);
	test_checkpoint_read(&c, k->fixture);
	for (size_t i = c.count; i-- > 0;) {
		const char *name = c.tensors[i].name, *at = strstr(name, ".experts.");
		if (!strncmp(name, "mtp.", 4) || strstr(name, "visual."))
			test_tensor_remove(&c, name);
		else if (at && sscanf(at, ".experts.%u.", &number) == 1 && number >= experts)
			experts = number + 1;
	}
	for (size_t i = 0; i < c.count; i++) {
		if (strcmp(c.tensors[i].type, "U8") != 0)
			test_tensor_retype(&c.tensors[i], "F32");
		put(k, &to, &c.tensors[i], experts);
	}
	test_checkpoint_make(&c, k->fixture, published);
	test_checkpoint_make(&to, k->fixture, mlx);
	say_codes(mlx, &to);
	test_checkpoint_free(&c);
	test_checkpoint_free(&to);
}

/* ---- */

static const struct kind kinds[] = {
	{"qwen3_5_moe", "model.language_model.", "language_model.model.", "switch_mlp", true, true,
	 false},
	{"qwen3_5", "model.language_model.", "language_model.model.", "", true, true, false},
	{"qwen3_next", "model.", "model.", "switch_mlp", true, false, false},
	{"gemma4_moe", "model.", "language_model.model.", "experts.switch_glu", false, true, false},
	{"minimax_m2", "model.", "model.", "switch_mlp", false, false, false},
	{"glm4_moe", "model.", "model.", "switch_mlp", false, false, true},
	{"deepseek_v3", "model.", "model.", "switch_mlp", false, false, true},
	{"gpt_oss_mxfp4", "model.", "model.", "", false, false, false},
};

static struct golden_run run_of(const char *model, const char *golden, const char *quant)
{
	struct golden_bench b;
	golden_bench_open(&b, model, golden,
			  &(struct engine_options){.quant = quant, .threads = 2, .store = test_folder});
	struct golden_run r = golden_run_make(&b);
	golden_bench_close(&b);
	return r;
}

static double row_error(const struct golden_run *got, const struct golden_run *want, size_t t)
{
	double error = 0, power = 0;
	for (size_t i = t * want->vocabulary; i < (t + 1) * want->vocabulary; i++) {
		double d = (double)got->logits[i] - (double)want->logits[i];
		error += d * d;
		power += (double)want->logits[i] * (double)want->logits[i];
	}
	return error / power;
}

/* By default, from the files in place: only the 8-bit inputs differ, except where a router's
 * choice depended on them. */
static void assert_in_place(const char *model, const char *golden, const struct golden_run *exact)
{
	struct golden_bench b;
	char recipe[64];
	uint32_t near = 0;
	golden_bench_open(&b, model, golden,
			  &(struct engine_options){.threads = 2, .store = test_folder});
	assert_int_equal(model_fact(b.model, FACT_RECIPE, recipe, sizeof recipe), 0);
	assert_string_equal(recipe, "as published: MLX affine codes, in place");
	struct golden_run r = golden_run_make(&b);
	for (uint32_t t = 0; t < r.tokens; t++)
		near += row_error(&r, exact, t) < 5e-3;
	printf("by default %u of %u tokens are near\n", near, r.tokens);
	assert_true(near >= r.tokens * 3 / 4);
	golden_run_free(&r);
	golden_bench_close(&b);
}

static void what_the_converter_makes_of_each_family_is_computed_as_what_it_stands_for(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		char published[64], mlx[64], golden[600];
		if (!test_fixture(kinds[i].fixture))
			continue;
		printf("%s\n", kinds[i].fixture);
		(void)snprintf(published, sizeof published, "%s/published-%zu", test_folder, i);
		(void)snprintf(mlx, sizeof mlx, "%s/mlx-%zu", test_folder, i);
		make(&kinds[i], published, mlx);
		(void)snprintf(golden, sizeof golden, "%s/golden.safetensors",
			       test_fixture(kinds[i].fixture));
		struct golden_run a = run_of(published, golden, "bf16"),
				  b = run_of(mlx, golden, "bf16");
		golden_assert_same_bits(&a, &b);
		assert_in_place(mlx, golden, &b);
		golden_run_free(&a);
		golden_run_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			what_the_converter_makes_of_each_family_is_computed_as_what_it_stands_for),
	};
	return cmocka_run_group_tests(tests, test_folder_setup, test_folder_teardown);
}
