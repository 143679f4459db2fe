/* See wanted.h. */
#include "fs/gateway/body/wanted.h"
#include "fs/gateway/body/offered.h"

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

static int add(struct wanted *w, const char *name, const char *value, size_t n, struct err *e)
{
	char *copy = w->param_count < WANTED_PARAMS ? strndup(value, n) : NULL;
	if (!copy)
		return err_set(e, ENOMEM, "no memory for %s", name);
	w->params[w->param_count++] = (struct wanted_param){.name = name, .value = copy};
	return 0;
}

int wanted_param(struct wanted *w, const char *name, const char *value, struct err *e)
{
	return add(w, name, value, strlen(value), e);
}

int wanted_any_of(struct wanted *w, const char *name, const char *words, struct err *e)
{
	int rc = wanted_param(w, name, words, e);
	if (rc == 0)
		w->params[w->param_count - 1].any_of = true;
	return rc;
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

/* ---- texts at which to stop ---- */

enum { STOPS = 64 };

/* A line of params/stop. */
static void add_stop(struct text *out, const char *text)
{
	for (; *text; text++) {
		const char *escape = *text == '\n'   ? "\\n"
				     : *text == '\t' ? "\\t"
				     : *text == '\r' ? "\\r"
				     : *text == '\\' ? "\\\\"
						     : NULL;
		text_add(out, escape ? escape : text, escape ? 2 : 1);
	}
	text_string(out, "\n");
}

int wanted_stops(struct wanted *w, json_object *list, const char *key, struct err *e)
{
	size_t count = json_object_is_type(list, json_type_array) ? json_object_array_length(list)
								  : SIZE_MAX;
	if (count > STOPS)
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
			add_stop(&lines, text);
	}
	if (rc == 0 && lines.failed)
		rc = err_set(e, ENOMEM, "no memory for %s", key);
	if (rc == 0 && lines.length)
		rc = add(w, "stop", lines.data, lines.length, e);
	if (rc == 0)
		w->stops = json_object_get(list);
	text_free(&lines);
	return rc;
}

/* ---- forms and tools ---- */

enum { TOOLS = 1024 };

int wanted_schema(struct wanted *w, json_object *schema, const char *key, struct err *e)
{
	w->form = key;
	int rc = wanted_param(w, "format", schema ? "schema" : "json", e);
	return rc || !schema ? rc
			     : wanted_param(w, "grammar", json_object_to_json_string(schema), e);
}

int wanted_tool(struct wanted *w, const char *name, const char *description, json_object *schema,
		struct err *e)
{
	int rc = offered_name(name, NAME_ANTHROPIC, e);
	if (rc == 0 && schema)
		rc = offered_schema(name, schema, e);
	if (rc)
		return rc;
	if (!w->tools)
		w->tools = json_object_new_array();
	if (w->tools && json_object_array_length(w->tools) >= TOOLS)
		return err_set(e, EINVAL, "tools: there may be at most %d", TOOLS);
	json_object *function = json_object_new_object(), *tool = json_object_new_object();
	json_put(function, "name", name);
	if (description)
		json_put(function, "description", description);
	if (schema)
		json_object_object_add(function, "parameters", json_object_get(schema));
	json_put(tool, "type", "function");
	json_object_object_add(tool, "function", function);
	if (w->tools && tool && json_object_array_add(w->tools, tool) == 0)
		return 0;
	json_object_put(tool);
	return err_set(e, ENOMEM, "no memory for the tool %s", name);
}

/* ---- thinking ---- */

/* A template knows of a switch, or of levels, or of neither. */
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
