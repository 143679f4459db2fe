/* What is looked up in a JSON schema: keywords, references, types, in all the layers that speak of
 * one value; and the rules for them, each made once. */
#include "engine/grammar/grammar_schema.h"

#include "engine/json/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { REFERENCES_MAX = 32 };

/* ---- looking things up ---- */

const struct json *layer_get(const struct layer *l, const char *keyword)
{
	return json_find(l->schema, keyword);
}

bool layers_have(const struct layers *l, const char *keyword)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (layer_get(&l->at[i], keyword))
			return true;
	return false;
}

const struct json *layers_only(struct schema_rules *r, const struct layers *l, const char *keyword)
{
	const struct json *found = NULL;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct json *v = layer_get(&l->at[i], keyword);
		if (v && found)
			source_fail(r->s, ENOTSUP,
				    "schema: two of the schemas that allOf or $ref combine have "
				    "\"%s\"; write one",
				    keyword);
		found = v ? v : found;
	}
	return found;
}

uint64_t layers_count(struct schema_rules *r, const struct layers *l, const char *keyword,
		      bool largest, uint64_t none)
{
	uint64_t result = none, value;
	bool any = false;
	struct err e;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct json *v = layer_get(&l->at[i], keyword);
		if (!v)
			continue;
		if (json_as_uint(v, keyword, "schema", 0, UINT32_MAX - 1, &value, &e)) {
			source_fail(r->s, EINVAL, "%s", e.text);
			return none;
		}
		if (!any || (largest ? value > result : value < result))
			result = value;
		any = true;
	}
	return result;
}

/* ---- references ---- */

/* The byte that %XX stands for; less than 0: it does not. */
static int percent_byte(const char *at)
{
	int high = utf8_hex_digit(at[1]);
	return high < 0 ? -1 : high << 4 | utf8_hex_digit(at[2]);
}

/* The next part of a pointer (RFC 6901, in a fragment), decoded; false: too long or wrong. */
static bool pointer_part(const char **at, char part[256])
{
	size_t n = 0;
	for (; **at && **at != '/'; (*at)++) {
		char c = **at;
		if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1'))
			c = *++*at == '0' ? '~' : '/';
		else if (c == '%' && percent_byte(*at) > 0) {
			c = (char)percent_byte(*at);
			*at += 2;
		}
		if (n == 255)
			return false;
		part[n++] = c;
	}
	part[n] = '\0';
	return true;
}

static const struct json *item_at(const struct json *list, const char *digits)
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

static const struct json *refer(struct schema_rules *r, const struct json *ref)
{
	size_t n;
	char part[256];
	const char *at = json_bytes(ref, &n);
	const struct json *found = json_kind(ref) == JSON_TEXT && *at == '#' ? r->root : NULL;
	const char *whole = at++;
	while (found && *at == '/') {
		at++;
		if (!pointer_part(&at, part))
			found = NULL;
		else if (json_kind(found) == JSON_LIST)
			found = item_at(found, part);
		else
			found = json_find(found, part);
	}
	if (!found || *at)
		source_fail(r->s, EINVAL,
			    "schema: \"$ref\": \"%.100s\" is not a place in this schema "
			    "(#, #/$defs/NAME …)",
			    whole);
	return r->s->failed ? NULL : found;
}

/* ---- layers ---- */

static void add_all_of(struct schema_rules *r, struct layers *l, const struct json *list)
{
	if (json_kind(list) != JSON_LIST)
		source_fail(r->s, EINVAL, "schema: \"allOf\" must be a list of schemas");
	for (const struct json *v = NULL; !r->s->failed && (v = json_next(list, v));)
		layers_add(r, l, v);
}

static void add_object(struct schema_rules *r, struct layers *l, const struct json *schema)
{
	const struct json *ref = json_find(schema, "$ref"), *all = json_find(schema, "allOf");
	for (uint32_t i = 0; i < l->count; i++)
		if (l->at[i].schema == schema) { /* said already; or an alternative to itself, */
			l->none |= l->at[i].taken != 0; /* which adds nothing to the others */
			return;
		}
	if (l->count == LAYERS_MAX || l->depth > REFERENCES_MAX) {
		source_fail(r->s, E2BIG,
			    "schema: more than %d schemas are combined in one place by allOf, "
			    "anyOf and $ref; or one refers to itself",
			    LAYERS_MAX);
		return;
	}
	keywords_check(r, schema);
	l->at[l->count++] = (struct layer){.schema = schema};
	l->depth++;
	if (ref)
		ref = refer(r, ref);
	if (ref)
		layers_add(r, l, ref);
	if (all)
		add_all_of(r, l, all);
	l->depth--;
}

void layers_add(struct schema_rules *r, struct layers *l, const struct json *schema)
{
	bool any = true;
	if (r->s->failed)
		return;
	if (json_kind(schema) == JSON_OBJECT)
		add_object(r, l, schema);
	else if (json_as_bool(schema, "schema", "schema", &any, NULL))
		source_fail(r->s, EINVAL, "schema: a schema must be an object, true or false");
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

static uint32_t type_of_name(struct schema_rules *r, const struct json *name)
{
	char shown[64];
	size_t n;
	const char *text = json_bytes(name, &n);
	for (int i = 0; i < TYPES; i++)
		if (json_kind(name) == JSON_TEXT && !strcmp(text, types[i].name))
			return types[i].types;
	source_fail(r->s, EINVAL, "schema: \"type\": %s is no type of JSON",
		    json_show(name, shown, sizeof shown));
	return 0;
}

static uint32_t named_types(struct schema_rules *r, const struct json *type)
{
	uint32_t any = 0;
	if (json_kind(type) != JSON_LIST)
		return type_of_name(r, type);
	for (const struct json *v = NULL; (v = json_next(type, v));)
		any |= type_of_name(r, v);
	return any;
}

uint32_t schema_types(struct schema_rules *r, const struct layers *l)
{
	uint32_t named = TYPE_ALL, spoken = 0;
	bool any = false;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct json *type = layer_get(&l->at[i], "type");
		if (type)
			named &= named_types(r, type);
		any |= type != NULL;
		for (const struct json *v = NULL; (v = json_next(l->at[i].schema, v));)
			spoken |= keyword_types(json_key(v));
	}
	if (any || !spoken)
		return named;
	return spoken & TYPE_NUMBER ? spoken | TYPE_INTEGER : spoken;
}

/* ---- rules ---- */

static bool same_layers(const struct layers *a, const struct layers *b)
{
	if (a->count != b->count || a->none != b->none)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (a->at[i].schema != b->at[i].schema || a->at[i].taken != b->at[i].taken)
			return false;
	return true;
}

uint32_t layers_expr(struct schema_rules *r, const struct layers *l)
{
	if (r->s->failed)
		return NOTHING;
	for (uint32_t i = 0; i < r->memo_count; i++)
		if (same_layers(&r->memo[i].layers, l))
			return expr_call(r->s, r->memo[i].rule);
	struct schema_memo *memo = grown(r->memo, r->memo_count, &r->memo_room, sizeof *memo);
	if (!memo)
		return source_fail(r->s, ENOMEM, "out of memory for a schema");
	uint32_t rule = rule_new(r->s);
	r->memo = memo;
	r->memo[r->memo_count++] = (struct schema_memo){*l, r->root, rule};
	return expr_call(r->s, rule);
}

uint32_t schema_expr(struct schema_rules *r, const struct json *schema)
{
	struct layers l = {0};
	if (schema)
		layers_add(r, &l, schema);
	return layers_expr(r, &l);
}

void schema_rules_free(struct schema_rules *r)
{
	free(r->memo);
	r->memo = NULL;
}
