/* JSON in tests: parsed, or the test fails; and compared as what it says. */
#ifndef MOEFS_TESTS_JSON_HELP_H
#define MOEFS_TESTS_JSON_HELP_H

#include <json-c/json.h>

/* Given back by json_object_put. */
json_object *test_json(const char *text);
void test_same_json(json_object *is, const char *should);

#endif
