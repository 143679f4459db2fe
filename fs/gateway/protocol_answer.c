/* See protocol_answer.h. */
#include "fs/gateway/body/dialog.h"
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/body/wanted.h"
#include "fs/gateway/reply.h"
#include "fs/gateway/protocol_answer.h"
#include "fs/gateway/turn/turn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- from a request to the tree ---- */

int answer_problem(struct problem *p, const struct err *e)
{
	char field[sizeof p->param] = "";
	size_t n = strcspn(e->text, ": "); /* a refusal names its field before a colon */
	if (n < sizeof field && e->text[n] == ':') {
		memcpy(field, e->text, n);
		field[strcspn(field, "[.")] = 0;
	}
	return problem_set(p, e->code == ENOMEM ? PROBLEM_FAILED : PROBLEM_INVALID,
			   *field ? field : NULL, "%s", e->text);
}

/* Removes lines that match `ignored` (NULL: none) from system texts. */
static int answer_drop_ignored(json_object *messages, const regex_t *ignored, struct problem *p)
{
	for (size_t i = 0; ignored && i < json_object_array_length(messages); i++) {
		json_object *message = json_object_array_get_idx(messages, i);
		json_object *text = json_at(message, "content");
		if (!json_is(message, "role", "system") ||
		    !json_object_is_type(text, json_type_string))
			continue;
		json_object *content = dialog_drop_lines(text, ignored);
		if (!content)
			return problem_no_memory(p);
		json_object_object_add(message, "content", content);
	}
	return 0;
}

/* Adds each word as advice. The last word that the session accepts is used, so the best goes
 * last. */
static int answer_add_any_of(struct turn_wish *w, const struct wanted_param *param,
			     struct problem *p)
{
	for (size_t end = strlen(param->value); end;) {
		size_t at = end;
		while (at && param->value[at - 1] != ' ')
			at--;
		if (turn_wish_param(w, p, param->name, param->name, "%.*s", (int)(end - at),
				    param->value + at))
			return -1;
		w->params[w->param_count - 1].advice = true;
		end = at ? at - 1 : 0;
	}
	return 0;
}

/* Begins a turn. counts: a turn without an answer, for turn_tokens. */
static int answer_begin_turn(struct http_request *r, const struct wanted *wanted, bool counts,
			     struct turn **turn, struct problem *p)
{
	struct turn_wish w = {.model = wanted->model, .asked = wanted->asked, .counts = counts};
	int code = turn_model(r, wanted->model, p) ||
				   answer_drop_ignored(wanted->messages,
						       r->gateway->options->ignored, p)
			   ? -1
			   : 0;
	for (size_t i = 0; i < wanted->param_count && !code; i++) {
		const struct wanted_param *param = &wanted->params[i];
		bool formed = !strcmp(param->name, "format") || !strcmp(param->name, "grammar");
		const char *field = formed && wanted->form ? wanted->form : param->name;
		code = param->any_of
			       ? answer_add_any_of(&w, param, p)
			       : turn_wish_param(&w, p, param->name, field, "%s", param->value);
	}
	w.messages = json_object_get(wanted->messages);
	w.tools = json_object_get(wanted->tools);
	w.logprobs = wanted->logprobs;
	if (!code)
		code = turn_begin(turn, r, &w, p);
	turn_wish_free(&w);
	return code;
}

int answer_tokens(struct http_request *r, const struct wanted *wanted, uint64_t *tokens,
		  struct problem *p)
{
	struct turn *turn = NULL;
	int code = answer_begin_turn(r, wanted, true, &turn, p);
	if (!code)
		code = turn_tokens(turn, r->client, tokens, p);
	turn_end(turn);
	return code;
}

/* ---- from the tree to the client ---- */

struct answer_progress {
	const struct answer_format *format;
	void *of;
	const struct wanted *wanted;
	struct turn *turn;
	int client;
	bool begun, over;
	struct event_stream stream;
};

static void answer_free(void *ctx)
{
	struct answer_progress *a = ctx;
	turn_end(a->turn);
	a->format->free(a->of);
	free(a);
}

static void answer_look(struct answer_progress *a, struct usage *u, struct answer_ending *end)
{
	turn_usage(a->turn, u);
	*end = (struct answer_ending){
		.finish = u->finish,
		.prompt_tokens = u->prompt,
		.cached_tokens = u->cached,
		.output_tokens = u->output,
		.remembered = u->remembered,
		.max_tokens = a->wanted->max_tokens,
	};
	if (u->stop && a->wanted->stops)
		end->stop = json_object_get_string(
			json_object_array_get_idx(a->wanted->stops, u->stop - 1));
}

static void answer_begin(struct answer_progress *a, struct text *out)
{
	struct usage u;
	struct answer_ending known;
	if (a->begun)
		return;
	a->begun = true;
	answer_look(a, &u, &known);
	a->format->begin(a->of, &known, out);
}

/* Removes or keeps the session before the client can have read the end. */
static void answer_end(struct answer_progress *a, const char *finish, struct text *out)
{
	struct usage u;
	struct answer_ending known;
	a->over = true;
	answer_look(a, &u, &known);
	if (finish)
		known.finish = finish;
	turn_end(a->turn);
	a->turn = NULL;
	a->format->end(a->of, &known, out);
}

static void answer_give(struct answer_progress *a, const struct news *n, struct text *out)
{
	size_t calls = json_length(n->calls);
	bool thought = n->thoughts.length && a->wanted->thoughts;
	if (n->logprobs.length)
		a->format->logprobs(a->of, &n->logprobs);
	if (thought || n->output.length || calls || n->over)
		answer_begin(a, out);
	if (thought)
		a->format->thought(a->of, n->thoughts.data, n->thoughts.length, out);
	if (n->output.length)
		a->format->text(a->of, n->output.data, n->output.length, out);
	for (size_t i = 0; i < calls && !a->over; i++) {
		a->format->call(a->of, json_object_array_get_idx(n->calls, i), out);
		if (a->wanted->one_call)
			answer_end(a, "tool_calls", out);
	}
	if (n->over && !a->over)
		answer_end(a, NULL, out);
}

/* See struct event_stream. */
static int answer_step(void *of, struct text *out, struct problem *p)
{
	struct answer_progress *a = of;
	struct news n = {0};
	if (turns_wait(&a->turn, 1, a->client, STREAM_PAUSE_MS, p))
		return -1;
	int code = turn_take(a->turn, &n, p);
	if (code)
		n.over = false; /* send the failure in place of an end */
	answer_give(a, &n, out);
	news_free(&n);
	return code ? -1 : a->over;
}

static void answer_fail(void *of, const struct problem *p, struct text *out)
{
	struct answer_progress *a = of;
	answer_begin(a, out);
	a->format->fail(a->of, p, out);
}

static void answer_pause(void *of, struct text *out)
{
	const struct answer_progress *a = of;
	if (a->begun)
		a->format->pause(out);
	else
		reply_pause(out);
}

static enum MHD_Result answer_whole(struct http_request *r, struct answer_progress *a)
{
	struct problem p = {0};
	struct text body = {0};
	int code = 0;
	while (!code)
		code = answer_step(a, &body, &p);
	if (code > 0 && body.failed)
		code = problem_no_memory(&p);
	enum MHD_Result result =
		code < 0 ? reply_problem(r, &p)
			 : reply_text(r, MHD_HTTP_OK, "application/json", body.data, body.length);
	text_free(&body);
	answer_free(a);
	return result;
}

enum MHD_Result answer_request(struct http_request *r, const struct answer_format *format, void *of,
			       const struct wanted *wanted)
{
	struct problem p = {0};
	struct answer_progress *a = malloc(sizeof *a);
	if (!a) {
		format->free(of);
		return MHD_NO;
	}
	*a = (struct answer_progress){
		.format = format, .of = of, .wanted = wanted, .client = r->client};
	if (answer_begin_turn(r, wanted, false, &a->turn, &p)) {
		answer_free(a);
		return reply_problem(r, &p);
	}
	if (!wanted->stream)
		return answer_whole(r, a);
	a->stream = (struct event_stream){.step = answer_step,
					  .fail = answer_fail,
					  .pause = answer_pause,
					  .end = answer_free,
					  .of = a};
	return reply_events(r, &a->stream);
}
