/* A checkpoint's tensors against the plan of a model that leaves some out: every other one has to be
 * known. */
#include "checkpoint_help.h"
#include "engine/family/sources.h"
#include "golden.h"
#include "store_help.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct config config;
static struct err e;

/* The check's result for the fixture with one more tensor, or without one; NULL: neither. */
static int check_with(const char *fixture, const char *more, const char *less)
{
	struct test_checkpoint c;
	struct sources s;
	struct recipe r;
	struct plan p;
	char at[64];
	(void)snprintf(at, sizeof at, "%s/%s", test_folder, fixture);
	test_checkpoint_read(&c, fixture);
	if (more)
		test_tensor_copy(&c, "lm_head.weight", more);
	if (less)
		test_tensor_remove(&c, less);
	test_checkpoint_make(&c, fixture, at);
	test_checkpoint_free(&c);
	assert_int_equal(config_read(&config, at, &e), 0);
	assert_int_equal(recipe_find(&r, "bf16", &e), 0);
	assert_int_equal(sources_open(&s, at, &config, &e), 0);
	assert_int_equal(plan_make(&p, &config, &r, &e), 0);
	int failed = sources_check(&s, &p, &e);
	plan_free(&p);
	sources_close(&s);
	return failed;
}

static void only_what_a_family_names_is_left_out(void **state)
{
	(void)state;
	static const struct {
		const char *more, *less;
		int code;
		const char *words;
	} cases[] = {
		{NULL, NULL, 0, NULL},
		{"model.visual.merger.weight", NULL, 0, NULL},
		{"mtp.layers.0.norm.weight", NULL, 0, NULL},
		{"model.visuals.weight", NULL, EINVAL, "model.visuals.weight"},
		{"mtp", NULL, EINVAL, "mtp"},
		{"model.language_model.layers.4.norm.weight", NULL, EINVAL, "layers.4.norm.weight"},
		{NULL, "model.language_model.layers.1.hc_ffn_fn", ENOENT, "layers.1.hc_ffn_fn"},
	};
	if (!test_fixture("glm5_next"))
		skip();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int failed = check_with("glm5_next", cases[i].more, cases[i].less);
		if (failed != -cases[i].code || (failed && !strstr(e.text, cases[i].words)))
			fail_msg("%zu: gave %d, \"%s\"", i, failed, e.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_a_family_names_is_left_out),
	};
	return cmocka_run_group_tests(tests, test_folder_setup, test_folder_teardown);
}
