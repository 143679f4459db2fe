/* Objects and lists of a JSON schema.
 *
 * Properties come in the order in which the schema has them, those that are not required may be
 * left out; so which of them a text has is read without looking back. Names that the schema does
 * not have come behind them, where it says so with additionalProperties (true or a schema), or has
 * no properties at all: JSON Schema would allow them everywhere, and a model would write on and on.
 */
#include "engine/grammar/grammar_schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t then3(struct grammar_source *s, uint32_t a, uint32_t b, uint32_t c)
{
	return expr_then(s, expr_then(s, a, b), c);
}

static uint32_t comma(struct grammar_source *s)
{
	return expr_then(s, expr_bytes(s, ',', ','), json_gap(s));
}

/* OPEN inside CLOSE, white space within; `empty`: nothing may be inside. */
static uint32_t enclosed(struct grammar_source *s, const char *open_close, uint32_t inside,
			 bool empty)
{
	uint32_t gap = json_gap(s);
	uint32_t any = expr_either(s, then3(s, gap, inside, gap), empty ? gap : NOTHING);
	return then3(s, expr_text(s, open_close, 1), any, expr_text(s, open_close + 1, 1));
}

/* ---- which properties ---- */

struct property {
	const char *name;
	bool required;
};
struct properties {
	struct property at[PROPERTIES_MAX];
	uint32_t count;
};

static struct property *find_property(struct properties *p, const char *name)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (!strcmp(p->at[i].name, name))
			return &p->at[i];
	return NULL;
}

static struct property *note_property(struct schema_rules *r, struct properties *p,
				      const char *name)
{
	struct property *known = find_property(p, name);
	if (known)
		return known;
	if (p->count == PROPERTIES_MAX) {
		source_fail(r->s, E2BIG, "schema: an object has more than %d properties",
			    PROPERTIES_MAX);
		return NULL;
	}
	p->at[p->count] = (struct property){.name = name};
	return &p->at[p->count++];
}

static void note_properties(struct schema_rules *r, struct properties *p, const struct layer *l)
{
	const struct json *list = layer_get(l, "properties");
	if (list && json_kind(list) != JSON_OBJECT)
		source_fail(r->s, EINVAL, "schema: \"properties\" must be an object of schemas");
	for (const struct json *v = NULL; list && !r->s->failed && (v = json_next(list, v));)
		note_property(r, p, json_key(v));
}

static void note_required(struct schema_rules *r, struct properties *p, const struct layer *l)
{
	const struct json *list = layer_get(l, "required");
	if (list && json_kind(list) != JSON_LIST)
		source_fail(r->s, EINVAL, "schema: \"required\" must be a list of names");
	for (const struct json *v = NULL; list && !r->s->failed && (v = json_next(list, v));) {
		const char *name;
		struct err e;
		if (json_as_string(v, "required", "schema", &name, &e)) {
			source_fail(r->s, EINVAL, "%s", e.text);
			return;
		}
		struct property *known = note_property(r, p, name);
		if (known)
			known->required = true;
	}
}

/* ---- what a property's value is ---- */

/* What all layers say of it; NULL for a name that none of them has. */
static uint32_t property_value(struct schema_rules *r, const struct layers *l, const char *name)
{
	struct layers value = {.depth = l->depth};
	for (uint32_t i = 0; i < l->count && !r->s->failed; i++) {
		const struct json *list = layer_get(&l->at[i], "properties");
		const struct json *schema = name && list ? json_find(list, name) : NULL;
		if (!schema)
			schema = layer_get(&l->at[i], "additionalProperties");
		if (schema)
			layers_add(r, &value, schema);
	}
	return value.none ? NOTHING : layers_expr(r, &value);
}

static uint32_t member(struct schema_rules *r, const struct layers *l, const char *name)
{
	return then3(r->s, json_quoted(r->s, name), json_colon(r->s), property_value(r, l, name));
}

/* ---- other names ---- */

static uint32_t other_member(struct schema_rules *r, const struct layers *l,
			     const struct properties *p)
{
	const char **names = malloc((p->count + (size_t)1) * sizeof *names);
	if (!names)
		return source_fail(r->s, ENOMEM, "out of memory for a schema");
	for (uint32_t i = 0; i < p->count; i++)
		names[i] = p->at[i].name;
	uint32_t name = schema_other_name(r->s, names, p->count);
	free(names);
	return then3(r->s, name, json_colon(r->s), property_value(r, l, NULL));
}

/* Whether names may follow that the schema has not. */
static bool is_open(const struct layers *l, const struct properties *p)
{
	return layers_have(l, "additionalProperties") || !p->count;
}

/* ---- objects ---- */

/* From behind: what may follow where something stands before it already, and where nothing does. */
static uint32_t object_of(struct schema_rules *r, const struct layers *l,
			  const struct properties *p)
{
	struct grammar_source *s = r->s;
	uint32_t started = EMPTY, fresh = NOTHING, other = NOTHING;
	bool empty = true;
	if (is_open(l, p))
		other = other_member(r, l, p);
	if (other != NOTHING) {
		started = expr_repeat(s, expr_then(s, comma(s), other), 0, REPEAT_ENDLESS);
		fresh = expr_then(s, other, started);
	}
	for (uint32_t i = p->count; i-- > 0 && !s->failed;) {
		bool required = p->at[i].required;
		uint32_t one = expr_then(s, member(r, l, p->at[i].name), started);
		uint32_t later = expr_then(s, comma(s), one);
		fresh = expr_either(s, one, required ? NOTHING : fresh);
		started = expr_either(s, later, required ? NOTHING : started);
		empty &= !required;
	}
	return enclosed(s, "{}", fresh, empty);
}

uint32_t schema_object(struct schema_rules *r, const struct layers *l)
{
	struct properties *p = calloc(1, sizeof *p);
	if (!p)
		return source_fail(r->s, ENOMEM, "out of memory for a schema");
	for (uint32_t i = 0; i < l->count; i++)
		note_properties(r, p, &l->at[i]);
	for (uint32_t i = 0; i < l->count; i++)
		note_required(r, p, &l->at[i]);
	bool any = !p->count && !layers_have(l, "additionalProperties");
	uint32_t expr = any ? json_rule_call(&r->json, JSON_RULE_OBJECT) : object_of(r, l, p);
	free(p);
	return expr;
}

/* ---- lists ---- */

/* Earlier drafts write a list of schemas in items, and the others' in additionalItems. */
static void add_item(struct schema_rules *r, struct layers *value, const struct layer *l, size_t i)
{
	const struct json *first = layer_get(l, "prefixItems"), *rest = layer_get(l, "items");
	if (!first && rest && json_kind(rest) == JSON_LIST) {
		first = rest;
		rest = layer_get(l, "additionalItems");
	}
	const struct json *v = NULL;
	while (first && (v = json_next(first, v)) && i)
		i--;
	if (v || rest)
		layers_add(r, value, v ? v : rest);
}

static uint32_t item_value(struct schema_rules *r, const struct layers *l, size_t i)
{
	struct layers value = {.depth = l->depth};
	for (uint32_t k = 0; k < l->count; k++)
		add_item(r, &value, &l->at[k], i);
	return value.none ? NOTHING : layers_expr(r, &value);
}

/* How many items have schemas of their own. */
static size_t first_items(struct schema_rules *r, const struct layers *l)
{
	size_t most = 0;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct json *first = layer_get(&l->at[i], "prefixItems");
		const struct json *items = layer_get(&l->at[i], "items");
		if (first && json_kind(first) != JSON_LIST)
			source_fail(r->s, EINVAL, "schema: \"prefixItems\" must be a list");
		if (!first && items && json_kind(items) == JSON_LIST)
			first = items;
		if (first && json_count(first) > most)
			most = json_count(first);
	}
	return most;
}

/* Items from behind, as properties are. */
uint32_t schema_array(struct schema_rules *r, const struct layers *l)
{
	struct grammar_source *s = r->s;
	uint64_t least = layers_count(r, l, "minItems", true, 0);
	uint64_t most = layers_count(r, l, "maxItems", false, REPEAT_ENDLESS);
	size_t own = first_items(r, l);
	own = own < most ? own : most;
	uint32_t item = item_value(r, l, own), after = expr_then(s, comma(s), item);
	uint32_t left = most == REPEAT_ENDLESS ? REPEAT_ENDLESS : (uint32_t)(most - own);
	uint32_t needed = least > own ? (uint32_t)(least - own) : 0;
	if (left < needed)
		return NOTHING;
	uint32_t started = expr_repeat(s, after, needed, left), fresh = NOTHING;
	if (!own && left) {
		uint32_t more = left == REPEAT_ENDLESS ? left : left - 1;
		fresh = expr_then(s, item, expr_repeat(s, after, needed ? needed - 1 : 0, more));
	}
	for (size_t i = own; i-- > 0 && !s->failed;) {
		uint32_t one = expr_then(s, item_value(r, l, i), started);
		uint32_t later = expr_then(s, comma(s), one);
		fresh = one;
		started = expr_either(s, later, i < least ? NOTHING : EMPTY);
	}
	return enclosed(s, "[]", fresh, !least);
}
