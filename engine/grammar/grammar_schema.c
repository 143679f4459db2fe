/* A JSON schema (2020-12, and what earlier drafts wrote) as rules: alternatives, values, types.
 *
 * What is accepted is valid; not all that is valid is accepted (grammar_json.c bounds numbers and
 * white space; properties come in their order). */
#include "engine/grammar/grammar_schema.h"

#include <errno.h>
#include <string.h>

static uint32_t type_of_value(const struct json *value)
{
	static const uint32_t of[] = {
		[JSON_NULL] = TYPE_NULL,   [JSON_BOOL] = TYPE_BOOLEAN, [JSON_NUMBER] = TYPE_NUMBER,
		[JSON_TEXT] = TYPE_STRING, [JSON_LIST] = TYPE_ARRAY,   [JSON_OBJECT] = TYPE_OBJECT,
	};
	char shown[64];
	uint32_t type = of[json_kind(value)];
	if (type == TYPE_NUMBER && !strpbrk(json_show(value, shown, sizeof shown), ".eE"))
		type = TYPE_INTEGER;
	return type;
}

/* ---- values that are listed ---- */

/* What beside a list of values would have to be checked of each. */
static void check_beside(struct schema_rules *r, const struct layers *l)
{
	for (uint32_t i = 0; i < l->count; i++)
		for (const struct json *v = NULL; (v = json_next(l->at[i].schema, v));)
			if (keyword_limits(json_key(v)))
				source_fail(r->s, ENOTSUP,
					    "schema: \"%s\" beside enum or const is not known "
					    "here; list what is left",
					    json_key(v));
}

static uint32_t listed_values(struct schema_rules *r, const struct layers *l)
{
	const struct json *list = layers_only(r, l, "enum"), *one = layers_only(r, l, "const");
	uint32_t allowed = schema_types(r, l), any = NOTHING;
	check_beside(r, l);
	if (one && list)
		source_fail(r->s, ENOTSUP, "schema: enum and const stand in one place; write one");
	if (one)
		return type_of_value(one) & allowed ? json_literal(r->s, one) : NOTHING;
	if (json_kind(list) != JSON_LIST)
		source_fail(r->s, EINVAL, "schema: \"enum\" must be a list of values");
	for (const struct json *v = NULL; !r->s->failed && (v = json_next(list, v));)
		if (type_of_value(v) & allowed)
			any = expr_either(r->s, any, json_literal(r->s, v));
	return any;
}

/* ---- any of several ---- */

static const char *const choices[] = {"anyOf", "oneOf"};

/* The first list of alternatives of which none is a layer yet: each with all the layers. */
static bool alternatives(struct schema_rules *r, const struct layers *l, uint32_t *any)
{
	for (uint32_t i = 0; i < l->count; i++)
		for (uint32_t k = 0; k < 2; k++) {
			const struct json *list = layer_get(&l->at[i], choices[k]);
			if (!list || l->at[i].taken & 1u << k)
				continue;
			if (json_kind(list) != JSON_LIST)
				source_fail(r->s, EINVAL,
					    "schema: \"%s\" must be a list of schemas", choices[k]);
			*any = NOTHING;
			for (const struct json *v = NULL;
			     !r->s->failed && (v = json_next(list, v));) {
				struct layers with = *l;
				with.at[i].taken |= 1u << k;
				layers_add(r, &with, v);
				*any = expr_either(r->s, *any, layers_expr(r, &with));
			}
			return true;
		}
	return false;
}

static uint32_t typed_value(struct schema_rules *r, const struct layers *l, uint32_t t)
{
	uint32_t any = NOTHING;
	struct grammar_source *s = r->s;
	if (t & TYPE_OBJECT)
		any = expr_either(s, any, schema_object(r, l));
	if (t & TYPE_ARRAY)
		any = expr_either(s, any, schema_array(r, l));
	if (t & TYPE_STRING)
		any = expr_either(s, any, schema_string(r, l, SPELL_JSON));
	if (t & (TYPE_NUMBER | TYPE_INTEGER))
		any = expr_either(s, any, schema_number(r, l, !(t & TYPE_NUMBER)));
	if (t & TYPE_BOOLEAN)
		any = expr_either(s, any,
				  expr_either(s, expr_word(s, "true"), expr_word(s, "false")));
	if (t & TYPE_NULL)
		any = expr_either(s, any, expr_word(s, "null"));
	return any;
}

static uint32_t value_expr(struct schema_rules *r, const struct layers *l)
{
	uint32_t any;
	if (l->none || r->s->failed)
		return NOTHING;
	if (alternatives(r, l, &any))
		return any;
	if (layers_have(l, "enum") || layers_have(l, "const"))
		return listed_values(r, l);
	uint32_t allowed = schema_types(r, l);
	bool says = false;
	for (uint32_t i = 0; i < l->count; i++)
		for (const struct json *v = NULL; (v = json_next(l->at[i].schema, v));)
			says |= keyword_limits(json_key(v));
	if (allowed == TYPE_ALL && !says)
		return json_rule_call(&r->json, JSON_RULE_VALUE);
	return typed_value(r, l, allowed);
}

/* ---- all of them ---- */

void schema_rules_finish(struct schema_rules *r)
{
	for (uint32_t i = 0; i < r->memo_count && !r->s->failed; i++) {
		const struct schema_memo memo = r->memo[i]; /* the list may move */
		r->root = memo.root;
		rule_set(r->s, memo.rule, value_expr(r, &memo.layers));
	}
}
