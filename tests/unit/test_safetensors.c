/* The header of a .safetensors file: accepted headers; a header that does not describe its data
 * exactly is an error with a sentence. */
#include "engine/source/tensor_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

/* Three tensors that cover 12 + 6 + 4 bytes. */
static const char good[] =
	"{\"__metadata__\":{\"format\":\"pt\"},"
	"\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
	"\"b\":{\"dtype\":\"I16\",\"shape\":[3],\"data_offsets\":[12,18]},"
	"\"c\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[18,22]}}  ";
enum { GOOD_DATA = 22 };

static struct tensor_list list;
static struct err e;

static int parse(const char *text, size_t length, uint64_t data_bytes)
{
	tensor_list_free(&list);
	e = (struct err){0};
	return safetensors_parse(&list, text, length, data_bytes, 7, "x.safetensors", &e);
}

static int free_list(void **state)
{
	(void)state;
	tensor_list_free(&list);
	return 0;
}

/* One tensor "t" in a header of that entry. */
static int parse_entry(const char *entry, uint64_t data_bytes)
{
	char text[1024];
	int n = snprintf(text, sizeof text, "{\"t\":%s}", entry);
	return parse(text, (size_t)n, data_bytes);
}

static void assert_refused(const char *entry, uint64_t data_bytes, int code, const char *word)
{
	int failed = parse_entry(entry, data_bytes);
	if (failed != -code || !strstr(e.text, word) || !strstr(e.text, "x.safetensors"))
		fail_msg("%s: gave %d, \"%s\"", entry, failed, e.text);
}

/* ---- valid headers ---- */

static void a_header_says_what_there_is_and_where(void **state)
{
	(void)state;
	assert_int_equal(parse(good, sizeof good - 1, GOOD_DATA), 0);
	assert_int_equal(list.count, 3);
	const struct checkpoint_tensor *t = list.tensors; /* in the order of their data */
	assert_string_equal(t[0].name, "a.weight");
	assert_true(t[0].known_type && t[0].format == FORMAT_BF16);
	assert_int_equal(t[0].dims, 2);
	assert_int_equal(t[0].shape[0], 2);
	assert_int_equal(t[0].shape[1], 3);
	assert_int_equal(t[0].file, 7);
	assert_string_equal(t[1].type, "I16");
	assert_false(t[1].known_type);
	assert_int_equal(t[1].offset, 12);
	assert_int_equal(t[1].bytes, 6);
	assert_int_equal(t[2].dims, 0);
	assert_int_equal(t[2].bytes, 4);
}

static void empty_tensors_and_empty_files_are_allowed(void **state)
{
	(void)state;
	static const char zero[] =
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,0],\"data_offsets\":[4,4]},"
		"\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
		"\"c\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}";
	assert_int_equal(parse("{}", 2, 0), 0);
	assert_int_equal(list.count, 0);
	assert_int_equal(parse(zero, sizeof zero - 1, 4), 0);
	assert_int_equal(list.count, 3);
}

static void a_second_header_is_added_to_the_first(void **state)
{
	(void)state;
	assert_int_equal(parse(good, sizeof good - 1, GOOD_DATA), 0);
	assert_int_equal(safetensors_parse(&list, good, sizeof good - 1, GOOD_DATA, 8, "y", &e), 0);
	assert_int_equal(list.count, 6);
	assert_int_equal(list.tensors[5].file, 8);
}

/* ---- invalid headers ---- */

static void what_is_not_json_is_refused(void **state)
{
	(void)state;
	static const char *const texts[] = {"",		  " ",	       "{",
					    "[]",	  "3",	       "null",
					    "{}x",	  "{\"t\":3}", "{\"t\":null}",
					    "{\"t\":[]}", "\xff",      "{\"t\xff\":{}}"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		assert_int_equal(parse(texts[i], strlen(texts[i]), 0), -EINVAL);
		assert_non_null(strstr(e.text, "x.safetensors"));
	}
	assert_int_equal(parse("{}\0\0", 4, 0), -EINVAL);
	static char deep[4096];
	memset(deep, '[', sizeof deep);
	assert_int_equal(parse(deep, sizeof deep, 0), -EINVAL);
}

static void an_entry_without_its_parts_is_refused(void **state)
{
	(void)state;
	static const char *const entries[][2] = {
		{"{}", "dtype"},
		{"{\"dtype\":3}", "dtype"},
		{"{\"dtype\":\"F32\"}", "shape"},
		{"{\"dtype\":\"F32\",\"shape\":{}}", "shape"},
		{"{\"dtype\":\"F32\",\"shape\":[-1]}", "shape"},
		{"{\"dtype\":\"F32\",\"shape\":[1.0]}", "shape"},
		{"{\"dtype\":\"F32\",\"shape\":[\"1\"]}", "shape"},
		{"{\"dtype\":\"F32\",\"shape\":[null]}", "shape"},
		{"{\"dtype\":\"F32\",\"shape\":[1]}", "data_offsets"},
		{"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}", "data_offsets"},
		{"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}", "data_offsets"},
		{"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}", "data_offsets"},
		{"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[\"0\",4]}", "data_offsets"},
		{"{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}", "9"},
	};
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
		assert_refused(entries[i][0], 4, EINVAL, entries[i][1]);
}

static void an_unknown_type_is_refused_by_name(void **state)
{
	(void)state;
	assert_refused("{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]}", 4, ENOTSUP, "F4");
	assert_refused("{\"dtype\":\"\",\"shape\":[8],\"data_offsets\":[0,4]}", 4, ENOTSUP, "t");
}

static void sizes_that_overflow_are_refused(void **state)
{
	(void)state;
	static const char *const shapes[] = {"9223372036854775807",
					     "4611686018427387904",
					     "4294967296,4294967296",
					     "2147483648,2147483648,4",
					     "65536,65536,65536,65536",
					     "3037000500,3037000500",
					     "1,9223372036854775807,1,2,1,1,1",
					     "18446744073709551615"};
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		char entry[256];
		(void)snprintf(entry, sizeof entry,
			       "{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[0,4]}",
			       shapes[i]);
		assert_int_equal(parse_entry(entry, 4), -EINVAL);
	}
}

static void data_that_the_file_does_not_have_is_refused(void **state)
{
	(void)state;
	assert_refused("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", 3, EINVAL,
		       "cut short");
	assert_refused("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}", 8, EINVAL, "t");
	assert_refused("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9223372036854775803,"
		       "9223372036854775807]}",
		       4, EINVAL, "t");
	assert_refused(
		"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,18446744073709551620]}", 4,
		EINVAL, "data_offsets");
}

static void a_shape_that_is_not_its_size_is_refused(void **state)
{
	(void)state;
	assert_refused("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}", 4, EINVAL, "8");
	assert_refused("{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,8]}", 8, EINVAL, "t");
	assert_refused("{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,4]}", 4, EINVAL, "t");
}

static void assert_two_refused(int begin1, int end1, int begin2, int end2, uint64_t data_bytes,
			       const char *word)
{
	char text[512];
	int n = snprintf(text, sizeof text,
			 "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]},"
			 "\"b\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
			 end1 - begin1, begin1, end1, end2 - begin2, begin2, end2);
	assert_int_equal(parse(text, (size_t)n, data_bytes), -EINVAL);
	if (!strstr(e.text, word))
		fail_msg("%s", e.text);
}

static void overlaps_and_gaps_are_refused(void **state)
{
	(void)state;
	assert_two_refused(0, 4, 3, 8, 8, "b overlaps");
	assert_two_refused(0, 4, 0, 4, 4, "overlaps");
	assert_two_refused(0, 8, 2, 4, 8, "b overlaps");
	assert_two_refused(0, 4, 5, 8, 8, "b leaves a gap");
	assert_two_refused(1, 4, 4, 8, 8, "a leaves a gap");
	assert_two_refused(0, 4, 4, 7, 8, "1 bytes of data");
	assert_two_refused(0, 4, 2, 2, 4, "b overlaps");
}

static void a_key_given_twice_is_refused(void **state)
{
	(void)state;
	static const char twice[] =
		"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
		"\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}";
	assert_int_equal(parse(twice, sizeof twice - 1, 8), -EINVAL);
	assert_non_null(strstr(e.text, "tensor a is there twice"));
}

static void an_absurdly_long_name_is_refused(void **state)
{
	(void)state;
	char text[1024], name[SAFETENSORS_MAX_NAME + 2];
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = 0;
	int n = snprintf(text, sizeof text,
			 "{\"%s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", name);
	assert_int_equal(parse(text, (size_t)n, 4), -EINVAL);
	n = snprintf(text, sizeof text,
		     "{\"%s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", name + 1);
	assert_int_equal(parse(text, (size_t)n, 4), 0);
}

/* ---- damage ---- */

/* The description of the data is as in the good header; names may differ. */
static void assert_describes_the_same_data(void)
{
	static const struct {
		const char *type;
		uint64_t offset, bytes;
	} same[] = {{"BF16", 0, 12}, {"I16", 12, 6}, {"F32", 18, 4}};
	assert_int_equal(list.count, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(list.tensors[i].type, same[i].type);
		assert_int_equal(list.tensors[i].offset, same[i].offset);
		assert_int_equal(list.tensors[i].bytes, same[i].bytes);
	}
	assert_int_equal(list.tensors[0].shape[0], 2);
	assert_int_equal(list.tensors[0].shape[1], 3);
}

static void a_header_cut_anywhere_is_an_error(void **state)
{
	(void)state;
	for (size_t n = 0; n < sizeof good - 3; n++) { /* the last two bytes are spaces */
		assert_int_equal(parse(good, n, GOOD_DATA), -EINVAL);
		assert_true(e.text[0]);
	}
}

static void a_flipped_bit_is_an_error_or_changes_a_name_only(void **state)
{
	(void)state;
	char text[sizeof good];
	for (size_t bit = 0; bit < 8 * (sizeof good - 1); bit++) {
		memcpy(text, good, sizeof good);
		text[bit / 8] ^= (char)(1 << bit % 8);
		if (parse(text, sizeof good - 1, GOOD_DATA) == 0)
			assert_describes_the_same_data();
		else
			assert_true(e.code && e.text[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_header_says_what_there_is_and_where, free_list),
		cmocka_unit_test_teardown(empty_tensors_and_empty_files_are_allowed, free_list),
		cmocka_unit_test_teardown(a_second_header_is_added_to_the_first, free_list),
		cmocka_unit_test_teardown(what_is_not_json_is_refused, free_list),
		cmocka_unit_test_teardown(an_entry_without_its_parts_is_refused, free_list),
		cmocka_unit_test_teardown(an_unknown_type_is_refused_by_name, free_list),
		cmocka_unit_test_teardown(sizes_that_overflow_are_refused, free_list),
		cmocka_unit_test_teardown(data_that_the_file_does_not_have_is_refused, free_list),
		cmocka_unit_test_teardown(a_shape_that_is_not_its_size_is_refused, free_list),
		cmocka_unit_test_teardown(overlaps_and_gaps_are_refused, free_list),
		cmocka_unit_test_teardown(a_key_given_twice_is_refused, free_list),
		cmocka_unit_test_teardown(an_absurdly_long_name_is_refused, free_list),
		cmocka_unit_test_teardown(a_header_cut_anywhere_is_an_error, free_list),
		cmocka_unit_test_teardown(a_flipped_bit_is_an_error_or_changes_a_name_only,
					  free_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
