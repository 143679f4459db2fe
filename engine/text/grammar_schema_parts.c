/* Objects and lists of a JSON schema.
 *
 * Properties come in the order in which the schema has them, those that are not required may be
 * left out; so which of them a text has is read without looking back. Names that the schema does
 * not have come behind them, where it says so with additionalProperties (true or a schema), or has
 * no properties at all: JSON Schema would allow them everywhere, and a model would write on and on.
 */
#include "engine/text/grammar_schema.h"

#include "engine/text/utf8.h"

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

enum { NAME_MAX_BYTES = 256 };

struct names {
	const char *at[PROPERTIES_MAX]; /* ascending */
};

static int by_name(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static int by_from(const void *one, const void *other)
{
	const struct char_range *a = one, *b = other;
	return (a->from > b->from) - (a->from < b->from);
}

static uint32_t any_characters(struct grammar_source *s)
{
	static const struct char_range all[] = {{0, 0x10ffff}};
	return expr_repeat(s, spelled_characters(s, all, 1, SPELL_JSON), 0, REPEAT_ENDLESS);
}

static uint32_t other_rest(struct grammar_source *s, const struct names *n, uint32_t first,
			   uint32_t end, size_t at);

/* The names from first to end by their next characters, which go to `next`; returns how many. */
static uint32_t branches(struct grammar_source *s, const struct names *n, uint32_t first,
			 uint32_t end, size_t at, struct char_range *next, uint32_t *any)
{
	uint32_t count = 0;
	while (first < end && !s->failed) {
		size_t length;
		uint32_t c = utf8_decode(n->at[first] + at, &length), same = first + 1;
		while (same < end && !strncmp(n->at[same] + at, n->at[first] + at, length))
			same++;
		next[count] = (struct char_range){c, c};
		uint32_t spelled = spelled_characters(s, &next[count++], 1, SPELL_JSON);
		uint32_t rest = other_rest(s, n, first, same, at + length);
		*any = expr_either(s, *any, expr_then(s, spelled, rest));
		first = same;
	}
	qsort(next, count, sizeof *next, by_from);
	return count;
}

/* Any character but these, which it writes over. */
static uint32_t any_but(struct grammar_source *s, struct char_range *r, uint32_t count)
{
	uint32_t from = 0, left = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t c = r[i].from;
		if (c > from)
			r[left++] = (struct char_range){from, c - 1};
		from = c + 1;
	}
	r[left++] = (struct char_range){from, 0x10ffff};
	return spelled_characters(s, r, left, SPELL_JSON);
}

/* The rest of a name, with its quote, that goes on otherwise than those from first to end do, which
 * agree in their bytes before `at`. Characters have one spelling here, so that no name has two. */
static uint32_t other_rest(struct grammar_source *s, const struct names *n, uint32_t first,
			   uint32_t end, size_t at)
{
	uint32_t quote = expr_bytes(s, '"', '"'), any = NOTHING;
	if (at > NAME_MAX_BYTES)
		return source_fail(s, E2BIG, "schema: the name of a property is too long");
	struct char_range *next = malloc((end - first + (size_t)1) * sizeof *next);
	if (!next)
		return source_fail(s, ENOMEM, "out of memory for a schema");
	if (first < end && !n->at[first][at])
		first++;
	else
		any = quote;
	uint32_t count = branches(s, n, first, end, at, next, &any);
	uint32_t other = any_but(s, next, count);
	free(next);
	return expr_either(s, any, then3(s, other, any_characters(s), quote));
}

static uint32_t other_member(struct schema_rules *r, const struct layers *l,
			     const struct properties *p)
{
	struct names *n = malloc(sizeof *n);
	if (!n)
		return source_fail(r->s, ENOMEM, "out of memory for a schema");
	for (uint32_t i = 0; i < p->count; i++)
		n->at[i] = p->at[i].name;
	qsort(n->at, p->count, sizeof *n->at, by_name);
	uint32_t name = other_rest(r->s, n, 0, p->count, 0);
	free(n);
	return then3(r->s, expr_then(r->s, expr_bytes(r->s, '"', '"'), name), json_colon(r->s),
		     property_value(r, l, NULL));
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
