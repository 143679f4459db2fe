/* Reads the tools of /v1/responses and tool_choice. See responses.h.
 *
 * A model calls functions with JSON arguments. A custom tool, whose input is any text, becomes a
 * function with that text as its one argument. A namespace's tools become functions with the
 * namespace before their names. Tools that only OpenAI's services run (web_search and so on) are
 * not offered to the model: some agents send one with every request, beside their functions, and
 * work without it. Such tools are also left out of the response, and refused if there are no other
 * tools. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/responses/responses.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool responses_tool_name(char *name, size_t size, const char *space, const char *of_space)
{
	size_t n = space ? strlen(space) : 0;
	const char *between = n && space[n - 1] != '_' ? "__" : "";
	int length = snprintf(name, size, "%s%s%s", space ? space : "", between, of_space);
	return length >= 0 && (size_t)length < size;
}

/* Records how an answer must name a tool. */
static int responses_note_tool(struct responses_asked *a, const char *name, const char *space,
			       const char *of_space, bool custom, struct err *e)
{
	if (!space && !custom)
		return 0;
	json_object *known = json_new("name=%s", of_space);
	if (space)
		json_put(known, "namespace", space);
	if (custom)
		json_object_object_add(known, "custom", json_object_new_boolean(true));
	if (!a->names)
		a->names = json_object_new_object();
	if (a->names && known && json_object_object_add(a->names, name, known) == 0)
		return 0;
	json_object_put(known);
	return err_set(e, ENOMEM, "no memory for the tool %s", name);
}

static int responses_add_custom(struct responses_asked *a, const char *name,
				const json_object *tool, struct err *e)
{
	static const char SCHEMA[] =
		"{\"type\": \"object\", \"properties\": {\"input\": {\"type\": \"string\"}}, "
		"\"required\": [\"input\"], \"additionalProperties\": false}";
	json_object *format = json_at(tool, "format"), *schema = json_tokener_parse(SCHEMA);
	const char *description = json_text(tool, "description");
	const char *syntax = json_text(format, "syntax"),
		   *definition = json_text(format, "definition");
	struct text text = {0};
	text_string(&text, description ? description : "");
	if (definition)
		text_format(&text, "%sThe input is a text of this %s grammar:\n%s",
			    text.length ? "\n" : "", syntax ? syntax : "", definition);
	text_add(&text, "", 1);
	int rc = text.failed || !schema ? err_set(e, ENOMEM, "no memory for the tool %s", name)
					: wanted_tool(&a->wanted, name, text.data, schema, e);
	json_object_put(schema);
	text_free(&text);
	return rc;
}

static int responses_add_function(struct responses_asked *a, const json_object *tool,
				  const char *space, struct err *e)
{
	char whole[128];
	const char *name = json_text(tool, "name");
	json_object *schema = json_at(tool, "parameters");
	bool custom = json_is(tool, "type", "custom");
	if (!json_text(tool, "type") || !name || !*name ||
	    !responses_tool_name(whole, sizeof whole, space, name))
		return err_set(e, EINVAL, "tools: each must have a type and a name");
	if (schema && !json_object_is_type(schema, json_type_object))
		return err_set(e, EINVAL, "tools: the parameters of %.80s must be a schema", name);
	int rc = wanted_check_name(name, NAME_OPENAI, e);
	if (rc)
		return rc;
	rc = custom ? responses_add_custom(a, whole, tool, e)
		    : wanted_tool(&a->wanted, whole, json_text(tool, "description"), schema, e);
	return rc ? rc : responses_note_tool(a, whole, space, name, custom, e);
}

static bool responses_is_offered(const json_object *tool)
{
	return json_is(tool, "type", "function") || json_is(tool, "type", "custom") ||
	       json_is(tool, "type", "namespace");
}

static int responses_add_tool(struct responses_asked *a, const json_object *tool, struct err *e)
{
	if (!json_text(tool, "type"))
		return err_set(e, EINVAL, "tools: each must have a type");
	if (!responses_is_offered(tool))
		return 0;
	if (!json_is(tool, "type", "namespace"))
		return responses_add_function(a, tool, NULL, e);
	const char *space = json_text(tool, "name");
	json_object *tools = json_at(tool, "tools");
	if (!space || !*space || !json_object_is_type(tools, json_type_array))
		return err_set(e, EINVAL, "tools: a namespace has a name, and tools, a list");
	int rc = 0;
	for (size_t i = 0; i < json_object_array_length(tools) && rc == 0; i++)
		rc = responses_add_function(a, json_object_array_get_idx(tools, i), space, e);
	return rc;
}

static int responses_refuse_service(const char *key, const json_object *tool, struct err *e)
{
	const char *type = json_text(tool, "type");
	return err_set(e, ENOTSUP,
		       "%s: \"%.60s\" runs only at OpenAI: leave it out, or describe a function of "
		       "your own",
		       key, type ? type : "");
}

/* ---- the tools as a response repeats them ---- */

json_object *responses_tools_shown(const json_object *body)
{
	static const char *const KEYS[] = {"description", "parameters", "strict"};
	json_object *tools = json_at(body, "tools"), *shown = json_object_new_array();
	for (size_t i = 0; i < json_length(tools) && shown; i++) {
		json_object *tool = json_object_array_get_idx(tools, i), *copy = NULL;
		if (!responses_is_offered(tool))
			continue;
		if (json_object_deep_copy(tool, &copy, NULL) < 0 ||
		    json_object_array_add(shown, copy) < 0) {
			json_object_put(copy);
			json_object_put(shown);
			return NULL;
		}
		/* A function shows all of its keys. */
		for (size_t k = 0;
		     json_is(tool, "type", "function") && k < sizeof KEYS / sizeof *KEYS; k++)
			if (!json_at(tool, KEYS[k]))
				json_object_object_add(copy, KEYS[k], NULL);
	}
	return shown;
}

/* ---- tool_choice ---- */

static int responses_choose_tool(struct responses_asked *a, const json_object *choice,
				 struct err *e)
{
	char whole[128];
	const char *name = json_text(choice, "name");
	if (json_text(choice, "type") && !responses_is_offered(choice))
		return responses_refuse_service("tool_choice", choice, e);
	if (!name ||
	    !responses_tool_name(whole, sizeof whole, json_text(choice, "namespace"), name) ||
	    !wanted_has_tool(a->wanted.tools, whole))
		return err_set(e, EINVAL, "tool_choice: tools has no tool \"%.80s\"",
			       name ? name : "");
	return wanted_param(&a->wanted, "tool_choice", whole, e);
}

static int responses_choose_word(struct responses_asked *a, const char *word, struct err *e)
{
	static const char *const WORDS[] = {"auto", "none", "required"};
	if (word && strcmp(word, "required") == 0 && !a->wanted.tools)
		return err_set(e, EINVAL, "tool_choice: there are no tools to choose from");
	for (size_t i = 0; word && i < sizeof WORDS / sizeof *WORDS; i++)
		if (strcmp(word, WORDS[i]) == 0)
			return wanted_param(&a->wanted, "tool_choice", word, e);
	return err_set(e, EINVAL,
		       "tool_choice: must be auto, none, required, or a tool that is on offer");
}

static int responses_choose_allowed(struct responses_asked *a, const json_object *choice,
				    struct err *e)
{
	json_object *allowed = json_at(choice, "tools");
	if (!json_object_is_type(allowed, json_type_array))
		return err_set(e, EINVAL, "tool_choice.tools: must be a list");
	for (size_t i = json_length(a->wanted.tools); i-- > 0;) {
		json_object *tool = json_object_array_get_idx(a->wanted.tools, i);
		bool found = false;
		for (size_t k = 0; k < json_length(allowed) && !found; k++) {
			char whole[128];
			json_object *one = json_object_array_get_idx(allowed, k);
			const char *name = json_text(one, "name");
			found = name &&
				responses_tool_name(whole, sizeof whole,
						    json_text(one, "namespace"), name) &&
				json_is(json_at(tool, "function"), "name", whole);
		}
		if (!found)
			json_object_array_del_idx(a->wanted.tools, i, 1);
	}
	const char *mode = json_text(choice, "mode");
	return responses_choose_word(a, mode ? mode : "auto", e);
}

int responses_tools(struct responses_asked *a, const json_object *body, struct err *e)
{
	json_object *tools = json_at(body, "tools"), *choice = json_at(body, "tool_choice");
	if (tools && !json_object_is_type(tools, json_type_array))
		return err_set(e, EINVAL, "tools: must be a list");
	int rc = 0;
	for (size_t i = 0; i < json_length(tools) && rc == 0; i++)
		rc = responses_add_tool(a, json_object_array_get_idx(tools, i), e);
	for (size_t i = 0; !a->wanted.tools && i < json_length(tools) && rc == 0; i++) {
		const json_object *tool = json_object_array_get_idx(tools, i);
		if (!responses_is_offered(tool))
			rc = responses_refuse_service("tools", tool, e);
	}
	if (rc || !choice)
		return rc;
	if (!json_object_is_type(choice, json_type_object))
		return responses_choose_word(a, json_object_get_string(choice), e);
	if (json_is(choice, "type", "allowed_tools"))
		return responses_choose_allowed(a, choice, e);
	return responses_choose_tool(a, choice, e);
}
