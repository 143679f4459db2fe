/* The tools of /v1/messages and which of them is to be called. See anthropic.h.
 *
 * Deferred tools (defer_loading) are on offer once a tool_reference in the conversation has named
 * them, and not before. What a service would run is refused in words. */
#include "fs/gateway/anthropic/anthropic.h"
#include "fs/gateway/body/offered.h"

#include <errno.h>
#include <string.h>

/* Tools whose form the protocol knows, and whose work the client does. */
static const struct {
	const char *type, *description, *schema; /* type: up to the date behind it */
} known[] = {
	{"bash_", "Runs a command in a shell that stays open, and gives what it printed.",
	 "{\"type\": \"object\", \"properties\": {\"command\": {\"type\": \"string\"}, "
	 "\"restart\": {\"type\": \"boolean\"}}}"},
	{"text_editor_", "Views and edits files.",
	 "{\"type\": \"object\", \"properties\": {\"command\": {\"type\": \"string\", \"enum\": "
	 "[\"view\", \"create\", \"str_replace\", \"insert\"]}, \"path\": {\"type\": \"string\"}, "
	 "\"file_text\": {\"type\": \"string\"}, \"old_str\": {\"type\": \"string\"}, "
	 "\"new_str\": {\"type\": \"string\"}, \"insert_line\": {\"type\": \"integer\"}, "
	 "\"insert_text\": {\"type\": \"string\"}, \"view_range\": {\"type\": \"array\", "
	 "\"items\": {\"type\": \"integer\"}}}, \"required\": [\"command\", \"path\"]}"},
};

static int add_known(struct wanted *w, const char *type, const char *name, struct err *e)
{
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (strncmp(type, known[i].type, strlen(known[i].type)) != 0)
			continue;
		json_object *schema = json_tokener_parse(known[i].schema);
		int rc = schema ? wanted_tool(w, name, known[i].description, schema, e)
				: err_set(e, ENOMEM, "no memory for the tool %s", name);
		json_object_put(schema);
		return rc;
	}
	return err_set(
		e, ENOTSUP,
		"tools: '%.60s' is a service's, which there is none of here: leave it out, or "
		"describe a function with a name and an input_schema, which you run",
		type);
}

static int add_tool(struct wanted *w, const json_object *tool, size_t i, json_object *referenced,
		    struct err *e)
{
	const char *name = json_text(tool, "name"), *type = json_text(tool, "type");
	json_object *schema = json_at(tool, "input_schema");
	if (type && strncmp(type, "tool_search_tool", strlen("tool_search_tool")) == 0)
		return err_set(
			e, ENOTSUP,
			"tools.%zu: a search in deferred tools is the client's here: offer a "
			"function for it, and name what it finds in tool_reference blocks",
			i);
	if (!name && !type)
		return err_set(e, EINVAL, "tools.%zu.name: must be a text", i);
	if (type && strcmp(type, "custom") != 0)
		return add_known(w, type, name ? name : type, e);
	if (!name || !json_object_is_type(schema, json_type_object))
		return err_set(e, EINVAL,
			       "tools.%zu: must have a name and an input_schema, an object", i);
	if (json_true(tool, "defer_loading") && !json_at(referenced, name))
		return 0;
	return wanted_tool(w, name, json_text(tool, "description"), schema, e);
}

static int read_choice(struct wanted *w, const json_object *choice, struct err *e)
{
	static const struct {
		const char *type, *word;
	} words[] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
	const char *type = json_text(choice, "type"), *name = json_text(choice, "name");
	if (!type)
		return err_set(e, EINVAL, "tool_choice.type: must be auto, any, tool or none");
	w->one_call = json_true(choice, "disable_parallel_tool_use");
	bool chosen = strcmp(type, "tool") == 0;
	if ((chosen || strcmp(type, "any") == 0) && !w->tools)
		return err_set(e, EINVAL, "tool_choice: there are no tools to choose from");
	if (chosen && !(name && offered_has(w->tools, name)))
		return err_set(e, EINVAL, "tool_choice.name: tools has none of the name '%.80s'",
			       name ? name : "");
	if (chosen)
		return wanted_param(w, "tool_choice", name, e);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(type, words[i].type) == 0)
			return wanted_param(w, "tool_choice", words[i].word, e);
	return err_set(e, EINVAL, "tool_choice.type: must be auto, any, tool or none");
}

int anthropic_tools(struct wanted *w, const json_object *body, json_object *referenced,
		    struct err *e)
{
	json_object *tools = json_at(body, "tools"), *choice = json_at(body, "tool_choice");
	if (tools && !json_object_is_type(tools, json_type_array))
		return err_set(e, EINVAL, "tools: must be a list");
	int rc = 0;
	for (size_t i = 0; tools && i < json_object_array_length(tools) && rc == 0; i++)
		rc = add_tool(w, json_object_array_get_idx(tools, i), i, referenced, e);
	return rc || !choice ? rc : read_choice(w, choice, e);
}
