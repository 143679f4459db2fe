/* See json_fields.h. */
#include "fs/gateway/body/json_fields.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

json_object *json_at(const json_object *o, const char *key)
{
	json_object *value = NULL;
	if (json_object_is_type(o, json_type_object))
		json_object_object_get_ex(o, key, &value);
	return value;
}

static bool json_has_nul(const json_object *string)
{
	return strlen(json_object_get_string((json_object *)(uintptr_t)string)) !=
	       (size_t)json_object_get_string_len(string);
}

const char *json_text(const json_object *o, const char *key)
{
	json_object *value = json_at(o, key);
	bool text = json_object_is_type(value, json_type_string) && !json_has_nul(value);
	return text ? json_object_get_string(value) : NULL;
}

bool json_is(const json_object *o, const char *key, const char *string)
{
	const char *text = json_text(o, key);
	return text && strcmp(text, string) == 0;
}

bool json_true(const json_object *o, const char *key)
{
	json_object *value = json_at(o, key);
	return json_object_is_type(value, json_type_boolean) && json_object_get_boolean(value);
}

int json_text_or_none(const json_object *o, const char *key, const char **text, struct err *e)
{
	*text = json_text(o, key);
	return *text || !json_at(o, key) ? 0 : err_set(e, EINVAL, "%s: must be a text", key);
}

size_t json_length(const json_object *list)
{
	return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

/* Reads a field of one type. `what`: the words for this type. */
static int field_typed(json_object *in, const char *name, enum json_type type, const char *what,
		       json_object **out, struct problem *p)
{
	json_object *value = json_at(in, name);
	if (!value)
		return 0;
	if (!json_object_is_type(value, type))
		return problem_set(p, PROBLEM_INVALID, name, "\"%s\" must be %s", name, what);
	*out = value;
	return 1;
}

int field_text(json_object *in, const char *name, const char **out, struct problem *p)
{
	json_object *value = NULL;
	int there = field_typed(in, name, json_type_string, "a text", &value, p);
	if (there <= 0)
		return there;
	if (json_has_nul(value))
		return problem_set(p, PROBLEM_INVALID, name,
				   "\"%s\" must be a text without NUL characters", name);
	*out = json_object_get_string(value);
	return 1;
}

int field_bool(json_object *in, const char *name, bool *out, struct problem *p)
{
	json_object *value = NULL;
	int there = field_typed(in, name, json_type_boolean, "true or false", &value, p);
	if (there > 0)
		*out = json_object_get_boolean(value);
	return there;
}

int field_number(json_object *in, const char *name, double least, double most, double *out,
		 struct problem *p)
{
	json_object *value = json_at(in, name);
	if (!value)
		return 0;
	bool number = json_object_is_type(value, json_type_double) ||
		      json_object_is_type(value, json_type_int);
	*out = number ? json_object_get_double(value) : 0;
	if (!number || !(*out >= least && *out <= most)) /* NaN is not between them */
		return problem_set(p, PROBLEM_INVALID, name,
				   "\"%s\" must be a number from %g to %g", name, least, most);
	return 1;
}

int field_count(json_object *in, const char *name, uint64_t least, uint64_t most, uint64_t *out,
		struct problem *p)
{
	json_object *value = json_at(in, name);
	if (!value)
		return 0;
	bool whole = json_object_is_type(value, json_type_int);
	/* json-c limits a number beyond 64 bits to the largest that fits. */
	int64_t number = whole ? json_object_get_int64(value) : -1;
	*out = whole && number >= 0 ? json_object_get_uint64(value) : 0;
	if (number < 0 || *out < least || *out > most)
		return problem_set(p, PROBLEM_INVALID, name,
				   "\"%s\" must be a whole number from %" PRIu64 " to %" PRIu64,
				   name, least, most);
	return 1;
}

int field_list(json_object *in, const char *name, json_object **out, struct problem *p)
{
	return field_typed(in, name, json_type_array, "a list", out, p);
}

int field_object(json_object *in, const char *name, json_object **out, struct problem *p)
{
	return field_typed(in, name, json_type_object, "an object", out, p);
}

/* ---- objects ---- */

json_object *json_new(const char *format, ...)
{
	json_object *o = json_object_new_object();
	va_list values;
	va_start(values, format);
	while (*format) {
		char key[64];
		size_t n = strcspn(format, "=");
		(void)snprintf(key, sizeof key, "%.*s", (int)n, format);
		const char *at = format + n + 1;
		size_t length = strcspn(at, " ");
		json_object *value = NULL;
		if (!strncmp(at, "%s", length)) {
			const char *text = va_arg(values, const char *);
			value = text ? json_object_new_string(text) : NULL;
		} else if (!strncmp(at, "%u", length))
			value = json_object_new_int64(va_arg(values, unsigned));
		else if (!strncmp(at, "%ju", length))
			value = json_object_new_int64((int64_t)va_arg(values, uintmax_t));
		else if (!strncmp(at, "%p", length))
			value = va_arg(values, void *);
		else if (!strncmp(at, "[]", length))
			value = json_object_new_array();
		else if (!strncmp(at, "{}", length))
			value = json_object_new_object();
		else if (strncmp(at, "null", length) != 0)
			value = json_object_new_string_len(at, (int)length);
		json_object_object_add(o, key, value);
		format = at + length + (at[length] == ' ');
	}
	va_end(values);
	return o;
}

void json_put(json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, text ? json_object_new_string(text) : NULL);
}

void json_put_n(json_object *o, const char *key, const char *text, size_t n)
{
	json_object_object_add(o, key, json_object_new_string_len(text ? text : "", (int)n));
}

/* ---- text ---- */

void json_add_string(struct text *out, json_object *string)
{
	text_add(out, json_object_get_string(string), (size_t)json_object_get_string_len(string));
}

/* Bytes beyond ASCII occur only within strings, so replacing them there leaves valid JSON. */
void json_add_text(struct text *out, json_object *json, int flags)
{
	size_t n;
	const char *text = json ? json_object_to_json_string_length(json, flags, &n) : NULL;
	if (text)
		text_add_characters(out, text, n);
	else
		out->failed = true;
}

void json_finish(struct text *out, json_object *o)
{
	json_add_text(out, o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	json_object_put(o);
}

void json_event(struct text *out, const char *name, json_object *data)
{
	if (name)
		text_format(out, "event: %s\n", name);
	text_string(out, "data: ");
	json_finish(out, data);
	text_string(out, "\n\n");
}
