/* See answering.h. */
#include "fs/gateway/answering.h"
#include "fs/gateway/event_stream.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/body/messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct answering {
	const struct manner *manner;
	void *of;
	const struct wanted *wanted;
	struct turn *turn;
	int client;
	bool begun, over;
	struct event_stream stream;
};

/* ---- what is wanted of the tree ---- */

/* A refusal names the field that it is about before its colon. */
int problem_of(struct problem *p, const struct err *e)
{
	char field[64] = "";
	size_t n = strcspn(e->text, ": ");
	if (n < sizeof field && e->text[n] == ':') {
		memcpy(field, e->text, n);
		field[strcspn(field, "[.")] = 0;
	}
	return problem_set(p, e->code == ENOMEM ? PROBLEM_FAILED : PROBLEM_INVALID,
			   *field ? field : NULL, "%s", e->text);
}

/* Without the lines of a system's texts that mean nothing. */
static int drop_ignored(struct json_object *messages, const regex_t *ignored, struct problem *p)
{
	for (size_t i = 0; ignored && i < json_object_array_length(messages); i++) {
		struct json_object *message = json_object_array_get_idx(messages, i);
		const char *role = json_text(message, "role"),
			   *text = json_text(message, "content");
		if (!text || !role || strcmp(role, "system") != 0)
			continue;
		struct json_object *content = messages_without(text, ignored);
		if (!content)
			return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
		json_object_object_add(message, "content", content);
	}
	return 0;
}

/* The last that the session takes stands, so the words go in from the last to the first. */
static bool add_any_of(struct wish *w, const struct wanted_param *param)
{
	bool added = true;
	for (size_t end = strlen(param->value); end && added;) {
		size_t at = end;
		while (at && param->value[at - 1] != ' ')
			at--;
		added = wish_param(w, param->name, param->name, "%.*s", (int)(end - at),
				   param->value + at);
		if (added)
			w->params[w->param_count - 1].advice = true;
		end = at ? at - 1 : 0;
	}
	return added;
}

static bool add_param(struct wish *w, const struct wanted *wanted, const struct wanted_param *param)
{
	bool forms = !strcmp(param->name, "format") || !strcmp(param->name, "grammar");
	const char *field = forms && wanted->form ? wanted->form : param->name;
	return param->any_of ? add_any_of(w, param)
			     : wish_param(w, param->name, field, "%s", param->value);
}

int wanted_wish(struct request *r, const struct wanted *wanted, struct wish *w, struct problem *p)
{
	*w = (struct wish){.model = wanted->model, .asked = wanted->asked};
	if (turn_model(r, wanted->model, p) ||
	    drop_ignored(wanted->messages, r->gateway->options->ignored, p))
		return -1;
	for (size_t i = 0; i < wanted->param_count; i++) {
		if (!add_param(w, wanted, &wanted->params[i]))
			return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
	}
	w->messages = json_object_get(wanted->messages);
	w->tools = json_object_get(wanted->tools);
	w->logprobs = wanted->logprobs;
	return 0;
}

int answer_tokens(struct request *r, const struct wanted *wanted, uint64_t *tokens,
		  struct problem *p)
{
	struct wish w = {0};
	struct turn *turn = NULL;
	int code = wanted_wish(r, wanted, &w, p);
	w.counts = true;
	if (!code)
		code = turn_begin(&turn, r, &w, p);
	if (!code)
		code = turn_tokens(turn, r->client, tokens, p);
	turn_end(turn);
	wish_free(&w);
	return code;
}

/* ---- what comes ---- */

static void answering_free(void *ctx)
{
	struct answering *a = ctx;
	turn_end(a->turn);
	a->manner->free(a->of);
	free(a);
}

static void look(struct answering *a, struct usage *u, struct ending *end)
{
	turn_usage(a->turn, u);
	*end = (struct ending){
		.finish = u->finish,
		.prompt_tokens = u->prompt,
		.cached_tokens = u->cached,
		.output_tokens = u->output,
		.max_tokens = a->wanted->max_tokens,
	};
	if (u->stop && a->wanted->stops)
		end->stop = json_object_get_string(
			json_object_array_get_idx(a->wanted->stops, u->stop - 1));
}

static void begin(struct answering *a, struct text *out)
{
	struct usage u;
	struct ending known;
	if (a->begun)
		return;
	a->begun = true;
	look(a, &u, &known);
	a->manner->begin(a->of, &known, out);
}

/* The session goes, or is kept, before the client can have read of the end. */
static void end(struct answering *a, const char *finish, struct text *out)
{
	struct usage u;
	struct ending known;
	a->over = true;
	look(a, &u, &known);
	if (finish)
		known.finish = finish;
	turn_end(a->turn);
	a->turn = NULL;
	a->manner->end(a->of, &known, out);
}

static void tell(struct answering *a, const struct news *n, struct text *out)
{
	size_t calls = n->calls ? json_object_array_length(n->calls) : 0;
	bool thought = n->thoughts.length && a->wanted->thoughts;
	if (n->logprobs.length)
		a->manner->logprobs(a->of, &n->logprobs);
	if (thought || n->output.length || calls || n->over)
		begin(a, out);
	if (thought)
		a->manner->thought(a->of, n->thoughts.data, n->thoughts.length, out);
	if (n->output.length)
		a->manner->text(a->of, n->output.data, n->output.length, out);
	for (size_t i = 0; i < calls && !a->over; i++) {
		a->manner->call(a->of, json_object_array_get_idx(n->calls, i), out);
		if (a->wanted->one_call)
			end(a, "tool_calls", out);
	}
	if (n->over && !a->over)
		end(a, NULL, out);
}

/* 0: more will come; 1: that was all; -1: it failed. */
static int step(void *of, struct text *out, struct problem *p)
{
	struct answering *a = of;
	struct news n = {0};
	if (turns_wait(&a->turn, 1, a->client, STREAM_PAUSE_MS))
		return problem_set(p, PROBLEM_GONE, NULL, "the client has gone away");
	int code = turn_take(a->turn, &n, p);
	if (code)
		n.over = false; /* the failure is told in place of an end */
	tell(a, &n, out);
	news_free(&n);
	return code ? -1 : a->over;
}

/* ---- as a stream ---- */

static void stream_fail(void *of, const struct problem *p, struct text *out)
{
	struct answering *a = of;
	begin(a, out);
	a->manner->fail(a->of, p, out);
}

static void stream_pause(void *of, struct text *out)
{
	const struct answering *a = of;
	if (a->begun)
		a->manner->pause(out);
	else
		event_pause(out);
}

static enum MHD_Result answer_stream(struct request *r, struct answering *a)
{
	a->stream = (struct event_stream){.step = step,
					  .fail = stream_fail,
					  .pause = stream_pause,
					  .end = answering_free,
					  .of = a};
	return event_stream(r, &a->stream);
}

/* ---- in one piece ---- */

static enum MHD_Result answer_whole(struct request *r, struct answering *a)
{
	struct problem p = {0};
	struct text body = {0};
	int code = 0;
	while (!code)
		code = step(a, &body, &p);
	if (code > 0 && body.failed)
		code = problem_set(&p, PROBLEM_FAILED, NULL, "out of memory");
	enum MHD_Result result =
		code < 0 ? reply_problem(r, &p)
			 : reply_text(r, MHD_HTTP_OK, "application/json", body.data, body.length);
	text_free(&body);
	answering_free(a);
	return result;
}

enum MHD_Result answer_request(struct request *r, const struct manner *manner, void *of,
			       const struct wanted *wanted)
{
	struct problem p = {0};
	struct wish w = {0};
	struct answering *a = malloc(sizeof *a);
	if (!a) {
		manner->free(of);
		return MHD_NO;
	}
	*a = (struct answering){.manner = manner, .of = of, .wanted = wanted, .client = r->client};
	int code = wanted_wish(r, wanted, &w, &p);
	if (!code)
		code = turn_begin(&a->turn, r, &w, &p);
	wish_free(&w);
	if (code) {
		answering_free(a);
		return reply_problem(r, &p);
	}
	return wanted->stream ? answer_stream(r, a) : answer_whole(r, a);
}
