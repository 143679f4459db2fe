/* JSON within bounds: accepted and refused documents; errors name file and key. */
#include "engine/json/json.h"
#include "memory_help.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <json-c/json.h>

static struct json *parsed(const char *text)
{
	struct json *value;
	struct err e = {0};
	if (json_parse_text(&value, text, strlen(text), "f.json", &e) < 0)
		fail_msg("%s", e.text);
	return value;
}

static void a_document_is_one_value_and_nothing_after_it(void **state)
{
	(void)state;
	static const char *const GOOD[] = {"{}",	" {\"a\": [1, 2.5, \"x\", null, true]} \n",
					   "12",	"\"\xc3\xa9\"",
					   "[[],{}]",	"[-0, 0.5e-7, 1E+9, -Infinity]",
					   "false",	"\"\"",
					   "\t\r\n[\n]"};
	for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++)
		json_free(parsed(GOOD[i]));
	static const char *const BAD[] = {"",
					  " ",
					  "{",
					  "{\"a\":1",
					  "[1,]",
					  "{} {}",
					  "[1] x",
					  "nul",
					  "null",
					  "{a:1}",
					  "[1",
					  "\"\xff\"",
					  "{}}",
					  "[tru]",
					  "/*c*/1",
					  "\"\\q\"",
					  "[1 2]",
					  "[,1]",
					  "{,}",
					  "{\"a\"}",
					  "{\"a\":}",
					  "{\"a\":1,}",
					  "{\"a\" 1}",
					  "{1:1}",
					  "[}",
					  "{]",
					  "01",
					  "-",
					  "1.",
					  ".5",
					  "1e",
					  "1e+",
					  "+1",
					  "0x1",
					  "True",
					  "nan",
					  "--1",
					  "\"a\nb\"",
					  "\"a",
					  "\"a\\",
					  "\"\\u12\"",
					  "\"\\u12g4\"",
					  "\"\\ud83d\"",
					  "\"\\ud83dx\"",
					  "\"\\udca9\"",
					  "\"\\ud83d\\u0041\"",
					  "{\"a\\u0000b\":1}",
					  "\\",
					  "]",
					  ",",
					  ":"};
	for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
		struct json *value = NULL;
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
	struct json *value;
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
			json_free(value);
	}
	assert_non_null(strstr(e.text, "nested deeper"));
}

static void whole_numbers_are_within_bounds_and_whole(void **state)
{
	(void)state;
	struct json *o = parsed("{\"n\": 7, \"zero\": 0, \"neg\": -1, \"frac\": 7.5, \"one\": 7.0,"
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
	json_free(o);
}

static void numbers_are_finite_and_within_bounds(void **state)
{
	(void)state;
	struct json *o = parsed("{\"a\": 1e-6, \"b\": 10000, \"nan\": NaN, \"inf\": Infinity,"
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
	json_free(o);
}

static void texts_truths_objects_and_lists_are_what_they_say(void **state)
{
	(void)state;
	struct json *o = parsed("{\"s\": \"x\", \"nul\": \"a\\u0000b\", \"t\": true, \"o\": {},"
				"\"l\": [], \"n\": null}");
	struct err e = {0};
	const char *s = NULL;
	bool b = false;
	const struct json *v = NULL;
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
	assert_int_equal(json_get_list(o, "l", "f.json", &v, &e), 0);
	assert_int_equal(json_get_list(o, "absent", "f.json", &v, &e), -EINVAL);
	assert_string_equal(e.text, "f.json: \"absent\" is missing; it must be a list");
	assert_int_equal(json_get_list_or_null(o, "absent", "f.json", &v, &e), 0);
	assert_null(v);
	assert_int_equal(json_get_object_or_null(o, "s", "f.json", &v, &e), -EINVAL);
	assert_true(json_has(o, "s"));
	assert_false(json_has(o, "n"));
	assert_false(json_has(NULL, "n"));
	json_free(o);
}

static void a_key_of_a_value_that_is_no_object_is_refused(void **state)
{
	(void)state;
	struct json *list = parsed("[1]");
	struct err e = {0};
	uint64_t n;
	assert_int_equal(json_get_uint(list, "n", "f.json", 0, 9, &n, &e), -EINVAL);
	assert_int_equal(json_get_uint(NULL, "n", "f.json", 0, 9, &n, &e), -EINVAL);
	assert_int_equal(json_get_uint_or(list, "n", "f.json", 0, 9, 1, &n, &e), -EINVAL);
	json_free(list);
}

static void a_long_wrong_text_is_shown_in_part(void **state)
{
	(void)state;
	char text[400] = "{\"k\": \"x";
	for (int i = 0; i < 100; i++)
		strcat(text, "\u00e9");
	strcat(text, "\"}");
	struct json *o = parsed(text);
	struct err e = {0};
	bool b;
	assert_int_equal(json_get_bool(o, "k", "f.json", &b, &e), -EINVAL);
	assert_non_null(strstr(e.text, "\u00e9…\""));
	assert_true(strlen(e.text) < 160);
	json_free(o);
}

static void files_are_regular_and_bounded(void **state)
{
	(void)state;
	char directory[] = "/tmp/moefs-json-XXXXXX", path[64];
	assert_non_null(mkdtemp(directory));
	struct err e = {0};
	struct json *o;
	snprintf(path, sizeof path, "%s/f.json", directory);
	assert_int_equal(json_parse_file(&o, path, 100, &e), -ENOENT);
	assert_non_null(strstr(e.text, path));
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs("{\"a\": 1}", f);
	fclose(f);
	assert_int_equal(json_parse_file(&o, path, 8, &e), 0);
	assert_true(json_has(o, "a"));
	json_free(o);
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

static void a_walk_meets_all_values_in_the_order_of_the_text(void **state)
{
	(void)state;
	struct json *o = parsed("{\"a\": [1, [2, {}], 3], \"b\": {\"c\": 4}, \"\": [], \"a\": 5}");
	static const char *const KEYS[] = {"a", "b", "", "a"};
	static const size_t COUNTS[] = {3, 1, 0, 0};
	size_t n = 0;
	assert_int_equal(json_count(o), 4);
	for (const struct json *v = NULL; (v = json_next(o, v)); n++) {
		assert_string_equal(json_key(v), KEYS[n]);
		assert_int_equal(json_count(v), COUNTS[n]);
	}
	assert_int_equal(n, 4);
	const struct json *list = json_next(o, NULL), *item = NULL;
	static const enum json_kind KINDS[] = {JSON_NUMBER, JSON_LIST, JSON_NUMBER};
	for (n = 0; (item = json_next(list, item)); n++)
		assert_int_equal(json_kind(item), KINDS[n]);
	assert_int_equal(n, 3);
	assert_int_equal(json_kind(json_find(o, "a")), JSON_NUMBER); /* the last of equal keys */
	assert_null(json_find(o, "c"));
	assert_null(json_next(json_find(o, "a"), NULL));
	assert_null(json_next(NULL, NULL));
	json_free(o);
}

static void escapes_become_the_characters_that_they_mean(void **state)
{
	(void)state;
	struct json *o =
		parsed("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u0041\\u00e9\\u20AC\\ud83d\\ude00z\","
		       " \"a\\u0000b\"]");
	const struct json *v = json_next(o, NULL);
	size_t n;
	assert_string_equal(json_bytes(v, &n), "\"\\/\b\f\n\r\t");
	assert_int_equal(n, 8);
	v = json_next(o, v);
	assert_string_equal(json_bytes(v, &n), "A\u00e9\u20ac\U0001f600z");
	assert_memory_equal(json_bytes(json_next(o, v), &n), "a\0b", 4);
	assert_int_equal(n, 3);
	json_free(o);
}

/* ---- compared with another reader ---- */

static void assert_same(const struct json *ours, struct json_object *theirs)
{
	const char *text = json_object_get_string(theirs);
	struct err e;
	double number;
	size_t n, i = 0;
	switch (json_object_get_type(theirs)) {
	case json_type_array:
		assert_int_equal(json_kind(ours), JSON_LIST);
		assert_int_equal(json_count(ours), json_object_array_length(theirs));
		for (const struct json *v = NULL; (v = json_next(ours, v));)
			assert_same(v, json_object_array_get_idx(theirs, i++));
		break;
	case json_type_object:
		assert_int_equal(json_kind(ours), JSON_OBJECT);
		assert_int_equal(json_count(ours), json_object_object_length(theirs));
		for (const struct json *v = NULL; (v = json_next(ours, v));)
			assert_same(v, json_object_object_get(theirs, json_key(v)));
		break;
	case json_type_string:
		assert_string_equal(json_bytes(ours, &n), text);
		assert_int_equal(n, json_object_get_string_len(theirs));
		break;
	case json_type_int:
	case json_type_double:
		assert_int_equal(json_as_double(ours, "", "", -1e300, 1e300, &number, &e), 0);
		/* The other reader cuts whole numbers to 64 bits. */
		assert_true(number == json_object_get_double(theirs) ||
			    json_object_get_uint64(theirs) == UINT64_MAX);
		break;
	case json_type_boolean:
		assert_int_equal(json_kind(ours), JSON_BOOL);
		break;
	default:
		assert_int_equal(json_kind(ours), JSON_NULL);
	}
}

static void the_fixture_s_files_are_read_as_another_reader_reads_them(void **state)
{
	(void)state;
	static const char *const FILES[] = {"config.json", "generation_config.json",
					    "tokenizer.json", "tokenizer_config.json",
					    "golden.json"};
	for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
		char path[128];
		struct err e;
		struct json *ours;
		snprintf(path, sizeof path, "tests/data/fixtures/qwen3_moe/%s", FILES[i]);
		if (access(path, R_OK) != 0)
			continue;
		if (json_parse_file(&ours, path, 1 << 20, &e) < 0)
			fail_msg("%s", e.text);
		struct json_object *theirs = json_object_from_file(path);
		assert_same(ours, theirs);
		json_object_put(theirs);
		json_free(ours);
	}
}

/* ---- memory ---- */

/* A text of `bytes` bytes: a list of `piece`s that fills it. */
static char *repeated(const char *piece, size_t bytes)
{
	size_t n = strlen(piece), used = 1;
	char *text = malloc(bytes + 1);
	assert_non_null(text);
	text[0] = '[';
	for (; used + n + 2 <= bytes; used += n)
		memcpy(text + used, piece, n);
	memset(text + used, ' ', bytes - used);
	text[used - (n > 1)] = ' '; /* the last comma */
	text[bytes - 1] = ']';
	text[bytes] = 0;
	return text;
}

/* Small pieces, which cost most in a reader that allocates each. */
static const char *const PIECES[] = {"{},",	 "[],",	    "1,",	  "\"\",",
				     "null,",	 "[[[]]],", "{\"\":{}},", "{\"a\":1},",
				     "\"\\n\",", "[1],",    "[{},{}],",	  "0.0,"};

static void a_document_takes_at_most_nine_times_its_text(void **state)
{
	(void)state;
	enum { BYTES = 4 << 20 };
	test_memory_limitable();
	for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++) {
		struct err e = {0};
		struct json *o;
		struct rlimit before;
		char *text = repeated(PIECES[i], BYTES);
		test_memory_limit(RLIMIT_AS, 9 * BYTES + (64 << 10), &before);
		int rc = json_parse_text(&o, text, BYTES, "f.json", &e);
		test_memory_unlimit(RLIMIT_AS, &before);
		if (rc < 0)
			fail_msg("%s: %s", PIECES[i], e.text);
		json_free(o);
		free(text);
	}
}

static void a_document_that_memory_is_short_for_is_refused_in_words(void **state)
{
	(void)state;
	enum { BYTES = 4 << 20 };
	test_memory_limitable();
	for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++) {
		struct err e = {0};
		struct json *o;
		struct rlimit before;
		char *text = repeated(PIECES[i], BYTES);
		test_memory_limit(RLIMIT_AS, 1 << 20, &before);
		int rc = json_parse_text(&o, text, BYTES, "f.json", &e);
		test_memory_unlimit(RLIMIT_AS, &before);
		assert_int_equal(rc, -ENOMEM);
		assert_int_equal(strncmp(e.text, "f.json: out of memory", 21), 0);
		free(text);
	}
}

int main(void)
{
	/* Large pieces are returned to the system at once, so that freed memory is not reused
	 * under a limit. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_document_is_one_value_and_nothing_after_it),
		cmocka_unit_test(a_nul_byte_and_deep_nesting_are_refused),
		cmocka_unit_test(whole_numbers_are_within_bounds_and_whole),
		cmocka_unit_test(numbers_are_finite_and_within_bounds),
		cmocka_unit_test(texts_truths_objects_and_lists_are_what_they_say),
		cmocka_unit_test(a_key_of_a_value_that_is_no_object_is_refused),
		cmocka_unit_test(a_long_wrong_text_is_shown_in_part),
		cmocka_unit_test(files_are_regular_and_bounded),
		cmocka_unit_test(a_walk_meets_all_values_in_the_order_of_the_text),
		cmocka_unit_test(escapes_become_the_characters_that_they_mean),
		cmocka_unit_test(the_fixture_s_files_are_read_as_another_reader_reads_them),
		cmocka_unit_test(a_document_takes_at_most_nine_times_its_text),
		cmocka_unit_test(a_document_that_memory_is_short_for_is_refused_in_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
