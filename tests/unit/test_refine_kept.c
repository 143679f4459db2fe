/* What comes of refining on the disk: there is room for the store before anything is computed, little
 * more than the store is written, and a store that is no better is not kept. */
#include "engine/admin/observe.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"
#include "fault_io.h"
#include "golden.h"
#include "memory_help.h"
#include "session_help.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW = 2048, HELD = 16 }; /* bytes of a window; the how manieth is held back */

static void open_in(struct test_model *m, const char *stores)
{
	test_model_ready(m, test_fixture("qwen3_moe"),
			 &(struct engine_options){.quant = "tq3", .store = stores, .threads = 2});
	test_wait_converted(m->model);
}

/* Sentences that differ from each other. */
static char *prose(size_t bytes)
{
	char *text = malloc(bytes + 256);
	assert_non_null(text);
	size_t n = 0;
	for (unsigned i = 0; n < bytes; i++)
		n += (size_t)sprintf(text + n,
				     "On day %u the fox met %u cats by mill %u, and said: \"Why, %x?\" ",
				     i, i * 7 % 11, i * i % 101, i * 2654435761U);
	text[bytes] = 0;
	return text;
}

static char *refined_path(const struct test_model *m, const char *file)
{
	char *path;
	assert_true(asprintf(&path, "%s/%s", m->model->stored.folders[STORE_PLACES], file) > 0);
	return path;
}

static bool has_file(const struct test_model *m, const char *file, uint64_t *bytes)
{
	struct stat st;
	char *path = refined_path(m, file);
	bool there = !stat(path, &st);
	*bytes = there ? (uint64_t)st.st_size : 0;
	free(path);
	return there;
}

static void expect_recipe(const char *stores, const char *want)
{
	struct test_model m;
	char text[128];
	open_in(&m, stores);
	assert_int_equal(model_fact(m.model, FACT_RECIPE, text, sizeof text), 0);
	assert_string_equal(text, want);
	test_model_close(&m);
}

/* Of this process, since it began. */
static uint64_t written(void)
{
	char line[64];
	unsigned long long bytes = 0;
	FILE *f = fopen("/proc/self/io", "r");
	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "wchar: %llu", &bytes) == 1)
			break;
	(void)fclose(f);
	assert_true(bytes > 0);
	return bytes;
}

/* Nothing is written by the model, and nothing is left, where its store has no room. */
static void room_is_looked_for_first(void **state)
{
	char stores[32];
	struct test_model m;
	struct err e = {0};
	const struct model_refining asked = {.tokens = 512};
	uint64_t bytes;
	(void)state;
	test_folder_make(stores);
	open_in(&m, stores);
	faults.free_bytes = 1000;
	assert_int_equal(model_refine(m.model, &asked, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "MB too few); free some space"));
	assert_int_equal(atomic_load(&m.model->run->refining.progress.done), 0);
	assert_false(has_file(&m, "text", &bytes));
	faults.free_bytes = 0;
	if (model_refine(m.model, &asked, &e))
		fail_msg("%s", e.text);
	test_model_close(&m);
	test_folder_remove(stores);
}

/* Its own text is kept from round to round, and a checkpoint's norms may ask for a second pass. */
static void little_more_than_the_store_is_written(void **state)
{
	char stores[32];
	struct test_model m;
	struct err e;
	const struct model_refining asked = {.tokens = 8192};
	uint64_t experts, dense;
	(void)state;
	test_folder_make(stores);
	open_in(&m, stores);
	uint64_t before = written();
	if (model_refine(m.model, &asked, &e))
		fail_msg("%s", e.text);
	uint64_t all = written() - before;
	assert_true(has_file(&m, "experts.safetensors", &experts));
	assert_true(has_file(&m, "dense.safetensors", &dense));
	assert_true(all >= experts + dense);
	assert_true(all <= 3 * (experts + dense));
	test_model_close(&m);
	test_folder_remove(stores);
}

/* All that is learned from is one letter; what is held back is prose. */
static void a_store_that_is_no_better_is_not_kept(void **state)
{
	char stores[32], *text = prose(HELD * WINDOW);
	struct test_model m;
	struct err e = {0};
	uint64_t bytes;
	(void)state;
	for (size_t i = 0; i < (HELD - 1) * WINDOW; i++)
		text[i] = i % 2 ? ' ' : 'a';
	struct model_refining asked = {
		.text = text, .length = strlen(text), .tokens = 1 << 20};
	test_folder_make(stores);
	open_in(&m, stores);
	assert_int_equal(model_refine(m.model, &asked, &e), -ENODATA);
	assert_non_null(strstr(e.text, "would be no better than the present one"));
	assert_false(has_file(&m, "index", &bytes));
	assert_false(has_file(&m, "experts.safetensors", &bytes));
	assert_false(has_file(&m, "experts.safetensors.partial", &bytes));
	/* Idly it is not tried again; with another text it is, if asked. */
	const struct model_refining idle = {.idle = true, .tokens = 512};
	if (model_refine(m.model, &idle, &e))
		fail_msg("%s", e.text);
	assert_false(has_file(&m, "index", &bytes));
	test_model_close(&m);
	expect_recipe(stores, "tq3");
	open_in(&m, stores);
	free(text);
	asked.text = text = prose(4 * WINDOW);
	asked.length = strlen(text);
	if (model_refine(m.model, &asked, &e))
		fail_msg("%s", e.text);
	assert_true(has_file(&m, "index", &bytes));
	free(text);
	test_model_close(&m);
	test_folder_remove(stores);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(room_is_looked_for_first),
		cmocka_unit_test(little_more_than_the_store_is_written),
		cmocka_unit_test(a_store_that_is_no_better_is_not_kept),
	};
	faults_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
