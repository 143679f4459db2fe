#include "tests/unit/json_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

json_object *test_json(const char *text)
{
	json_object *o = json_tokener_parse(text);
	if (!o)
		fail_msg("no JSON: %s", text);
	return o;
}

void test_same_json(json_object *is, const char *should)
{
	json_object *other = test_json(should);
	if (!json_object_equal(is, other))
		fail_msg("is %s\nnot %s", json_object_to_json_string(is), should);
	json_object_put(other);
}
