/* Lists of tool calls, and the arguments of a call: typed by the tool's schema, collected one by
 * one. */
#include "engine/answer/split_calls.h"

#include "engine/answer/split_forms.h"
#include "engine/answer/split_scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void calls_cut(struct calls *c, size_t count)
{
	while (c->count > count) {
		struct call *last = &c->items[--c->count];
		free(last->name);
		free(last->arguments);
		free(last->id);
	}
}

void calls_free(struct calls *c)
{
	calls_cut(c, 0);
	free(c->items);
	*c = (struct calls){0};
}

bool calls_append(struct calls *c, struct text_out *name, struct text_out *arguments)
{
	bool room = c->count < CALLS_MAX;
	if (c->count == c->room && room) {
		size_t more = 2 * c->room + 4;
		struct call *items = reallocarray(c->items, more, sizeof *items);
		c->failed |= !items;
		c->items = items ? items : c->items;
		c->room = items ? more : c->room;
	}
	c->failed |= name->failed || arguments->failed;
	if (c->failed || !room) {
		text_out_free(name);
		text_out_free(arguments);
		return room;
	}
	c->items[c->count++] = (struct call){.name = name->bytes,
					     .name_n = name->n,
					     .arguments = arguments->bytes,
					     .arguments_n = arguments->n};
	return true;
}

size_t call_kind_length(const char *name, size_t n)
{
	static const char KIND[] = "functions.";
	size_t kind = sizeof KIND - 1;
	return n > kind && memcmp(name, KIND, kind) == 0 ? kind : 0;
}

bool calls_append_object(struct calls *c, const char *name, size_t n, const char *object,
			 size_t object_n)
{
	struct text_out named = {0}, arguments = {0};
	struct json *parsed = NULL;
	struct err ignored = {0};
	if (json_parse_text(&parsed, object, object_n, "arguments", &ignored) < 0)
		return false;
	text_out_add(&named, name, n);
	text_out_json(&arguments, parsed);
	json_free(parsed);
	return calls_append(c, &named, &arguments);
}

void calls_give_id(struct calls *c, const char *id, size_t n)
{
	if (n == 0 || n > CALL_ID_MAX || c->count == 0 || memchr(id, '\0', n))
		return;
	for (size_t i = 0; i + 1 < c->count; i++)
		if (c->items[i].id_n == n && memcmp(c->items[i].id, id, n) == 0)
			return;
	struct call *last = &c->items[c->count - 1];
	last->id = strndup(id, n);
	last->id_n = last->id ? n : 0;
	c->failed |= !last->id;
}

bool call_is_short_id(const char *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)id[i]))
			return false;
	return n == 9;
}

/* ---- values by the schema of a tool ---- */

const struct json *call_tool_function(const struct json *tool)
{
	const struct json *inside = json_find(tool, "function");
	return inside ? inside : tool;
}

const struct json *calls_tool_properties(const struct json *tools, const char *name, size_t n,
					 bool *known)
{
	*known = false;
	for (const struct json *t = NULL; (t = json_next(tools, t));) {
		const struct json *function = call_tool_function(t);
		if (!json_is_text(json_find(function, "name"), name, n))
			continue;
		*known = true;
		return json_find(json_find(function, "parameters"), "properties");
	}
	return NULL;
}

const struct json *calls_property_schema(const struct json *properties, const char *key, size_t n)
{
	if (json_kind(properties) != JSON_OBJECT)
		return NULL;
	for (const struct json *v = NULL; (v = json_next(properties, v));)
		if (strlen(json_key(v)) == n && memcmp(json_key(v), key, n) == 0)
			return v;
	return NULL;
}

/* ---- the types of a schema, in its order ---- */

enum call_type { T_STRING, T_INTEGER, T_NUMBER, T_BOOLEAN, T_NULL, T_OBJECT, T_ARRAY, TYPES };
static const char *const TYPE_NAMES[TYPES] = {"string", "integer", "number", "boolean",
					      "null",	"object",  "array"};
enum { TYPES_MAX = 32, SCHEMA_DEPTH_MAX = 8 };
struct call_types {
	enum call_type items[TYPES_MAX];
	size_t count;
	bool any; /* the schema names a type, known here or not */
};

static void calls_add_type(struct call_types *t, enum call_type type)
{
	t->any = true;
	if (t->count < TYPES_MAX)
		t->items[t->count++] = type;
}

static void calls_add_named_type(struct call_types *t, const struct json *name)
{
	t->any = true;
	for (size_t i = 0; i < TYPES; i++)
		if (json_is_text(name, TYPE_NAMES[i], strlen(TYPE_NAMES[i])))
			calls_add_type(t, (enum call_type)i);
}

/* Adds the type of a value of an enum. */
static void calls_add_type_of(struct call_types *t, const struct json *value)
{
	static const enum call_type KINDS[] = {
		[JSON_NULL] = T_NULL,	[JSON_BOOL] = T_BOOLEAN, [JSON_NUMBER] = T_NUMBER,
		[JSON_TEXT] = T_STRING, [JSON_LIST] = T_ARRAY,	 [JSON_OBJECT] = T_OBJECT};
	char shown[64];
	bool whole = json_kind(value) == JSON_NUMBER &&
		     !strpbrk(json_show(value, shown, sizeof shown), ".eE");
	calls_add_type(t, whole ? T_INTEGER : KINDS[json_kind(value)]);
}

static void calls_add_types(struct call_types *t, const struct json *schema, int depth)
{
	static const char *const CHOICES[] = {"anyOf", "oneOf"};
	const struct json *type = json_find(schema, "type");
	if (json_kind(schema) != JSON_OBJECT || depth > SCHEMA_DEPTH_MAX)
		return;
	if (json_kind(type) == JSON_TEXT)
		calls_add_named_type(t, type);
	for (const struct json *v = NULL; (v = json_next(type, v));)
		calls_add_named_type(t, v);
	if (json_kind(type) != JSON_NULL)
		return;
	for (size_t i = 0; i < sizeof CHOICES / sizeof *CHOICES; i++) {
		const struct json *options = json_find(schema, CHOICES[i]);
		for (const struct json *v = NULL; (v = json_next(options, v));)
			calls_add_types(t, v, depth + 1);
		if (options)
			return;
	}
	const struct json *fixed = json_find(schema, "const"), *values = json_find(schema, "enum");
	if (fixed)
		calls_add_type_of(t, fixed);
	else
		for (const struct json *v = NULL; (v = json_next(values, v));)
			calls_add_type_of(t, v);
}

static bool calls_has_type(const struct call_types *t, enum call_type type)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->items[i] == type)
			return true;
	return false;
}

/* ---- values ---- */

static bool calls_is_word(const char *text, size_t n, const char *word)
{
	return strlen(word) == n && strncasecmp(text, word, n) == 0;
}

/* Whether text[n] is an integer, or one with .0 at the end; *digits: its length without the .0. */
static bool calls_is_integer(const char *text, size_t n, size_t *digits)
{
	const char *point = memchr(text, '.', n);
	*digits = point ? (size_t)(point - text) : n;
	bool zeros = !point || *digits + 1 < n;
	for (size_t i = *digits + 1; i < n; i++)
		zeros &= text[i] == '0';
	return zeros && scan_is_number(text, *digits) && !memchr(text, 'e', *digits) &&
	       !memchr(text, 'E', *digits);
}

/* Writes a trimmed value if this type accepts it. */
static bool calls_write_as(struct text_out *o, enum call_type type, const char *text, size_t n)
{
	size_t take = n;
	char first;
	bool accepted;
	switch (type) {
	case T_INTEGER:
		accepted = calls_is_integer(text, n, &take);
		break;
	case T_NUMBER:
		accepted = scan_is_number(text, n);
		break;
	case T_BOOLEAN:
		accepted = calls_is_word(text, n, "true") || calls_is_word(text, n, "false");
		text = n == 4 ? "true" : "false";
		break;
	case T_OBJECT:
	case T_ARRAY:
		accepted = scan_is_json(text, n, &first) && first == (type == T_OBJECT ? '{' : '[');
		break;
	default:
		accepted = false;
	}
	if (accepted)
		text_out_add(o, text, take);
	return accepted;
}

void calls_write_by_schema(struct text_out *o, const char *value, size_t n,
			   const struct json *schema)
{
	struct call_types types = {.count = 0};
	const char *text = value;
	size_t inside = n;
	calls_add_types(&types, schema, 0);
	while (inside > 0 && scan_is_space(*text)) {
		text++;
		inside--;
	}
	while (inside > 0 && scan_is_space(text[inside - 1]))
		inside--;
	bool null = (inside == 4 && memcmp(text, "null", 4) == 0) ||
		    (inside == 4 && memcmp(text, "None", 4) == 0);
	if (null && types.any &&
	    (calls_has_type(&types, T_NULL) || !calls_has_type(&types, T_STRING))) {
		text_out_string(o, "null");
		return;
	}
	for (size_t i = 0; i < types.count && types.items[i] != T_STRING; i++)
		if (calls_write_as(o, types.items[i], text, inside))
			return;
	text_out_json_text(o, value, n);
}

/* ---- arguments one by one ---- */

void call_arguments_free(struct arguments *a)
{
	for (size_t i = 0; i < a->count; i++)
		text_out_free(&a->items[i].value);
	free(a->items);
}

static bool call_is_key(const struct argument *a, const char *key, size_t n)
{
	return a->key_n == n && memcmp(a->key, key, n) == 0;
}

bool call_arguments_have(const struct arguments *a, const char *key, size_t n)
{
	for (size_t i = 0; i < a->count; i++)
		if (call_is_key(&a->items[i], key, n))
			return true;
	return false;
}

struct text_out *call_arguments_add(struct arguments *a, const char *key, size_t n)
{
	for (size_t i = 0; i < a->count; i++)
		if (call_is_key(&a->items[i], key, n)) {
			text_out_free(&a->items[i].value);
			memmove(&a->items[i], &a->items[i + 1],
				(--a->count - i) * sizeof *a->items);
		}
	if (a->count == a->room) {
		size_t room = 2 * a->room + 4;
		struct argument *items = reallocarray(a->items, room, sizeof *items);
		a->failed |= !items;
		if (!items)
			return NULL;
		a->items = items;
		a->room = room;
	}
	a->items[a->count] = (struct argument){.key = key, .key_n = n};
	return &a->items[a->count++].value;
}

bool call_arguments_append(struct arguments *a, const char *name, size_t n, struct calls *calls)
{
	struct text_out named = {0}, o = {0};
	text_out_add(&named, name, n);
	text_out_string(&o, "{");
	for (size_t i = 0; i < a->count; i++) {
		text_out_string(&o, i > 0 ? ", " : "");
		text_out_json_text(&o, a->items[i].key, a->items[i].key_n);
		text_out_string(&o, ": ");
		text_out_add(&o, a->items[i].value.bytes, a->items[i].value.n);
		o.failed |= a->items[i].value.failed;
	}
	text_out_string(&o, "}");
	o.failed |= a->failed;
	return calls_append(calls, &named, &o);
}

bool call_is_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] <= ' ' || strchr("<>{}\"'", name[i]))
			return false;
	return n > 0;
}
