/* The tools of /v1/responses and which of them is to be called. See responses.h.
 *
 * A model calls functions with JSON arguments. A custom tool, whose input is a text of any form, is
 * a function with that text as its one argument; a namespace's tools carry its name before theirs.
 * What only OpenAI's services run (web_search and the like) the model is not told of: some agents
 * send one with every request, beside their functions, and work without it. So it is left out of
 * the tools that the response says were on offer, and refused where it is all that was asked for.
 */
#include "fs/gateway/body/offered.h"
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

/* What an answer must know to call it by the request's name. */
static int note(struct responses_asked *a, const char *name, const char *space,
		const char *of_space, bool custom, struct err *e)
{
	if (!space && !custom)
		return 0;
	json_object *known = json_object_new_object();
	json_put(known, "name", of_space);
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

static int add_custom(struct responses_asked *a, const char *name, const json_object *tool,
		      struct err *e)
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

static int add_one(struct responses_asked *a, const json_object *tool, const char *space,
		   struct err *e)
{
	char whole[128];
	const char *type = json_text(tool, "type"), *name = json_text(tool, "name");
	json_object *schema = json_at(tool, "parameters");
	bool custom = type && strcmp(type, "custom") == 0;
	if (!type || !name || !*name || !responses_tool_name(whole, sizeof whole, space, name))
		return err_set(e, EINVAL, "tools: each must have a type and a name");
	if (schema && !json_object_is_type(schema, json_type_object))
		return err_set(e, EINVAL, "tools: the parameters of %.80s must be a schema", name);
	int rc = offered_name(name, NAME_OPENAI, e);
	if (rc)
		return rc;
	rc = custom ? add_custom(a, whole, tool, e)
		    : wanted_tool(&a->wanted, whole, json_text(tool, "description"), schema, e);
	return rc ? rc : note(a, whole, space, name, custom, e);
}

static bool is(const json_object *tool, const char *type)
{
	const char *has = json_text(tool, "type");
	return has && strcmp(has, type) == 0;
}

static bool is_offered(const json_object *tool)
{
	return is(tool, "function") || is(tool, "custom") || is(tool, "namespace");
}

static int add_tool(struct responses_asked *a, const json_object *tool, struct err *e)
{
	if (!json_text(tool, "type"))
		return err_set(e, EINVAL, "tools: each must have a type");
	if (!is_offered(tool))
		return 0;
	if (!is(tool, "namespace"))
		return add_one(a, tool, NULL, e);
	const char *space = json_text(tool, "name");
	json_object *tools = json_at(tool, "tools");
	if (!space || !*space || !json_object_is_type(tools, json_type_array))
		return err_set(e, EINVAL, "tools: a namespace has a name, and tools, a list");
	int rc = 0;
	for (size_t i = 0; i < json_object_array_length(tools) && rc == 0; i++)
		rc = add_one(a, json_object_array_get_idx(tools, i), space, e);
	return rc;
}

static int refuse_service(const char *key, const json_object *tool, struct err *e)
{
	const char *type = json_text(tool, "type");
	return err_set(e, ENOTSUP,
		       "%s: '%.60s' is a service's, which there is none of here: leave it out, or "
		       "describe a function, which you run",
		       key, type ? type : "");
}

/* Of tools of which none is on offer. */
static int refuse_services_alone(json_object *tools, struct err *e)
{
	for (size_t i = 0; i < json_object_array_length(tools); i++) {
		const json_object *tool = json_object_array_get_idx(tools, i);
		if (!is_offered(tool))
			return refuse_service("tools", tool, e);
	}
	return 0;
}

/* ---- what a response says of them ---- */

/* A function has all of its keys there. */
static json_object *offered(const json_object *tool)
{
	static const char *const KEYS[] = {"description", "parameters", "strict"};
	json_object *copy = NULL;
	if (json_object_deep_copy((json_object *)(uintptr_t)tool, &copy, NULL) < 0)
		return NULL;
	for (size_t i = 0; is(tool, "function") && i < sizeof KEYS / sizeof *KEYS; i++)
		if (!json_at(tool, KEYS[i]))
			json_object_object_add(copy, KEYS[i], NULL);
	return copy;
}

json_object *responses_tools_said(const json_object *body)
{
	json_object *tools = json_at(body, "tools"), *said = json_object_new_array();
	size_t n = tools ? json_object_array_length(tools) : 0;
	for (size_t i = 0; i < n && said; i++) {
		const json_object *tool = json_object_array_get_idx(tools, i);
		json_object *copy = is_offered(tool) ? offered(tool) : NULL;
		if (is_offered(tool) && (!copy || json_object_array_add(said, copy) < 0)) {
			json_object_put(copy);
			json_object_put(said);
			said = NULL;
		}
	}
	return said;
}

/* ---- tool_choice ---- */

static int choose_tool(struct responses_asked *a, const json_object *choice, struct err *e)
{
	char whole[128];
	const char *name = json_text(choice, "name");
	if (json_text(choice, "type") && !is_offered(choice))
		return refuse_service("tool_choice", choice, e);
	if (!name ||
	    !responses_tool_name(whole, sizeof whole, json_text(choice, "namespace"), name) ||
	    !offered_has(a->wanted.tools, whole))
		return err_set(e, EINVAL, "tool_choice: tools has no '%.80s'", name ? name : "");
	return wanted_param(&a->wanted, "tool_choice", whole, e);
}

static int choose_word(struct responses_asked *a, const char *word, struct err *e)
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

static bool is_allowed(json_object *allowed, const char *name)
{
	char whole[128];
	for (size_t i = 0; i < json_object_array_length(allowed); i++) {
		json_object *one = json_object_array_get_idx(allowed, i);
		const char *own = json_text(one, "name");
		if (own &&
		    responses_tool_name(whole, sizeof whole, json_text(one, "namespace"), own) &&
		    strcmp(whole, name) == 0)
			return true;
	}
	return false;
}

static int choose_allowed(struct responses_asked *a, const json_object *choice, struct err *e)
{
	json_object *allowed = json_at(choice, "tools");
	if (!json_object_is_type(allowed, json_type_array))
		return err_set(e, EINVAL, "tool_choice.tools: must be a list");
	size_t n = a->wanted.tools ? json_object_array_length(a->wanted.tools) : 0;
	for (size_t i = n; i-- > 0;) {
		json_object *tool = json_object_array_get_idx(a->wanted.tools, i);
		if (!is_allowed(allowed, json_text(json_at(tool, "function"), "name")))
			json_object_array_del_idx(a->wanted.tools, i, 1);
	}
	const char *mode = json_text(choice, "mode");
	return choose_word(a, mode ? mode : "auto", e);
}

int responses_tools(struct responses_asked *a, const json_object *body, struct err *e)
{
	json_object *tools = json_at(body, "tools"), *choice = json_at(body, "tool_choice");
	if (tools && !json_object_is_type(tools, json_type_array))
		return err_set(e, EINVAL, "tools: must be a list");
	int rc = 0;
	for (size_t i = 0; tools && i < json_object_array_length(tools) && rc == 0; i++)
		rc = add_tool(a, json_object_array_get_idx(tools, i), e);
	if (rc == 0 && tools && !a->wanted.tools)
		rc = refuse_services_alone(tools, e);
	if (rc || !choice)
		return rc;
	if (!json_object_is_type(choice, json_type_object))
		return choose_word(a, json_object_get_string(choice), e);
	if (is(choice, "allowed_tools"))
		return choose_allowed(a, choice, e);
	return choose_tool(a, choice, e);
}
