/* GGUF files as models: paths, configs made from keys, and refusals of files that are not what
 * they claim. */
#include "checkpoint_help.h"
#include "engine/family/gguf_family.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "engine/session.h"
#include "engine/source/gguf.h"
#include "gguf_convert.h"
#include "golden.h"
#include "store_help.h"

#include <errno.h>
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
static struct gguf_conversion plain; /* keys of a small file; each test changes some */

static int setup(void **state)
{
	(void)state;
	test_folder_make(folder);
	e = (struct err){0};
	plain = (struct gguf_conversion){
		.fixture = "qwen3_moe", .architecture = "qwen3moe", .type = "BF16"};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_folder_remove(folder);
	return 0;
}

/* Valid until the fourth next call. */
static const char *in_folder(const char *name)
{
	static char paths[4][512];
	static int next;
	char *path = paths[next++ % 4];
	(void)snprintf(path, sizeof *paths, "%s/%s", folder, name);
	return path;
}

/* The error of opening and loading a model. */
static int open_model(const char *path, char name[128])
{
	struct engine *g;
	struct model *m;
	struct engine_options o = {.store = in_folder("stores.moefs")};
	assert_int_equal(engine_create(&g, &o, &e), 0);
	int failed = model_open(&m, g, path, &e);
	if (!failed) {
		(void)snprintf(name, 128, "%s", model_name(m));
		failed = model_wait(m, &e);
		model_close(m);
	}
	engine_destroy(g);
	return failed;
}

static void assert_opens(const char *path, const char *name)
{
	char is[128];
	if (open_model(path, is))
		fail_msg("%s: %s", path, e.text);
	assert_string_equal(is, name);
}

static void assert_refused(const char *path, int code, const char *words)
{
	char name[128];
	int failed = open_model(path, name);
	if (failed != -code || !strstr(e.text, words))
		fail_msg("%s: gave %d, \"%s\", not \"%s\"", path, failed, e.text, words);
}

static void make_folder(const char *name)
{
	assert_int_equal(mkdir(in_folder(name), 0700), 0);
}

/* ---- paths ---- */

static void a_gguf_file_is_a_model_of_its_name(void **state)
{
	(void)state;
	char path[512];
	test_gguf_convert(&plain, folder, "Tiny-Q", path);
	assert_opens(path, "Tiny-Q");
	assert_opens(folder, "Tiny-Q"); /* and the only one in its folder */
	test_file_write(in_folder("mmproj-Tiny.gguf"), "GGUF", 4);
	assert_opens(folder, "Tiny-Q");
	test_file_write(in_folder("config.json"), "{}", 2); /* as folders of such files have */
	assert_opens(folder, "Tiny-Q");
	test_gguf_convert(&plain, folder, "Other", path);
	assert_refused(folder, EINVAL, "2 models in GGUF files");
	make_folder("more"); /* then it is a folder of models */
	assert_refused(folder, ENOENT, "GGUF files and folders");
}

static void a_split_file_is_opened_by_its_first_part(void **state)
{
	(void)state;
	char path[512];
	plain.parts = 3;
	test_gguf_convert(&plain, folder, "Big", path);
	assert_opens(path, "Big");
	assert_opens(folder, "Big");
	assert_refused(in_folder("Big-00002-of-00003.gguf"), ENOENT, "give the first part");
	/* A missing part, a wrong part, and a part that claims to be another. */
	char moved[512];
	(void)snprintf(moved, sizeof moved, "%s", in_folder("hidden"));
	assert_int_equal(rename(in_folder("Big-00003-of-00003.gguf"), moved), 0);
	assert_refused(path, ENOENT, "Big-00003-of-00003.gguf, part 3 of 3");
	size_t n;
	uint8_t *second = test_file_read(in_folder("Big-00002-of-00003.gguf"), &n);
	test_file_write(in_folder("Big-00003-of-00003.gguf"), second, n);
	free(second);
	assert_refused(path, EINVAL, "is part 2 of 3");
	assert_int_equal(unlink(in_folder("Big-00003-of-00003.gguf")), 0);
	assert_int_equal(rename(moved, in_folder("Big-00003-of-00003.gguf")), 0);
	assert_opens(path, "Big");
}

static void a_split_file_under_another_name_is_refused(void **state)
{
	(void)state;
	char path[512];
	plain.parts = 2;
	test_gguf_convert(&plain, folder, "Big", path);
	assert_int_equal(rename(path, in_folder("renamed.gguf")), 0);
	assert_refused(in_folder("renamed.gguf"), EINVAL, "part 1 of 2");
}

static void a_hub_s_cache_shows_the_model_s_name(void **state)
{
	(void)state;
	char path[512], at[512], blob[512];
#define HUB "models--Some-Org--Tiny-Model"
	make_folder(HUB);
	make_folder(HUB "/refs");
	make_folder(HUB "/snapshots");
	make_folder(HUB "/snapshots/abc");
	make_folder(HUB "/blobs");
	assert_refused(in_folder(HUB), EINVAL, "download complete");
	(void)snprintf(at, sizeof at, "%s", in_folder(HUB "/snapshots/abc"));
	test_checkpoint_files("qwen3_moe", at);
	struct test_checkpoint c;
	test_checkpoint_read(&c, "qwen3_moe");
	test_checkpoint_make(&c, "qwen3_moe", at);
	test_checkpoint_free(&c);
	assert_opens(at, "Tiny-Model");
	assert_opens(in_folder(HUB), "Tiny-Model"); /* the only snapshot */
	make_folder(HUB "/snapshots/0ld");
	assert_refused(in_folder(HUB), EINVAL, "refs/main");
	test_file_write(in_folder(HUB "/refs/main"), "abc\n", 4);
	assert_opens(in_folder(HUB), "Tiny-Model");
	test_file_write(in_folder(HUB "/refs/main"), "../abc", 6);
	assert_refused(in_folder(HUB), EINVAL, "refs/main");
	/* A GGUF file there is a link to a name that says nothing. */
	test_file_write(in_folder(HUB "/refs/main"), "0ld", 3);
	(void)snprintf(blob, sizeof blob, "%s", in_folder(HUB "/blobs"));
	test_gguf_convert(&plain, blob, "0123", path);
	assert_int_equal(
		symlink("../../blobs/0123.gguf", in_folder(HUB "/snapshots/0ld/Tiny-BF16.gguf")),
		0);
	assert_opens(in_folder(HUB), "Tiny-BF16");
}

static void a_file_that_is_no_model_is_named_by_its_kind(void **state)
{
	(void)state;
	static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
	assert_refused(folder, ENOENT, "no config.json and no GGUF file");
	test_file_write(in_folder("a.gguf"), pointer, sizeof pointer - 1);
	assert_refused(in_folder("a.gguf"), EINVAL, "git lfs pull");
	test_file_write(in_folder("a.gguf"), "GGML", 4);
	assert_refused(in_folder("a.gguf"), EINVAL, "not a GGUF file");
	test_file_write(in_folder("a.gguf.incomplete"), "GGUF", 4);
	assert_refused(in_folder("a.gguf.incomplete"), EINVAL, "an unfinished download");
	assert_int_equal(unlink(in_folder("a.gguf")), 0);
	assert_refused(folder, EINVAL, "an unfinished download");
	test_file_write(in_folder("model.txt"), "x", 1);
	assert_refused(in_folder("model.txt"), ENOENT, "give a GGUF file");
	test_file_write(in_folder("model.safetensors"), "x", 1);
	assert_refused(in_folder("model.safetensors"), ENOENT, "give its folder");
	assert_int_equal(unlink(in_folder("a.gguf.incomplete")), 0);
	assert_refused(folder, EINVAL, "no config.json");
}

/* ---- keys ---- */

/* The file is changed before it is written, and then opened. */
static void assert_change_refused(void (*change)(struct test_gguf *g), int code, const char *words)
{
	char path[512];
	plain.change = change;
	test_gguf_convert(&plain, folder, "m", path);
	assert_refused(path, code, words);
}

static void an_unknown_key(struct test_gguf *g)
{
	test_gguf_u32(g, "qwen3moe.attention.surprise", 1);
}
static void a_window(struct test_gguf *g)
{
	test_gguf_u32(g, "qwen3moe.attention.sliding_window", 128);
}
static void yarn(struct test_gguf *g)
{
	test_gguf_string(g, "qwen3moe.rope.scaling.type", "yarn");
	test_gguf_f32(g, "qwen3moe.rope.scaling.factor", 4);
}
static void a_factor(struct test_gguf *g)
{
	test_gguf_f32(g, "qwen3moe.rope.scaling.factor", 4);
}
static void an_odd_rope(struct test_gguf *g)
{
	test_gguf_string(g, "qwen3moe.rope.scaling.type", "dyn\"amic");
}
static void sigmoid(struct test_gguf *g)
{
	test_gguf_u32(g, "qwen3moe.expert_gating_func", 2);
}
static void no_causality(struct test_gguf *g)
{
	test_gguf_bool(g, "qwen3moe.attention.causal", false);
}
static void another_vocabulary(struct test_gguf *g)
{
	test_gguf_u32(g, "qwen3moe.vocab_size", 383);
}
static void a_tensor_more(struct test_gguf *g)
{
	static const float x[4];
	test_gguf_tensor(g, "rope_freqs.weight", 0, (const uint64_t[]){4}, 1, x, sizeof x);
}
static void a_layer_more(struct test_gguf *g)
{
	static const float x[64];
	test_gguf_tensor(g, "blk.2.attn_norm.weight", 0, (const uint64_t[]){64}, 1, x, sizeof x);
}
static void an_odd_type(struct test_gguf *g)
{
	static const uint8_t x[66];
	test_gguf_tensor(g, "blk.0.attn_extra.weight", 16, (const uint64_t[]){1, 256}, 2, x,
			 sizeof x);
}

static void keys_that_change_what_is_computed_are_refused_by_name(void **state)
{
	(void)state;
	assert_change_refused(an_unknown_key, ENOTSUP, "qwen3moe.attention.surprise");
	assert_change_refused(a_window, ENOTSUP, "sliding_window");
	assert_change_refused(yarn, ENOTSUP, "yarn");
	assert_change_refused(a_factor, ENOTSUP, "linear");
	assert_change_refused(an_odd_rope, ENOTSUP, "rope.scaling.type");
	assert_change_refused(sigmoid, ENOTSUP, "expert_gating_func");
	assert_change_refused(no_causality, ENOTSUP, "attention.causal");
	assert_change_refused(another_vocabulary, EINVAL, "vocab_size is 383");
}

static void tensors_that_do_not_belong_are_refused_by_name(void **state)
{
	(void)state;
	assert_change_refused(a_tensor_more, EINVAL, "rope_freqs.weight");
	assert_change_refused(a_layer_more, EINVAL, "blk.2.attn_norm.weight");
	assert_change_refused(an_odd_type, EINVAL, "blk.0.attn_extra.weight");
}

/* ---- files that are not what they say ---- */

/* Overwrites every such text in a file by another of the same length. */
static void replace(const char *path, const char *from, const char *to)
{
	size_t n, k = strlen(from), found = 0;
	uint8_t *bytes = test_file_read(path, &n);
	assert_int_equal(k, strlen(to));
	for (size_t i = 0; i + k <= n; i++)
		if (!memcmp(bytes + i, from, k)) {
			memcpy(bytes + i, to, k);
			found++;
		}
	assert_true(found > 0);
	test_file_write(path, bytes, n);
	free(bytes);
}

static void a_file_under_another_family_s_name_is_refused(void **state)
{
	(void)state;
	char path[512];
	test_gguf_convert(&plain, folder, "m", path);
	replace(path, "qwen3moe", "qwen2moe");
	assert_refused(path, EINVAL, "");
	replace(path, "qwen2moe", "qwen35mo");
	assert_refused(path, ENOTSUP, "qwen35mo");
	plain = (struct gguf_conversion){
		.fixture = "qwen3", .architecture = "qwen3", .type = "BF16"};
	test_gguf_convert(&plain, folder, "n", path);
	replace(path, "qwen3", "qwen2");
	assert_refused(path, ENOENT, "attn_q.bias");
	/* Without experts, a llama is another family, which has no norms of heads. */
	replace(path, "qwen2", "llama");
	assert_refused(path, EINVAL, "_norm.weight");
}

static void a_file_without_a_tensor_or_a_vocabulary_is_refused(void **state)
{
	(void)state;
	char path[512];
	test_gguf_convert(&plain, folder, "m", path);
	replace(path, "blk.1.ffn_norm.weight", "blk.1.ffn_nomr.weight");
	assert_refused(path, ENOENT, "blk.1.ffn_norm.weight");
	test_gguf_convert(&plain, folder, "m", path);
	replace(path, "token_embd.weight", "token_embd.wieght");
	assert_refused(path, ENOENT, "token_embd.weight");
	test_gguf_convert(&plain, folder, "m", path);
	replace(path, "tokenizer.ggml.model", "tokenizer.ggml.mdoel");
	assert_refused(path, EINVAL, "vocabulary");
	test_gguf_convert(&plain, folder, "m", path);
	replace(path, "general.architecture", "general.archicetture");
	assert_refused(path, EIO,
		       "is damaged, or not a model: its header has no general.architecture");
}

static void an_unsupported_architecture_is_refused_with_the_supported_ones(void **state)
{
	(void)state;
	char path[512];
	size_t n, key = strlen("general.architecture");
	plain.architecture = "qwen3moe";
	test_gguf_convert(&plain, folder, "m", path);
	uint8_t *bytes = test_file_read(path, &n);
	uint8_t *at = memmem(bytes, n, "general.architecture", key);
	assert_non_null(at);
	memcpy(at + key + 4 + 8, "\x1b[31mxx", 7); /* behind its kind and length */
	test_file_write(path, bytes, n);
	free(bytes);
	assert_refused(path, ENOTSUP,
		       "architecture ?[31mxxe are not supported in GGUF files; "
		       "these are: ");
	assert_non_null(strstr(e.text, "qwen3moe"));
	assert_non_null(strstr(e.text, "llama"));
}

static void a_stack_of_another_shape_is_refused(void **state)
{
	(void)state;
	char path[512];
	plain.architecture = "qwen3moe";
	test_gguf_convert(&plain, folder, "m", path);
	/* One expert fewer than the stacks have. */
	size_t n, key = strlen("qwen3moe.expert_count");
	uint8_t *bytes = test_file_read(path, &n);
	uint8_t *at = memmem(bytes, n, "qwen3moe.expert_count", key);
	assert_non_null(at);
	at[key + 4]--;
	test_file_write(path, bytes, n);
	free(bytes);
	assert_refused(path, EINVAL, "the keys of the file make");
}

/* Adds to the number of a key. */
static void change_number(const char *path, const char *key, int by)
{
	size_t n, k = strlen(key);
	uint8_t *bytes = test_file_read(path, &n);
	uint8_t *at = memmem(bytes, n, key, k);
	assert_non_null(at);
	at[k + 4] = (uint8_t)(at[k + 4] + by);
	test_file_write(path, bytes, n);
	free(bytes);
}

static void routers_and_latents_that_are_not_computed_are_refused_by_name(void **state)
{
	(void)state;
	static const struct {
		const char *fixture, *architecture, *key;
		int by;
		const char *word;
	} cases[] = {
		{"deepseek_v3", "deepseek2", "expert_gating_func", -1, "expert_gating_func"},
		{"glm4_moe", "glm4moe", "expert_gating_func", 1, "expert_gating_func"},
		{"deepseek_v3", "deepseek2", "rope.dimension_count", 32, "rope.dimension_count"},
		{"deepseek_v3", "deepseek2", "attention.key_length_mla", 2, "attn_q_b.weight"},
		{"deepseek_v3", "deepseek2", "attention.kv_lora_rank", 1, "attn_kv_a_mqa.weight"},
		{"deepseek_v3", "deepseek2", "leading_dense_block_count", 1, "blk.1.ffn_gate"},
		{"glm4_moe", "glm4moe", "nextn_predict_layers", 100, "are for drafts"},
		{"gpt_oss", "gpt-oss", "attention.sliding_window", -16, "sliding_window"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char path[512], key[128];
		if (!test_fixture(cases[i].fixture))
			continue;
		plain = (struct gguf_conversion){.fixture = cases[i].fixture,
						 .architecture = cases[i].architecture,
						 .type = "BF16"};
		test_gguf_convert(&plain, folder, "m", path);
		(void)snprintf(key, sizeof key, "%s.%s", cases[i].architecture, cases[i].key);
		change_number(path, key, cases[i].by);
		char name[128];
		int failed = open_model(path, name);
		if (!failed || !strstr(e.text, cases[i].word))
			fail_msg("%s: %d, %s", key, failed, e.text);
	}
}

/* ---- values derived from a file ---- */

static void a_changed_file_is_another_model(void **state)
{
	(void)state;
	char path[512], name[128];
	struct engine *g;
	struct model *m;
	struct engine_options o = {.store = in_folder("stores.moefs")};
	test_gguf_convert(&plain, folder, "m", path);
	assert_int_equal(engine_create(&g, &o, &e), 0);
	assert_int_equal(model_open(&m, g, path, &e), 0);
	plain = (struct gguf_conversion){
		.fixture = "qwen3", .architecture = "qwen3", .type = "BF16"};
	test_gguf_convert(&plain, folder, "m", path);
	assert_int_equal(model_wait(m, &e), -EINVAL);
	assert_non_null(strstr(e.text, "changed since it was mounted"));
	model_close(m);
	engine_destroy(g);
	assert_int_equal(open_model(path, name), 0);
}

static void the_config_that_is_shown_can_be_read_as_one(void **state)
{
	(void)state;
	char path[512];
	struct config *c = malloc(sizeof *c);
	char *text;
	size_t length;
	assert_non_null(c);
	plain = (struct gguf_conversion){
		.fixture = "qwen3_5_moe", .architecture = "qwen35moe", .type = "BF16"};
	test_gguf_convert(&plain, folder, "m", path);
	assert_int_equal(gguf_config_of(path, &text, &length, &e), 0);
	assert_int_equal(config_parse(c, text, length, "x", &e), 0);
	assert_int_equal(c->layers, 4); /* without the draft's */
	assert_int_equal(c->rope[0].dim, 16);
	assert_int_equal(c->delta_net.value_dim, 32);
	assert_int_equal(c->generation.end_count, 1);
	free(text);
	free(c);
}

static void the_kernels_blocks_are_those_of_the_files(void **state)
{
	(void)state;
	int known = 0;
	for (uint64_t i = 0; i < 64; i++) {
		const struct gguf_type *t = gguf_type_find(i);
		if (!t || t->format == FORMAT_COUNT)
			continue;
		const struct shape one = {.format = t->format, .rows = 3, .cols = 512};
		assert_int_equal(format_packed_bytes(&one), 3 * 512 / t->block * t->bytes);
		known++;
	}
	assert_int_equal(known, 17);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* ---- its template ---- */

static void add_templates(struct test_gguf *g)
{
	test_gguf_string(g, "tokenizer.chat_template", "{{ 'plain' }}");
	test_gguf_string(g, "tokenizer.chat_template.tool_use", "{{ 'tools' }}");
}

static void add_broken_template(struct test_gguf *g)
{
	test_gguf_string(g, "tokenizer.chat_template", "{% if %}");
}

/* info/template, and the template that is used with tools and without. */
static void expect_template(void (*change)(struct test_gguf *g), const char *words,
			    const char *without_tools, const char *with_tools)
{
	char path[512], said[256];
	struct engine *g;
	struct model *m;
	struct session *s;
	struct gguf_conversion c = plain;
	c.change = change;
	test_gguf_convert(&c, folder, "m", path);
	assert_int_equal(engine_create(&g, &(struct engine_options){.store = in_folder("s")}, &e),
			 0);
	assert_int_equal(model_open(&m, g, path, &e), 0);
	assert_int_equal(model_wait(m, &e), 0);
	assert_int_equal(model_fact(m, FACT_TEMPLATE, said, sizeof said), 0);
	assert_non_null(strstr(said, words));
	assert_int_equal(session_create(&s, m, NULL, NULL, &e), 0);
	const char *const wanted[] = {without_tools, with_tools};
	for (int tools = 0; tools < 2 && without_tools; tools++) {
		size_t n;
		char *text = session_text_get(s, SESSION_RENDERED, &n, &e);
		assert_string_equal(text, wanted[tools]);
		free(text);
		static const char list[] = "[{\"function\": {\"name\": \"f\"}}]";
		assert_int_equal(session_text_set(s, SESSION_TOOLS, list, sizeof list - 1, &e), 0);
	}
	session_end(s);
	model_close(m);
	engine_destroy(g);
}

static void the_template_is_the_file_s_own(void **state)
{
	(void)state;
	expect_template(add_templates, "GGUF tokenizer.chat_template", "plain", "tools");
}

static void without_a_template_it_is_chatml_and_a_broken_one_is_an_error(void **state)
{
	(void)state;
	expect_template(NULL, "ChatML", "<|im_start|>assistant\n", "<|im_start|>assistant\n");
	expect_template(add_broken_template, "unusable: ", NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_gguf_file_is_a_model_of_its_name),
		TEST(a_split_file_is_opened_by_its_first_part),
		TEST(a_split_file_under_another_name_is_refused),
		TEST(a_hub_s_cache_shows_the_model_s_name),
		TEST(a_file_that_is_no_model_is_named_by_its_kind),
		TEST(keys_that_change_what_is_computed_are_refused_by_name),
		TEST(tensors_that_do_not_belong_are_refused_by_name),
		TEST(a_file_under_another_family_s_name_is_refused),
		TEST(a_file_without_a_tensor_or_a_vocabulary_is_refused),
		TEST(an_unsupported_architecture_is_refused_with_the_supported_ones),
		TEST(a_stack_of_another_shape_is_refused),
		TEST(routers_and_latents_that_are_not_computed_are_refused_by_name),
		TEST(a_changed_file_is_another_model),
		TEST(the_config_that_is_shown_can_be_read_as_one),
		TEST(the_kernels_blocks_are_those_of_the_files),
		TEST(the_template_is_the_file_s_own),
		TEST(without_a_template_it_is_chatml_and_a_broken_one_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
