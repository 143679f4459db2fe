/* Reads the body of /v1/messages, except its messages (anthropic_messages.c). See anthropic.h.
 *
 * Fields that do not concern the model are accepted and ignored: metadata, cache_control,
 * service_tier, context_management, and unknown ones. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/anthropic/anthropic.h"
#include "fs/gateway/body/dialog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_BUDGET = 1024, LOW_BUDGET = 4096, MEDIUM_BUDGET = 16384 };

static int anthropic_whole_number(const json_object *o, const char *key, uint64_t least,
				  uint64_t *value, struct err *e)
{
	json_object *v = json_at(o, key);
	if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < (int64_t)least)
		return err_set(e, EINVAL, "%s: must be a whole number, at least %d", key,
			       (int)least);
	*value = (uint64_t)json_object_get_int64(v);
	return 0;
}

static int anthropic_read_limit(struct wanted *w, const json_object *body, struct err *e)
{
	char digits[24];
	int rc = anthropic_whole_number(body, "max_tokens", 1, &w->max_tokens, e);
	if (rc < 0)
		return rc;
	(void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)w->max_tokens);
	return wanted_param(w, "max_tokens", digits, e);
}

/* A budget cannot be kept to the token. It selects how much the model thinks. */
static int anthropic_read_budget(struct wanted *w, const json_object *thinking, struct err *e)
{
	uint64_t budget;
	int rc = anthropic_whole_number(thinking, "budget_tokens", LEAST_BUDGET, &budget, e);
	if (rc < 0)
		return err_set(e, EINVAL,
			       "thinking.budget_tokens: must be a whole number, at least %d",
			       LEAST_BUDGET);
	if (w->max_tokens && budget >= w->max_tokens)
		return err_set(e, EINVAL,
			       "max_tokens: must be greater than thinking.budget_tokens");
	const char *effort = budget < LOW_BUDGET      ? "low"
			     : budget < MEDIUM_BUDGET ? "medium"
						      : "high";
	return wanted_effort(w, effort, "thinking", e);
}

/* Without `thinking` the model does not think. */
static int anthropic_read_thinking(struct wanted *w, const json_object *body, struct err *e)
{
	json_object *thinking = json_at(body, "thinking");
	bool disabled = !thinking || json_is(thinking, "type", "disabled");
	const char *effort = json_text(json_at(body, "output_config"), "effort");
	w->thoughts = !disabled && json_text(thinking, "type") &&
		      !json_is(thinking, "display", "omitted");
	if (disabled)
		return wanted_effort(w, NULL, "thinking", e);
	if (json_is(thinking, "type", "enabled"))
		return anthropic_read_budget(w, thinking, e);
	if (json_is(thinking, "type", "adaptive"))
		return effort ? wanted_effort(w, effort, "output_config.effort", e)
			      : wanted_any_of(w, "thinking", "on", e);
	return err_set(e, EINVAL, "thinking.type: must be enabled, disabled or adaptive");
}

static int anthropic_read_form(struct wanted *w, const json_object *body, struct err *e)
{
	const char *key = "output_config.format";
	json_object *format = json_at(json_at(body, "output_config"), "format");
	if (!format) {
		key = "output_format";
		format = json_at(body, key);
	}
	if (!format)
		return 0;
	json_object *schema = json_at(format, "schema");
	if (!json_is(format, "type", "json_schema") ||
	    !json_object_is_type(schema, json_type_object))
		return err_set(e, EINVAL,
			       "%s: must be {\"type\": \"json_schema\", \"schema\": {...}}", key);
	return wanted_schema(w, schema, key, e);
}

/* Refuses fields that would change the answer and are not supported. */
static int anthropic_refuse_services(const json_object *body, struct err *e)
{
	static const char *const SERVICES[] = {"mcp_servers", "container"};
	for (size_t i = 0; i < sizeof SERVICES / sizeof *SERVICES; i++) {
		json_object *v = json_at(body, SERVICES[i]);
		if (v && !(json_object_is_type(v, json_type_array) && !json_length(v)))
			return err_set(
				e, ENOTSUP,
				"%s: not supported: leave it out and offer functions in tools",
				SERVICES[i]);
	}
	return 0;
}

/* Conversations are not kept between requests, so there is no thread to continue. Anthropic's
 * packages get the answer for a lost thread, and begin a new one with all of its messages. */
static int anthropic_read_thread(const json_object *body, struct err *e)
{
	json_object *thread = json_at(body, "thread");
	if (!thread || json_is(thread, "type", "create"))
		return 0;
	if (json_is(thread, "type", "continue"))
		return err_set(e, ENOENT,
			       "thread: conversations are not kept here between requests; send all "
			       "messages, with system and tools and without a thread to continue");
	return err_set(e, EINVAL, "thread.type: must be create or continue");
}

static int anthropic_read_plain(struct wanted *w, const json_object *body, struct err *e)
{
	json_object *stops = json_at(body, "stop_sequences");
	w->stream = json_true(body, "stream");
	if (wanted_number(w, body, "temperature", "temperature", 0, 1, e) ||
	    wanted_number(w, body, "top_p", "top_p", 0, 1, e) ||
	    wanted_number(w, body, "top_k", "top_k", 0, 1 << 20, e))
		return -e->code;
	return stops ? wanted_stops(w, stops, "stop_sequences", e) : 0;
}

/* ---- tools ---- */

/* Tools that the protocol defines and the client runs. */
static const struct {
	const char *type, *description, *schema; /* type: without the date at its end */
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

static int anthropic_add_known_tool(struct wanted *w, const char *type, const char *name,
				    struct err *e)
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
	return err_set(e, ENOTSUP,
		       "tools: \"%.60s\" runs only at Anthropic: leave it out, or describe a "
		       "function of your own with a name and an input_schema",
		       type);
}

static int anthropic_add_tool(struct wanted *w, const json_object *tool, size_t i,
			      json_object *referenced, struct err *e)
{
	const char *name = json_text(tool, "name"), *type = json_text(tool, "type");
	json_object *schema = json_at(tool, "input_schema");
	if (type && strncmp(type, "tool_search_tool", strlen("tool_search_tool")) == 0)
		return err_set(
			e, ENOTSUP,
			"tools.%zu: the client must search deferred tools itself: offer a function "
			"for the search, and name the tools it finds in tool_reference blocks",
			i);
	if (!name && !type)
		return err_set(e, EINVAL, "tools.%zu.name: must be a text", i);
	if (type && strcmp(type, "custom") != 0)
		return anthropic_add_known_tool(w, type, name ? name : type, e);
	if (!name || !json_object_is_type(schema, json_type_object))
		return err_set(e, EINVAL,
			       "tools.%zu: must have a name and an input_schema, an object", i);
	if (json_true(tool, "defer_loading") && !json_at(referenced, name))
		return 0;
	return wanted_tool(w, name, json_text(tool, "description"), schema, e);
}

static int anthropic_read_choice(struct wanted *w, const json_object *choice, struct err *e)
{
	static const struct {
		const char *type, *word;
	} words[] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
	const char *name = json_text(choice, "name");
	w->one_call = json_true(choice, "disable_parallel_tool_use");
	bool chosen = json_is(choice, "type", "tool");
	if ((chosen || json_is(choice, "type", "any")) && !w->tools)
		return err_set(e, EINVAL, "tool_choice: there are no tools to choose from");
	if (chosen && !(name && wanted_has_tool(w->tools, name)))
		return err_set(e, EINVAL, "tool_choice.name: tools has no tool \"%.80s\"",
			       name ? name : "");
	if (chosen)
		return wanted_param(w, "tool_choice", name, e);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (json_is(choice, "type", words[i].type))
			return wanted_param(w, "tool_choice", words[i].word, e);
	return err_set(e, EINVAL, "tool_choice.type: must be auto, any, tool or none");
}

static int anthropic_read_tools(struct wanted *w, const json_object *body, json_object *referenced,
				struct err *e)
{
	json_object *tools = json_at(body, "tools"), *choice = json_at(body, "tool_choice");
	if (tools && !json_object_is_type(tools, json_type_array))
		return err_set(e, EINVAL, "tools: must be a list");
	int rc = 0;
	for (size_t i = 0; i < json_length(tools) && rc == 0; i++)
		rc = anthropic_add_tool(w, json_object_array_get_idx(tools, i), i, referenced, e);
	return rc || !choice ? rc : anthropic_read_choice(w, choice, e);
}

/* ---- the body ---- */

static const struct wanted_results results = {
	RESULTS_NEXT,
	{"messages: `tool_use` ids were found without `tool_result` blocks immediately after: ",
	 ". Each `tool_use` block must have a corresponding `tool_result` block in the next "
	 "message."},
	{"messages: unexpected `tool_use_id` found in `tool_result` blocks: ",
	 ". Each `tool_result` block must have a corresponding `tool_use` block in the previous "
	 "message."},
};

static int anthropic_read_talk(struct wanted *w, const json_object *body, struct err *e)
{
	struct dialog dialog = {.system_first = true};
	json_object *referenced = json_object_new_object();
	int rc = anthropic_messages(&dialog, body, referenced, e);
	if (rc == 0)
		rc = anthropic_read_tools(w, body, referenced, e);
	if (rc == 0 && !(w->messages = dialog_take(&dialog)))
		rc = err_set(e, ENOMEM, "no memory for a request's messages");
	if (rc == 0)
		rc = wanted_check_results(w->messages, &results, e);
	json_object_put(referenced);
	dialog_free(&dialog);
	return rc;
}

int anthropic_read(struct wanted *w, const json_object *body, bool count, struct err *e)
{
	const char *model = json_text(body, "model");
	if (!json_object_is_type(body, json_type_object))
		return err_set(e, EINVAL, "the body must be a JSON object");
	if (!model || !*model)
		return err_set(e, EINVAL, "model: must be the name of a model");
	if (!(w->model = strdup(model)))
		return err_set(e, ENOMEM, "no memory for a request");
	if ((!count && anthropic_read_limit(w, body, e)) || anthropic_refuse_services(body, e) ||
	    anthropic_read_thread(body, e) || anthropic_read_talk(w, body, e) ||
	    anthropic_read_thinking(w, body, e) || anthropic_read_form(w, body, e) ||
	    (!count && anthropic_read_plain(w, body, e)))
		return -e->code;
	return 0;
}
