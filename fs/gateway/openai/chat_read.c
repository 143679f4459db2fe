/* Reads the body of /v1/chat/completions. See openai.h. */
#include "fs/gateway/body/dialog.h"
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/body/wanted.h"
#include "fs/gateway/openai/openai.h"
#include "fs/gateway/protocol_answer.h"

#include <inttypes.h>
#include <string.h>

/* ---- messages ---- */

static int chat_wrong_message(struct problem *p, size_t i, const char *what)
{
	return problem_set(p, PROBLEM_INVALID, "messages", "messages[%zu]%s", i, what);
}

/* Sets *out to the content of message `i`, a string or a list of parts of type text. An earlier
 * refusal by the assistant counts as its text. */
static int chat_take_content(json_object *message, size_t i, const regex_t *ignored,
			     json_object **out, struct problem *p)
{
	json_object *content = json_at(message, "content");
	*out = NULL;
	if (json_object_is_type(content, json_type_string))
		*out = dialog_drop_lines(content, ignored);
	else if (json_object_is_type(content, json_type_array))
		*out = json_object_new_array();
	else if (content)
		return chat_wrong_message(p, i, ": content must be a text or a list of parts");
	for (size_t n = 0; n < json_length(content); n++) {
		json_object *part = json_object_array_get_idx(content, n);
		const char *type = json_object_get_string(json_at(part, "type"));
		json_object *text =
			json_at(part, json_is(part, "type", "refusal") ? "refusal" : "text");
		if (!type || !json_object_is_type(text, json_type_string)) {
			json_object_put(*out);
			return problem_set(p, PROBLEM_INVALID, "messages",
					   "messages[%zu]: content[%zu] is of type \"%.40s\"; only "
					   "text is supported",
					   i, n, type ? type : "");
		}
		json_object_array_add(
			*out, json_new("type=text text=%p", dialog_drop_lines(text, ignored)));
	}
	return 0;
}

static int chat_take_calls(json_object *message, size_t i, json_object *out, struct problem *p)
{
	json_object *calls = json_at(message, "tool_calls");
	if (calls && !json_object_is_type(calls, json_type_array))
		return chat_wrong_message(p, i, ": tool_calls must be a list");
	if (!json_length(calls))
		return 0;
	json_object *list = json_object_new_array();
	json_object_object_add(out, "tool_calls", list);
	for (size_t n = 0; n < json_length(calls); n++) {
		json_object *call = json_object_array_get_idx(calls, n);
		json_object *function = json_at(call, "function");
		if (!function)
			return chat_wrong_message(p, i,
						  ": only calls of type \"function\" are known");
		json_object *copy =
			json_new("name=%p arguments=%p", json_object_get(json_at(function, "name")),
				 json_object_get(json_at(function, "arguments")));
		json_object_array_add(list, json_new("id=%p type=function function=%p",
						     json_object_get(json_at(call, "id")), copy));
	}
	return 0;
}

/* Adds message `i` to a list. */
static int chat_take_message(json_object *message, size_t i, const regex_t *ignored,
			     json_object *list, struct problem *p)
{
	static const char *const known[] = {"name", "tool_call_id", "reasoning_content"};
	const char *role = json_object_get_string(json_at(message, "role"));
	json_object *content;
	if (!json_object_is_type(message, json_type_object) || !role)
		return chat_wrong_message(p, i, " must be an object with a role");
	if (!strcmp(role, "function") || json_at(message, "function_call"))
		return chat_wrong_message(p, i,
					  ": function_call and the role \"function\" are gone: use "
					  "tool_calls and the role \"tool\"");
	bool system = !strcmp(role, "system") || !strcmp(role, "developer");
	if (chat_take_content(message, i, system ? ignored : NULL, &content, p))
		return -1;
	json_object *out = json_new("role=%s content=%p", system ? "system" : role, content);
	json_object_array_add(list, out);
	if (chat_take_calls(message, i, out, p))
		return -1;
	for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
		json_object *value = json_at(message, known[k]);
		bool thinks = !strcmp(known[k], "reasoning_content");
		if (value && (!thinks || !strcmp(role, "assistant")))
			json_object_object_add(out, known[k], json_object_get(value));
	}
	return 0;
}

int chat_messages(json_object *messages, const regex_t *ignored, json_object **out,
		  struct problem *p)
{
	static const struct wanted_results results = {
		RESULTS_NEXT,
		{"An assistant message with 'tool_calls' must be followed by tool messages "
		 "responding to each 'tool_call_id'. The following tool_call_ids did not have "
		 "response messages: ",
		 ""},
		{"messages with role 'tool' must be a response to a preceding message with "
		 "'tool_calls': there is no call '",
		 "'"},
	};
	struct err e;
	int code = 0;
	if (!json_length(messages))
		return problem_set(p, PROBLEM_INVALID, "messages",
				   "\"messages\" must be a list of at least one message");
	*out = json_object_new_array();
	for (size_t i = 0; i < json_length(messages) && !code; i++)
		code = chat_take_message(json_object_array_get_idx(messages, i), i, ignored, *out,
					 p);
	if (!code && wanted_check_results(*out, &results, &e))
		code = problem_set(p, PROBLEM_INVALID, "messages", "%s", e.text);
	if (code) {
		json_object_put(*out);
		*out = NULL;
	}
	return code;
}

/* ---- tools ---- */

static const char *chat_tool_name(json_object *tool)
{
	json_object *name = json_at(json_at(tool, "function"), "name");
	return json_object_is_type(name, json_type_string) ? json_object_get_string(name) : NULL;
}

static int chat_wrong_choice(struct problem *p, const char *what, const char *name)
{
	return problem_set(p, PROBLEM_INVALID, "tool_choice", "\"tool_choice\" %s%.80s", what,
			   name);
}

static int chat_choose_word(struct turn_wish *w, const char *word, struct problem *p)
{
	static const char *const WORDS[] = {"auto", "none", "required"};
	if (!w->tools && !strcmp(word, "required"))
		return chat_wrong_choice(p, "needs \"tools\"", "");
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
		if (!strcmp(word, WORDS[i]))
			return w->tools ? turn_wish_param(w, p, "tool_choice", "tool_choice", "%s",
							  word)
					: 0;
	return chat_wrong_choice(
		p, "must be none, auto, required, or an object of type function or allowed_tools",
		"");
}

static int chat_choose_tool(struct turn_wish *w, const char *name, struct problem *p)
{
	if (!w->tools)
		return chat_wrong_choice(p, "needs \"tools\"", "");
	if (!wanted_has_tool(w->tools, name))
		return chat_wrong_choice(p, "names no tool on offer: ", name);
	return turn_wish_param(w, p, "tool_choice", "tool_choice", "%s", name);
}

/* Removes all tools that are not allowed. */
static int chat_choose_allowed(struct turn_wish *w, json_object *choice, struct problem *p)
{
	json_object *of = json_at(choice, "allowed_tools"), *allowed = NULL;
	const char *mode = "auto";
	int there = field_list(of, "tools", &allowed, p);
	if (there == 0)
		return chat_wrong_choice(p, "of type allowed_tools has allowed_tools.tools, a list",
					 "");
	if (there < 0 || field_text(of, "mode", &mode, p) < 0)
		return -1;
	for (size_t i = 0; i < json_length(allowed); i++) {
		const char *name = chat_tool_name(json_object_array_get_idx(allowed, i));
		if (!name || !wanted_has_tool(w->tools, name))
			return chat_wrong_choice(
				p, "allows a tool that is not on offer: ", name ? name : "");
	}
	for (size_t i = json_length(w->tools); i-- > 0;)
		if (!wanted_has_tool(allowed,
				     chat_tool_name(json_object_array_get_idx(w->tools, i))))
			json_object_array_del_idx(w->tools, i, 1);
	return chat_choose_word(w, mode, p);
}

/* Adds tool `i` of a request to the wish. */
static int chat_take_tool(struct turn_wish *w, json_object *tool, size_t i, struct problem *p)
{
	json_object *function = json_at(tool, "function");
	json_object *schema = json_at(function, "parameters");
	const char *name = chat_tool_name(tool),
		   *type = json_object_get_string(json_at(tool, "type"));
	struct err e;
	if (!name || !*name)
		return problem_set(p, PROBLEM_INVALID, "tools",
				   "tools[%zu] is of type \"%.40s\"; only functions with a name "
				   "can be offered",
				   i, type ? type : "");
	if (wanted_check_name(name, NAME_OPENAI, &e) ||
	    (schema && wanted_check_schema(name, schema, &e)))
		return answer_problem(p, &e);
	json_object_array_add(w->tools,
			      json_new("type=function function=%p", json_object_get(function)));
	return 0;
}

int chat_tools(json_object *body, struct turn_wish *w, struct problem *p)
{
	json_object *list = NULL, *choice = json_at(body, "tool_choice");
	const char *name = chat_tool_name(choice);
	if (field_list(body, "tools", &list, p) < 0)
		return -1;
	if (json_length(list))
		w->tools = json_object_new_array();
	for (size_t i = 0; i < json_length(list); i++)
		if (chat_take_tool(w, json_object_array_get_idx(list, i), i, p))
			return -1;
	if (!choice)
		return 0;
	if (json_object_is_type(choice, json_type_string))
		return chat_choose_word(w, json_object_get_string(choice), p);
	if (json_is(choice, "type", "allowed_tools"))
		return chat_choose_allowed(w, choice, p);
	return name ? chat_choose_tool(w, name, p) : chat_choose_word(w, "", p);
}

/* ---- other fields ---- */

static int chat_take_format(json_object *body, struct turn_wish *w, struct problem *p)
{
	json_object *format = json_at(body, "response_format");
	json_object *schema = json_at(json_at(format, "json_schema"), "schema");
	if (!format || json_is(format, "type", "text"))
		return 0;
	if (json_is(format, "type", "json_object"))
		return turn_wish_param(w, p, "format", "response_format", "json");
	if (!json_is(format, "type", "json_schema") || !schema)
		return problem_set(p, PROBLEM_INVALID, "response_format",
				   "\"response_format\" must have a type: text, json_object, or "
				   "json_schema with json_schema.schema");
	/* In this order: the grammar is checked by the rules of `format`. */
	return turn_wish_param(w, p, "format", "response_format", "schema") ||
			       turn_wish_param(w, p, "grammar", "response_format", "%s",
					       json_object_to_json_string_ext(
						       schema, JSON_C_TO_STRING_NOSLASHESCAPE))
		       ? -1
		       : 0;
}

static int chat_take_logprobs(json_object *body, struct chat_asked *a, struct turn_wish *w,
			      struct problem *p)
{
	if (field_bool(body, "logprobs", &a->logprobs, p) < 0 ||
	    field_count(body, "top_logprobs", 0, 20, &a->top, p) < 0)
		return -1;
	if (a->top && !a->logprobs)
		return problem_set(p, PROBLEM_INVALID, "top_logprobs",
				   "\"top_logprobs\" needs \"logprobs\": true");
	w->logprobs = a->logprobs;
	return a->logprobs ? turn_wish_param(w, p, "logprobs", "top_logprobs", "%" PRIu64,
					     a->top ? a->top : 1)
			   : 0;
}

/* Reads reasoning_effort as params/thinking: as advice, for models whose template knows levels. If
 * a template knows only a switch, any effort except none leaves the model's default. */
static int chat_take_thinking(json_object *body, struct turn_wish *w, struct problem *p)
{
	static const struct {
		const char *effort, *thinking;
	} words[] = {{"none", "off"},	   {"minimal", "low"}, {"low", "low"},
		     {"medium", "medium"}, {"high", "high"},   {"xhigh", "high"}};
	const char *effort;
	int there = field_text(body, "reasoning_effort", &effort, p);
	for (size_t i = 0; there > 0 && i < sizeof words / sizeof *words; i++) {
		if (strcmp(words[i].effort, effort) != 0)
			continue;
		int code = turn_wish_param(w, p, "thinking", "reasoning_effort", "%s",
					   words[i].thinking);
		if (!code)
			w->params[w->param_count - 1].advice = true;
		return code;
	}
	return there <= 0 ? there
			  : problem_set(
				    p, PROBLEM_INVALID, "reasoning_effort",
				    "\"reasoning_effort\" must be none, minimal, low, medium, high "
				    "or xhigh");
}

int chat_read(struct http_request *r, struct chat_asked *a, struct turn_wish *w, struct problem *p)
{
	json_object *body = r->json, *options = NULL;
	bool parallel = true;
	*a = (struct chat_asked){.n = 1};
	if (field_bool(body, "stream", &a->stream, p) < 0 || openai_model(r, &a->model, p) ||
	    field_count(body, "n", 1, CHOICES_MOST, &a->n, p) < 0 ||
	    field_bool(body, "parallel_tool_calls", &parallel, p) < 0 ||
	    field_object(body, "stream_options", &options, p) < 0 ||
	    field_bool(options, "include_usage", &a->include_usage, p) < 0)
		return -1;
	w->model = a->model;
	a->one_call = !parallel;
	if (chat_messages(json_at(body, "messages"), r->gateway->options->ignored, &w->messages,
			  p) ||
	    chat_tools(body, w, p) || openai_sampling(body, w, p) || chat_take_format(body, w, p) ||
	    chat_take_logprobs(body, a, w, p) || chat_take_thinking(body, w, p))
		return -1;
	return 0;
}
