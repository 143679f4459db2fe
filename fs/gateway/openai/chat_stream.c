/* A chat completion as a stream of events: chunks with what is new, `[DONE]` at the end. */
#include "fs/gateway/openai/chat.h"
#include "fs/gateway/body/fields.h"

#include <stdlib.h>
#include <string.h>

static struct json_object *chunk(struct chat *c, struct json_object *choices)
{
	return openai_frame(c->id, "chat.completion.chunk", c->created, c->model, choices);
}

/* delta and logprobs are taken. */
static void add_chunk(struct chat *c, struct text *out, size_t i, struct json_object *delta,
		      struct json_object *logprobs, const char *finish)
{
	struct json_object *choice = json_object_new_object(), *choices = json_object_new_array();
	json_object_object_add(choice, "index", json_object_new_int((int)i));
	json_object_object_add(choice, "delta", delta);
	json_object_object_add(choice, "logprobs", logprobs);
	json_object_object_add(choice, "finish_reason",
			       finish ? json_object_new_string(finish) : NULL);
	json_object_array_add(choices, choice);
	struct json_object *all = chunk(c, choices);
	if (c->include_usage)
		json_object_object_add(all, "usage", NULL);
	event_add(out, NULL, all);
	json_object_put(all);
}

static struct json_object *delta_of(const char *name, const char *data, size_t n)
{
	struct json_object *delta = json_object_new_object();
	json_object_object_add(delta, name, json_object_new_string_len(data, (int)n));
	return delta;
}

/* A call comes whole; its arguments follow its name in a delta of their own, as clients expect. */
static void add_call(struct chat *c, struct text *out, size_t i, struct json_object *tree_call)
{
	int index = (int)c->choices[i].call_count++;
	struct json_object *call = openai_call(tree_call, index);
	struct json_object *function = field_get(call, "function");
	struct json_object *arguments = json_object_get(field_get(function, "arguments"));
	json_object_object_add(function, "arguments", json_object_new_string(""));
	for (int part = 0; part < 2; part++) {
		struct json_object *delta = json_object_new_object();
		struct json_object *list = json_object_new_array();
		if (part) {
			call = json_object_new_object();
			function = json_object_new_object();
			json_object_object_add(function, "arguments", arguments);
			json_object_object_add(call, "index", json_object_new_int(index));
			json_object_object_add(call, "function", function);
		}
		json_object_array_add(list, call);
		json_object_object_add(delta, "tool_calls", list);
		add_chunk(c, out, i, delta, NULL, NULL);
	}
}

static void add_role(struct chat *c, struct text *out, size_t i)
{
	struct json_object *delta = delta_of("role", "assistant", 9);
	json_object_object_add(delta, "content", json_object_new_string(""));
	add_chunk(c, out, i, delta, NULL, NULL);
	c->choices[i].begun = true;
}

static void add_news(struct chat *c, struct text *out, size_t i, const struct news *n)
{
	bool any = n->thoughts.length || n->output.length || n->logprobs.length || n->calls;
	if ((any || n->over) && !c->choices[i].begun)
		add_role(c, out, i);
	if (n->thoughts.length)
		add_chunk(c, out, i,
			  delta_of("reasoning_content", n->thoughts.data, n->thoughts.length), NULL,
			  NULL);
	if (n->output.length || n->logprobs.length)
		add_chunk(c, out, i,
			  delta_of("content", n->output.length ? n->output.data : "",
				   n->output.length),
			  n->logprobs.length ? openai_logprobs(&n->logprobs, c->top) : NULL, NULL);
	for (size_t k = 0; n->calls && k < json_object_array_length(n->calls); k++)
		add_call(c, out, i, json_object_array_get_idx(n->calls, k));
}

static int step_one(struct chat *c, struct text *out, size_t i, struct problem *p)
{
	struct news n = {0};
	int code = turn_take(c->turns[i], &n, p);
	if (code && !n.output.length && !n.thoughts.length)
		n.over = false; /* nothing was said: the failure is all there is to tell */
	bool cut = !code && chat_ends_with_call(c, i, &n);
	add_news(c, out, i, &n);
	if (n.over && !code && !cut) {
		turn_usage(c->turns[i], &c->usage[i]);
		turn_end(c->turns[i]);
		c->turns[i] = NULL;
	}
	if ((n.over || cut) && !code) {
		c->choices[i].over = true;
		c->over++;
		add_chunk(c, out, i, json_object_new_object(), NULL, openai_finish(&c->usage[i]));
	}
	news_free(&n);
	return code;
}

static void add_end(struct chat *c, struct text *out)
{
	if (c->include_usage) {
		struct json_object *all = chunk(c, json_object_new_array());
		json_object_object_add(all, "usage", openai_usage(c->usage, c->count));
		event_add(out, NULL, all);
		json_object_put(all);
	}
	text_string(out, "data: [DONE]\n\n");
}

/* 0: more will come; 1: that was all; -1: it failed, *p. */
static int step(void *of, struct text *out, struct problem *p)
{
	struct chat *c = of;
	if (turns_wait(c->turns, c->count, c->client, STREAM_PAUSE_MS))
		return problem_set(p, PROBLEM_GONE, NULL, "the client has gone away");
	for (size_t i = 0; i < c->count; i++)
		if (!c->choices[i].over && step_one(c, out, i, p))
			return -1;
	if (c->over < c->count)
		return 0;
	add_end(c, out);
	return 1;
}

enum MHD_Result chat_stream(struct request *r, struct chat *c)
{
	c->stream = (struct event_stream){
		.step = step, .fail = openai_fail, .pause = openai_pause, .end = chat_end, .of = c};
	return event_stream(r, &c->stream);
}
