/* POST /v1/chat/completions. */
#include "fs/gateway/openai/chat.h"
#include "fs/gateway/body/fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/handlers.h"
#include "fs/gateway/body/messages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int no_memory(struct problem *p)
{
	return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
}

/* ---- the answer in one piece ---- */

static int collect(struct chat *c, size_t i, struct problem *p)
{
	struct choice *to = &c->choices[i];
	struct news n = {0};
	int code = turn_take(c->turns[i], &n, p);
	bool cut = !code && chat_ends_with_call(c, i, &n);
	text_add(&to->output, n.output.data, n.output.length);
	text_add(&to->thoughts, n.thoughts.data, n.thoughts.length);
	text_add(&to->logprobs, n.logprobs.data, n.logprobs.length);
	for (size_t k = 0; n.calls && k < json_object_array_length(n.calls); k++) {
		if (!to->calls)
			to->calls = json_object_new_array();
		json_object_array_add(to->calls,
				      openai_call(json_object_array_get_idx(n.calls, k), -1));
	}
	if ((n.over || cut) && !to->over) {
		to->over = true;
		c->over++;
	}
	if (n.over && !cut)
		turn_usage(c->turns[i], &c->usage[i]);
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
	json_object_object_add(m, "annotations", json_object_new_array());
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
	struct json_object *choices = json_object_new_array();
	for (size_t i = 0; i < c->count; i++)
		json_object_array_add(choices, choice_object(c, i));
	struct json_object *all =
		openai_frame(c->id, "chat.completion", c->created, c->model, choices);
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
	int code = field_bool(r->json, "stream", &stream, &p) < 0 || chat_begin(r, c, &p) ? -1 : 0;
	if (!code && stream)
		return chat_stream(r, c);
	if (!code)
		code = collect_all(c, &p);
	struct json_object *answer = code ? NULL : completion(c);
	chat_end(c);
	return answer ? reply_json(r, MHD_HTTP_OK, answer) : reply_problem(r, &p);
}
