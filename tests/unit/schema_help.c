#include "tests/unit/schema_help.h"

#include <ctype.h>
#include <pcre2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct validation {
	struct json_object *root;
	int depth; /* of schemas within one another, as far as they may refer to themselves */
};

static bool valid(struct validation *v, struct json_object *schema, struct json_object *x);

static struct json_object *get(struct json_object *schema, const char *key)
{
	struct json_object *found = NULL;
	json_object_object_get_ex(schema, key, &found);
	return found;
}

static bool has(struct json_object *schema, const char *key)
{
	return json_object_object_get_ex(schema, key, NULL);
}

static bool whole(struct json_object *x)
{
	double d = json_object_get_double(x);
	return json_object_is_type(x, json_type_int) ||
	       (json_object_is_type(x, json_type_double) && d == (double)(int64_t)d);
}

static bool is_type(struct json_object *x, const char *name)
{
	static const char *const names[] = {
		[json_type_null] = "null",     [json_type_boolean] = "boolean",
		[json_type_double] = "number", [json_type_int] = "number",
		[json_type_object] = "object", [json_type_array] = "array",
		[json_type_string] = "string",
	};
	return !strcmp(names[json_object_get_type(x)], name) ||
	       (!strcmp(name, "integer") && whole(x));
}

static bool typed(struct json_object *type, struct json_object *x)
{
	if (!json_object_is_type(type, json_type_array))
		return is_type(x, json_object_get_string(type));
	for (size_t i = 0; i < json_object_array_length(type); i++)
		if (is_type(x, json_object_get_string(json_object_array_get_idx(type, i))))
			return true;
	return false;
}

static bool listed(struct json_object *list, struct json_object *x)
{
	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (json_object_equal(json_object_array_get_idx(list, i), x))
			return true;
	return false;
}

static struct json_object *referred(struct validation *v, const char *ref)
{
	char pointer[256];
	size_t n = 0;
	for (ref++; *ref; ref++) {
		unsigned int byte = (uint8_t)*ref;
		if (*ref == '%' && isxdigit(ref[1]) && isxdigit(ref[2]) &&
		    sscanf(ref + 1, "%2x", &byte) == 1)
			ref += 2;
		pointer[n++] = (char)byte;
	}
	pointer[n] = '\0';
	struct json_object *found = v->root;
	if (n)
		json_pointer_get(v->root, pointer, &found);
	return found;
}

static bool any_of(struct validation *v, struct json_object *list, struct json_object *x)
{
	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (valid(v, json_object_array_get_idx(list, i), x))
			return true;
	return false;
}

static bool all_of(struct validation *v, struct json_object *list, struct json_object *x)
{
	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (!valid(v, json_object_array_get_idx(list, i), x))
			return false;
	return true;
}

static bool object_valid(struct validation *v, struct json_object *s, struct json_object *x)
{
	struct json_object *properties = get(s, "properties"), *required = get(s, "required");
	for (size_t i = 0; required && i < json_object_array_length(required); i++)
		if (!has(x, json_object_get_string(json_object_array_get_idx(required, i))))
			return false;
	json_object_object_foreach(x, key, value)
	{
		struct json_object *one = get(s, "additionalProperties");
		bool there = one != NULL;
		if (properties && json_object_object_get_ex(properties, key, &one))
			there = true;
		if (there && !valid(v, one, value))
			return false;
	}
	return true;
}

static bool array_valid(struct validation *v, struct json_object *s, struct json_object *x)
{
	size_t n = json_object_array_length(x);
	struct json_object *first = get(s, "prefixItems"), *rest = get(s, "items");
	if (!first && json_object_is_type(rest, json_type_array)) {
		first = rest;
		rest = get(s, "additionalItems");
	}
	if (has(s, "minItems") && n < (size_t)json_object_get_int64(get(s, "minItems")))
		return false;
	if (has(s, "maxItems") && n > (size_t)json_object_get_int64(get(s, "maxItems")))
		return false;
	for (size_t i = 0; i < n; i++) {
		bool own = first && i < json_object_array_length(first);
		struct json_object *one = own ? json_object_array_get_idx(first, i) : rest;
		if (one && !valid(v, one, json_object_array_get_idx(x, i)))
			return false;
	}
	return true;
}

static bool matches(const char *pattern, const char *text)
{
	int code;
	PCRE2_SIZE at;
	pcre2_code *p = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
				      PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
	if (!p)
		abort();
	pcre2_match_data *data = pcre2_match_data_create_from_pattern(p, NULL);
	bool found = pcre2_match(p, (PCRE2_SPTR)text, strlen(text), 0, 0, data, NULL) >= 0;
	pcre2_match_data_free(data);
	pcre2_code_free(p);
	return found;
}

static bool string_valid(struct json_object *s, struct json_object *x)
{
	const char *text = json_object_get_string(x);
	int64_t n = 0;
	for (int i = 0; i < json_object_get_string_len(x); i++)
		n += (text[i] & 0xc0) != 0x80;
	return !(has(s, "minLength") && n < json_object_get_int64(get(s, "minLength"))) &&
	       !(has(s, "maxLength") && n > json_object_get_int64(get(s, "maxLength"))) &&
	       !(has(s, "pattern") && !matches(json_object_get_string(get(s, "pattern")), text));
}

static bool number_valid(struct json_object *s, struct json_object *x)
{
	double d = json_object_get_double(x);
	struct json_object *b;
	return !((b = get(s, "minimum")) && d < json_object_get_double(b)) &&
	       !((b = get(s, "maximum")) && d > json_object_get_double(b)) &&
	       !((b = get(s, "exclusiveMinimum")) && d <= json_object_get_double(b)) &&
	       !((b = get(s, "exclusiveMaximum")) && d >= json_object_get_double(b));
}

static bool combined(struct validation *v, struct json_object *s, struct json_object *x)
{
	return !(has(s, "type") && !typed(get(s, "type"), x)) &&
	       !(has(s, "enum") && !listed(get(s, "enum"), x)) &&
	       !(has(s, "const") && !json_object_equal(get(s, "const"), x)) &&
	       !(has(s, "$ref") &&
		 !valid(v, referred(v, json_object_get_string(get(s, "$ref"))), x)) &&
	       !(has(s, "anyOf") && !any_of(v, get(s, "anyOf"), x)) &&
	       !(has(s, "oneOf") && !any_of(v, get(s, "oneOf"), x)) &&
	       !(has(s, "allOf") && !all_of(v, get(s, "allOf"), x));
}

static bool by_type(struct validation *v, struct json_object *s, struct json_object *x)
{
	switch (json_object_get_type(x)) {
	case json_type_object:
		return object_valid(v, s, x);
	case json_type_array:
		return array_valid(v, s, x);
	case json_type_string:
		return string_valid(s, x);
	case json_type_int:
	case json_type_double:
		return number_valid(s, x);
	default:
		return true;
	}
}

static bool valid(struct validation *v, struct json_object *s, struct json_object *x)
{
	if (json_object_is_type(s, json_type_boolean))
		return json_object_get_boolean(s);
	if (v->depth == 300)
		return false;
	v->depth++;
	bool good = combined(v, s, x) && by_type(v, s, x);
	v->depth--;
	return good;
}

bool schema_admits(struct json_object *schema, const char *text)
{
	struct json_tokener *t = json_tokener_new_ex(4000);
	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	struct json_object *x = json_tokener_parse_ex(t, text, (int)strlen(text) + 1);
	bool parsed = json_tokener_get_error(t) == json_tokener_success;
	struct validation v = {.root = schema};
	bool good = parsed && valid(&v, schema, x);
	json_object_put(x);
	json_tokener_free(t);
	return good;
}
