/* What works on every model works on each family with a mechanism of its own: conversion by every
 * recipe, drafts, keys and values as codes, refining. Their numbers are held by test_golden. */
#include "checkpoint_help.h"
#include "golden.h"
#include "memory_help.h"
#include "session_help.h"
#include "store_help.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const families[] = {
	"smollm3",   "gemma3",	      "phi3",	   "gemma4_ple", "lfm2_moe", "granitemoehybrid",
	"nemotron_h", "kimi_linear", "qwen4_exp", "glm_moe_dsa", "minimax_m3", "glm5_next",
	"deepseek_v4"};
enum { FAMILIES = sizeof families / sizeof *families };

static struct err e;

static struct session *session(struct test_model *m, const char *draft)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "max_tokens", "16");
	test_set(s, "draft", draft);
	return s;
}

/* Two turns with drafts and without have the same text. */
static void assert_drafts_change_nothing(struct test_model *m, const char *family, const char *with)
{
	static const char *const prompts[] = {"abc abc abc abc abc abc", "abc abc abc"};
	struct session *off = session(m, "off"), *on = session(m, "lookup");
	for (int turn = 0; turn < 2; turn++) {
		char *plain = test_ask(off, prompts[turn]), *drafted = test_ask(on, prompts[turn]);
		if (strcmp(plain, drafted) != 0)
			fail_msg("%s, %s: drafts change the text", family, with);
		free(plain);
		free(drafted);
	}
	session_end(off);
	session_end(on);
}

static void each_recipe_converts_it_and_drafts_change_no_text(void **state)
{
	(void)state;
	static const char *const recipes[] = {"8bit", "4bit", "6bit", "3bit", "2bit",
					      "tq4",  "tq3",  "tq2",  "bf16"};
	enum { RECIPES = sizeof recipes / sizeof *recipes };
	for (int i = 0; i < FAMILIES; i++)
		for (int r = 0; r < RECIPES; r++) {
			struct test_model m;
			if (!test_fixture(families[i]))
				break;
			if (!test_full() && (i + r) % 3) /* a third of them, each family's and recipe's */
				continue;
			test_model_open(&m, test_fixture(families[i]),
					&(struct engine_options){.quant = recipes[r]});
			if (model_wait(m.model, &e))
				fail_msg("%s, %s: %s", families[i], recipes[r], e.text);
			test_wait_converted(m.model);
			assert_drafts_change_nothing(&m, families[i], recipes[r]);
			test_model_close(&m);
			test_stores_remove();
		}
}

/* Whether the model is refused with these options, in words that say what to do. */
static bool refused(const char *model, const char *kv)
{
	struct engine *engine;
	struct model *m = NULL;
	const struct engine_options o = {.quant = "tq4", .kv = kv, .store = test_stores()};
	if (engine_create(&engine, &o, &e))
		fail_msg("%s", e.text);
	int failed = model_open(&m, engine, model, &e);
	if (failed && !strstr(e.text, "mount without -o kv="))
		fail_msg("%s, %s: %s", model, kv, e.text);
	if (!failed)
		model_close(m);
	engine_destroy(engine);
	return failed;
}

static void keys_and_values_can_be_codes_or_a_sentence_says_why_not(void **state)
{
	(void)state;
	static const char *const types[] = {"q8", "q4", "q8q4"};
	uint32_t no = 0, yes = 0;
	for (int i = 0; i < FAMILIES; i++)
		for (int t = 0; t < 3 && test_fixture(families[i]); t++) {
			struct test_model m;
			if (refused(test_fixture(families[i]), types[t])) {
				no++;
				continue;
			}
			test_model_ready(&m, test_fixture(families[i]),
					 &(struct engine_options){.quant = "tq4", .kv = types[t]});
			assert_drafts_change_nothing(&m, families[i], types[t]);
			test_model_close(&m);
			yes++;
		}
	assert_true(no > 0 && yes > 0);
	test_stores_remove();
}

static void it_can_be_refined(void **state)
{
	(void)state;
	static const char text[] =
		"Once upon a time there was a fox who lived in the wood near the mill. The miller "
		"had a cat, and the cat did not like the fox. One day they met at the river and "
		"talked until it was dark.";
	for (int i = 0; i < FAMILIES; i++) {
		struct test_model m;
		if (!test_fixture(families[i]))
			continue;
		test_model_ready(&m, test_fixture(families[i]),
				 &(struct engine_options){.quant = i % 2 ? "tq3" : "3bit"});
		test_wait_converted(m.model);
		if (model_refine(m.model,
				 &(struct model_refining){
					 .text = text, .length = sizeof text - 1, .tokens = 256},
				 &e))
			fail_msg("%s: %s", families[i], e.text);
		assert_drafts_change_nothing(&m, families[i], "refined");
		test_model_close(&m);
		test_stores_remove();
	}
}

/* Found when the model is loaded, before any text. */
static void a_list_that_names_no_expert_is_refused(void **state)
{
	(void)state;
	struct test_checkpoint c;
	struct engine *engine;
	struct model *m;
	char folder[32], source[64];
	const int64_t none = 12;
	if (!test_fixture("deepseek_v4"))
		skip();
	test_folder_make(folder);
	(void)snprintf(source, sizeof source, "%s/model", folder);
	test_checkpoint_read(&c, "deepseek_v4");
	struct test_tensor *list = test_tensor_find(&c, "layers.0.ffn.gate.tid2eid");
	memcpy(list->data + 7 * 3 * sizeof none, &none, sizeof none);
	test_checkpoint_make(&c, "deepseek_v4", source);
	test_checkpoint_free(&c);
	assert_int_equal(engine_create(&engine, &(struct engine_options){.store = folder}, &e), 0);
	int failed = model_open(&m, engine, source, &e);
	if (!failed) {
		failed = model_wait(m, &e);
		model_close(m);
	}
	engine_destroy(engine);
	assert_int_equal(failed, -EINVAL);
	assert_non_null(strstr(e.text, "the experts listed for token 7"));
	test_folder_remove(folder);
}

/* A tensor as MXFP4 by DeepSeek's names, or as the numbers that these codes are. */
static void write_codes(struct test_checkpoint *c, const char *name, bool coded)
{
	static const float values[16] = {0,   .5F,  1,	1.5F,  2,  3,  4,  6,
					 -0., -.5F, -1, -1.5F, -2, -3, -4, -6};
	enum { BLOCK = 32, BIAS = 127 };
	char scale[128];
	(void)snprintf(scale, sizeof scale, "%.*sscale", (int)(strlen(name) - 6), name);
	if (coded)
		test_tensor_copy(c, name, scale);
	struct test_tensor *t = test_tensor_find(c, name);
	size_t count = test_tensor_elements(t);
	for (size_t i = 0; i < count && !coded; i++) {
		uint32_t code = (uint32_t)(i * 2654435761U) >> 28, power = i / BLOCK % 3;
		test_tensor_set(t, i, values[code] * (.0625F / (float)(1U << power)));
	}
	if (!coded)
		return;
	(void)snprintf(t->type, sizeof t->type, "I8");
	t->shape[1] /= 2;
	t->bytes = count / 2;
	memset(t->data, 0, t->bytes);
	for (size_t i = 0; i < count; i++)
		t->data[i / 2] |= (uint8_t)((uint32_t)(i * 2654435761U) >> 28 << i % 2 * 4);
	struct test_tensor *powers = test_tensor_find(c, scale);
	(void)snprintf(powers->type, sizeof powers->type, "F8_E8M0");
	powers->shape[1] /= BLOCK;
	powers->bytes = count / BLOCK;
	for (size_t i = 0; i < powers->bytes; i++) /* 1/16, 1/32, 1/64 */
		powers->data[i] = (uint8_t)(BIAS - 4 - i % 3);
}

static char *text_of_codes(const char *folder, bool coded)
{
	struct test_checkpoint c;
	struct test_model m;
	char source[64], name[128];
	(void)snprintf(source, sizeof source, "%s/%s", folder, coded ? "coded" : "plain");
	test_checkpoint_read(&c, "deepseek_v4");
	for (int expert = 0; expert < 12; expert++)
		for (int w = 1; w <= 3; w += 2) {
			(void)snprintf(name, sizeof name, "layers.1.ffn.experts.%d.w%d.weight",
				       expert, w);
			write_codes(&c, name, coded);
		}
	test_checkpoint_make(&c, "deepseek_v4", source);
	test_checkpoint_free(&c);
	test_model_ready(&m, source, &(struct engine_options){.quant = "bf16"});
	test_wait_converted(m.model);
	struct session *s = session(&m, "off");
	char *text = test_ask(s, "one two three");
	session_end(s);
	test_model_close(&m);
	return text;
}

static void deepseeks_experts_in_mxfp4_are_the_numbers_that_they_are(void **state)
{
	(void)state;
	char folder[32];
	if (!test_fixture("deepseek_v4"))
		skip();
	test_folder_make(folder);
	char *plain = text_of_codes(folder, false), *coded = text_of_codes(folder, true);
	assert_string_equal(coded, plain);
	free(plain);
	free(coded);
	test_folder_remove(folder);
	test_stores_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_recipe_converts_it_and_drafts_change_no_text),
		cmocka_unit_test(keys_and_values_can_be_codes_or_a_sentence_says_why_not),
		cmocka_unit_test(it_can_be_refined),
		cmocka_unit_test(a_list_that_names_no_expert_is_refused),
		cmocka_unit_test(deepseeks_experts_in_mxfp4_are_the_numbers_that_they_are),
	};
	return cmocka_run_group_tests(tests, NULL, stores_remove);
}
