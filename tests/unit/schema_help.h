/* A small validator of JSON schemas, to check grammars independently. */
#ifndef MOEFS_TESTS_UNIT_SCHEMA_HELP_H
#define MOEFS_TESTS_UNIT_SCHEMA_HELP_H

#include <json-c/json.h>
#include <stdbool.h>

/* Whether a text is JSON and valid by the schema. Knows the keywords that grammars know except
 * format; oneOf is treated as anyOf. */
bool schema_admits(struct json_object *schema, const char *text);

#endif
