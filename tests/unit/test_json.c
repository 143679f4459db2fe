/* JSON within bounds: what is taken, what is refused, and that the sentences name file and key. */
#include "engine/text/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct json_object *parsed(const char *text)
{
	struct json_object *value;
	struct err e = {0};
	if (json_parse_text(&value, text, strlen(text), "f.json", &e) < 0)
		fail_msg("%s", e.text);
	return value;
}

static void a_document_is_one_value_and_nothing_after_it(void **state)
{
	(void)state;
	static const char *const GOOD[] = {"{}", " {\"a\": [1, 2.5, \"x\", null, true]} \n", "12",
					   "\"\xc3\xa9\""};
	for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++)
		json_object_put(parsed(GOOD[i]));
	static const char *const BAD[] = {
		"",	 " ",  "{",	   "{\"a\":1", "[1,]",	"{} {}",  "[1] x",   "nul",  "null",
		"{a:1}", "[1", "\"\xff\"", "{}}",      "[tru]", "/*c*/1", "\"\\q\"", "[1 2]"};
	for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
		struct json_object *value = NULL;
		struct err e = {0};
		if (json_parse_text(&value, BAD[i], strlen(BAD[i]), "f.json", &e) != -EINVAL)
			fail_msg("accepted: %s", BAD[i]);
		assert_null(value);
		assert_int_equal(strncmp(e.text, "f.json: ", 8), 0);
	}
}

static void a_nul_byte_and_deep_nesting_are_refused(void **state)
{
	(void)state;
	struct json_object *value;
	struct err e = {0};
	assert_int_equal(json_parse_text(&value, "{}\0", 3, "f.json", &e), -EINVAL);
	assert_non_null(strstr(e.text, "NUL at byte 2"));
	char deep[2 * JSON_DEPTH_MAX + 3] = "";
	for (int depth = 1; depth <= JSON_DEPTH_MAX + 1; depth++) {
		memset(deep, '[', (size_t)depth);
		memset(deep + depth, ']', (size_t)depth);
		int rc = json_parse_text(&value, deep, 2 * (size_t)depth, "f.json", &e);
		assert_int_equal(rc, depth <= JSON_DEPTH_MAX ? 0 : -EINVAL);
		if (rc == 0)
			json_object_put(value);
	}
	assert_non_null(strstr(e.text, "nested deeper"));
}

static void whole_numbers_are_within_bounds_and_whole(void **state)
{
	(void)state;
	struct json_object *o =
		parsed("{\"n\": 7, \"zero\": 0, \"neg\": -1, \"frac\": 7.5, \"one\": 7.0,"
		       "\"text\": \"7\", \"huge\": 18446744073709551615,"
		       "\"more\": 99999999999999999999, \"null\": null}");
	struct err e = {0};
	uint64_t n = 0;
	assert_int_equal(json_get_uint(o, "n", "f.json", 7, 7, &n, &e), 0);
	assert_int_equal(n, 7);
	static const char *const BAD[] = {"zero", "neg",  "frac", "one",   "text",
					  "huge", "more", "null", "absent"};
	for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
		assert_int_equal(json_get_uint(o, BAD[i], "f.json", 1, INT64_MAX, &n, &e), -EINVAL);
		char start[64];
		snprintf(start, sizeof start, "f.json: \"%s\" ", BAD[i]);
		assert_int_equal(strncmp(e.text, start, strlen(start)), 0);
		assert_int_equal(n, 7);
	}
	assert_int_equal(json_get_uint_or(o, "absent", "f.json", 1, 9, 3, &n, &e), 0);
	assert_int_equal(n, 3);
	assert_int_equal(json_get_uint_or(o, "null", "f.json", 1, 9, 4, &n, &e), 0);
	assert_int_equal(n, 4);
	assert_int_equal(json_get_uint_or(o, "text", "f.json", 1, 9, 3, &n, &e), -EINVAL);
	assert_string_equal(e.text,
			    "f.json: \"text\" must be a whole number from 1 to 9, not \"7\"");
	json_object_put(o);
}

static void numbers_are_finite_and_within_bounds(void **state)
{
	(void)state;
	struct json_object *o =
		parsed("{\"a\": 1e-6, \"b\": 10000, \"nan\": NaN, \"inf\": Infinity,"
		       "\"big\": 1e999, \"text\": \"1\"}");
	struct err e = {0};
	double d = 0;
	assert_int_equal(json_get_double(o, "a", "f.json", 0, 1, &d, &e), 0);
	assert_true(d == 1e-6);
	assert_int_equal(json_get_double(o, "b", "f.json", 1, 1e9, &d, &e), 0);
	assert_true(d == 10000);
	static const char *const BAD[] = {"nan", "inf", "big", "text", "absent", "a"};
	for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
		assert_int_equal(json_get_double(o, BAD[i], "f.json", 1, 1e300, &d, &e), -EINVAL);
		assert_non_null(strstr(e.text, BAD[i]));
	}
	assert_int_equal(json_get_double_or(o, "absent", "f.json", 0, 1, 0.25, &d, &e), 0);
	assert_true(d == 0.25);
	json_object_put(o);
}

static void texts_truths_objects_and_lists_are_what_they_say(void **state)
{
	(void)state;
	struct json_object *o =
		parsed("{\"s\": \"x\", \"nul\": \"a\\u0000b\", \"t\": true, \"o\": {},"
		       "\"l\": [], \"n\": null}");
	struct err e = {0};
	const char *s = NULL;
	bool b = false;
	struct json_object *v = NULL;
	assert_int_equal(json_get_string(o, "s", "f.json", &s, &e), 0);
	assert_string_equal(s, "x");
	assert_int_equal(json_get_string(o, "nul", "f.json", &s, &e), -EINVAL);
	assert_int_equal(json_get_string(o, "t", "f.json", &s, &e), -EINVAL);
	assert_int_equal(json_get_string_or(o, "n", "f.json", NULL, &s, &e), 0);
	assert_null(s);
	assert_int_equal(json_get_bool(o, "t", "f.json", &b, &e), 0);
	assert_true(b);
	assert_int_equal(json_get_bool(o, "s", "f.json", &b, &e), -EINVAL);
	assert_int_equal(json_get_bool(o, "n", "f.json", &b, &e), -EINVAL);
	assert_int_equal(json_get_bool_or(o, "n", "f.json", false, &b, &e), 0);
	assert_false(b);
	assert_int_equal(json_get_object(o, "o", "f.json", &v, &e), 0);
	assert_int_equal(json_get_object(o, "l", "f.json", &v, &e), -EINVAL);
	assert_string_equal(e.text, "f.json: \"l\" must be an object, not a list");
	assert_int_equal(json_get_array(o, "l", "f.json", &v, &e), 0);
	assert_int_equal(json_get_array(o, "absent", "f.json", &v, &e), -EINVAL);
	assert_string_equal(e.text, "f.json: \"absent\" is missing; it must be a list");
	assert_int_equal(json_get_array_or_null(o, "absent", "f.json", &v, &e), 0);
	assert_null(v);
	assert_int_equal(json_get_object_or_null(o, "s", "f.json", &v, &e), -EINVAL);
	assert_true(json_has(o, "s"));
	assert_false(json_has(o, "n"));
	assert_false(json_has(NULL, "n"));
	json_object_put(o);
}

static void a_key_of_what_is_no_object_is_refused(void **state)
{
	(void)state;
	struct json_object *list = parsed("[1]");
	struct err e = {0};
	uint64_t n;
	assert_int_equal(json_get_uint(list, "n", "f.json", 0, 9, &n, &e), -EINVAL);
	assert_int_equal(json_get_uint(NULL, "n", "f.json", 0, 9, &n, &e), -EINVAL);
	assert_int_equal(json_get_uint_or(list, "n", "f.json", 0, 9, 1, &n, &e), -EINVAL);
	json_object_put(list);
}

static void a_long_wrong_text_is_shown_in_part(void **state)
{
	(void)state;
	char text[400] = "{\"k\": \"x";
	for (int i = 0; i < 100; i++)
		strcat(text, "\u00e9");
	strcat(text, "\"}");
	struct json_object *o = parsed(text);
	struct err e = {0};
	bool b;
	assert_int_equal(json_get_bool(o, "k", "f.json", &b, &e), -EINVAL);
	assert_non_null(strstr(e.text, "\u00e9…\""));
	assert_true(strlen(e.text) < 160);
	json_object_put(o);
}

static void files_are_regular_and_bounded(void **state)
{
	(void)state;
	char directory[] = "/tmp/moefs-json-XXXXXX", path[64];
	assert_non_null(mkdtemp(directory));
	struct err e = {0};
	struct json_object *o;
	snprintf(path, sizeof path, "%s/f.json", directory);
	assert_int_equal(json_parse_file(&o, path, 100, &e), -ENOENT);
	assert_non_null(strstr(e.text, path));
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs("{\"a\": 1}", f);
	fclose(f);
	assert_int_equal(json_parse_file(&o, path, 8, &e), 0);
	assert_true(json_has(o, "a"));
	json_object_put(o);
	assert_int_equal(json_parse_file(&o, path, 7, &e), -EFBIG);
	assert_non_null(strstr(e.text, path));
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(json_parse_file(&o, path, 100, &e), -EINVAL);
	assert_non_null(strstr(e.text, "regular file"));
	unlink(path);
	assert_int_equal(json_parse_file(&o, directory, 100000, &e), -EINVAL);
	rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_document_is_one_value_and_nothing_after_it),
		cmocka_unit_test(a_nul_byte_and_deep_nesting_are_refused),
		cmocka_unit_test(whole_numbers_are_within_bounds_and_whole),
		cmocka_unit_test(numbers_are_finite_and_within_bounds),
		cmocka_unit_test(texts_truths_objects_and_lists_are_what_they_say),
		cmocka_unit_test(a_key_of_what_is_no_object_is_refused),
		cmocka_unit_test(a_long_wrong_text_is_shown_in_part),
		cmocka_unit_test(files_are_regular_and_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
