/* The file with the heat of experts: whatever it contains, every number read from it is a possible
 * one, one for each expert. test_pager_ahead.c tests their use. */
#include "cache/pager_heat.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { LAYERS = 3, EXPERTS = 5, ALL = LAYERS * EXPERTS, BYTES = HEAT_HEAD + ALL * 4 };
static const struct heat_identity of = {"scales", LAYERS, EXPERTS};
static char folder[32], path[64];
static struct err e;

static int setup(void **state)
{
	(void)state;
	test_folder_make(folder);
	(void)snprintf(path, sizeof path, "%s/heat", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_folder_remove(folder);
	return 0;
}

static void write_some(float heat[ALL])
{
	for (int i = 0; i < ALL; i++)
		heat[i] = (float)i * 1.5F;
	assert_int_equal(heat_write(heat, &of, folder, &e), 0);
}

static void patch(const void *bytes, size_t size, off_t at)
{
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, size, at), size);
	close(fd);
}

static void what_is_written_is_read_back(void **state)
{
	(void)state;
	float heat[ALL], got[ALL];
	assert_int_equal(heat_read(got, &of, folder, &e), -ENOENT);
	write_some(heat);
	assert_int_equal(heat_read(got, &of, folder, &e), 0);
	assert_memory_equal(got, heat, sizeof heat);
}

/* Other counts, whose product may be the same, or zero, or beyond 32 bits. */
static void counts_of_another_model_are_refused(void **state)
{
	(void)state;
	static const uint32_t counts[][2] = {
		{EXPERTS, LAYERS}, {1, ALL},	       {0, 0},	       {UINT32_MAX, UINT32_MAX},
		{1u << 31, 2},	   {LAYERS, 1u << 30}, {UINT32_MAX, 1}};
	float heat[ALL], *got = malloc(sizeof heat); /* a write beyond it is seen by a sanitizer */
	write_some(heat);
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		patch(counts[i], sizeof counts[i], 24);
		assert_int_equal(heat_read(got, &of, folder, &e), -ENOENT);
		assert_non_null(strstr(e.text, folder));
	}
	free(got);
}

static void a_file_of_any_length_is_read_as_far_as_the_experts_reach(void **state)
{
	(void)state;
	float heat[ALL], *got = malloc(sizeof heat);
	write_some(heat);
	assert_int_equal(truncate(path, (off_t)1 << 40), 0);
	assert_int_equal(heat_read(got, &of, folder, &e), 0);
	assert_memory_equal(got, heat, sizeof heat);
	for (off_t n = BYTES; n-- > 0;) {
		assert_int_equal(truncate(path, n), 0);
		assert_int_equal(heat_read(got, &of, folder, &e), -EIO);
	}
	free(got);
}

static void numbers_that_no_use_could_give_are_not_taken(void **state)
{
	(void)state;
	const float odd[ALL] = {NAN, INFINITY, -INFINITY, -1, 3.4e38F, 1e-45F, -0.0F, 7};
	const float want[ALL] = {0, 0, 0, 0, HEAT_MOST, 1e-45F, 0, 7};
	float heat[ALL], got[ALL];
	write_some(heat);
	uint64_t sum = XXH3_64bits(odd, sizeof odd);
	patch(odd, sizeof odd, HEAT_HEAD);
	patch(&sum, sizeof sum, 32);
	assert_int_equal(heat_read(got, &of, folder, &e), 0);
	for (int i = 0; i < ALL; i++)
		assert_true(got[i] == want[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_written_is_read_back),
		TEST(counts_of_another_model_are_refused),
		TEST(a_file_of_any_length_is_read_as_far_as_the_experts_reach),
		TEST(numbers_that_no_use_could_give_are_not_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
