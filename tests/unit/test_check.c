/* Errors in a checkpoint, or in the place for its store, are reported when the model is opened,
 * not at the first prompt. */
#include "checkpoint_help.h"
#include "engine/model.h"
#include "fault_io.h"
#include "gguf_convert.h"
#include "golden.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char parent[32], source[64], stores[64];
static struct test_checkpoint c;
static struct engine *engine;
static struct model *model;
static struct err e;

static void begin_engine(const char *quant, const char *codec)
{
	const struct engine_options o = {
		.store = stores, .quant = quant, .codec = codec, .threads = 2, .budget = 64 << 20};
	engine_destroy(engine);
	engine = NULL;
	if (engine_create(&engine, &o, &e))
		fail_msg("%s", e.text);
}

static int setup(void **state)
{
	(void)state;
	memset(&faults, 0, sizeof faults);
	test_folder_make(parent);
	(void)snprintf(source, sizeof source, "%s/source", parent);
	(void)snprintf(stores, sizeof stores, "%s/stores", parent);
	test_checkpoint_read(&c, "qwen3_moe");
	test_checkpoint_make(&c, "qwen3_moe", source);
	begin_engine("tq3", NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_destroy(engine);
	engine = NULL;
	test_checkpoint_free(&c);
	test_folder_remove(parent);
	return 0;
}

static const char *in_source(const char *name)
{
	static char path[128];
	(void)snprintf(path, sizeof path, "%s/%s", source, name);
	return path;
}

static void assert_opens(void)
{
	if (model_open(&model, engine, source, &e))
		fail_msg("%s", e.text);
	model_close(model);
}

static void assert_refused(int code, const char *words, const char *remedy)
{
	e = (struct err){0};
	assert_int_equal(model_open(&model, engine, source, &e), -code);
	if (!strstr(e.text, words) || !strstr(e.text, remedy))
		fail_msg("'%s' has no '%s' or no '%s'", e.text, words, remedy);
}

static void what_is_complete_is_opened(void **state)
{
	(void)state;
	assert_opens();
	assert_int_equal(access(stores, F_OK), -1); /* nothing was made for it */
}

static void missing_files_are_named(void **state)
{
	(void)state;
	assert_int_equal(unlink(in_source("tokenizer.json")), 0);
	assert_refused(ENOENT, source, "no tokenizer (tokenizer.json or vocab.json)");
	test_file_write(in_source("vocab.json"), "{}", 2);
	assert_refused(ENOENT, "no merges.txt", "download");
	test_file_write(in_source("merges.txt"), "", 0);
	test_file_write(in_source("tokenizer_config.json"), "{}", 2);
	assert_opens();
	assert_int_equal(unlink(in_source("model.safetensors")), 0);
	assert_refused(ENOENT, "no weights", "download");
}

static void a_missing_shard_or_tensor_is_named(void **state)
{
	(void)state;
	static const char index[] =
		"{\"weight_map\":{\"model.norm.weight\":\"model-00001-of-00002.safetensors\"}}";
	test_file_write(in_source("model.safetensors.index.json"), index, sizeof index - 1);
	assert_refused(ENOENT, "model-00001-of-00002.safetensors", "No such file");
	assert_int_equal(unlink(in_source("model.safetensors.index.json")), 0);
	test_tensor_remove(&c, "model.norm.weight");
	test_checkpoint_make(&c, "qwen3_moe", source);
	assert_refused(ENOENT, "no tensor model.norm.weight", "download");
}

/* ---- everything that is missing ---- */

/* The lines of a model's table that begin with "missing", as one text. */
static void assert_missing_of(const char *path, const char *want)
{
	char *text, got[4096] = "";
	size_t length, used = 0;
	assert_int_equal(model_check(engine, path, &text, &length, &e) == 0, !*want);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strncmp(line, "missing ", 8))
			used += (size_t)snprintf(got + used, sizeof got - used, "%s\n", line + 8);
	assert_string_equal(got, want);
	free(text);
}

static void assert_missing(const char *want)
{
	assert_missing_of(source, want);
}

static void all_missing_parts_are_listed(void **state)
{
	(void)state;
	char first[512], part[600];
	test_gguf_convert(&(struct gguf_conversion){.fixture = "qwen3_moe",
						    .architecture = "qwen3moe",
						    .type = "BF16",
						    .parts = 4},
			  parent, "m", first);
	assert_missing_of(first, "");
	for (int i = 2; i < 4; i++) {
		(void)snprintf(part, sizeof part, "%s/m-%05d-of-00004.gguf", parent, i);
		assert_int_equal(unlink(part), 0);
	}
	assert_missing_of(first, "m-00002-of-00004.gguf\nm-00003-of-00004.gguf\n");
}

static void all_missing_files_are_listed(void **state)
{
	(void)state;
	static const char index[] =
		"{\"weight_map\":{\"model.norm.weight\":\"b.safetensors\","
		"\"lm_head.weight\":\"../c.safetensors\",\"z\":\"b.safetensors\","
		"\"y\":\"a.safetensors\",\"x\":\"model.safetensors\",\"w\":7}}",
			  pointer[] = "version https://git-lfs.github.com/spec/v1\n";
	assert_missing("");
	assert_int_equal(unlink(in_source("tokenizer.json")), 0);
	assert_int_equal(unlink(in_source("model.safetensors")), 0);
	assert_missing("tokenizer.json\nmodel.safetensors\n");
	test_file_write(in_source("vocab.json"), "{}", 2);
	test_file_write(in_source("config.json"), pointer, sizeof pointer - 1);
	assert_int_equal(unlink(in_source("tokenizer_config.json")), 0);
	test_file_write(in_source("model.safetensors.index.json"), index, sizeof index - 1);
	assert_missing("config.json\nmerges.txt\ntokenizer_config.json\na.safetensors\n"
		       "b.safetensors\nmodel.safetensors\n");
	test_file_write(in_source("a.safetensors"), pointer, sizeof pointer - 1);
	test_file_write(in_source("b.safetensors"), "", 0);
	assert_missing("config.json\nmerges.txt\ntokenizer_config.json\na.safetensors\n"
		       "model.safetensors\n");
}

static void all_missing_tensors_are_listed(void **state)
{
	(void)state;
	static const char *const gone[] = {"model.norm.weight", "model.layers.1.mlp.gate.weight",
					   "model.layers.2.mlp.experts.7.up_proj.weight",
					   "model.layers.2.mlp.experts.9.up_proj.weight"};
	for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
		test_tensor_remove(&c, gone[i]);
	test_checkpoint_make(&c, "qwen3_moe", source);
	assert_missing("model.layers.1.mlp.gate.weight\n"
		       "model.norm.weight\n"
		       "model.layers.2.mlp.switch_mlp.up_proj.weight or "
		       "model.layers.2.mlp.experts.7.up_proj.weight\n"
		       "model.layers.2.mlp.switch_mlp.up_proj.weight or "
		       "model.layers.2.mlp.experts.9.up_proj.weight\n");
}

static void a_pointer_of_git_lfs_is_called_one(void **state)
{
	(void)state;
	static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
				      "oid sha256:0123\nsize 4567\n";
	static const char *const names[] = {"config.json", "tokenizer.json", "model.safetensors"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t n;
		uint8_t *bytes = test_file_read(in_source(names[i]), &n);
		test_file_write(in_source(names[i]), pointer, sizeof pointer - 1);
		assert_refused(EINVAL, in_source(names[i]), "git lfs pull");
		test_file_write(in_source(names[i]), bytes, n);
		free(bytes);
	}
	/* A file that is not read may be a Git LFS pointer. */
	test_file_write(in_source("model.onnx"), pointer, sizeof pointer - 1);
	assert_opens();
}

static void a_store_without_room_is_refused_with_the_missing_amount(void **state)
{
	(void)state;
	char words[64];
	faults.free_bytes = 1000;
	assert_refused(ENOSPC, "the store needs", "-o store=");
	double need = strtod(strstr(e.text, "needs ") + 6, NULL);
	faults.free_bytes = (uint64_t)(need * 1e6) - 100000;
	(void)snprintf(words, sizeof words, "%.1f MB too few", .1);
	assert_refused(ENOSPC, words, "-o store=");
	faults.free_bytes = (uint64_t)(need * 1e6) + 100000;
	assert_opens();
	/* With this much space the store is made. */
	if (model_open(&model, engine, source, &e) || model_wait(model, &e))
		fail_msg("%s", e.text);
	model_close(model);
}

static void a_store_that_may_be_coded_needs_less(void **state)
{
	(void)state;
	double need[2];
	static const char *const codecs[] = {"none", "zstd"};
	for (int i = 0; i < 2; i++) {
		begin_engine("bf16", codecs[i]);
		faults.free_bytes = 1000;
		assert_refused(ENOSPC, "the store needs", "MB");
		need[i] = strtod(strstr(e.text, "needs ") + 6, NULL);
	}
	assert_true(need[1] < need[0] && need[1] > 0);
}

/* Simulates the disk's reservation of a file, which these tests otherwise skip. */
static void give_space(const char *name)
{
	char path[512], folder[256];
	struct stat st;
	assert_int_equal(model_fact(model, FACT_STORE, folder, sizeof folder), 0);
	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0 && !fstat(fd, &st) && !posix_fallocate(fd, 0, st.st_size));
	close(fd);
}

/* An interrupted conversion already has its space. */
static void existing_parts_of_a_store_need_no_room(void **state)
{
	(void)state;
	faults.free_bytes = 1000;
	assert_refused(ENOSPC, "the store needs", "MB");
	uint64_t half = (uint64_t)(strtod(strstr(e.text, "needs ") + 6, NULL) * 5e5);
	faults.free_bytes = 0;
	faults.fail_on = OP_SYNC; /* the disk fails while the store is begun */
	faults.fail_code = EIO;
	assert_int_equal(model_open(&model, engine, source, &e), 0);
	assert_int_equal(model_wait(model, &e), -EIO);
	give_space("experts.safetensors.partial");
	give_space("dense.safetensors.partial");
	model_close(model);
	faults.fail_on = 0;
	faults.free_bytes = half;
	assert_opens();
	test_folder_remove(stores);
	assert_refused(ENOSPC, "the store needs", "MB");
}

static void a_complete_store_is_checked_without_room_and_weights(void **state)
{
	(void)state;
	struct model_progress p;
	if (model_open(&model, engine, source, &e) || model_wait(model, &e))
		fail_msg("%s", e.text);
	do
		model_progress(model, &p);
	while (p.total || !model_expert_bytes(model, 0));
	model_close(model);
	faults.free_bytes = 1;
	assert_opens();
	assert_int_equal(unlink(in_source("tokenizer.json")), 0);
	assert_refused(ENOENT, "no tokenizer", "download");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	faults_begin();
	const struct CMUnitTest tests[] = {
		TEST(what_is_complete_is_opened),
		TEST(missing_files_are_named),
		TEST(a_missing_shard_or_tensor_is_named),
		TEST(all_missing_parts_are_listed),
		TEST(all_missing_files_are_listed),
		TEST(all_missing_tensors_are_listed),
		TEST(a_pointer_of_git_lfs_is_called_one),
		TEST(a_store_without_room_is_refused_with_the_missing_amount),
		TEST(a_store_that_may_be_coded_needs_less),
		TEST(existing_parts_of_a_store_need_no_room),
		TEST(a_complete_store_is_checked_without_room_and_weights),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
