/* The keywords of JSON schemas (2020-12, and what earlier drafts wrote). One that would restrict
 * more than is known here is refused by name. */
#include "engine/grammar/grammar_schema.h"

#include <errno.h>
#include <string.h>

/* What is known, and of which type it speaks; 0: of any, or of none. */
static const struct keyword {
	const char *name;
	uint32_t types;
	bool limits; /* beside enum and const it would have to be checked of each value */
} keywords[] = {
	{"type", 0, false},
	{"enum", 0, false},
	{"const", 0, false},
	{"anyOf", 0, false},
	{"oneOf", 0, false},
	{"allOf", 0, false},
	{"$ref", 0, false},
	{"properties", TYPE_OBJECT, true},
	{"required", TYPE_OBJECT, true},
	{"additionalProperties", TYPE_OBJECT, true},
	{"items", TYPE_ARRAY, true},
	{"prefixItems", TYPE_ARRAY, true},
	{"additionalItems", TYPE_ARRAY, true},
	{"minItems", TYPE_ARRAY, true},
	{"maxItems", TYPE_ARRAY, true},
	{"pattern", TYPE_STRING, true},
	{"format", TYPE_STRING, true},
	{"minLength", TYPE_STRING, true},
	{"maxLength", TYPE_STRING, true},
	{"minimum", TYPE_NUMBER, true},
	{"maximum", TYPE_NUMBER, true},
	{"exclusiveMinimum", TYPE_NUMBER, true},
	{"exclusiveMaximum", TYPE_NUMBER, true},
	{"$defs", 0, false},
	{"definitions", 0, false},
	{"title", 0, false},
	{"description", 0, false},
	{"default", 0, false},
	{"example", 0, false},
	{"examples", 0, false},
	{"deprecated", 0, false},
	{"readOnly", 0, false},
	{"writeOnly", 0, false},
	{"contentEncoding", 0, false},
	{"contentMediaType", 0, false},
	{"$schema", 0, false},
	{"$id", 0, false},
	{"id", 0, false},
	{"$anchor", 0, false},
	{"$comment", 0, false},
	{"$vocabulary", 0, false},
};
enum { KEYWORDS = sizeof keywords / sizeof *keywords };

static const struct keyword *keyword_of(const char *name)
{
	for (int i = 0; i < KEYWORDS; i++)
		if (!strcmp(keywords[i].name, name))
			return &keywords[i];
	return NULL;
}

bool keyword_limits(const char *name)
{
	const struct keyword *k = keyword_of(name);
	return k && k->limits;
}

uint32_t keyword_types(const char *name)
{
	const struct keyword *k = keyword_of(name);
	return k ? k->types : 0;
}

void keywords_check(struct schema_rules *r, const struct json *schema)
{
	for (const struct json *v = NULL; (v = json_next(schema, v));) {
		const char *name = json_key(v);
		if (!keyword_of(name) && strncmp(name, "x-", 2) != 0)
			source_fail(r->s, ENOTSUP,
				    "schema: \"%.60s\" is not known here and may restrict what is "
				    "valid; leave it out, or say it otherwise",
				    name);
	}
}
