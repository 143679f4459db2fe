/* Models computed from their source files in place: the same bits as from a converted store,
 * nothing written but checksums of the bytes read, and a change under the mount reported. */
#include "checkpoint_help.h"
#include "convert_help.h"
#include "engine/source/package.h"
#include "forward_help.h"
#include "gguf_help.h"
#include "golden_run.h"
#include "store_help.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[32], stores[64];

static int setup(void **state)
{
	(void)state;
	test_folder_make(folder);
	(void)snprintf(stores, sizeof stores, "%s/stores", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_folder_remove(folder);
	return 0;
}

/* ---- running ---- */

static bool ends_in_place(const struct model *m)
{
	char recipe[64];
	assert_int_equal(model_fact(m, FACT_RECIPE, recipe, sizeof recipe), 0);
	assert_non_null(strstr(recipe, "as published: "));
	return strstr(recipe, ", in place");
}

static void open_with(struct golden_bench *b, const char *model, const char *golden,
		      uint64_t budget)
{
	golden_bench_open(
		b, model, golden,
		&(struct engine_options){.threads = 2, .store = stores, .budget = budget});
}

/* One mount's results and the place of its store. */
static struct golden_run run(const char *model, const char *golden, uint64_t budget, bool in_place,
			     size_t *slot, char store[512])
{
	struct golden_bench b;
	open_with(&b, model, golden, budget);
	assert_int_equal(ends_in_place(b.model), in_place);
	struct golden_run r = golden_run_make(&b);
	*slot = pager_slot_bytes(b.view.plan->slot_bytes);
	assert_int_equal(model_fact(b.model, FACT_STORE, store, 512), 0);
	golden_bench_close(&b);
	return r;
}

/* Of a folder that must have nothing else. */
static void assert_only(const char *path, const char *const *names)
{
	DIR *d = opendir(path);
	assert_non_null(d);
	for (struct dirent *f; (f = readdir(d));) {
		bool known = *f->d_name == '.';
		for (const char *const *n = names; *n; n++)
			known = known || !strcmp(*n, f->d_name);
		if (!known)
			fail_msg("%s has a file %s", path, f->d_name);
	}
	closedir(d);
}

static uint8_t *read_experts(const char *model, const char *golden, size_t *n)
{
	struct golden_bench b;
	struct err e;
	open_with(&b, model, golden, 0);
	size_t each = model_expert_bytes(b.model, 1), at = 0;
	*n = each * b.view.config->experts;
	uint8_t *bytes = malloc(*n + 1);
	for (uint32_t x = 0; x < b.view.config->experts; x++)
		for (size_t from = 0; from < each;) { /* in parts that end anywhere */
			int64_t got = model_expert_read(b.model, 1, x, from, bytes + at, 777, &e);
			assert_true(got > 0);
			from += (size_t)got;
			at += (size_t)got;
		}
	assert_int_equal(at, *n);
	golden_bench_close(&b);
	return bytes;
}

static void copy_into_store(const char *model, const char *store)
{
	struct test_conversion conversion = {0};
	struct err e;
	if (test_convert(&conversion, model, store, "auto", 2, &e))
		fail_msg("%s", e.text);
}

static void compare(const char *name, const char *model, const char *golden)
{
	static const char *const kept[] = {"sums", "heat", "checkpoint", NULL};
	char store[512], same[512];
	size_t slot, n, m;
	struct golden_run placed = run(model, golden, 0, true, &slot, store);
	assert_only(store, kept);
	for (const char *const *k = kept; *k; k++) {
		char path[600];
		(void)snprintf(path, sizeof path, "%s/%s", store, *k);
		assert_int_equal(access(path, R_OK), 0);
	}
	struct golden_run again = run(model, golden, slot, true, &slot, store); /* one expert */
	golden_assert_same_bits(&placed, &again);
	uint8_t *experts = read_experts(model, golden, &n);
	assert_only(store, kept);
	copy_into_store(model, store);
	struct golden_run copied = run(model, golden, 0, false, &slot, same);
	assert_string_equal(store, same);
	golden_assert_same_bits(&placed, &copied);
	uint8_t *stored = read_experts(model, golden, &m);
	assert_int_equal(n, m);
	assert_memory_equal(experts, stored, n);
	printf("%s: the same bits\n", name);
	free(experts);
	free(stored);
	golden_run_free(&placed);
	golden_run_free(&again);
	golden_run_free(&copied);
	test_folder_remove(stores);
}

/* ---- the same bits ---- */

/* The first is in the repository. */
static bool find(const char *type, const char *ending, char path[512])
{
	char name[64];
	bool own = !strcmp(type, "Q4_K_M");
	(void)snprintf(name, sizeof name, "fixtures/gguf/%s%s", type, ending);
	const char *at = own ? test_fixture("gguf") : shared_data(name);
	if (at)
		(void)snprintf(path, 512, own ? "%s/%s%s" : "%s", at, type, ending);
	return at;
}

static void gguf_files_compute_what_their_copies_do(void **state)
{
	(void)state;
	static const char *const types[] = {"Q4_K_M", "Q8_0", "Q6_K", "Q3_K_M", "Q2_K",	  "Q4_0",
					    "Q4_1",   "Q5_0", "Q5_1", "IQ4_NL", "IQ4_XS", "IQ3_S"};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		char model[512], golden[512];
		if (find(types[i], ".gguf", model) && find(types[i], ".golden.safetensors", golden))
			compare(types[i], model, golden);
	}
}

static void mlx_and_native_tq_compute_what_their_copies_do(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen3_moe_mlx4", "tq3_native",
					       "tq3_native_sensitive4"};
	for (int i = 0; i < 3; i++) {
		char model[512], golden[600];
		if (!test_fixture(fixtures[i]))
			continue;
		(void)snprintf(model, sizeof model, "%s", test_fixture(fixtures[i]));
		(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", model);
		compare(fixtures[i], model, golden);
	}
}

/* Experts whose gate and up rows alternate are not contiguous rows. */
static void what_lies_in_strides_is_copied(void **state)
{
	(void)state;
	char model[512], golden[600], store[512];
	size_t slot;
	if (!test_fixture("gpt_oss_mxfp4"))
		skip();
	(void)snprintf(model, sizeof model, "%s", test_fixture("gpt_oss_mxfp4"));
	(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", model);
	struct golden_run r = run(model, golden, 0, false, &slot, store);
	golden_run_free(&r);
	test_folder_remove(stores);
}

/* ---- exactly ---- */

struct exact_run {
	struct golden_run run;
	size_t slot;
	uint64_t peak;
	char recipe[64];
	char store[512];
};

static struct exact_run run_exactly(const char *model, const char *golden, const char *quant,
				    uint64_t budget)
{
	struct exact_run x;
	struct golden_bench b;
	struct pager_stats stats;
	golden_bench_open(&b, model, golden,
			  &(struct engine_options){.exact = !quant || strcmp(quant, "bf16") != 0,
						   .quant = quant,
						   .threads = 2,
						   .store = stores,
						   .budget = budget});
	x.run = golden_run_make(&b);
	const struct plan *p = b.view.plan;
	x.slot = pager_slot_bytes(p->slot_bytes);
	for (uint32_t i = 0; i < EXPERT_PARTS; i++) {
		const struct shape *s = &p->record[0].computed[i];
		assert_true(format_is_float(s->format));
		assert_int_equal(s->rows, p->record[0].part[i].rows);
	}
	engine_cache_stats(b.engine, &stats);
	x.peak = stats.peak;
	assert_int_equal(model_fact(b.model, FACT_RECIPE, x.recipe, sizeof x.recipe), 0);
	assert_int_equal(model_fact(b.model, FACT_STORE, x.store, sizeof x.store), 0);
	golden_bench_close(&b);
	return x;
}

/* The same as from a store of the same numbers in 32 bits, which is never written. */
static void compare_exactly(const char *name, const char *model, const char *golden, bool in_place)
{
	static const char *const kept[] = {"sums", "heat", "checkpoint", NULL};
	struct exact_run stored = run_exactly(model, golden, "bf16", 0),
			 all = run_exactly(model, golden, NULL, 0),
			 one = run_exactly(model, golden, NULL, all.slot);
	golden_assert_same_bits(&stored.run, &all.run);
	golden_assert_same_bits(&stored.run, &one.run);
	assert_true(one.peak <= all.slot);
	assert_string_not_equal(all.store, stored.store);
	if (in_place)
		assert_only(all.store, kept);
	assert_non_null(strstr(all.recipe, in_place ? ", in place, exact" : ", exact"));
	printf("%s: the same bits\n", name);
	golden_run_free(&stored.run);
	golden_run_free(&all.run);
	golden_run_free(&one.run);
	test_folder_remove(stores);
}

static void exact_mode_makes_numbers_of_codes_in_memory_alone(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen3_moe_mlx4", "tq3_native",
					       "tq3_native_sensitive4", "gpt_oss_mxfp4"};
	static const char *const types[] = {"Q4_K_M", "Q3_K_M", "IQ4_XS"};
	char model[512], golden[600];
	for (int i = 0; i < 4; i++) {
		if (!test_fixture(fixtures[i]))
			continue;
		(void)snprintf(model, sizeof model, "%s", test_fixture(fixtures[i]));
		(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", model);
		compare_exactly(fixtures[i], model, golden, i < 3);
	}
	for (int i = 0; i < 3; i++)
		if (find(types[i], ".gguf", model) && find(types[i], ".golden.safetensors", golden))
			compare_exactly(types[i], model, golden, true);
}

/* A mount of that store as a checkpoint computes exactly with the store's weights. */
static void a_store_in_codes_is_computed_with_exactly(void **state)
{
	(void)state;
	char model[512], golden[600], path[700];
	(void)snprintf(model, sizeof model, "%s", test_fixture("qwen3_moe"));
	(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", model);
	struct exact_run codes = run_exactly(model, golden, "tq3", 0);
	(void)snprintf(path, sizeof path, "%s", codes.store);
	struct exact_run numbers = run_exactly(path, golden, "bf16", 0);
	golden_assert_same_bits(&codes.run, &numbers.run);
	assert_string_equal(codes.recipe, "tq3, exact");
	assert_string_equal(numbers.recipe, "bf16 from native TQ");
	golden_run_free(&codes.run);
	golden_run_free(&numbers.run);
	test_folder_remove(stores);
}

/* ---- a file in two parts ---- */

struct reading {
	const uint8_t *at;
};

static uint64_t number(struct reading *r, size_t width)
{
	uint64_t n = 0;
	memcpy(&n, r->at, width);
	r->at += width;
	return n;
}

static void skip_string(struct reading *r)
{
	uint64_t n = number(r, 8);
	r->at += n;
}

static void skip_value(struct reading *r, uint64_t kind)
{
	static const size_t widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
	if (kind == 8) {
		skip_string(r);
	} else if (kind == 9) {
		uint64_t element = number(r, 4), count = number(r, 8);
		while (count-- > 0)
			skip_value(r, element);
	} else {
		r->at += widths[kind];
	}
}

struct info {
	char name[128];
	uint64_t shape[4], offset; /* rows first */
	size_t dims;
	uint32_t type;
};

static void read_info(struct reading *r, struct info *t)
{
	uint64_t n = number(r, 8);
	memcpy(t->name, r->at, n);
	t->name[n] = 0;
	r->at += n;
	t->dims = number(r, 4);
	for (size_t d = t->dims; d-- > 0;)
		t->shape[d] = number(r, 8);
	t->type = (uint32_t)number(r, 4);
	t->offset = number(r, 8);
}

static void add_split_keys(struct test_gguf *g, uint16_t part, uint32_t tensors)
{
	test_gguf_u16(g, "split.no", part);
	test_gguf_u16(g, "split.count", 2);
	test_gguf_u32(g, "split.tensors.count", tensors);
}

/* Every other tensor of a file goes to the second part, so that experts lie in both. */
static void split(const char *path, char first[128])
{
	size_t n;
	uint8_t *file = test_file_read(path, &n);
	struct reading r = {file + 8};
	uint64_t tensors = number(&r, 8), keys = number(&r, 8);
	const uint8_t *begin = r.at;
	struct test_gguf part[2] = {{.keys = keys}, {0}};
	struct info *info = calloc(tensors, sizeof *info);
	for (uint64_t i = 0; i < keys; i++) {
		skip_string(&r);
		skip_value(&r, number(&r, 4));
	}
	test_bytes_add(&part[0].key_bytes, begin, (size_t)(r.at - begin));
	for (uint64_t i = 0; i < tensors; i++)
		read_info(&r, &info[i]);
	size_t data = ((size_t)(r.at - file) + 31) / 32 * 32;
	for (uint64_t i = 0; i < tensors; i++) {
		size_t end = i + 1 < tensors ? data + info[i + 1].offset : n;
		test_gguf_tensor(&part[i % 2], info[i].name, info[i].type, info[i].shape,
				 info[i].dims, file + data + info[i].offset,
				 end - data - info[i].offset);
	}
	for (uint16_t k = 0; k < 2; k++) {
		char name[128];
		add_split_keys(&part[k], k, (uint32_t)tensors);
		(void)snprintf(name, sizeof name, "%s/part-%05u-of-00002.gguf", folder, k + 1U);
		test_gguf_write(&part[k], name);
		test_gguf_free(&part[k]);
	}
	(void)snprintf(first, 128, "%s/part-00001-of-00002.gguf", folder);
	free(info);
	free(file);
}

static void a_file_in_parts_is_used_in_place(void **state)
{
	(void)state;
	char whole[512], golden[512], first[128], store[512];
	size_t slot;
	assert_true(find("Q4_K_M", ".gguf", whole) &&
		    find("Q4_K_M", ".golden.safetensors", golden));
	split(whole, first);
	struct golden_run one = run(whole, golden, 0, true, &slot, store),
			  two = run(first, golden, 0, true, &slot, store);
	golden_assert_same_bits(&one, &two);
	golden_run_free(&one);
	golden_run_free(&two);
	compare("in two parts", first, golden);
}

/* ---- changes ---- */

static void copy_file(const char *from, const char *to)
{
	size_t n;
	uint8_t *bytes = test_file_read(from, &n);
	test_file_write(to, bytes, n);
	free(bytes);
}

/* Turns every code of all gates of a layer's experts. */
static void change_experts(const char *path)
{
	struct package *p;
	struct err e;
	if (package_open(&p, path, &e))
		fail_msg("%s", e.text);
	const struct package_tensor *t = package_find(p, "blk.1.ffn_gate_exps.weight");
	assert_non_null(t);
	uint64_t rows = package_rows(t);
	struct package_place at = package_place(t, 0, 0, (uint32_t)rows);
	FILE *f = fopen(path, "r+");
	uint8_t *bytes = malloc(at.bytes);
	assert_true(f && bytes && !package_read_part(p, t, 0, 0, (uint32_t)rows, bytes, &e));
	for (uint64_t i = 0; i < at.bytes; i++)
		bytes[i] ^= 0x10;
	assert_int_equal(fseek(f, (long)at.offset, SEEK_SET), 0);
	assert_int_equal(fwrite(bytes, 1, at.bytes, f), at.bytes);
	assert_int_equal(fclose(f), 0);
	free(bytes);
	package_close(p);
}

static int step(struct golden_bench *b, struct err *e)
{
	const uint32_t token = 5;
	context_rollback(&b->context, 0);
	return test_step(b->view.forward, &b->context, &token, 1, NULL, e);
}

/* With one expert in memory, all are read again. read: whether they were read before. */
static void check_change(bool read)
{
	char from[512], golden[512], model[64], store[512];
	struct golden_bench b;
	struct err e = {0};
	size_t slot;
	assert_true(find("Q4_K_M", ".gguf", from) && find("Q4_K_M", ".golden.safetensors", golden));
	(void)snprintf(model, sizeof model, "%s/changed.gguf", folder);
	copy_file(from, model);
	struct golden_run before = run(from, golden, 0, true, &slot, store);
	open_with(&b, model, golden, slot);
	if (read)
		assert_int_equal(step(&b, &e), 0);
	change_experts(model);
	assert_int_equal(step(&b, &e), -ESTALE);
	assert_non_null(strstr(e.text, "changed.gguf: was changed while mounted"));
	golden_bench_close(&b);
	/* After a new mount the source counts as it is now. */
	struct golden_run after = run(model, golden, 0, true, &slot, store);
	assert_memory_not_equal(before.logits, after.logits,
				(size_t)before.tokens * before.vocabulary * sizeof(float));
	golden_run_free(&before);
	golden_run_free(&after);
	test_folder_remove(stores);
}

static void a_change_of_bytes_already_read_is_reported(void **state)
{
	(void)state;
	check_change(true);
}

static void a_change_of_bytes_not_yet_read_is_reported(void **state)
{
	(void)state;
	check_change(false);
}

/* ---- NaN and infinity ---- */

static int read_expert(struct golden_bench *b, uint32_t expert, struct err *e)
{
	struct pager_batch batch;
	struct pager_ready ready;
	if (pager_begin(&batch, b->view.experts, 1, &expert, NULL, 1, 0, e))
		fail_msg("%s", e->text);
	int got = pager_next(&batch, &ready, 1, e);
	if (got > 0 && ready.error) {
		*e = *ready.error;
		got = -e->code;
	}
	if (got > 0)
		pager_put(&batch, &ready);
	pager_end(&batch);
	return got;
}

/* Sets a scale of expert 3's part of a tensor: of its bytes from `at` on. */
static void damage(const char *file, const char *path, const char *name, uint32_t part, size_t at,
		   uint16_t half)
{
	struct package *p;
	struct err e;
	if (package_open(&p, path, &e))
		fail_msg("%s", e.text);
	const struct package_tensor *t = package_find(p, name);
	assert_non_null(t);
	uint32_t each = (uint32_t)t->shape[1];
	struct package_place place = package_place(t, part, (uint64_t)3 * each, each);
	FILE *f = fopen(file, "r+");
	assert_true(f && !fseek(f, (long)(place.offset + at), SEEK_SET) &&
		    fwrite(&half, sizeof half, 1, f) == 1 && !fclose(f));
	package_close(p);
}

static void assert_damaged(const char *model, const char *golden, const char *name)
{
	for (int exact = 0; exact < 2; exact++)
		for (int again = 0; again < 2; again++) {
			struct golden_bench b;
			struct err e = {0};
			golden_bench_open(&b, model, golden,
					  &(struct engine_options){
						  .exact = exact, .threads = 2, .store = stores});
			assert_int_equal(read_expert(&b, 2, &e), 1);
			assert_int_equal(read_expert(&b, 3, &e), -EINVAL);
			assert_non_null(strstr(e.text, name));
			assert_non_null(strstr(e.text, "holds a NaN or an infinity in layer 1 "
						       "expert 3; the checkpoint is damaged"));
			assert_int_equal(read_expert(&b, 0, &e), 1);
			golden_bench_close(&b);
		}
	test_folder_remove(stores);
}

static void a_scale_that_is_no_number_is_an_error_that_names_its_expert(void **state)
{
	(void)state;
	static const char gguf[] = "blk.1.ffn_up_exps.weight",
			  mlx[] = "model.layers.1.mlp.switch_mlp.gate_proj.weight";
	char from[512], golden[600], model[64], file[128];
	assert_true(find("Q4_K_M", ".gguf", from) && find("Q4_K_M", ".golden.safetensors", golden));
	(void)snprintf(model, sizeof model, "%s/damaged.gguf", folder);
	copy_file(from, model);
	damage(model, model, gguf, 0, 2, 0xfc00); /* the second block's, of Q4_K: an offset */
	assert_damaged(model, golden, gguf);
	(void)snprintf(from, sizeof from, "%s", test_fixture("qwen3_moe_mlx4"));
	(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", from);
	(void)snprintf(model, sizeof model, "%s/damaged", folder);
	test_checkpoint_files("qwen3_moe_mlx4", model);
	(void)snprintf(file, sizeof file, "%s/model.safetensors", model);
	(void)snprintf(from + strlen(from), sizeof from - strlen(from), "/model.safetensors");
	copy_file(from, file);
	damage(file, model, mlx, 1, 6, 0x7fc0);
	assert_damaged(model, golden, mlx);
}

/* If the folder of stores cannot be made, nothing is saved and nothing fails; and nothing is ever
 * written beside the weights. */
static void without_a_folder_nothing_is_kept(void **state)
{
	(void)state;
	char model[64], golden[600], store[512], from[512], path[700];
	static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json",
					    "tokenizer_config.json", "generation_config.json"};
	size_t slot;
	assert_non_null(test_fixture("qwen3_moe_mlx4"));
	(void)snprintf(from, sizeof from, "%s", test_fixture("qwen3_moe_mlx4"));
	(void)snprintf(golden, sizeof golden, "%s/golden.safetensors", from);
	(void)snprintf(model, sizeof model, "%s/model", folder);
	assert_int_equal(mkdir(model, 0700), 0);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		char to[128];
		(void)snprintf(path, sizeof path, "%s/%s", from, files[i]);
		(void)snprintf(to, sizeof to, "%s/%s", model, files[i]);
		if (!access(path, R_OK))
			copy_file(path, to);
	}
	test_file_write(stores, "in the way", 10);
	for (int i = 0; i < 2; i++) {
		struct golden_run r = run(model, golden, 0, true, &slot, store);
		golden_run_free(&r);
	}
	static const char *const known[] = {
		"config.json",		 "model.safetensors",	   "tokenizer.json",
		"tokenizer_config.json", "generation_config.json", NULL};
	assert_only(model, known);
	assert_int_equal(unlink(stores), 0);
	test_folder_remove(model);
}

static void damaged_sums_are_made_anew(void **state)
{
	(void)state;
	char model[512], golden[512], store[512], path[600];
	size_t slot, n, m;
	assert_true(find("Q4_K_M", ".gguf", model) &&
		    find("Q4_K_M", ".golden.safetensors", golden));
	struct golden_run one = run(model, golden, 0, true, &slot, store);
	(void)snprintf(path, sizeof path, "%s/sums", store);
	uint8_t *sums = test_file_read(path, &n);
	sums[n / 2] ^= 1;
	test_file_write(path, sums, n);
	sums[n / 2] ^= 1;
	struct golden_run two = run(model, golden, 0, true, &slot, store);
	golden_assert_same_bits(&one, &two);
	uint8_t *again = test_file_read(path, &m);
	assert_int_equal(n, m);
	assert_memory_equal(sums, again, n); /* the bytes that were read are the same */
	free(sums);
	free(again);
	golden_run_free(&one);
	golden_run_free(&two);
	test_folder_remove(stores);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gguf_files_compute_what_their_copies_do),
		cmocka_unit_test(mlx_and_native_tq_compute_what_their_copies_do),
		cmocka_unit_test(exact_mode_makes_numbers_of_codes_in_memory_alone),
		cmocka_unit_test(a_store_in_codes_is_computed_with_exactly),
		cmocka_unit_test(what_lies_in_strides_is_copied),
		cmocka_unit_test(a_file_in_parts_is_used_in_place),
		cmocka_unit_test(a_change_of_bytes_already_read_is_reported),
		cmocka_unit_test(a_change_of_bytes_not_yet_read_is_reported),
		cmocka_unit_test(a_scale_that_is_no_number_is_an_error_that_names_its_expert),
		cmocka_unit_test(without_a_folder_nothing_is_kept),
		cmocka_unit_test(damaged_sums_are_made_anew),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
