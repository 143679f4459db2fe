/* What an argument that was written as bare text means, by the tool's schema. */
#ifndef MOEFS_ENGINE_ANSWER_SPLIT_VALUES_H
#define MOEFS_ENGINE_ANSWER_SPLIT_VALUES_H

#include "engine/json/text_out.h"

/* The "properties" of the parameters of a tool by this name; NULL: none. *known: whether there is
 * such a tool. */
const struct json *tool_properties(const struct json *tools, const char *name, size_t n,
				   bool *known);
/* The schema of a property; NULL: none. */
const struct json *property_schema(const struct json *properties, const char *key, size_t n);
/* Writes the value as JSON of the first of the schema's types that accepts it; else as a text. */
void write_by_schema(struct text_out *o, const char *value, size_t n, const struct json *schema);

#endif
