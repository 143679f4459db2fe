/* The choice of a codec, and conversions with it: a requested codec is used; if it cannot be, that
 * is reported or ignored; auto follows its rule and keeps its choice; the weights are the same. */
#include "checkpoint_help.h"
#include "convert_help.h"
#include "engine/convert/convert_inside.h"
#include "engine/model.h"
#include "engine/source/tensor_list.h"
#include "golden.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char parent[32], source[512], folder[64];
static struct test_conversion conversion;
static struct err e;

static int setup(void **state)
{
	(void)state;
	test_folder_make(parent);
	(void)snprintf(source, sizeof source, "%s", test_fixture("qwen3_moe"));
	(void)snprintf(folder, sizeof folder, "%s/store", parent);
	e = (struct err){0};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_folder_remove(parent);
	return 0;
}

/* ---- helpers ---- */

/* The same as in test_convert, with a codec. */
static int convert(const char *to, const char *quant, const char *codec, const _Atomic bool *stop)
{
	struct test_conversion *t = &conversion;
	t->v = (struct conversion){
		.directory = source,
		.folder = to,
		.config = &t->config,
		.threads = 2,
		.kernels = kernels_best(),
		.stop = stop,
		.progress = &t->progress,
	};
	if (config_read(&t->config, source, &e) || recipe_find(&t->v.recipe, quant, &e) ||
	    recipe_ask_codec(&t->v.recipe, codec, &e))
		fail_msg("%s", e.text);
	return test_convert_all(t, &e);
}

static struct store *converted(const char *to, const char *quant, const char *codec)
{
	static const _Atomic bool never;
	struct store *s = NULL;
	if (convert(to, quant, codec, &never) || store_open(&s, to, NULL, &e))
		fail_msg("%s", e.text);
	return s;
}

/* The fixture's matrices in another type, as the source from now on. */
static void retype_source(const char *type)
{
	struct test_checkpoint c;
	test_checkpoint_read(&c, "qwen3_moe");
	for (size_t i = 0; i < c.count; i++)
		if (c.tensors[i].dims == 2)
			test_tensor_retype(&c.tensors[i], type);
	(void)snprintf(source, sizeof source, "%s/source", parent);
	test_checkpoint_make(&c, "qwen3_moe", source);
	test_checkpoint_free(&c);
}

static void assert_same_records(struct store *a, struct store *b)
{
	const struct store_info *i = store_info(a);
	assert_int_equal(store_info(b)->record_bytes, i->record_bytes);
	uint8_t *x = malloc(i->record_bytes), *y = malloc(i->record_bytes);
	for (uint32_t layer = 0; layer < i->layers; layer++)
		for (uint32_t expert = 0; expert < i->experts; expert++) {
			if (store_read_expert(a, layer, expert, 0, x, i->record_bytes, &e) ||
			    store_read_expert(b, layer, expert, 0, y, i->record_bytes, &e))
				fail_msg("%s", e.text);
			assert_memory_equal(x, y, i->record_bytes);
		}
	free(x);
	free(y);
}

/* ---- names ---- */

static void a_codec_is_asked_for_by_its_name(void **state)
{
	(void)state;
	struct recipe r;
	assert_int_equal(recipe_find(&r, "bf16", &e), 0);
	assert_int_equal(r.codec, CODEC_NONE);
	assert_int_equal(recipe_ask_codec(&r, NULL, &e), 0);
	assert_int_equal(r.codec, CODEC_AUTO);
	assert_int_equal(recipe_ask_codec(&r, "zstd", &e), 0);
	assert_int_equal(r.codec, CODEC_ZSTD);
	assert_int_equal(recipe_ask_codec(&r, "none", &e), 0);
	assert_int_equal(r.codec, CODEC_NONE);
	assert_int_equal(recipe_ask_codec(&r, "lz4", &e), -EINVAL);
	assert_non_null(strstr(e.text, "none, zstd or auto"));
}

static void zstd_is_refused_for_recipes_that_do_not_shrink(void **state)
{
	(void)state;
	/* Without a request the codec depends on the model, so none is named. */
	static const char *const names[] = {"tq2", "tq3", "tq4", "3bit", NULL};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct engine *g = NULL;
		struct engine_options o = {.quant = names[i], .codec = "zstd"};
		assert_int_equal(engine_create(&g, &o, &e), -EINVAL);
		assert_non_null(strstr(e.text, "codec=zstd: quantised experts"));
		assert_non_null(strstr(e.text, "quant=bf16"));
	}
}

static void a_stores_text_says_its_codec_and_is_read_back(void **state)
{
	(void)state;
	struct recipe r, back;
	char text[64], key[sizeof((struct store_key *)0)->recipe];
	for (enum recipe_codec c = CODEC_NONE; c <= CODEC_ZSTD; c++) {
		assert_int_equal(recipe_find(&r, "bf16", &e), 0);
		recipe_keep(&r, FORMAT_F16, NORM_F16);
		r.codec = c;
		recipe_to_text(&r, text, sizeof text);
		assert_true(strlen(text) < sizeof key);
		assert_true(recipe_from_text(&back, text));
		assert_int_equal(back.codec, c);
		assert_int_equal(back.kept, FORMAT_F16);
		assert_string_equal(back.quant, "bf16");
	}
	/* Stores from before there was a codec are plain. */
	assert_true(recipe_from_text(&back, "bf16 kept bf16 norms f16"));
	assert_int_equal(back.codec, CODEC_NONE);
	assert_false(recipe_from_text(&back, "tq3 kept bf16 norms f16 codec zstd"));
}

/* ---- the rule ---- */

static struct codec_figures usual(void)
{
	return (struct codec_figures){
		.share = .67, .device = 1.2e9, .one = 3e9, .all = 6e9, .threads = 2, .missing = 4};
}

static void a_codec_pays_where_the_device_is_slow_and_decoding_is_not(void **state)
{
	(void)state;
	struct codec_figures f = usual();
	assert_true(codec_pays(&f));
	f.device = 10e9; /* an array of fast disks */
	assert_false(codec_pays(&f));
	f = usual(), f.one = f.all = 1e9; /* slow cores */
	assert_false(codec_pays(&f));
	f = usual(), f.share = .97; /* nothing to gain */
	assert_false(codec_pays(&f));
	f = usual(), f.missing = 1; /* nothing to overlap with: 1/1.2 < .67/1.2 + 1/3 */
	assert_false(codec_pays(&f));
	f = usual(), f.device = 0; /* unknown */
	assert_false(codec_pays(&f));
}

/* ---- conversions ---- */

static void a_coded_store_holds_the_same_weights_in_fewer_bytes(void **state)
{
	(void)state;
	static const char *const types[] = {"BF16", "F16"};
	char plain_folder[64];
	(void)snprintf(plain_folder, sizeof plain_folder, "%s/plain", parent);
	for (size_t i = 0; i < 2; i++) {
		retype_source(types[i]);
		struct store *plain = converted(plain_folder, "bf16", "none");
		struct store *coded = converted(folder, "bf16", "zstd");
		assert_int_equal(store_info(plain)->codec, STORE_PLAIN);
		assert_int_equal(store_info(coded)->codec, STORE_CODED);
		assert_true(store_experts_bytes(coded) < store_experts_bytes(plain));
		assert_same_records(plain, coded);
		store_close(plain);
		store_close(coded);
	}
}

static void a_coded_stores_head_says_that_it_is_private_and_lists_nothing(void **state)
{
	(void)state;
	char path[128];
	size_t n;
	struct tensor_list list = {0};
	store_close(converted(folder, "bf16", "zstd"));
	(void)snprintf(path, sizeof path, "%s/experts.safetensors", folder);
	uint8_t *bytes = test_file_read(path, &n);
	assert_true(n > STORE_ALIGN);
	const char *json = (const char *)bytes + 8;
	uint64_t length = bytes[0] | (uint64_t)bytes[1] << 8;
	assert_int_equal(length, STORE_ALIGN - 8);
	assert_non_null(memmem(json, length, "\"__metadata__\"", 14));
	assert_non_null(memmem(json, length, "private to moefs", 16));
	assert_int_equal(safetensors_parse(&list, json, length, 0, 0, "head", &e), 0);
	assert_int_equal(list.count, 0);
	tensor_list_free(&list);
	/* Read as an ordinary file it is refused, since no tensor covers its data. */
	assert_true(safetensors_parse(&list, json, length, n - STORE_ALIGN, 0, "head", &e) < 0);
	free(bytes);
	(void)snprintf(path, sizeof path, "%s/dense.safetensors", folder);
	golden_close(golden_open(path));
}

static void records_that_are_not_in_16_bits_stay_plain_whatever_is_asked(void **state)
{
	(void)state;
	struct store *s = converted(folder, "tq3", NULL);
	assert_int_equal(store_info(s)->codec, STORE_PLAIN);
	assert_string_equal(conversion.codec_words, "");
	store_close(s);
	retype_source("F32");
	s = converted(folder, "bf16", "zstd");
	assert_int_equal(store_info(s)->codec, STORE_PLAIN);
	store_close(s);
	(void)snprintf(source, sizeof source, "%s", test_fixture("qwen3")); /* no experts */
	s = converted(folder, "bf16", "zstd");
	assert_int_equal(store_info(s)->codec, STORE_PLAIN);
	store_close(s);
}

static void auto_reports_what_it_measured(void **state)
{
	(void)state;
	/* Its choice depends on the disk; its giving a reason does not. */
	struct store *s = converted(folder, "bf16", "auto");
	const char *words = conversion.codec_words;
	assert_true(strstr(words, "GB/s") || strstr(words, "cannot be measured"));
	store_close(s);
}

/* Begins a conversion and lets it be stopped before the first unit. */
static void begin(const char *codec)
{
	static const _Atomic bool at_once = true;
	assert_int_equal(convert(folder, "bf16", codec, &at_once), -ECANCELED);
}

static void an_interrupted_conversion_keeps_the_choice_it_was_begun_with(void **state)
{
	(void)state;
	static const char *const codecs[] = {"zstd", "none"};
	for (int i = 0; i < 2; i++) {
		begin(codecs[i]);
		struct store *s = converted(folder, "bf16", "auto");
		assert_int_equal(store_info(s)->codec, i == 0 ? STORE_CODED : STORE_PLAIN);
		assert_string_equal(conversion.codec_words, ""); /* nothing was measured */
		store_close(s);
		test_folder_remove(folder);
	}
}

static void an_interrupted_conversion_of_another_checkpoint_decides_nothing(void **state)
{
	(void)state;
	begin("zstd");
	retype_source("F16");
	store_close(converted(folder, "bf16", "auto"));
	assert_string_not_equal(conversion.codec_words, "");
}

/* ---- mounts ---- */

/* Loads the model as a mount does, and returns its info/codec. */
static void mount_says(const char *codec, char *text, size_t size)
{
	struct engine_options o = {.quant = "bf16",
				   .codec = codec,
				   .store = parent,
				   .budget = 64 << 20,
				   .context_budget = 64 << 20};
	struct engine *g = NULL;
	struct model *m = NULL;
	if (engine_create(&g, &o, &e) || model_open(&m, g, source, &e) || model_wait(m, &e))
		fail_msg("%s", e.text);
	do /* the model answers before its store is complete */
		assert_int_equal(model_fact(m, FACT_PROGRESS, text, size), 0);
	while (strcmp(text, "idle") != 0);
	assert_int_equal(model_fact(m, FACT_CODEC, text, size), 0);
	model_close(m);
	engine_destroy(g);
}

static void a_mount_takes_any_stores_codec_unless_it_asks_for_one(void **state)
{
	(void)state;
	char text[256];
	mount_says("zstd", text, sizeof text);
	assert_memory_equal(text, "zstd 0.", 7);
	mount_says(NULL, text, sizeof text);
	assert_memory_equal(text, "zstd 0.", 7);
	mount_says("none", text, sizeof text); /* makes another in its place */
	assert_string_equal(text, "none");
	mount_says("auto", text, sizeof text);
	assert_string_equal(text, "none");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_codec_is_asked_for_by_its_name),
		TEST(zstd_is_refused_for_recipes_that_do_not_shrink),
		TEST(a_stores_text_says_its_codec_and_is_read_back),
		TEST(a_codec_pays_where_the_device_is_slow_and_decoding_is_not),
		TEST(a_coded_store_holds_the_same_weights_in_fewer_bytes),
		TEST(a_coded_stores_head_says_that_it_is_private_and_lists_nothing),
		TEST(records_that_are_not_in_16_bits_stay_plain_whatever_is_asked),
		TEST(auto_reports_what_it_measured),
		TEST(an_interrupted_conversion_keeps_the_choice_it_was_begun_with),
		TEST(an_interrupted_conversion_of_another_checkpoint_decides_nothing),
		TEST(a_mount_takes_any_stores_codec_unless_it_asks_for_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
