/* Parses JSON, failing the test if it does not parse, and compares it by value. */
#ifndef MOEFS_TESTS_UNIT_JSON_HELP_H
#define MOEFS_TESTS_UNIT_JSON_HELP_H

#include <json-c/json.h>

/* Freed by json_object_put. */
json_object *test_json(const char *text);
void test_same_json(json_object *is, const char *should);

#endif
