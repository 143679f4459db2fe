/* See wanted.h. */
#include "fs/gateway/body/wanted.h"
#include "fs/gateway/body/json_fields.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void wanted_free(struct wanted *w)
{
	free(w->model);
	json_object_put(w->messages);
	json_object_put(w->tools);
	json_object_put(w->stops);
	for (size_t i = 0; i < w->param_count; i++)
		free(w->params[i].value);
	*w = (struct wanted){0};
}

/* ---- params ---- */

int wanted_param(struct wanted *w, const char *name, const char *value, struct err *e)
{
	char *copy = w->param_count < WANTED_PARAMS ? strdup(value) : NULL;
	if (!copy)
		return err_set(e, ENOMEM, "no memory for %s", name);
	w->params[w->param_count++] = (struct wanted_param){.name = name, .value = copy};
	return 0;
}

int wanted_any_of(struct wanted *w, const char *name, const char *words, struct err *e)
{
	if (wanted_param(w, name, words, e))
		return -e->code;
	w->params[w->param_count - 1].any_of = true;
	return 0;
}

int wanted_number(struct wanted *w, const json_object *body, const char *key, const char *param,
		  double least, double most, struct err *e)
{
	json_object *v = json_at(body, key);
	if (!v)
		return 0;
	bool number =
		json_object_is_type(v, json_type_int) || json_object_is_type(v, json_type_double);
	double value = number ? json_object_get_double(v) : NAN;
	if (!(value >= least && value <= most))
		return err_set(e, EINVAL, "%s: must be a number from %g to %g", key, least, most);
	return wanted_param(w, param, json_object_to_json_string(v), e);
}

void wanted_stop_line(struct text *out, const char *stop)
{
	for (; *stop; stop++) {
		const char *escape = *stop == '\n'   ? "\\n"
				     : *stop == '\t' ? "\\t"
				     : *stop == '\r' ? "\\r"
				     : *stop == '\\' ? "\\\\"
						     : NULL;
		text_add(out, escape ? escape : stop, escape ? 2 : 1);
	}
	text_string(out, "\n");
}

int wanted_stops(struct wanted *w, json_object *list, const char *key, struct err *e)
{
	enum { STOPS = 64 };
	size_t count = json_length(list);
	if (!json_object_is_type(list, json_type_array) || count > STOPS)
		return err_set(e, EINVAL, "%s: must be a list of at most %d texts", key, STOPS);
	struct text lines = {0};
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		json_object *v = json_object_array_get_idx(list, i);
		const char *text =
			json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
		if (!*text || strlen(text) != (size_t)json_object_get_string_len(v))
			rc = err_set(e, EINVAL, "%s[%zu]: must be a text that is not empty", key,
				     i);
		else
			wanted_stop_line(&lines, text);
	}
	if (rc == 0 && count) {
		text_add(&lines, "", 1);
		rc = lines.failed ? err_set(e, ENOMEM, "no memory for %s", key)
				  : wanted_param(w, "stop", lines.data, e);
	}
	if (rc == 0)
		w->stops = json_object_get(list);
	text_free(&lines);
	return rc;
}

int wanted_schema(struct wanted *w, json_object *schema, const char *key, struct err *e)
{
	w->form = key;
	/* In this order: the grammar is checked by the rules of `format`. */
	int rc = wanted_param(w, "format", schema ? "schema" : "json", e);
	return rc || !schema ? rc
			     : wanted_param(w, "grammar", json_object_to_json_string(schema), e);
}

int wanted_tool(struct wanted *w, const char *name, const char *description, json_object *schema,
		struct err *e)
{
	enum { TOOLS = 1024 };
	if (wanted_check_name(name, NAME_ANTHROPIC, e) ||
	    (schema && wanted_check_schema(name, schema, e)))
		return -e->code;
	if (!w->tools)
		w->tools = json_object_new_array();
	if (json_length(w->tools) >= TOOLS)
		return err_set(e, EINVAL, "tools: there may be at most %d", TOOLS);
	json_object *function = json_new("name=%s", name);
	if (description)
		json_put(function, "description", description);
	if (schema)
		json_object_object_add(function, "parameters", json_object_get(schema));
	json_object *tool = json_new("type=function function=%p", function);
	if (w->tools && tool && json_object_array_add(w->tools, tool) == 0)
		return 0;
	json_object_put(tool);
	return err_set(e, ENOMEM, "no memory for the tool %s", name);
}

/* A template may know a switch, levels, or neither. */
int wanted_effort(struct wanted *w, const char *effort, const char *key, struct err *e)
{
	static const struct {
		const char *effort, *words;
	} rows[] = {
		{"none", "off low"},	 {"minimal", "low off"}, {"low", "low on"},
		{"medium", "medium on"}, {"high", "high on"},	 {"xhigh", "high on"},
		{"max", "high on"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!strcmp(rows[i].effort, effort ? effort : "none"))
			return wanted_any_of(w, "thinking", rows[i].words, e);
	return err_set(e, EINVAL, "%s: must be none, minimal, low, medium, high, xhigh or max",
		       key);
}

/* ---- checks of tools ---- */

int wanted_check_name(const char *name, int most, struct err *e)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
	if (n > 0 && n <= (size_t)most && !name[n])
		return 0;
	return err_set(e, EINVAL,
		       "tools: \"%.80s\" cannot be the name of a tool: use 1 to %d letters, "
		       "digits, _ and -",
		       name, most);
}

bool wanted_has_tool(json_object *tools, const char *name)
{
	for (size_t i = 0; i < json_length(tools); i++) {
		json_object *function = json_at(json_object_array_get_idx(tools, i), "function");
		if (json_is(function, "name", name))
			return true;
	}
	return false;
}

static int wanted_wrong_schema(const char *name, const char *what, json_object *value,
			       struct err *e)
{
	return err_set(e, EINVAL, "tools: invalid schema for \"%.64s\": %s, not %.80s", name, what,
		       json_object_to_json_string(value));
}

/* A JSON type's name, or a list of them. */
static bool wanted_is_type(json_object *type)
{
	static const char *const WORDS[] = {"object", "array",	 "string", "number",
					    "null",   "integer", "boolean"};
	for (size_t i = 0; i < json_length(type); i++)
		if (json_object_is_type(json_object_array_get_idx(type, i), json_type_array) ||
		    !wanted_is_type(json_object_array_get_idx(type, i)))
			return false;
	if (json_object_is_type(type, json_type_array))
		return json_length(type) > 0;
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
		if (json_object_is_type(type, json_type_string) &&
		    strcmp(json_object_get_string(type), WORDS[i]) == 0)
			return true;
	return false;
}

/* The recursion is bounded: bodies nest no deeper than their parser allows (request_parse). */
static int wanted_check_inner(const char *name, json_object *schema, struct err *e)
{
	static const char *const NAMED[] = {"properties", "$defs", "definitions"};
	static const char *const INNER[] = {
		"items", "additionalProperties", "anyOf", "oneOf", "allOf", "not"};
	json_object *type = json_at(schema, "type");
	int rc = 0;
	if (json_object_is_type(schema, json_type_boolean))
		return 0;
	if (!json_object_is_type(schema, json_type_object))
		return wanted_wrong_schema(name, "a schema is an object", schema, e);
	if (type && !wanted_is_type(type))
		return wanted_wrong_schema(
			name, "a type is object, array, string, number, integer, boolean or null",
			type, e);
	for (size_t i = 0; i < sizeof NAMED / sizeof *NAMED && rc == 0; i++) {
		json_object *named = json_at(schema, NAMED[i]);
		if (!named)
			continue;
		if (!json_object_is_type(named, json_type_object))
			return wanted_wrong_schema(name, "properties and definitions are an object",
						   named, e);
		json_object_object_foreach(named, key, value)
		{
			(void)key;
			if (rc == 0)
				rc = wanted_check_inner(name, value, e);
		}
	}
	for (size_t i = 0; i < sizeof INNER / sizeof *INNER && rc == 0; i++) {
		json_object *inner = json_at(schema, INNER[i]);
		bool list = json_object_is_type(inner, json_type_array);
		if (inner && !list)
			rc = wanted_check_inner(name, inner, e);
		for (size_t k = 0; k < json_length(inner) && rc == 0; k++)
			rc = wanted_check_inner(name, json_object_array_get_idx(inner, k), e);
	}
	return rc;
}

int wanted_check_schema(const char *name, json_object *schema, struct err *e)
{
	json_object *type = json_at(schema, "type");
	if (!json_object_is_type(schema, json_type_object))
		return wanted_wrong_schema(name, "a schema is an object", schema, e);
	if (type && (!json_object_is_type(type, json_type_string) ||
		     strcmp(json_object_get_string(type), "object") != 0))
		return wanted_wrong_schema(name, "parameters are of the type object", type, e);
	return wanted_check_inner(name, schema, e);
}

/* ---- calls and their results ---- */

static const char *wanted_first_key(json_object *o)
{
	struct json_object_iterator at = json_object_iter_begin(o), end = json_object_iter_end(o);
	return json_object_iter_equal(&at, &end) ? NULL : json_object_iter_peek_name(&at);
}

static int wanted_missing(const char *const sentence[2], const char *id, struct err *e)
{
	return err_set(e, EINVAL, "%s%.80s%s", sentence[0], id ? id : "", sentence[1]);
}

int wanted_check_results(json_object *messages, const struct wanted_results *rules, struct err *e)
{
	json_object *open = json_object_new_object(); /* the ids of calls without a result */
	int rc = 0;
	for (size_t i = 0; i < json_object_array_length(messages) && rc == 0; i++) {
		json_object *message = json_object_array_get_idx(messages, i);
		json_object *calls = json_at(message, "tool_calls");
		if (json_is(message, "role", "tool")) {
			const char *id = json_text(message, "tool_call_id");
			if (!id || !json_object_object_get_ex(open, id, NULL))
				rc = wanted_missing(rules->no_call, id, e);
			else
				json_object_object_del(open, id);
			continue;
		}
		if (rules->order == RESULTS_NEXT && wanted_first_key(open))
			break;
		for (size_t k = 0; k < json_length(calls); k++) {
			const char *id = json_text(json_object_array_get_idx(calls, k), "id");
			if (id)
				json_object_object_add(open, id, NULL);
		}
	}
	if (rc == 0 && wanted_first_key(open))
		rc = wanted_missing(rules->no_result, wanted_first_key(open), e);
	json_object_put(open);
	return rc;
}
