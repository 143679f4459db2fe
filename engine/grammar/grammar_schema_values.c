/* JSON schemas: the rules of values by their types: objects, lists, strings and numbers; listed
 * values and alternatives. Not here: keywords, references and layers (grammar_schema.c). */
#include "engine/grammar/grammar_build.h"
#include "cache/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- names of properties that a schema does not have, character by character ---- */

enum { NAME_MAX_BYTES = 256 };

static int schema_by_name(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static int schema_by_from(const void *one, const void *other)
{
	const struct char_range *a = one, *b = other;
	return (a->from > b->from) - (a->from < b->from);
}

static uint32_t schema_other_rest(struct grammar_source *s, const char *const *names,
				  uint32_t first, uint32_t end, size_t at);

/* Branches for the (sorted) names from first to end by their next characters, which go to
 * `next`; returns their number. */
static uint32_t schema_name_branches(struct grammar_source *s, const char *const *names,
				     uint32_t first, uint32_t end, size_t at,
				     struct char_range *next, uint32_t *any)
{
	uint32_t count = 0;
	while (first < end && !s->failed) {
		size_t length;
		uint32_t c = utf8_decode(names[first] + at, &length), same = first + 1;
		while (same < end && !strncmp(names[same] + at, names[first] + at, length))
			same++;
		next[count] = (struct char_range){c, c};
		uint32_t spelled = grammar_characters(s, &next[count++], 1, SPELL_JSON);
		uint32_t rest = schema_other_rest(s, names, first, same, at + length);
		*any = expr_either(s, *any, expr_then(s, spelled, rest));
		first = same;
	}
	qsort(next, count, sizeof *next, schema_by_from);
	return count;
}

/* Any character except these ranges, which are overwritten. */
static uint32_t schema_any_but(struct grammar_source *s, struct char_range *r, uint32_t count)
{
	uint32_t from = 0, left = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t c = r[i].from;
		if (c > from)
			r[left++] = (struct char_range){from, c - 1};
		from = c + 1;
	}
	r[left++] = (struct char_range){from, 0x10ffff};
	return grammar_characters(s, r, left, SPELL_JSON);
}

/* The rest of a name and its quote that differs from the names from first to end, which agree in
 * their bytes before `at`. Characters have one spelling here, so that no name has two. */
static uint32_t schema_other_rest(struct grammar_source *s, const char *const *names,
				  uint32_t first, uint32_t end, size_t at)
{
	uint32_t quote = expr_word(s, "\""), any = NOTHING;
	if (at > NAME_MAX_BYTES)
		return grammar_fail(s, E2BIG, "schema: the name of a property is too long");
	struct char_range *next = malloc((end - first + (size_t)1) * sizeof *next);
	if (!next)
		return grammar_fail(s, ENOMEM, "out of memory for a schema");
	if (first < end && !names[first][at])
		first++;
	else
		any = quote;
	uint32_t count = schema_name_branches(s, names, first, end, at, next, &any);
	uint32_t other = schema_any_but(s, next, count);
	uint32_t more =
		grammar_characters(s, &(struct char_range){0, CHARACTER_MAX}, 1, SPELL_JSON);
	more = expr_repeat(s, more, 0, REPEAT_ENDLESS);
	free(next);
	return expr_either(s, any, SEQUENCE(s, other, more, quote));
}

/* ---- objects and lists ---- */

/* Properties come in the schema's order, and optional ones may be left out, so the text is read
 * without looking back. Other names follow after them if additionalProperties is true or a
 * schema, or if the schema has no properties: JSON Schema allows other names everywhere, and a
 * model would write on and on. */

static uint32_t schema_comma(struct grammar_source *s)
{
	return expr_then(s, expr_word(s, ","), json_gap(s));
}

/* OPEN inside CLOSE with white space; `empty`: may have nothing inside. */
static uint32_t schema_enclosed(struct grammar_source *s, const char *open_close, uint32_t inside,
				bool empty)
{
	uint32_t gap = json_gap(s);
	uint32_t any = expr_either(s, SEQUENCE(s, gap, inside, gap), empty ? gap : NOTHING);
	return SEQUENCE(s, expr_text(s, open_close, 1), any, expr_text(s, open_close + 1, 1));
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

static struct property *schema_note_property(struct schema_rules *r, struct properties *p,
					     const char *name)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (!strcmp(p->at[i].name, name))
			return &p->at[i];
	if (p->count == PROPERTIES_MAX) {
		grammar_fail(r->s, E2BIG, "schema: an object has more than %d properties",
			     PROPERTIES_MAX);
		return NULL;
	}
	p->at[p->count] = (struct property){.name = name};
	return &p->at[p->count++];
}

/* Notes the names in a layer's "properties" or "required". */
static void schema_note_names(struct schema_rules *r, struct properties *p,
			      const struct schema_layer *l, bool required)
{
	const struct json *list = schema_layer_get(l, required ? "required" : "properties");
	if (list && json_kind(list) != (required ? JSON_LIST : JSON_OBJECT))
		grammar_fail(r->s, EINVAL,
			     required ? "schema: \"required\" must be a list of names"
				      : "schema: \"properties\" must be an object of schemas");
	for (const struct json *v = NULL; list && !r->s->failed && (v = json_next(list, v));) {
		const char *name = required ? NULL : json_key(v);
		struct err e;
		if (required && json_as_string(v, "required", "schema", &name, &e)) {
			grammar_fail(r->s, EINVAL, "%s", e.text);
			return;
		}
		struct property *known = schema_note_property(r, p, name);
		if (known)
			known->required |= required;
	}
}

/* The value of a property, by all layers; `name` NULL: of another name. */
static uint32_t schema_property_value(struct schema_rules *r, const struct schema_layers *l,
				      const char *name)
{
	struct schema_layers value = {.depth = l->depth};
	for (uint32_t i = 0; i < l->count && !r->s->failed; i++) {
		const struct json *list = schema_layer_get(&l->at[i], "properties");
		const struct json *schema = name && list ? json_find(list, name) : NULL;
		if (!schema)
			schema = schema_layer_get(&l->at[i], "additionalProperties");
		if (schema)
			schema_layers_add(r, &value, schema);
	}
	return value.none ? NOTHING : schema_layers_expr(r, &value);
}

static uint32_t schema_other_member(struct schema_rules *r, const struct schema_layers *l,
				    const struct properties *p)
{
	const char **names = malloc((p->count + (size_t)1) * sizeof *names);
	if (!names)
		return grammar_fail(r->s, ENOMEM, "out of memory for a schema");
	for (uint32_t i = 0; i < p->count; i++)
		names[i] = p->at[i].name;
	qsort(names, p->count, sizeof *names, schema_by_name);
	uint32_t rest = schema_other_rest(r->s, names, 0, p->count, 0);
	free(names);
	return SEQUENCE(r->s, expr_word(r->s, "\""), rest, json_colon(r->s),
			schema_property_value(r, l, NULL));
}

/* Built from the end: what may follow after a first member, and what without one. */
static uint32_t schema_object_of(struct schema_rules *r, const struct schema_layers *l,
				 const struct properties *p)
{
	struct grammar_source *s = r->s;
	uint32_t started = EMPTY, fresh = NOTHING, other = NOTHING;
	bool empty = true;
	if (schema_layers_have(l, "additionalProperties") || !p->count)
		other = schema_other_member(r, l, p);
	if (other != NOTHING) {
		started = expr_repeat(s, expr_then(s, schema_comma(s), other), 0, REPEAT_ENDLESS);
		fresh = expr_then(s, other, started);
	}
	for (uint32_t i = p->count; i-- > 0 && !s->failed;) {
		bool required = p->at[i].required;
		const char *name = p->at[i].name;
		uint32_t one = SEQUENCE(s, json_quoted(s, name), json_colon(s),
					schema_property_value(r, l, name), started);
		uint32_t later = expr_then(s, schema_comma(s), one);
		fresh = expr_either(s, one, required ? NOTHING : fresh);
		started = expr_either(s, later, required ? NOTHING : started);
		empty &= !required;
	}
	return schema_enclosed(s, "{}", fresh, empty);
}

uint32_t schema_object(struct schema_rules *r, const struct schema_layers *l)
{
	struct properties *p = calloc(1, sizeof *p);
	if (!p)
		return grammar_fail(r->s, ENOMEM, "out of memory for a schema");
	for (uint32_t i = 0; i < 2 * l->count; i++) /* all properties first, in their order */
		schema_note_names(r, p, &l->at[i % l->count], i >= l->count);
	bool any = !p->count && !schema_layers_have(l, "additionalProperties");
	uint32_t expr =
		any ? json_rule_call(&r->json, JSON_RULE_OBJECT) : schema_object_of(r, l, p);
	free(p);
	return expr;
}

/* ---- lists ---- */

/* Earlier drafts have a list of schemas in items, and the schema of the others in
 * additionalItems. */
static uint32_t schema_item_value(struct schema_rules *r, const struct schema_layers *l, size_t i)
{
	struct schema_layers value = {.depth = l->depth};
	for (uint32_t k = 0; k < l->count; k++) {
		const struct json *first = schema_layer_get(&l->at[k], "prefixItems"),
				  *rest = schema_layer_get(&l->at[k], "items"), *v = NULL;
		if (!first && rest && json_kind(rest) == JSON_LIST) {
			first = rest;
			rest = schema_layer_get(&l->at[k], "additionalItems");
		}
		for (size_t left = i; first && (v = json_next(first, v)) && left; left--)
			;
		if (v || rest)
			schema_layers_add(r, &value, v ? v : rest);
	}
	return value.none ? NOTHING : schema_layers_expr(r, &value);
}

/* The number of items with their own schemas. */
static size_t schema_first_items(struct schema_rules *r, const struct schema_layers *l)
{
	size_t most = 0;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct json *first = schema_layer_get(&l->at[i], "prefixItems");
		const struct json *items = schema_layer_get(&l->at[i], "items");
		if (first && json_kind(first) != JSON_LIST)
			grammar_fail(r->s, EINVAL, "schema: \"prefixItems\" must be a list");
		if (!first && items && json_kind(items) == JSON_LIST)
			first = items;
		if (first && json_count(first) > most)
			most = json_count(first);
	}
	return most;
}

/* Built from the end, as objects are. */
static uint32_t schema_array(struct schema_rules *r, const struct schema_layers *l)
{
	struct grammar_source *s = r->s;
	uint64_t least = schema_layers_count(r, l, "minItems", true, 0);
	uint64_t most = schema_layers_count(r, l, "maxItems", false, REPEAT_ENDLESS);
	size_t own = schema_first_items(r, l);
	own = own < most ? own : most;
	uint32_t item = schema_item_value(r, l, own), after = expr_then(s, schema_comma(s), item);
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
		uint32_t one = expr_then(s, schema_item_value(r, l, i), started);
		uint32_t later = expr_then(s, schema_comma(s), one);
		fresh = one;
		started = expr_either(s, later, i < least ? NOTHING : EMPTY);
	}
	return schema_enclosed(s, "[]", fresh, !least);
}

/* ---- strings ---- */

#define DATE "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
#define CLOCK                                                                                      \
	"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][" \
	"0-9])"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

/* Formats of strings; of days they check only that there are at most 31. */
static const struct {
	const char *name, *regex;
} formats[] = {
	{"date", DATE},
	{"time", CLOCK},
	{"date-time", DATE "T" CLOCK},
	{"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
	{"ipv4", BYTE "(\\." BYTE "){3}"},
	{"hostname", LABEL "(\\." LABEL "){0,9}"},
	{"email", "[A-Za-z0-9_%+-]+(\\.[A-Za-z0-9_%+-]+)*@" LABEL "(\\." LABEL "){1,9}"},
	{"uri", "[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+"},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static uint32_t schema_format_expr(struct schema_rules *r, const struct json *format,
				   enum spelling_of spelling)
{
	char shown[64];
	size_t n;
	const char *name = json_bytes(format, &n);
	for (int i = 0; i < FORMATS; i++)
		if (!strcmp(name, formats[i].name))
			return regex_expr(r->s, formats[i].regex, strlen(formats[i].regex), true,
					  spelling, "format");
	return grammar_fail(r->s, ENOTSUP,
			    "schema: \"format\": %s is not supported; write it as a pattern",
			    json_show(format, shown, sizeof shown));
}

uint32_t schema_string(struct schema_rules *r, const struct schema_layers *l,
		       enum spelling_of spelling)
{
	const struct json *pattern = schema_layers_only(r, l, "pattern");
	const struct json *format = schema_layers_only(r, l, "format");
	bool sized = schema_layers_have(l, "minLength") || schema_layers_have(l, "maxLength");
	uint32_t inside = EMPTY, quote = expr_word(r->s, "\"");
	size_t n;
	const char *regex = json_bytes(pattern, &n);
	if ((pattern != NULL) + (format != NULL) + sized > 1)
		return grammar_fail(r->s, ENOTSUP,
				    "schema: a string may have only one of pattern, format and "
				    "lengths; express the length in the pattern");
	if (pattern && json_kind(pattern) != JSON_TEXT)
		return grammar_fail(r->s, EINVAL, "schema: \"pattern\" must be a text");
	if (pattern)
		inside = regex_expr(r->s, regex, n, false, spelling, "pattern");
	else if (format)
		inside = schema_format_expr(r, format, spelling);
	else if (sized || spelling != SPELL_JSON) {
		static const struct char_range all[] = {{0, CHARACTER_MAX}};
		uint64_t least = schema_layers_count(r, l, "minLength", true, 0);
		uint64_t most = schema_layers_count(r, l, "maxLength", false, REPEAT_ENDLESS);
		if (least > most)
			return NOTHING;
		inside = expr_repeat(r->s, grammar_characters(r->s, all, 1, spelling),
				     (uint32_t)least, (uint32_t)most);
	} else
		return json_rule_call(&r->json, JSON_RULE_STRING);
	if (spelling != SPELL_JSON)
		return inside;
	return SEQUENCE(r->s, quote, inside, quote);
}

/* ---- digits ---- */

#define MOST_DIGITS 15
static const uint64_t LARGEST = 999999999999999; /* of MOST_DIGITS digits */

/* Numbers with a fixed number of digits, leading zeros included; p is 10 to the power digits -
 * 1. */
static uint32_t schema_digits_between(struct grammar_source *s, uint64_t least, uint64_t most,
				      uint64_t p)
{
	uint32_t any = NOTHING;
	if (!p)
		return EMPTY;
	for (uint64_t d = least / p; d <= most / p;) {
		uint64_t from = d == least / p ? least % p : 0;
		uint64_t to = d == most / p ? most % p : p - 1, last = d;
		if (!from && to == p - 1) /* joins digits with the same rest */
			while (last < most / p && (last + 1 < most / p || most % p == p - 1))
				last++;
		uint32_t digit = expr_bytes(s, (uint8_t)('0' + d), (uint8_t)('0' + last));
		uint32_t rest = schema_digits_between(s, from, to, p / 10);
		any = expr_either(s, any, expr_then(s, digit, rest));
		d = last + 1;
	}
	return any;
}

/* Whole numbers without a sign or leading zeros. */
static uint32_t schema_whole_between(struct grammar_source *s, uint64_t least, uint64_t most)
{
	uint32_t any = NOTHING;
	uint64_t p = 1;
	for (int digits = 1; digits <= MOST_DIGITS && least <= most; digits++, p *= 10) {
		uint64_t from = least > p || digits == 1 ? least : p, to = 10 * p - 1;
		to = to < most ? to : most;
		if (from <= to)
			any = expr_either(s, any, schema_digits_between(s, from, to, p));
	}
	return any;
}

/* ---- numbers between bounds ---- */

struct bound { /* of absolute values */
	uint64_t at;
	bool open; /* the number itself is excluded */
};

static uint32_t schema_fraction(struct grammar_source *s, bool zeros, bool other)
{
	uint32_t point = expr_word(s, "."), digit = expr_bytes(s, '0', '9');
	uint32_t zero = expr_word(s, "0"), any = NOTHING;
	if (zeros)
		any = expr_repeat(s, zero, 1, MOST_DIGITS);
	if (other)
		any = expr_either(s, any,
				  SEQUENCE(s, expr_repeat(s, zero, 0, MOST_DIGITS - 1),
					   expr_bytes(s, '1', '9'),
					   expr_repeat(s, digit, 0, MOST_DIGITS - 1)));
	return expr_then(s, point, any);
}

/* Absolute values between bounds: the lowest whole part may have a fraction above the bound, the
 * highest only zeros. */
static uint32_t schema_amounts(struct grammar_source *s, struct bound low, struct bound high,
			       bool whole)
{
	uint32_t any = NOTHING;
	if (whole) {
		low.at += low.open;
		if (high.open && !high.at--)
			return NOTHING;
		return low.at <= high.at ? schema_whole_between(s, low.at, high.at) : NOTHING;
	}
	if (low.at > high.at || (low.at == high.at && (low.open || high.open)))
		return NOTHING;
	uint32_t zeros = expr_maybe(s, schema_fraction(s, true, false));
	uint32_t all = expr_maybe(s, schema_fraction(s, true, true));
	if (low.at < high.at) {
		uint32_t first = low.open ? schema_fraction(s, false, true) : all;
		any = expr_then(s, schema_whole_between(s, low.at, low.at), first);
		if (low.at + 1 < high.at)
			any = expr_either(
				s, any,
				expr_then(s, schema_whole_between(s, low.at + 1, high.at - 1),
					  all));
	}
	if (!high.open)
		any = expr_either(s, any,
				  expr_then(s, schema_whole_between(s, high.at, high.at), zeros));
	return any;
}

struct limit {
	double at;
	bool open, given;
};

/* The narrowest bound of all layers, inclusive or exclusive. */
static struct limit schema_limit_of(struct schema_rules *r, const struct schema_layers *l,
				    bool least)
{
	static const char *const names[2][2] = {{"maximum", "exclusiveMaximum"},
						{"minimum", "exclusiveMinimum"}};
	struct limit found = {0};
	for (uint32_t i = 0; i < l->count; i++)
		for (int open = 0; open < 2; open++) {
			struct err e;
			double at;
			const char *name = names[least][open];
			const struct json *v = schema_layer_get(&l->at[i], name);
			if (!v)
				continue;
			if (json_as_double(v, name, "schema", -1e300, 1e300, &at, &e)) {
				grammar_fail(r->s, EINVAL, "%s", e.text);
				return found;
			}
			bool narrower = least ? at > found.at : at < found.at;
			if (!found.given || narrower || (at == found.at && open))
				found = (struct limit){at, open, true};
		}
	return found;
}

/* Makes bounds whole, also for whole numbers with fractional bounds; a missing bound is the
 * largest number of digits. */
static bool schema_to_whole(struct schema_rules *r, struct limit *l, bool least, bool whole)
{
	double most = (double)LARGEST;
	if (!l->given)
		*l = (struct limit){least ? -most : most, false, true};
	if (whole && l->at != floor(l->at)) {
		l->at = least ? ceil(l->at) : floor(l->at);
		l->open = false;
	}
	if (l->at != floor(l->at)) {
		grammar_fail(r->s, ENOTSUP, "schema: the bounds of a number must be whole numbers");
		return false;
	}
	if (fabs(l->at) > most) {
		bool none = least == (l->at > 0);
		*l = (struct limit){l->at > 0 ? most : -most, none, true};
	}
	return true;
}

static uint32_t schema_number(struct schema_rules *r, const struct schema_layers *l, bool whole)
{
	struct grammar_source *s = r->s;
	struct limit low = schema_limit_of(r, l, true), high = schema_limit_of(r, l, false);
	if (!low.given && !high.given)
		return json_rule_call(&r->json, whole ? JSON_RULE_INTEGER : JSON_RULE_NUMBER);
	if (!schema_to_whole(r, &low, true, whole) || !schema_to_whole(r, &high, false, whole))
		return NOTHING;
	uint32_t any = NOTHING;
	if (high.at >= 0) {
		struct bound from = {low.at > 0 ? (uint64_t)low.at : 0, low.at >= 0 && low.open};
		any = schema_amounts(s, from, (struct bound){(uint64_t)high.at, high.open}, whole);
	}
	if (low.at < 0) { /* absolute values grow the other way; zero has no sign */
		struct bound from = {high.at < 0 ? (uint64_t)-high.at : 0,
				     high.at < 0 ? high.open : true};
		uint32_t below =
			schema_amounts(s, from, (struct bound){(uint64_t)-low.at, low.open}, whole);
		any = expr_either(s, any, expr_then(s, expr_word(s, "-"), below));
	}
	return any;
}

/* ---- values ---- */

/* Values of a schema: alternatives, listed values, types. Accepted texts are valid, but not
 * every valid text is accepted (grammar_json.c bounds numbers and white space; properties come
 * in the schema's order). */

static uint32_t schema_type_of_value(const struct json *value)
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

/* ---- listed values ---- */

static uint32_t schema_listed_values(struct schema_rules *r, const struct schema_layers *l)
{
	const struct json *list = schema_layers_only(r, l, "enum"),
			  *one = schema_layers_only(r, l, "const");
	uint32_t allowed = schema_types(r, l), any = NOTHING;
	for (uint32_t i = 0; i < l->count; i++) /* they would have to be checked for each value */
		for (const struct json *v = NULL; (v = json_next(l->at[i].schema, v));)
			if (schema_keyword_limits(json_key(v)))
				grammar_fail(r->s, ENOTSUP,
					     "schema: \"%s\" together with enum or const is not "
					     "supported; list only the values that remain",
					     json_key(v));
	if (one && list)
		grammar_fail(r->s, ENOTSUP,
			     "schema: enum and const cannot be combined; write one of them");
	if (one)
		return schema_type_of_value(one) & allowed ? json_literal(r->s, one) : NOTHING;
	if (json_kind(list) != JSON_LIST)
		grammar_fail(r->s, EINVAL, "schema: \"enum\" must be a list of values");
	for (const struct json *v = NULL; !r->s->failed && (v = json_next(list, v));)
		if (schema_type_of_value(v) & allowed)
			any = expr_either(r->s, any, json_literal(r->s, v));
	return any;
}

/* ---- any of several ---- */

static const char *const choices[] = {"anyOf", "oneOf"};

/* Expands the first anyOf or oneOf of which no alternative is a layer yet: each alternative
 * together with all layers. */
static bool schema_alternatives(struct schema_rules *r, const struct schema_layers *l,
				uint32_t *any)
{
	for (uint32_t i = 0; i < l->count; i++)
		for (uint32_t k = 0; k < 2; k++) {
			const struct json *list = schema_layer_get(&l->at[i], choices[k]);
			if (!list || l->at[i].taken & 1u << k)
				continue;
			if (json_kind(list) != JSON_LIST)
				grammar_fail(r->s, EINVAL,
					     "schema: \"%s\" must be a list of schemas",
					     choices[k]);
			*any = NOTHING;
			for (const struct json *v = NULL;
			     !r->s->failed && (v = json_next(list, v));) {
				struct schema_layers with = *l;
				with.at[i].taken |= 1u << k;
				schema_layers_add(r, &with, v);
				*any = expr_either(r->s, *any, schema_layers_expr(r, &with));
			}
			return true;
		}
	return false;
}

static uint32_t schema_typed_value(struct schema_rules *r, const struct schema_layers *l,
				   uint32_t t)
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

static uint32_t schema_value_expr(struct schema_rules *r, const struct schema_layers *l)
{
	uint32_t any;
	if (l->none || r->s->failed)
		return NOTHING;
	if (schema_alternatives(r, l, &any))
		return any;
	if (schema_layers_have(l, "enum") || schema_layers_have(l, "const"))
		return schema_listed_values(r, l);
	uint32_t allowed = schema_types(r, l);
	bool says = false;
	for (uint32_t i = 0; i < l->count; i++)
		for (const struct json *v = NULL; (v = json_next(l->at[i].schema, v));)
			says |= schema_keyword_limits(json_key(v));
	if (allowed == TYPE_ALL && !says)
		return json_rule_call(&r->json, JSON_RULE_VALUE);
	return schema_typed_value(r, l, allowed);
}

/* ---- all of them ---- */

void schema_rules_finish(struct schema_rules *r)
{
	for (uint32_t i = 0; i < r->memo_count && !r->s->failed; i++) {
		const struct schema_memo memo = r->memo[i]; /* the list may move */
		r->root = memo.root;
		expr_set_rule(r->s, memo.rule, schema_value_expr(r, &memo.layers));
	}
}
