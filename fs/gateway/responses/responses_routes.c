/* POST /v1/responses, and how many tokens one would read; GET and DELETE /v1/responses/ID, and the
 * items of its request. */
#include "fs/gateway/answering.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/handlers.h"
#include "fs/gateway/listing.h"
#include "fs/gateway/openai/openai.h"
#include "fs/gateway/responses/responses.h"
#include "fs/gateway/responses/responses_kept.h"
#include "fs/gateway/turn/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct response {
	struct gateway *gateway;
	size_t key;
	struct responses_asked asked;
	struct responses_answer answer;
	char id[40];
};

/* ---- what is kept ---- */

/* NULL: no response has such a name. */
static const char *bare_id(const char *id)
{
	return strncmp(id, "resp_", 5) == 0 ? id + 5 : NULL;
}

static json_object *past_messages(void *ctx, const char *id)
{
	const struct response *r = ctx;
	const char *bare = bare_id(id);
	return bare ? responses_kept_get(r->gateway->responses, r->key, bare, KEPT_MESSAGES) : NULL;
}

static json_object *past_item(void *ctx, const char *item)
{
	const struct response *r = ctx;
	char id[40];
	unsigned index;
	if (!responses_item_place(item, id, sizeof id, &index))
		return NULL;
	json_object *whole = responses_kept_get(r->gateway->responses, r->key, id, KEPT_RESPONSE);
	json_object *found = json_object_get(
		whole ? json_object_array_get_idx(json_at(whole, "output"), index) : NULL);
	const char *name = json_text(found, "id");
	json_object_put(whole);
	if (name && strcmp(name, item) == 0)
		return found;
	json_object_put(found);
	return NULL;
}

/* The conversation with this answer at its end. Nothing is kept where there is no memory for it. */
static void keep(struct response *r, json_object *whole)
{
	struct dialog all = {0};
	json_object *answer = dialog_take(&r->answer.dialog);
	if (r->asked.store && answer && whole) {
		dialog_append(&all, r->asked.messages);
		dialog_append(&all, answer);
		json_object *messages = dialog_take(&all);
		json_object *const texts[KEPT_TEXTS] = {whole, messages, r->asked.input};
		if (messages)
			responses_kept_put(r->gateway->responses, r->key, r->id, texts);
		json_object_put(messages);
	}
	json_object_put(answer);
	dialog_free(&all);
}

/* ---- the answer ---- */

static void begin(void *of, const struct ending *known, struct text *out)
{
	(void)known;
	responses_begin(&((struct response *)of)->answer, out);
}

static void thought(void *of, const char *text, size_t n, struct text *out)
{
	responses_thought(&((struct response *)of)->answer, text, n, out);
}

static void say(void *of, const char *text, size_t n, struct text *out)
{
	responses_text(&((struct response *)of)->answer, text, n, out);
}

static void call(void *of, struct json_object *one, struct text *out)
{
	responses_call(&((struct response *)of)->answer, one, out);
}

static void logprobs(void *of, const struct text *lines)
{
	struct response *r = of;
	json_object *all = openai_logprobs(lines, r->asked.wanted.top);
	responses_logprobs(&r->answer, json_object_get(json_at(all, "content")));
	json_object_put(all);
}

/* Kept before it is sent, since the next request may name it at once. */
static void end(void *of, const struct ending *known, struct text *out)
{
	struct response *r = of;
	struct text last = {0};
	json_object *whole = responses_end(&r->answer, known, &last);
	keep(r, whole);
	text_add(out, last.data, last.length);
	out->failed |= last.failed;
	text_free(&last);
	if (r->answer.streams)
		json_object_put(whole);
	else
		json_finish(out, whole);
}

static void fail(void *of, const struct problem *p, struct text *out)
{
	bool busy = p->kind == PROBLEM_BUSY;
	responses_fail(&((struct response *)of)->answer,
		       busy ? "rate_limit_exceeded" : "server_error", p->text, out);
}

static void response_free(void *of)
{
	struct response *r = of;
	responses_free(&r->answer);
	responses_asked_free(&r->asked);
	free(r);
}

static const struct manner manner = {
	.begin = begin,
	.thought = thought,
	.text = say,
	.call = call,
	.logprobs = logprobs,
	.end = end,
	.fail = fail,
	.pause = event_pause,
	.free = response_free,
};

/* What a request leaves to the model is what its new sessions begin with. */
static void echo_params(const struct request *r, struct responses_asked *asked)
{
	static const char *const params[] = {"temperature", "top_p"};
	for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
		char line[64];
		if (json_at(r->json, params[i]))
			continue;
		tree_line(r->gateway->options->tree, line, sizeof line,
			  "%s/sessions/default/params/%s", asked->wanted.model, params[i]);
		json_object *value = json_tokener_parse(line);
		if (json_object_is_type(value, json_type_int) ||
		    json_object_is_type(value, json_type_double))
			json_object_object_add(asked->echo, params[i], json_object_get(value));
		json_object_put(value);
	}
}

/* Of a body that was refused. */
static int refused(struct problem *p, const struct err *e)
{
	problem_of(p, e);
	if (e->code == ENOENT && !strcmp(p->param, "previous_response_id"))
		p->kind = PROBLEM_PREVIOUS;
	return -1;
}

enum MHD_Result responses_create(struct request *r)
{
	struct problem p = {0};
	struct err e;
	struct response *new = calloc(1, sizeof *new);
	if (!new)
		return MHD_NO;
	new->gateway = r->gateway;
	new->key = r->key;
	(void)snprintf(new->id, sizeof new->id, "%s", r->id);
	const struct responses_past past = {new, past_messages, past_item};
	if (responses_read(&new->asked, r->json, &past, &e)) {
		response_free(new);
		refused(&p, &e);
		return reply_problem(r, &p);
	}
	if (tree_model(r->gateway->options->tree, new->asked.wanted.model))
		echo_params(r, &new->asked);
	new->answer = (struct responses_answer){
		.asked = &new->asked,
		.id = new->id,
		.model = new->asked.wanted.model,
		.created = (uint64_t)time(NULL),
		.streams = new->asked.wanted.stream,
	};
	return answer_request(r, &manner, new, &new->asked.wanted);
}

enum MHD_Result responses_count(struct request *r)
{
	struct problem p = {0};
	struct response of = {.gateway = r->gateway, .key = r->key};
	const struct responses_past past = {&of, past_messages, past_item};
	struct err e;
	uint64_t tokens;
	int code = responses_read(&of.asked, r->json, &past, &e)
			   ? refused(&p, &e)
			   : answer_tokens(r, &of.asked.wanted, &tokens, &p);
	responses_asked_free(&of.asked);
	if (code)
		return reply_problem(r, &p);
	json_object *o = json_object_new_object();
	json_put(o, "object", "response.input_tokens");
	json_put_number(o, "input_tokens", tokens);
	return reply_json(r, MHD_HTTP_OK, o);
}

/* ---- looking, and forgetting ---- */

static enum MHD_Result reply_unknown(struct request *r)
{
	struct problem p = {0};
	problem_set(&p, PROBLEM_NOT_FOUND, "response_id",
		    "The response '%.80s' is not kept here (any more)", r->rest);
	return reply_problem(r, &p);
}

/* The newest first, unless the query says asc. */
static void reverse(json_object *list)
{
	size_t count = json_object_array_length(list);
	for (size_t i = 0; i < count / 2; i++) {
		json_object *first = json_object_get(json_object_array_get_idx(list, i)),
			    *last = json_object_get(json_object_array_get_idx(list, count - 1 - i));
		json_object_array_put_idx(list, i, last);
		json_object_array_put_idx(list, count - 1 - i, first);
	}
}

static enum MHD_Result reply_items(struct request *r, const char *id)
{
	static const struct listing_way way = {"after", "before", 20, 100};
	struct response of = {.gateway = r->gateway, .key = r->key};
	const struct responses_past past = {&of, past_messages, past_item};
	const char *order = listing_query(r, "order");
	json_object *items = responses_kept_get(r->gateway->responses, r->key, id, KEPT_INPUT);
	if (!items)
		return reply_unknown(r);
	json_object *said = responses_items_said(items, id, &past);
	json_object_put(items);
	if (!said)
		return MHD_NO;
	if (!order || strcmp(order, "asc") != 0)
		reverse(said);
	return listing_reply(r, said, &way);
}

enum MHD_Result responses_get(struct request *r)
{
	static const char ITEMS[] = "/input_items";
	char id[40] = "";
	const char *bare = bare_id(r->rest);
	size_t n = bare ? strcspn(bare, "/") : sizeof id;
	if (n >= sizeof id)
		return reply_unknown(r);
	memcpy(id, bare, n);
	if (strcmp(bare + n, ITEMS) == 0)
		return reply_items(r, id);
	json_object *whole = responses_kept_get(r->gateway->responses, r->key, bare, KEPT_RESPONSE);
	return whole ? reply_json(r, MHD_HTTP_OK, whole) : reply_unknown(r);
}

enum MHD_Result responses_other(struct request *r)
{
	struct problem p = {0};
	problem_set(&p, PROBLEM_NOT_FOUND, NULL,
		    "There is nothing to be done at %.200s: nothing is compacted here (truncation: "
		    "auto leaves the oldest out), and nothing runs unheard that could be cancelled",
		    r->path);
	return reply_problem(r, &p);
}

enum MHD_Result responses_delete(struct request *r)
{
	const char *bare = bare_id(r->rest);
	if (!bare || !responses_kept_remove(r->gateway->responses, r->key, bare))
		return reply_unknown(r);
	json_object *o = json_object_new_object();
	json_put(o, "id", r->rest);
	json_put(o, "object", "response");
	json_object_object_add(o, "deleted", json_object_new_boolean(true));
	return reply_json(r, MHD_HTTP_OK, o);
}
