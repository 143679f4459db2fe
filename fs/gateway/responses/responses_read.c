/* Reads the body of /v1/responses, except its items and tools. See responses.h.
 *
 * Fields that do not concern the model are accepted and repeated in the response (metadata, user,
 * cache keys and so on). Unknown fields are ignored. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/responses/responses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void responses_asked_free(struct responses_asked *a)
{
	wanted_free(&a->wanted);
	json_object_put(a->messages);
	json_object_put(a->input);
	json_object_put(a->echo);
	json_object_put(a->names);
	*a = (struct responses_asked){0};
}

static int responses_no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "no memory for a request");
}

/* ---- fields of the request that a response repeats ---- */

/* Each with its value if the request lacks the field; NULL: null. */
static const struct {
	const char *key, *otherwise;
} echoed[] = {
	{"background", "false"},
	{"frequency_penalty", "0"},
	{"instructions", NULL},
	{"max_output_tokens", NULL},
	{"max_tool_calls", NULL},
	{"metadata", "{}"},
	{"model", NULL},
	{"parallel_tool_calls", "true"},
	{"presence_penalty", "0"},
	{"previous_response_id", NULL},
	{"prompt_cache_key", NULL},
	{"reasoning", "{\"effort\": null, \"summary\": null}"},
	{"safety_identifier", NULL},
	{"service_tier", "\"default\""},
	{"store", "true"},
	{"temperature", "1"},
	{"text", "{\"format\": {\"type\": \"text\"}}"},
	{"tool_choice", "\"auto\""},
	{"top_logprobs", "0"},
	{"top_p", "1"},
	{"truncation", "\"disabled\""},
	{"user", NULL},
};

/* Adds members of `otherwise` that `given` lacks, if both are objects. */
static void responses_complete(json_object *given, json_object *otherwise)
{
	if (!json_object_is_type(given, json_type_object) ||
	    !json_object_is_type(otherwise, json_type_object))
		return;
	json_object_object_foreach(otherwise, key, value)
	{
		if (!json_object_object_get_ex(given, key, NULL))
			json_object_object_add(given, key, json_object_get(value));
	}
}

static int responses_make_echo(struct responses_asked *a, const json_object *body, struct err *e)
{
	json_object *tools = responses_tools_shown(body);
	if (!tools || !(a->echo = json_new("tools=%p", tools))) {
		json_object_put(tools);
		return responses_no_memory(e);
	}
	for (size_t i = 0; i < sizeof echoed / sizeof *echoed; i++) {
		json_object *given = json_at(body, echoed[i].key), *copy = NULL;
		json_object *otherwise =
			echoed[i].otherwise ? json_tokener_parse(echoed[i].otherwise) : NULL;
		/* Copy, so that nothing is shared with an object that outlives the request. */
		if (given && json_object_deep_copy(given, &copy, NULL) < 0) {
			json_object_put(otherwise);
			return responses_no_memory(e);
		}
		responses_complete(copy, otherwise);
		json_object_object_add(a->echo, echoed[i].key,
				       given ? copy : json_object_get(otherwise));
		json_object_put(otherwise);
	}
	/* The answer follows its schema, whether or not the request says strict. */
	json_object *format = json_at(json_at(a->echo, "text"), "format");
	if (json_is(format, "type", "json_schema")) {
		json_object *form = json_tokener_parse("{\"description\": null, \"strict\": true}");
		responses_complete(format, form);
		json_object_put(form);
	}
	return 0;
}

/* ---- fields ---- */

static int responses_refuse_services(const json_object *body, struct err *e)
{
	static const char *const SERVICES[] = {"conversation", "prompt"};
	for (size_t i = 0; i < sizeof SERVICES / sizeof *SERVICES; i++)
		if (json_at(body, SERVICES[i]))
			return err_set(e, ENOTSUP,
				       "%s: not supported: send the items, or continue a response "
				       "with previous_response_id",
				       SERVICES[i]);
	if (json_true(body, "background"))
		return err_set(e, ENOTSUP,
			       "background: not supported, since an answer ends with its "
			       "connection; use stream");
	return 0;
}

/* Of `include` only the logprobs are supported; its other values concern services. */
static int responses_read_logprobs(struct wanted *w, const json_object *body, struct err *e)
{
	enum { MOST = 20 };
	json_object *include = json_at(body, "include"), *top = json_at(body, "top_logprobs");
	int64_t most = json_object_get_int64(top);
	char most_text[32];
	if (top && (!json_object_is_type(top, json_type_int) || most < 0 || most > MOST))
		return err_set(e, EINVAL, "top_logprobs: must be a number from 0 to %d", MOST);
	for (size_t i = 0; i < json_length(include); i++) {
		json_object *one = json_object_array_get_idx(include, i);
		w->logprobs |= json_object_is_type(one, json_type_string) &&
			       !strcmp(json_object_get_string(one), "message.output_text.logprobs");
	}
	w->top = (uint64_t)most;
	(void)snprintf(most_text, sizeof most_text, "%d", most ? (int)most : 1);
	return w->logprobs ? wanted_param(w, "logprobs", most_text, e) : 0;
}

static int responses_read_numbers(struct wanted *w, const json_object *body, struct err *e)
{
	static const struct {
		const char *key, *param;
		double least, most;
	} rows[] = {
		{"temperature", "temperature", 0, 2},
		{"top_p", "top_p", 0, 1},
		{"frequency_penalty", "frequency_penalty", -2, 2},
		{"presence_penalty", "presence_penalty", -2, 2},
		{"max_output_tokens", "max_tokens", 1, 1 << 30},
	};
	int rc = 0;
	for (size_t i = 0; i < sizeof rows / sizeof *rows && rc == 0; i++)
		rc = wanted_number(w, body, rows[i].key, rows[i].param, rows[i].least, rows[i].most,
				   e);
	json_object *most = json_at(body, "max_output_tokens");
	if (rc == 0 && most)
		w->max_tokens = (uint64_t)json_object_get_int64(most);
	return rc;
}

static int responses_read_form(struct wanted *w, const json_object *body, struct err *e)
{
	json_object *format = json_at(json_at(body, "text"), "format");
	json_object *schema = json_at(format, "schema");
	if (!format || json_is(format, "type", "text"))
		return 0;
	if (json_is(format, "type", "json_object"))
		return wanted_schema(w, NULL, "text.format", e);
	if (json_is(format, "type", "json_schema") && json_object_is_type(schema, json_type_object))
		return wanted_schema(w, schema, "text.format", e);
	return err_set(
		e, EINVAL,
		"text.format: must be of type text, json_object, or json_schema with a schema");
}

static int responses_read_plain(struct responses_asked *a, const json_object *body, struct err *e)
{
	struct wanted *w = &a->wanted;
	const char *model = json_text(body, "model");
	json_object *effort = json_at(json_at(body, "reasoning"), "effort");
	if (!model || !*model)
		return err_set(e, EINVAL, "model: must be the name of a model");
	if (!(w->model = strdup(model)))
		return responses_no_memory(e);
	w->stream = json_true(body, "stream");
	w->thoughts = true;
	w->asked = "input";
	w->one_call =
		json_at(body, "parallel_tool_calls") && !json_true(body, "parallel_tool_calls");
	a->store = !json_at(body, "store") || json_true(body, "store");
	if (responses_refuse_services(body, e) || responses_read_numbers(w, body, e) ||
	    responses_read_logprobs(w, body, e) || responses_read_form(w, body, e) ||
	    (effort && wanted_effort(w, json_text(json_at(body, "reasoning"), "effort"),
				     "reasoning.effort", e)))
		return -e->code;
	return json_is(body, "truncation", "auto") ? wanted_param(w, "on_full", "drop-oldest", e)
						   : 0;
}

/* ---- the conversation ---- */

/* A string is short for one item, a message of the user. */
static int responses_read_input(struct responses_asked *a, const json_object *body, struct err *e)
{
	json_object *input = json_at(body, "input");
	if (input && !json_object_is_type(input, json_type_array) &&
	    !json_object_is_type(input, json_type_string))
		return err_set(e, EINVAL, "input: must be a text or a list of items");
	if (json_object_is_type(input, json_type_array))
		a->input = json_object_get(input);
	else
		a->input = json_object_new_array();
	if (a->input && json_object_is_type(input, json_type_string)) {
		json_object *item =
			json_new("type=message role=user content=%p", json_object_get(input));
		if (json_object_array_add(a->input, item) < 0)
			json_object_put(item);
	}
	return a->input ? 0 : responses_no_memory(e);
}

static int responses_read_past(struct dialog *t, const json_object *body,
			       const struct responses_past *past, struct err *e)
{
	const char *id;
	int rc = json_text_or_none(body, "previous_response_id", &id, e);
	if (rc < 0 || !id)
		return rc;
	json_object *messages = past->messages(past->ctx, id);
	if (!messages)
		return err_set(e, ENOENT,
			       "previous_response_id: \"%.80s\" is not kept here (any more): send "
			       "the items that it goes on from",
			       id);
	dialog_append(t, messages);
	json_object_put(messages);
	return 0;
}

/* Returns a new list with `instructions` before the messages, merged with the first system
 * message. */
static json_object *responses_with_instructions(json_object *messages, const char *instructions)
{
	struct dialog t = {0};
	size_t count = json_object_array_length(messages), i = 0;
	dialog_say(&t, "system", instructions, strlen(instructions), "");
	json_object *first = json_object_array_get_idx(messages, 0);
	if (json_is(first, "role", "system")) {
		json_object *content = json_at(first, "content");
		dialog_say(&t, "system", json_object_get_string(content),
			   (size_t)json_object_get_string_len(content), "\n\n");
		i = 1;
	}
	json_object *all = dialog_take(&t);
	for (; i < count && all; i++)
		if (json_object_array_add(all,
					  json_object_get(json_object_array_get_idx(messages, i))))
			t.failed = true;
	if (t.failed) {
		json_object_put(all);
		all = NULL;
	}
	dialog_free(&t);
	return all;
}

static const struct wanted_results results = {
	RESULTS_LATER,
	{"input: No tool output found for function call ", "."},
	{"input: No tool call found for function call output with call_id ", "."},
};

static int responses_read_talk(struct responses_asked *a, const json_object *body,
			       const struct responses_past *past, struct err *e)
{
	struct dialog dialog = {.system_first = true};
	const char *instructions = NULL;
	int rc = json_text_or_none(body, "instructions", &instructions, e) ||
				 responses_read_input(a, body, e) ||
				 responses_read_past(&dialog, body, past, e) ||
				 responses_items(&dialog, a->input, past, e)
			 ? -e->code
			 : 0;
	if (rc == 0 && !(a->messages = dialog_take(&dialog)))
		rc = responses_no_memory(e);
	if (rc == 0)
		rc = wanted_check_results(a->messages, &results, e);
	dialog_free(&dialog);
	if (rc < 0)
		return rc;
	if (!json_object_array_length(a->messages) && !instructions)
		return err_set(e, EINVAL, "input: must be a text or a list of items");
	a->wanted.messages = instructions && *instructions
				     ? responses_with_instructions(a->messages, instructions)
				     : json_object_get(a->messages);
	return a->wanted.messages ? 0 : responses_no_memory(e);
}

int responses_read(struct responses_asked *a, const json_object *body,
		   const struct responses_past *past, struct err *e)
{
	if (!json_object_is_type(body, json_type_object))
		return err_set(e, EINVAL, "the body must be a JSON object");
	if (responses_read_plain(a, body, e) || responses_read_talk(a, body, past, e) ||
	    responses_tools(a, body, e))
		return -e->code;
	return responses_make_echo(a, body, e);
}
