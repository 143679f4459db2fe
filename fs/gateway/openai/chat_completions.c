/* POST /v1/chat/completions: writes a stream of chunks, or one completion. chat_read.c reads the
 * request. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/openai/openai.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct chat_completion {
	int client;
	char id[48], model[256];
	time_t created;
	struct chat_asked asked; /* its model is invalid once the request is freed */
	size_t over;		 /* number of complete choices */
	struct turn *turns[CHOICES_MOST];
	struct usage usage[CHOICES_MOST];
	struct chat_choice {
		struct text output, thoughts, logprobs; /* unless streamed */
		json_object *calls;			/* unless streamed */
		unsigned call_count;
		bool begun, over;
	} choices[CHOICES_MOST];
	struct event_stream stream;
};

static void chat_end(void *chat)
{
	struct chat_completion *c = chat;
	for (size_t i = 0; i < CHOICES_MOST; i++) {
		turn_end(c->turns[i]);
		text_free(&c->choices[i].output);
		text_free(&c->choices[i].thoughts);
		text_free(&c->choices[i].logprobs);
		json_object_put(c->choices[i].calls);
	}
	free(c);
}

/* Takes the news of choice `i`, and ends its turn with the answer, or with the first call if the
 * client wants only one. */
static int chat_take(struct chat_completion *c, size_t i, struct news *n, struct problem *p)
{
	int code = turn_take(c->turns[i], n, p);
	size_t calls = json_length(n->calls);
	bool cut = c->asked.one_call && calls;
	if (code || !(n->over || cut))
		return code;
	turn_usage(c->turns[i], &c->usage[i]);
	if (cut) {
		if (calls > 1)
			json_object_array_del_idx(n->calls, 1, calls - 1);
		(void)snprintf(c->usage[i].finish, sizeof c->usage[i].finish, "tool_calls");
	}
	turn_end(c->turns[i]);
	c->turns[i] = NULL;
	c->choices[i].over = true;
	c->over++;
	return 0;
}

/* ---- as a stream ---- */

/* Adds a chunk of choice `i`. Takes delta and logprobs. finish: NULL while the choice grows. */
static void chat_add_chunk(struct chat_completion *c, struct text *out, size_t i,
			   json_object *delta, json_object *logprobs, const char *finish)
{
	json_object *choices = json_object_new_array();
	json_object_array_add(choices, json_new("index=%u delta=%p logprobs=%p finish_reason=%s",
						(unsigned)i, delta, logprobs, finish));
	json_object *chunk =
		openai_frame(c->id, "chat.completion.chunk", c->created, c->model, choices);
	if (c->asked.include_usage)
		json_object_object_add(chunk, "usage", NULL);
	json_event(out, NULL, chunk);
}

/* A call comes as a whole. Clients expect its arguments in a separate delta, after its name. */
static void chat_add_call(struct chat_completion *c, struct text *out, size_t i,
			  json_object *tree_call)
{
	unsigned index = c->choices[i].call_count++;
	json_object *call = openai_call(tree_call), *function = json_at(call, "function");
	json_object *name =
		json_new("name=%p arguments=%s", json_object_get(json_at(function, "name")), "");
	json_object *arguments =
		json_new("arguments=%p", json_object_get(json_at(function, "arguments")));
	json_object *const parts[] = {
		json_new("index=%u id=%p type=function function=%p", index,
			 json_object_get(json_at(call, "id")), name),
		json_new("index=%u function=%p", index, arguments),
	};
	for (int k = 0; k < 2; k++) {
		json_object *list = json_object_new_array();
		json_object_array_add(list, parts[k]);
		chat_add_chunk(c, out, i, json_new("tool_calls=%p", list), NULL, NULL);
	}
	json_object_put(call);
}

static void chat_add_text(struct chat_completion *c, struct text *out, size_t i, const char *name,
			  const struct text *text, const struct text *lines)
{
	json_object *delta = json_object_new_object();
	json_put_n(delta, name, text->data, text->length);
	chat_add_chunk(c, out, i, delta,
		       lines->length ? openai_logprobs(lines, c->asked.top) : NULL, NULL);
}

static void chat_add_news(struct chat_completion *c, struct text *out, size_t i,
			  const struct news *n)
{
	bool any = n->thoughts.length || n->output.length || n->logprobs.length || n->calls;
	if ((any || n->over) && !c->choices[i].begun) {
		c->choices[i].begun = true;
		chat_add_chunk(c, out, i, json_new("role=assistant content=%s", ""), NULL, NULL);
	}
	if (n->thoughts.length)
		chat_add_text(c, out, i, "reasoning_content", &n->thoughts, &(struct text){0});
	if (n->output.length || n->logprobs.length)
		chat_add_text(c, out, i, "content", &n->output, &n->logprobs);
	for (size_t k = 0; k < json_length(n->calls); k++)
		chat_add_call(c, out, i, json_object_array_get_idx(n->calls, k));
}

/* See struct event_stream. */
static int chat_step(void *of, struct text *out, struct problem *p)
{
	struct chat_completion *c = of;
	if (turns_wait(c->turns, c->asked.n, c->client, STREAM_PAUSE_MS, p))
		return -1;
	for (size_t i = 0; i < c->asked.n; i++) {
		struct news n = {0};
		if (c->choices[i].over)
			continue;
		int code = chat_take(c, i, &n, p);
		if (code && !n.output.length && !n.thoughts.length)
			n.over = false; /* send only the failure */
		chat_add_news(c, out, i, &n);
		news_free(&n);
		if (code)
			return -1;
		if (c->choices[i].over)
			chat_add_chunk(c, out, i, json_object_new_object(), NULL,
				       openai_finish(&c->usage[i]));
	}
	if (c->over < c->asked.n)
		return 0;
	if (c->asked.include_usage) {
		json_object *chunk = openai_frame(c->id, "chat.completion.chunk", c->created,
						  c->model, json_object_new_array());
		json_object_object_add(chunk, "usage", openai_usage(c->usage, c->asked.n));
		json_event(out, NULL, chunk);
	}
	text_string(out, "data: [DONE]\n\n");
	return 1;
}

/* ---- in one piece ---- */

/* Waits for all choices, and collects their output. */
static int chat_collect(struct chat_completion *c, struct problem *p)
{
	while (c->over < c->asked.n) {
		if (turns_wait(c->turns, c->asked.n, c->client, -1, p))
			return -1;
		for (size_t i = 0; i < c->asked.n; i++) {
			struct chat_choice *to = &c->choices[i];
			struct news n = {0};
			if (to->over)
				continue;
			int code = chat_take(c, i, &n, p);
			text_add(&to->output, n.output.data, n.output.length);
			text_add(&to->thoughts, n.thoughts.data, n.thoughts.length);
			text_add(&to->logprobs, n.logprobs.data, n.logprobs.length);
			for (size_t k = 0; k < json_length(n.calls); k++) {
				if (!to->calls)
					to->calls = json_object_new_array();
				json_object *call = json_object_array_get_idx(n.calls, k);
				json_object_array_add(to->calls, openai_call(call));
			}
			news_free(&n);
			if (code)
				return -1;
			if (to->output.failed || to->thoughts.failed || to->logprobs.failed)
				return problem_no_memory(p);
		}
	}
	return 0;
}

static json_object *chat_choice(struct chat_completion *c, size_t i)
{
	struct chat_choice *of = &c->choices[i];
	json_object *m = json_new("role=assistant content=null");
	if (!of->calls || of->output.length)
		json_put_n(m, "content", of->output.data, of->output.length);
	if (of->thoughts.length)
		json_put_n(m, "reasoning_content", of->thoughts.data, of->thoughts.length);
	json_object_object_add(m, "refusal", NULL);
	json_object_object_add(m, "annotations", json_object_new_array());
	if (of->calls)
		json_object_object_add(m, "tool_calls", json_object_get(of->calls));
	return json_new("index=%u message=%p logprobs=%p finish_reason=%s", (unsigned)i, m,
			c->asked.logprobs ? openai_logprobs(&of->logprobs, c->asked.top) : NULL,
			openai_finish(&c->usage[i]));
}

enum MHD_Result chat_completions(struct http_request *r)
{
	struct problem p = {0};
	struct chat_completion *c = calloc(1, sizeof *c);
	if (!c)
		return MHD_NO;
	c->client = r->client;
	c->created = time(NULL);
	(void)snprintf(c->id, sizeof c->id, "chatcmpl-%s", r->id);
	struct turn_wish w = {0};
	int code = chat_read(r, &c->asked, &w, &p);
	for (size_t i = 0; i < c->asked.n && !code; i++) {
		w.beside = i > 0;
		code = turn_begin(&c->turns[i], r, &w, &p);
	}
	if (!code)
		(void)snprintf(c->model, sizeof c->model, "%s", c->asked.model);
	turn_wish_free(&w);
	if (!code && c->asked.stream) {
		c->stream = (struct event_stream){.step = chat_step,
						  .fail = openai_fail,
						  .pause = openai_pause,
						  .end = chat_end,
						  .of = c};
		return reply_events(r, &c->stream);
	}
	if (!code)
		code = chat_collect(c, &p);
	json_object *answer = NULL;
	if (!code) {
		json_object *choices = json_object_new_array();
		for (size_t i = 0; i < c->asked.n; i++)
			json_object_array_add(choices, chat_choice(c, i));
		answer = openai_frame(c->id, "chat.completion", c->created, c->model, choices);
		json_object_object_add(answer, "usage", openai_usage(c->usage, c->asked.n));
	}
	chat_end(c);
	return code ? reply_problem(r, &p) : reply_json(r, MHD_HTTP_OK, answer);
}
