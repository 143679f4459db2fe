/* A small validator of JSON schemas, to look at grammars from outside. */
#ifndef MOEFS_TESTS_SCHEMA_HELP_H
#define MOEFS_TESTS_SCHEMA_HELP_H

#include <json-c/json.h>
#include <stdbool.h>

/* Whether a text is JSON, and valid by the schema: by the keywords that grammars know, but for
 * format, and oneOf as anyOf. */
bool schema_admits(struct json_object *schema, const char *text);

#endif
