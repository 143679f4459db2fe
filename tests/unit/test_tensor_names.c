/* Names of tensors as names of files: every file system accepts them, and each leads back to its
 * tensor. */
#include "fs/files/tensor_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_called(const char *name, const char *file)
{
	char printed[TENSOR_FILE_NAME], back[TENSOR_FILE_NAME];
	tensor_file_name(name, printed);
	assert_string_equal(printed, file);
	assert_true(tensor_name_read(printed, back));
	assert_string_equal(back, name);
}

static void are_the_names_that_were_published(void **state)
{
	(void)state;
	assert_called("model.layers.0.mlp.experts.3.up_proj.weight",
		      "model.layers.0.mlp.experts.3.up_proj.weight.npy");
	assert_called("blk.0.attn_q.weight", "blk.0.attn_q.weight.npy");
	assert_called("Größe mit Leerzeichen", "Größe mit Leerzeichen.npy");
	assert_called("a~b\\c", "a~b\\c.npy");
}

static void have_nothing_that_leads_elsewhere(void **state)
{
	(void)state;
	assert_called("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd.npy");
	assert_called(".hidden", "%2Ehidden.npy");
	assert_called("100%", "100%25.npy");
	assert_called("a\nb\x7f", "a%0Ab%7F.npy");
}

static void of_any_length_fit_and_differ(void **state)
{
	char name[600], file[TENSOR_FILE_NAME], other[TENSOR_FILE_NAME];
	(void)state;
	for (size_t n = 1; n < sizeof name; n++) {
		memset(name, 'x', n);
		name[n] = 0;
		tensor_file_name(name, file);
		assert_in_range(strlen(file), 5, 255);
		assert_string_equal(file + strlen(file) - 4, ".npy");
		assert_int_equal(tensor_name_is_cut(file), n > 251);
		name[n - 1] = 'y';
		tensor_file_name(name, other);
		assert_string_not_equal(file, other);
	}
	memset(name, '\n', 100); /* three bytes each */
	name[100] = 0;
	tensor_file_name(name, file);
	assert_in_range(strlen(file), 200, 255);
	assert_true(tensor_name_is_cut(file));
}

/* A name is cut between characters. */
static void are_cut_between_characters(void **state)
{
	char name[600], file[TENSOR_FILE_NAME];
	(void)state;
	for (size_t begin = 0; begin < 4; begin++) {
		size_t at = begin;
		memset(name, 'x', begin);
		for (; at < 500; at += 3)
			memcpy(name + at, "€", 3);
		name[at] = 0;
		tensor_file_name(name, file);
		size_t end = (size_t)(strchr(file, '~') - file);
		assert_int_equal((end - begin) % 3, 0);
		assert_in_range(end, 232, 234);
	}
}

static void of_other_files_are_none(void **state)
{
	static const char *const others[] = {"",      "a",	".npy",	   "a.npz",   "a.npy.",
					     "%.npy", "%2.npy", "%zz.npy", "%00.npy", "a%2f.npy"};
	char name[TENSOR_FILE_NAME], file[TENSOR_FILE_NAME];
	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (tensor_name_read(others[i], name)) {
			tensor_file_name(name, file);
			assert_string_not_equal(file, others[i]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(are_the_names_that_were_published),
		cmocka_unit_test(have_nothing_that_leads_elsewhere),
		cmocka_unit_test(of_any_length_fit_and_differ),
		cmocka_unit_test(are_cut_between_characters),
		cmocka_unit_test(of_other_files_are_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
