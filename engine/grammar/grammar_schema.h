/* A JSON schema as rules, in parts: for the files that compile one.
 *
 * What several schemas say of one value (allOf, a $ref and what stands beside it, the same property
 * in two of them) are layers: a keyword is looked up in all of them. */
#ifndef MOEFS_ENGINE_GRAMMAR_GRAMMAR_SCHEMA_H
#define MOEFS_ENGINE_GRAMMAR_GRAMMAR_SCHEMA_H

#include "engine/grammar/grammar_inside.h"

enum { LAYERS_MAX = 16, PROPERTIES_MAX = 1000 };

struct layer {
	const struct json *schema; /* an object */
	uint32_t taken; /* of its anyOf and oneOf, bits: an alternative is a layer already */
};
struct layers {
	struct layer at[LAYERS_MAX];
	uint32_t count, depth; /* depth: of references that led here */
	bool none;	       /* false is among them: no value at all */
};

enum schema_type {
	TYPE_NULL = 1,
	TYPE_BOOLEAN = 2,
	TYPE_OBJECT = 4,
	TYPE_ARRAY = 8,
	TYPE_STRING = 16,
	TYPE_INTEGER = 32,
	TYPE_NUMBER = 64,
	TYPE_ALL = 127,
};

struct schema_memo { /* a rule, and what it is made of */
	struct layers layers;
	const struct json *root;
	uint32_t rule;
};

/* Adds a schema with all that it refers to and combines. */
void layers_add(struct schema_rules *r, struct layers *l, const struct json *schema);
/* A call of the rule for layers. */
uint32_t layers_expr(struct schema_rules *r, const struct layers *l);
/* The value of a keyword in one layer; NULL where it has none. */
const struct json *layer_get(const struct layer *l, const char *keyword);
/* The value in the only layer that has the keyword; NULL: none. Fails where two have it. */
const struct json *layers_only(struct schema_rules *r, const struct layers *l, const char *keyword);
bool layers_have(const struct layers *l, const char *keyword);
/* The largest (or smallest) whole number that a keyword has, or `none`. */
uint64_t layers_count(struct schema_rules *r, const struct layers *l, const char *keyword,
		      bool largest, uint64_t none);

/* Whether a keyword is one that enum and const would have to be checked by. */
bool keyword_limits(const char *name);
/* The types that a keyword speaks of; 0: of any, of none, or it is not known. */
uint32_t keyword_types(const char *name);
/* Fails where a schema (an object) has one that is not known. */
void keywords_check(struct schema_rules *r, const struct json *schema);

/* A name in quotes that is none of these, which it sorts. */
uint32_t schema_other_name(struct grammar_source *s, const char **names, uint32_t count);

/* Values of one type. */
uint32_t schema_object(struct schema_rules *r, const struct layers *l);
uint32_t schema_array(struct schema_rules *r, const struct layers *l);
uint32_t schema_string(struct schema_rules *r, const struct layers *l, enum spelling_of spelling);
uint32_t schema_number(struct schema_rules *r, const struct layers *l, bool whole);
/* The types that all layers allow; those that their keywords speak of, where none says. */
uint32_t schema_types(struct schema_rules *r, const struct layers *l);

#endif
