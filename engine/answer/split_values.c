#include "engine/answer/split_values.h"

#include "engine/answer/split_scan.h"

#include <string.h>
#include <strings.h>

static bool is_text(const struct json *v, const char *bytes, size_t n)
{
	size_t length;
	const char *text = json_bytes(v, &length);
	return json_kind(v) == JSON_TEXT && length == n && memcmp(text, bytes, n) == 0;
}

const struct json *tool_properties(const struct json *tools, const char *name, size_t n,
				   bool *known)
{
	*known = false;
	for (const struct json *t = NULL; (t = json_next(tools, t));) {
		const struct json *inside = json_find(t, "function");
		const struct json *function = inside ? inside : t;
		if (!is_text(json_find(function, "name"), name, n))
			continue;
		*known = true;
		return json_find(json_find(function, "parameters"), "properties");
	}
	return NULL;
}

const struct json *property_schema(const struct json *properties, const char *key, size_t n)
{
	if (json_kind(properties) != JSON_OBJECT)
		return NULL;
	for (const struct json *v = NULL; (v = json_next(properties, v));)
		if (strlen(json_key(v)) == n && memcmp(json_key(v), key, n) == 0)
			return v;
	return NULL;
}

/* ---- the types of a schema, in its order ---- */

enum type { T_STRING, T_INTEGER, T_NUMBER, T_BOOLEAN, T_NULL, T_OBJECT, T_ARRAY, TYPES };
static const char *const TYPE_NAMES[TYPES] = {"string", "integer", "number", "boolean",
					      "null",	"object",  "array"};
enum { TYPES_MAX = 32, SCHEMA_DEPTH_MAX = 8 };
struct types {
	enum type items[TYPES_MAX];
	size_t count;
	bool any; /* there are some, known here or not */
};

static void add_type(struct types *t, enum type type)
{
	t->any = true;
	if (t->count < TYPES_MAX)
		t->items[t->count++] = type;
}

static void add_named(struct types *t, const struct json *name)
{
	t->any = true;
	for (size_t i = 0; i < TYPES; i++)
		if (is_text(name, TYPE_NAMES[i], strlen(TYPE_NAMES[i])))
			add_type(t, (enum type)i);
}

/* What a value of an enum is. */
static void add_type_of(struct types *t, const struct json *value)
{
	static const enum type KINDS[] = {
		[JSON_NULL] = T_NULL,	[JSON_BOOL] = T_BOOLEAN, [JSON_NUMBER] = T_NUMBER,
		[JSON_TEXT] = T_STRING, [JSON_LIST] = T_ARRAY,	 [JSON_OBJECT] = T_OBJECT};
	char shown[64];
	bool whole = json_kind(value) == JSON_NUMBER &&
		     !strpbrk(json_show(value, shown, sizeof shown), ".eE");
	add_type(t, whole ? T_INTEGER : KINDS[json_kind(value)]);
}

static void add_types(struct types *t, const struct json *schema, int depth)
{
	static const char *const CHOICES[] = {"anyOf", "oneOf"};
	const struct json *type = json_find(schema, "type");
	if (json_kind(schema) != JSON_OBJECT || depth > SCHEMA_DEPTH_MAX)
		return;
	if (json_kind(type) == JSON_TEXT)
		add_named(t, type);
	for (const struct json *v = NULL; (v = json_next(type, v));)
		add_named(t, v);
	if (json_kind(type) != JSON_NULL)
		return;
	for (size_t i = 0; i < sizeof CHOICES / sizeof *CHOICES; i++) {
		const struct json *options = json_find(schema, CHOICES[i]);
		for (const struct json *v = NULL; (v = json_next(options, v));)
			add_types(t, v, depth + 1);
		if (options)
			return;
	}
	const struct json *fixed = json_find(schema, "const"), *values = json_find(schema, "enum");
	if (fixed)
		add_type_of(t, fixed);
	else
		for (const struct json *v = NULL; (v = json_next(values, v));)
			add_type_of(t, v);
}

static bool has(const struct types *t, enum type type)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->items[i] == type)
			return true;
	return false;
}

/* ---- values ---- */

static bool is_word(const char *text, size_t n, const char *word)
{
	return strlen(word) == n && strncasecmp(text, word, n) == 0;
}

/* -?digits, or with .0 at the end; *digits: what of it is the integer. */
static bool is_integer(const char *text, size_t n, size_t *digits)
{
	const char *point = memchr(text, '.', n);
	*digits = point ? (size_t)(point - text) : n;
	bool zeros = !point || *digits + 1 < n;
	for (size_t i = *digits + 1; i < n; i++)
		zeros &= text[i] == '0';
	return zeros && is_json_number(text, *digits) && !memchr(text, 'e', *digits) &&
	       !memchr(text, 'E', *digits);
}

/* Writes a trimmed value if this type accepts it. */
static bool write_as(struct text_out *o, enum type type, const char *text, size_t n)
{
	size_t take = n;
	char first;
	bool accepted;
	switch (type) {
	case T_INTEGER:
		accepted = is_integer(text, n, &take);
		break;
	case T_NUMBER:
		accepted = is_json_number(text, n);
		break;
	case T_BOOLEAN:
		accepted = is_word(text, n, "true") || is_word(text, n, "false");
		text = n == 4 ? "true" : "false";
		break;
	case T_OBJECT:
	case T_ARRAY:
		accepted = is_json(text, n, &first) && first == (type == T_OBJECT ? '{' : '[');
		break;
	default:
		accepted = false;
	}
	if (accepted)
		text_out_add(o, text, take);
	return accepted;
}

void write_by_schema(struct text_out *o, const char *value, size_t n, const struct json *schema)
{
	struct types types = {.count = 0};
	const char *text = value;
	size_t inside = n;
	add_types(&types, schema, 0);
	while (inside > 0 && is_json_space(*text)) {
		text++;
		inside--;
	}
	while (inside > 0 && is_json_space(text[inside - 1]))
		inside--;
	bool null = (inside == 4 && memcmp(text, "null", 4) == 0) ||
		    (inside == 4 && memcmp(text, "None", 4) == 0);
	if (null && types.any && (has(&types, T_NULL) || !has(&types, T_STRING))) {
		text_out_string(o, "null");
		return;
	}
	for (size_t i = 0; i < types.count && types.items[i] != T_STRING; i++)
		if (write_as(o, types.items[i], text, inside))
			return;
	text_out_json_text(o, value, n);
}
