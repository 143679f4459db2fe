/* Documents that the gateway parses: a whole number keeps its digits, however many, and errors name
 * a byte of the text that was given. */
#include "fs/gateway/body/document.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static json_object *parsed(const char *text, struct document_error *why)
{
	const struct text t = {.data = (char *)(uintptr_t)text, .length = strlen(text) + 1};
	return document_parse(&t, 8, why);
}

static void gives(const char *text, const char *again)
{
	struct document_error why;
	json_object *o = parsed(text, &why);
	if (!o)
		fail_msg("%s: %s at %zu", text, why.words ? why.words : "no memory", why.at);
	assert_string_equal(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), again);
	json_object_put(o);
}

static void refuses(const char *text, size_t at)
{
	struct document_error why;
	assert_null(parsed(text, &why));
	assert_non_null(why.words);
	assert_int_equal(why.at, at);
}

static void whole_numbers_keep_their_digits(void **state)
{
	static const char *const same[] = {
		"[18446744073709551615,18446744073709551616,-9223372036854775808]",
		"[-9223372036854775809,1000000000000000000000000000000]",
		"{\"a\":{\"b\":[99999999999999999999]},\"c\":-99999999999999999999}",
		"99999999999999999999",
		"[1e300,0.1,1E5,3.0,12345678901234567890.5,123456789012345678901e3]",
		"[\"99999999999999999999\",\"\\\"99999999999999999999\"]",
		"{\"99999999999999999999\":99999999999999999999}",
		"[\"\\\\\",99999999999999999999,\"\\\\\\\"\"]",
	};
	(void)state;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++)
		gives(same[i], same[i]);
	gives(" [ 99999999999999999999 , 1 ]\n", "[99999999999999999999,1]");
}

static void a_copy_keeps_them_too(void **state)
{
	struct document_error why;
	json_object *o = parsed("[99999999999999999999]", &why), *copy = NULL;
	(void)state;
	assert_int_equal(json_object_deep_copy(o, &copy, NULL), 0);
	json_object_put(o);
	assert_string_equal(json_object_to_json_string_ext(copy, JSON_C_TO_STRING_PLAIN),
			    "[99999999999999999999]");
	json_object_put(copy);
}

static void errors_name_a_byte_of_the_text(void **state)
{
	(void)state;
	refuses("[1, x]", 4);
	refuses("[99999999999999999999, x]", 23);
	refuses("[99999999999999999999, 99999999999999999999, x]", 45);
	refuses("[x, 99999999999999999999]", 1);
	refuses("[[[[[[[[[99999999999999999999]]]]]]]]]", 8);
	assert_null(document_parse(&(struct text){0}, 8, &(struct document_error){0}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_numbers_keep_their_digits),
		cmocka_unit_test(a_copy_keeps_them_too),
		cmocka_unit_test(errors_name_a_byte_of_the_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
