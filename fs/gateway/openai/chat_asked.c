/* What a chat completion is asked, field by field, and its turns' beginning and end. See chat.h. */
#include "fs/gateway/openai/chat.h"
#include "fs/gateway/body/fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/body/messages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct problem *p)
{
	return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
}

static int take_format(struct json_object *body, struct wish *w, struct problem *p)
{
	struct json_object *format = field_get(body, "response_format");
	const char *type = json_object_get_string(field_get(format, "type"));
	struct json_object *schema = field_get(field_get(format, "json_schema"), "schema");
	if (!format || (type && !strcmp(type, "text")))
		return 0;
	if (type && !strcmp(type, "json_object"))
		return wish_param(w, "format", "response_format", "json") ? 0 : no_memory(p);
	if (!type || strcmp(type, "json_schema") != 0 || !schema)
		return problem_set(p, PROBLEM_INVALID, "response_format",
				   "'response_format' must have a type: text, json_object, or "
				   "json_schema with json_schema.schema");
	/* In this order: a schema is checked by what it is to be. */
	return wish_param(w, "format", "response_format", "schema") &&
			       wish_param(w, "grammar", "response_format", "%s",
					  json_object_to_json_string_ext(
						  schema, JSON_C_TO_STRING_NOSLASHESCAPE))
		       ? 0
		       : no_memory(p);
}

static int take_logprobs(struct json_object *body, struct chat *c, struct wish *w,
			 struct problem *p)
{
	if (field_bool(body, "logprobs", &c->logprobs, p) < 0 ||
	    field_count(body, "top_logprobs", 0, 20, &c->top, p) < 0)
		return -1;
	if (c->top && !c->logprobs)
		return problem_set(p, PROBLEM_INVALID, "top_logprobs",
				   "'top_logprobs' needs 'logprobs': true");
	w->logprobs = c->logprobs;
	if (!c->logprobs)
		return 0;
	return wish_param(w, "logprobs", "top_logprobs", "%" PRIu64, c->top ? c->top : 1)
		       ? 0
		       : no_memory(p);
}

static int advise(struct wish *w, const char *thinking, struct problem *p)
{
	if (!wish_param(w, "thinking", "reasoning_effort", "%s", thinking))
		return no_memory(p);
	w->params[w->param_count - 1].advice = true;
	return 0;
}

/* reasoning_effort, as params/thinking has it: advice, for models whose template reads such. Where
 * that knows a switch alone, any effort but none leaves the model's own way. */
static int take_thinking(struct json_object *body, struct wish *w, struct problem *p)
{
	static const struct {
		const char *effort, *thinking;
	} words[] = {{"none", "off"},	   {"minimal", "low"}, {"low", "low"},
		     {"medium", "medium"}, {"high", "high"},   {"xhigh", "high"}};
	const char *effort;
	int there = field_text(body, "reasoning_effort", &effort, p);
	if (there <= 0)
		return there;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(words[i].effort, effort))
			return advise(w, words[i].thinking, p);
	return problem_set(p, PROBLEM_INVALID, "reasoning_effort",
			   "'reasoning_effort' must be none, minimal, low, medium, high or xhigh");
}

static int take_wish(struct request *r, struct chat *c, struct wish *w, struct problem *p)
{
	struct json_object *body = r->json, *options = NULL;
	uint64_t n = 1;
	bool parallel = true;
	int there = field_text(body, "model", &w->model, p);
	if (there == 0)
		problem_set(p, PROBLEM_INVALID, "model", "'model' is missing");
	if (there <= 0 || turn_model(r, w->model, p) || openai_refuse(body, p))
		return -1;
	if (field_count(body, "n", 1, CHOICES_MOST, &n, p) < 0 ||
	    field_bool(body, "parallel_tool_calls", &parallel, p) < 0 ||
	    field_object(body, "stream_options", &options, p) < 0 ||
	    field_bool(options, "include_usage", &c->include_usage, p) < 0)
		return -1;
	c->count = n;
	c->one_call = !parallel;
	(void)snprintf(c->model, sizeof c->model, "%s", w->model);
	return messages_take(field_get(body, "messages"), r->gateway->options->ignored,
			     &w->messages, p) ||
			       chat_tools(body, w, p) || openai_sampling(body, w, p) ||
			       take_format(body, w, p) || take_logprobs(body, c, w, p) ||
			       take_thinking(body, w, p)
		       ? -1
		       : 0;
}

int chat_begin(struct request *r, struct chat *c, struct problem *p)
{
	struct wish w = {0};
	int code = take_wish(r, c, &w, p);
	for (size_t i = 0; i < c->count && !code; i++) {
		w.beside = i > 0;
		code = turn_begin(&c->turns[i], r, &w, p);
	}
	wish_free(&w);
	return code;
}

bool chat_ends_with_call(struct chat *c, size_t i, struct news *n)
{
	size_t calls = n->calls ? json_object_array_length(n->calls) : 0;
	if (!c->one_call || !calls)
		return false;
	if (calls > 1)
		json_object_array_del_idx(n->calls, 1, calls - 1);
	turn_usage(c->turns[i], &c->usage[i]);
	(void)snprintf(c->usage[i].finish, sizeof c->usage[i].finish, "tool_calls");
	turn_end(c->turns[i]);
	c->turns[i] = NULL;
	return true;
}

void chat_end(void *chat)
{
	struct chat *c = chat;
	for (size_t i = 0; i < c->count; i++) {
		turn_end(c->turns[i]);
		text_free(&c->choices[i].output);
		text_free(&c->choices[i].thoughts);
		text_free(&c->choices[i].logprobs);
		json_object_put(c->choices[i].calls);
	}
	free(c);
}
