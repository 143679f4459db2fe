/* What of a checkpoint is not used is counted and named; nothing else may be there. */
#include "checkpoint_help.h"
#include "engine/family/left_out.h"
#include "golden.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct config config;

static void assert_left_out(const char *checkpoint, const char *words)
{
	struct sources s;
	struct err e;
	char text[1024];
	if (config_read(&config, checkpoint, &e) || sources_open(&s, checkpoint, &config, &e))
		fail_msg("%s", e.text);
	left_out_print(&s, text, sizeof text);
	sources_close(&s);
	assert_string_equal(text, words);
}

static void parts_that_see_are_named_with_their_size(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{"llama", "none"},
		{"qwen4_exp", "model.visual. tensors 1 bytes 16"},
		{"glm5_next", "model.visual. tensors 1 bytes 16"},
		{"minimax_m3", "multi_modal_projector. tensors 1 bytes 32"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (test_fixture(cases[i][0]))
			assert_left_out(test_fixture(cases[i][0]), cases[i][1]);
}

/* Two tensors of a head that drafts, and one of what sees. */
static void each_part_has_a_line(void **state)
{
	(void)state;
	struct test_checkpoint c;
	char at[64];
	if (!test_fixture("qwen4_exp"))
		skip();
	(void)snprintf(at, sizeof at, "%s/more", test_folder);
	test_checkpoint_read(&c, "qwen4_exp");
	test_tensor_copy(&c, "lm_head.weight", "mtp.fc.weight");
	test_tensor_copy(&c, "model.visual.patch_embed.proj.bias", "mtp.norm.weight");
	test_checkpoint_make(&c, "qwen4_exp", at);
	test_checkpoint_free(&c);
	assert_left_out(at, "model.visual. tensors 1 bytes 16\nmtp. tensors 2 bytes 49168");
}

static void a_draft_layer_after_the_last_is_named_by_its_number(void **state)
{
	(void)state;
	struct test_checkpoint c;
	char at[64];
	if (!test_fixture("glm_moe_dsa"))
		skip();
	(void)snprintf(at, sizeof at, "%s/draft", test_folder);
	test_checkpoint_read(&c, "glm_moe_dsa");
	test_tensor_copy(&c, "model.norm.weight", "model.layers.4.enorm.weight");
	test_checkpoint_make(&c, "glm_moe_dsa", at);
	test_checkpoint_free(&c);
	char path[512];
	size_t n;
	(void)snprintf(path, sizeof path, "%s/config.json", at);
	uint8_t *text = test_file_read(path, &n);
	char *changed = malloc(n + 64);
	assert_non_null(changed);
	int length = snprintf(changed, n + 64, "{\"num_nextn_predict_layers\": 1,%.*s", (int)n - 1,
			      (const char *)text + 1); /* after its { */
	test_file_write(path, changed, (size_t)length);
	free(changed);
	free(text);
	assert_left_out(at, "model.layers.4 tensors 1 bytes 128");
}

/* The same tensor of another layer is used. */
static void a_correction_beside_a_list_of_experts_is_one(void **state)
{
	(void)state;
	struct test_checkpoint c;
	char at[64];
	if (!test_fixture("deepseek_v4"))
		skip();
	(void)snprintf(at, sizeof at, "%s/beside", test_folder);
	test_checkpoint_read(&c, "deepseek_v4");
	test_checkpoint_make(&c, "deepseek_v4", at);
	assert_left_out(at, "none");
	test_tensor_copy(&c, "layers.1.ffn.gate.bias", "layers.0.ffn.gate.bias");
	test_checkpoint_make(&c, "deepseek_v4", at);
	test_checkpoint_free(&c);
	assert_left_out(at, "layers. tensors 1 bytes 48");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_that_see_are_named_with_their_size),
		cmocka_unit_test(each_part_has_a_line),
		cmocka_unit_test(a_draft_layer_after_the_last_is_named_by_its_number),
		cmocka_unit_test(a_correction_beside_a_list_of_experts_is_one),
	};
	return cmocka_run_group_tests(tests, test_folder_setup, test_folder_teardown);
}
