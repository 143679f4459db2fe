/* See offered.h. */
#include "fs/gateway/body/offered.h"
#include "fs/gateway/body/wanted.h"

#include <errno.h>
#include <string.h>

int offered_name(const char *name, int most, struct err *e)
{
	size_t n = strspn(
		name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
	if (n > 0 && n <= (size_t)most && !name[n])
		return 0;
	return err_set(e, EINVAL,
		       "tools: '%.80s' is no name of a tool: 1 to %d letters, digits, _ and -",
		       name, most);
}

bool offered_has(json_object *tools, const char *name)
{
	size_t n = tools ? json_object_array_length(tools) : 0;
	for (size_t i = 0; i < n; i++) {
		json_object *function = json_at(json_object_array_get_idx(tools, i), "function");
		const char *other = json_text(function, "name");
		if (other && strcmp(other, name) == 0)
			return true;
	}
	return false;
}

/* ---- schemas ---- */

static int wrong(const char *name, const char *what, json_object *value, struct err *e)
{
	return err_set(e, EINVAL, "tools: invalid schema for '%.64s': %s, not %.80s", name, what,
		       json_object_to_json_string(value));
}

static bool is_type(json_object *word)
{
	static const char *const WORDS[] = {"object", "array",	 "string", "number",
					    "null",   "integer", "boolean"};
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
		if (json_object_is_type(word, json_type_string) &&
		    strcmp(json_object_get_string(word), WORDS[i]) == 0)
			return true;
	return false;
}

static bool is_type_or_types(json_object *type)
{
	if (!json_object_is_type(type, json_type_array))
		return is_type(type);
	size_t n = json_object_array_length(type);
	for (size_t i = 0; i < n; i++)
		if (!is_type(json_object_array_get_idx(type, i)))
			return false;
	return n > 0;
}

/* Bodies nest no deeper than their parser allows (request_parse), so this does not either. */
static int check(const char *name, json_object *schema, struct err *e);

static int check_list(const char *name, json_object *list, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < json_object_array_length(list) && rc == 0; i++)
		rc = check(name, json_object_array_get_idx(list, i), e);
	return rc;
}

static int check_named(const char *name, json_object *named, struct err *e)
{
	int rc = 0;
	if (!json_object_is_type(named, json_type_object))
		return wrong(name, "properties and definitions are an object", named, e);
	json_object_object_foreach(named, key, value)
	{
		(void)key;
		if (rc == 0)
			rc = check(name, value, e);
	}
	return rc;
}

static int check(const char *name, json_object *schema, struct err *e)
{
	static const char *const NAMED[] = {"properties", "$defs", "definitions"};
	static const char *const INNER[] = {"items", "additionalProperties", "anyOf",
					    "oneOf", "allOf",		     "not"};
	json_object *type = json_at(schema, "type");
	int rc = 0;
	if (json_object_is_type(schema, json_type_boolean))
		return 0;
	if (!json_object_is_type(schema, json_type_object))
		return wrong(name, "a schema is an object", schema, e);
	if (type && !is_type_or_types(type))
		return wrong(name,
			     "a type is object, array, string, number, integer, boolean or null",
			     type, e);
	for (size_t i = 0; i < sizeof NAMED / sizeof *NAMED && rc == 0; i++)
		if (json_at(schema, NAMED[i]))
			rc = check_named(name, json_at(schema, NAMED[i]), e);
	for (size_t i = 0; i < sizeof INNER / sizeof *INNER && rc == 0; i++) {
		json_object *inner = json_at(schema, INNER[i]);
		if (inner)
			rc = json_object_is_type(inner, json_type_array)
				     ? check_list(name, inner, e)
				     : check(name, inner, e);
	}
	return rc;
}

int offered_schema(const char *name, json_object *schema, struct err *e)
{
	json_object *type = json_at(schema, "type");
	if (!json_object_is_type(schema, json_type_object))
		return wrong(name, "a schema is an object", schema, e);
	if (type && (!json_object_is_type(type, json_type_string) ||
		     strcmp(json_object_get_string(type), "object") != 0))
		return wrong(name, "parameters are of the type object", type, e);
	return check(name, schema, e);
}

/* ---- calls and their results ---- */

static const char *first_key(json_object *o)
{
	struct json_object_iterator at = json_object_iter_begin(o),
				    end = json_object_iter_end(o);
	return json_object_iter_equal(&at, &end) ? NULL : json_object_iter_peek_name(&at);
}

/* The calls of a message are open until their results come. */
static void open_calls(json_object *message, json_object *open)
{
	json_object *calls = json_at(message, "tool_calls");
	for (size_t i = 0; calls && i < json_object_array_length(calls); i++) {
		const char *id = json_text(json_object_array_get_idx(calls, i), "id");
		if (id)
			json_object_object_add(open, id, NULL);
	}
}

static int missing(const char *const sentence[2], const char *id, struct err *e)
{
	return err_set(e, EINVAL, "%s%.80s%s", sentence[0], id ? id : "", sentence[1]);
}

int offered_results(json_object *messages, const struct offered_results *rules, struct err *e)
{
	json_object *open = json_object_new_object();
	int rc = 0;
	for (size_t i = 0; i < json_object_array_length(messages) && rc == 0; i++) {
		json_object *message = json_object_array_get_idx(messages, i);
		const char *role = json_text(message, "role");
		if (role && strcmp(role, "tool") == 0) {
			const char *id = json_text(message, "tool_call_id");
			if (!id || !json_object_object_get_ex(open, id, NULL))
				rc = missing(rules->no_call, id, e);
			else
				json_object_object_del(open, id);
			continue;
		}
		if (rules->order == RESULTS_NEXT && first_key(open))
			break;
		open_calls(message, open);
	}
	if (rc == 0 && first_key(open))
		rc = missing(rules->no_result, first_key(open), e);
	json_object_put(open);
	return rc;
}
