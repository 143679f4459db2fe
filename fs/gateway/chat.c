/* POST /v1/chat/completions. */
#include "fs/gateway/chat.h"
#include "fs/gateway/fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/handlers.h"
#include "fs/gateway/messages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
	text_free(&c->first);
	free(c);
}

/* ---- what is asked ---- */

static int no_memory(struct problem *p)
{
	return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
}

/* tool_choice: a word, or an object that names a function. */
static int take_tool_choice(struct json_object *body, struct wish *w, struct problem *p)
{
	struct json_object *choice = field_get(body, "tool_choice");
	const char *name = json_object_get_string(field_get(field_get(choice, "function"), "name"));
	if (!choice)
		return 0;
	if (json_object_is_type(choice, json_type_string)) {
		name = json_object_get_string(choice);
		if (strcmp(name, "auto") != 0 && strcmp(name, "none") != 0 &&
		    strcmp(name, "required") != 0)
			name = NULL;
	}
	if (!name)
		return problem_set(
			p, PROBLEM_INVALID, "tool_choice",
			"'tool_choice' must be none, auto, required, or an object of type "
			"function with its name");
	return wish_param(w, "tool_choice", "tool_choice", "%s", name) ? 0 : no_memory(p);
}

static int take_tools(struct json_object *body, struct wish *w, struct problem *p)
{
	struct json_object *list = NULL;
	int there = field_list(body, "tools", &list, p);
	if (there < 0 ||
	    (there && json_object_array_length(list) && tools_take(list, &w->tools, p)))
		return -1;
	if (!w->tools && field_get(body, "tool_choice")) {
		const char *choice = json_object_get_string(field_get(body, "tool_choice"));
		if (!strcmp(choice, "none") || !strcmp(choice, "auto"))
			return 0;
		return problem_set(p, PROBLEM_INVALID, "tool_choice",
				   "'tool_choice' needs 'tools'");
	}
	return take_tool_choice(body, w, p);
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
	int there = field_text(body, "model", &w->model, p);
	if (there == 0)
		problem_set(p, PROBLEM_INVALID, "model", "'model' is missing");
	if (there <= 0 || turn_model(r, w->model, p) || openai_refuse(body, p))
		return -1;
	if (field_count(body, "n", 1, CHOICES_MOST, &n, p) < 0 ||
	    field_object(body, "stream_options", &options, p) < 0 ||
	    field_bool(options, "include_usage", &c->include_usage, p) < 0)
		return -1;
	c->count = n;
	(void)snprintf(c->model, sizeof c->model, "%s", w->model);
	return messages_take(field_get(body, "messages"), r->gateway->options->ignored,
			     &w->messages, p) ||
			       take_tools(body, w, p) || openai_sampling(body, w, p) ||
			       take_format(body, w, p) || take_logprobs(body, c, w, p) ||
			       take_thinking(body, w, p)
		       ? -1
		       : 0;
}

static int begin(struct request *r, struct chat *c, struct problem *p)
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

/* ---- the answer in one piece ---- */

static int collect(struct chat *c, size_t i, struct problem *p)
{
	struct choice *to = &c->choices[i];
	struct news n = {0};
	int code = turn_take(c->turns[i], &n, p);
	text_add(&to->output, n.output.data, n.output.length);
	text_add(&to->thoughts, n.thoughts.data, n.thoughts.length);
	text_add(&to->logprobs, n.logprobs.data, n.logprobs.length);
	for (size_t k = 0; n.calls && k < json_object_array_length(n.calls); k++) {
		if (!to->calls)
			to->calls = json_object_new_array();
		json_object_array_add(to->calls,
				      openai_call(json_object_array_get_idx(n.calls, k), -1));
	}
	if (n.over && !to->over) {
		to->over = true;
		c->over++;
		turn_usage(c->turns[i], &c->usage[i]);
	}
	news_free(&n);
	if (!code && (to->output.failed || to->thoughts.failed || to->logprobs.failed))
		return no_memory(p);
	return code;
}

static int collect_all(struct chat *c, struct problem *p)
{
	while (c->over < c->count) {
		if (turns_wait(c->turns, c->count, c->client, -1))
			return problem_set(p, PROBLEM_GONE, NULL, "the client has gone away");
		for (size_t i = 0; i < c->count; i++)
			if (!c->choices[i].over && collect(c, i, p))
				return -1;
	}
	return 0;
}

static struct json_object *text_object(const struct text *t)
{
	return json_object_new_string_len(t->data ? t->data : "", (int)t->length);
}

static struct json_object *choice_object(struct chat *c, size_t i)
{
	struct choice *of = &c->choices[i];
	struct json_object *choice = json_object_new_object(), *m = json_object_new_object();
	json_object_object_add(m, "role", json_object_new_string("assistant"));
	json_object_object_add(m, "content",
			       of->calls && !of->output.length ? NULL : text_object(&of->output));
	if (of->thoughts.length)
		json_object_object_add(m, "reasoning_content", text_object(&of->thoughts));
	json_object_object_add(m, "refusal", NULL);
	if (of->calls)
		json_object_object_add(m, "tool_calls", json_object_get(of->calls));
	json_object_object_add(choice, "index", json_object_new_int((int)i));
	json_object_object_add(choice, "message", m);
	json_object_object_add(choice, "logprobs",
			       c->logprobs ? openai_logprobs(&of->logprobs, c->top) : NULL);
	json_object_object_add(choice, "finish_reason",
			       json_object_new_string(openai_finish(&c->usage[i])));
	return choice;
}

static struct json_object *completion(struct chat *c)
{
	struct json_object *all = json_object_new_object(), *choices = json_object_new_array();
	json_object_object_add(all, "id", json_object_new_string(c->id));
	json_object_object_add(all, "object", json_object_new_string("chat.completion"));
	json_object_object_add(all, "created", json_object_new_int64(c->created));
	json_object_object_add(all, "model", json_object_new_string(c->model));
	for (size_t i = 0; i < c->count; i++)
		json_object_array_add(choices, choice_object(c, i));
	json_object_object_add(all, "choices", choices);
	json_object_object_add(all, "usage", openai_usage(c->usage, c->count));
	return all;
}

enum MHD_Result chat_completions(struct request *r)
{
	struct problem p = {0};
	bool stream = false;
	struct chat *c = calloc(1, sizeof *c);
	if (!c)
		return MHD_NO;
	c->gateway = r->gateway;
	c->client = r->client;
	c->created = time(NULL);
	(void)snprintf(c->id, sizeof c->id, "chatcmpl-%s", r->id);
	int code = field_bool(r->json, "stream", &stream, &p) < 0 || begin(r, c, &p) ? -1 : 0;
	if (!code && stream)
		return chat_stream(r, c);
	if (!code)
		code = collect_all(c, &p);
	struct json_object *answer = code ? NULL : completion(c);
	chat_end(c);
	return answer ? reply_json(r, MHD_HTTP_OK, answer) : reply_problem(r, &p);
}
