/* JSON schemas: keywords, references and types in all layers of a value, and one rule per set of
 * layers. Not here: the rules of the types (grammar_schema_values.c). */
#include "engine/grammar/grammar_build.h"

#include "cache/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- keywords ---- */

/* Keywords of JSON schemas (2020-12 and earlier drafts). An unknown keyword that might restrict
 * values is refused by name. */

/* Known keywords, and the types they apply to; 0: any or none. */
static const struct keyword {
	const char *name;
	uint32_t types;
	bool limits; /* restricts values; not supported beside enum and const */
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

static const struct keyword *schema_keyword(const char *name)
{
	for (int i = 0; i < KEYWORDS; i++)
		if (!strcmp(keywords[i].name, name))
			return &keywords[i];
	return NULL;
}

bool schema_keyword_limits(const char *name)
{
	const struct keyword *k = schema_keyword(name);
	return k && k->limits;
}

/* Fails if a schema (an object) has an unknown keyword. */
static void schema_check_keywords(struct schema_rules *r, const struct json *schema)
{
	for (const struct json *v = NULL; (v = json_next(schema, v));) {
		const char *name = json_key(v);
		if (!schema_keyword(name) && strncmp(name, "x-", 2) != 0)
			grammar_fail(r->s, ENOTSUP,
				     "schema: the keyword \"%.60s\" is not supported; leave it "
				     "out, or express it differently",
				     name);
	}
}

enum { REFERENCES_MAX = 32 };

/* ---- looking things up ---- */

const struct json *schema_layer_get(const struct schema_layer *l, const char *keyword)
{
	return json_find(l->schema, keyword);
}

bool schema_layers_have(const struct schema_layers *l, const char *keyword)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (schema_layer_get(&l->at[i], keyword))
			return true;
	return false;
}

const struct json *schema_layers_only(struct schema_rules *r, const struct schema_layers *l,
				      const char *keyword)
{
	const struct json *found = NULL;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct json *v = schema_layer_get(&l->at[i], keyword);
		if (v && found)
			grammar_fail(r->s, ENOTSUP,
				     "schema: two schemas combined by allOf or $ref both have "
				     "\"%s\"; merge them into one",
				     keyword);
		found = v ? v : found;
	}
	return found;
}

uint64_t schema_layers_count(struct schema_rules *r, const struct schema_layers *l,
			     const char *keyword, bool largest, uint64_t none)
{
	uint64_t result = none, value;
	bool any = false;
	struct err e;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct json *v = schema_layer_get(&l->at[i], keyword);
		if (!v)
			continue;
		if (json_as_uint(v, keyword, "schema", 0, UINT32_MAX - 1, &value, &e)) {
			grammar_fail(r->s, EINVAL, "%s", e.text);
			return none;
		}
		if (!any || (largest ? value > result : value < result))
			result = value;
		any = true;
	}
	return result;
}

/* ---- references ---- */

/* The byte of %XX; < 0: not hexadecimal. */
static int schema_percent_byte(const char *at)
{
	int high = utf8_hex_digit(at[1]);
	return high < 0 ? -1 : high << 4 | utf8_hex_digit(at[2]);
}

/* Decodes the next part of a JSON pointer (RFC 6901, in a fragment); false: too long. */
static bool schema_pointer_part(const char **at, char part[256])
{
	size_t n = 0;
	for (; **at && **at != '/'; (*at)++) {
		char c = **at;
		if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1'))
			c = *++*at == '0' ? '~' : '/';
		else if (c == '%' && schema_percent_byte(*at) > 0) {
			c = (char)schema_percent_byte(*at);
			*at += 2;
		}
		if (n == 255)
			return false;
		part[n++] = c;
	}
	part[n] = '\0';
	return true;
}

static const struct json *schema_item_at(const struct json *list, const char *digits)
{
	char *end;
	unsigned long left = strtoul(digits, &end, 10);
	if (*digits < '0' || *digits > '9' || *end)
		return NULL;
	const struct json *v = NULL;
	while ((v = json_next(list, v)) && left--)
		;
	return v;
}

static const struct json *schema_refer(struct schema_rules *r, const struct json *ref)
{
	size_t n;
	char part[256];
	const char *at = json_bytes(ref, &n);
	const struct json *found = json_kind(ref) == JSON_TEXT && *at == '#' ? r->root : NULL;
	const char *whole = at++;
	while (found && *at == '/') {
		at++;
		if (!schema_pointer_part(&at, part))
			found = NULL;
		else if (json_kind(found) == JSON_LIST)
			found = schema_item_at(found, part);
		else
			found = json_find(found, part);
	}
	if (!found || *at)
		grammar_fail(r->s, EINVAL,
			     "schema: \"$ref\": \"%.100s\" is not a place in this schema (write #, "
			     "#/$defs/NAME …)",
			     whole);
	return r->s->failed ? NULL : found;
}

/* ---- layers ---- */

static void schema_add_object(struct schema_rules *r, struct schema_layers *l,
			      const struct json *schema)
{
	const struct json *ref = json_find(schema, "$ref"), *all = json_find(schema, "allOf");
	for (uint32_t i = 0; i < l->count; i++)
		if (l->at[i].schema == schema) { /* added already; or an alternative to itself, */
			l->none |= l->at[i].taken != 0; /* which adds no values */
			return;
		}
	if (l->count == LAYERS_MAX || l->depth > REFERENCES_MAX) {
		grammar_fail(r->s, E2BIG,
			     "schema: more than %d schemas are combined in one place by allOf, "
			     "anyOf and $ref; or one refers to itself",
			     LAYERS_MAX);
		return;
	}
	schema_check_keywords(r, schema);
	l->at[l->count++] = (struct schema_layer){.schema = schema};
	l->depth++;
	if (ref)
		ref = schema_refer(r, ref);
	if (ref)
		schema_layers_add(r, l, ref);
	if (all && json_kind(all) != JSON_LIST)
		grammar_fail(r->s, EINVAL, "schema: \"allOf\" must be a list of schemas");
	for (const struct json *v = NULL; all && !r->s->failed && (v = json_next(all, v));)
		schema_layers_add(r, l, v);
	l->depth--;
}

void schema_layers_add(struct schema_rules *r, struct schema_layers *l, const struct json *schema)
{
	bool any = true;
	if (r->s->failed)
		return;
	if (json_kind(schema) == JSON_OBJECT)
		schema_add_object(r, l, schema);
	else if (json_as_bool(schema, "schema", "schema", &any, NULL))
		grammar_fail(r->s, EINVAL, "schema: a schema must be an object, true or false");
	l->none |= !any;
}

/* ---- types ---- */

static const struct {
	const char *name;
	uint32_t types;
} types[] = {
	{"null", TYPE_NULL},
	{"boolean", TYPE_BOOLEAN},
	{"object", TYPE_OBJECT},
	{"array", TYPE_ARRAY},
	{"string", TYPE_STRING},
	{"integer", TYPE_INTEGER},
	{"number", TYPE_NUMBER | TYPE_INTEGER},
};
enum { TYPES = sizeof types / sizeof *types };

static uint32_t schema_type_of_name(struct schema_rules *r, const struct json *name)
{
	char shown[64];
	for (int i = 0; i < TYPES; i++)
		if (json_is_text(name, types[i].name, strlen(types[i].name)))
			return types[i].types;
	grammar_fail(r->s, EINVAL, "schema: \"type\": %s is not a type of JSON",
		     json_show(name, shown, sizeof shown));
	return 0;
}

static uint32_t schema_named_types(struct schema_rules *r, const struct json *type)
{
	uint32_t any = 0;
	if (json_kind(type) != JSON_LIST)
		return schema_type_of_name(r, type);
	for (const struct json *v = NULL; (v = json_next(type, v));)
		any |= schema_type_of_name(r, v);
	return any;
}

uint32_t schema_types(struct schema_rules *r, const struct schema_layers *l)
{
	uint32_t named = TYPE_ALL, spoken = 0;
	bool any = false;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct json *type = schema_layer_get(&l->at[i], "type");
		if (type)
			named &= schema_named_types(r, type);
		any |= type != NULL;
		for (const struct json *v = NULL; (v = json_next(l->at[i].schema, v));) {
			const struct keyword *k = schema_keyword(json_key(v));
			spoken |= k ? k->types : 0;
		}
	}
	if (any || !spoken)
		return named;
	return spoken & TYPE_NUMBER ? spoken | TYPE_INTEGER : spoken;
}

/* ---- rules ---- */

static bool schema_same_layers(const struct schema_layers *a, const struct schema_layers *b)
{
	if (a->count != b->count || a->none != b->none)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (a->at[i].schema != b->at[i].schema || a->at[i].taken != b->at[i].taken)
			return false;
	return true;
}

uint32_t schema_layers_expr(struct schema_rules *r, const struct schema_layers *l)
{
	if (r->s->failed)
		return NOTHING;
	for (uint32_t i = 0; i < r->memo_count; i++)
		if (schema_same_layers(&r->memo[i].layers, l))
			return expr_call(r->s, r->memo[i].rule);
	struct schema_memo *memo =
		grammar_grown(r->memo, r->memo_count, &r->memo_room, sizeof *memo);
	if (!memo)
		return grammar_fail(r->s, ENOMEM, "out of memory for a schema");
	uint32_t rule = expr_new_rule(r->s);
	r->memo = memo;
	r->memo[r->memo_count++] = (struct schema_memo){*l, r->root, rule};
	return expr_call(r->s, rule);
}

uint32_t schema_expr(struct schema_rules *r, const struct json *schema)
{
	struct schema_layers l = {0};
	if (schema)
		schema_layers_add(r, &l, schema);
	return schema_layers_expr(r, &l);
}

void schema_rules_free(struct schema_rules *r)
{
	free(r->memo);
	r->memo = NULL;
}
