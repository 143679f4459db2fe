/* POST /v1/responses and its input_tokens; GET and DELETE /v1/responses/ID, and its input_items. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/openai/openai.h"
#include "fs/gateway/protocol_answer.h"
#include "fs/gateway/reply.h"
#include "fs/gateway/responses/responses.h"
#include "fs/gateway/turn/tree_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct responses_exchange {
	struct responses_answer answer; /* first: the format's functions get a pointer to all */
	struct responses_asked asked;
	struct gateway *gateway;
	size_t key;
	char id[40];
};

/* ---- keeping ---- */

/* The id without resp_; NULL: it is not a response's id. */
static const char *responses_bare_id(const char *id)
{
	return strncmp(id, "resp_", 5) == 0 ? id + 5 : NULL;
}

static json_object *responses_past_messages(void *ctx, const char *id)
{
	const struct responses_exchange *r = ctx;
	const char *bare = responses_bare_id(id);
	return bare ? responses_kept_get(r->gateway->responses, r->key, bare, KEPT_MESSAGES) : NULL;
}

static json_object *responses_past_item(void *ctx, const char *item)
{
	const struct responses_exchange *r = ctx;
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

/* Keeps the response, and the conversation with its answer at the end. Without memory neither is
 * kept. */
static void responses_keep(struct responses_exchange *r, json_object *whole)
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

static void responses_on_logprobs(void *of, const struct text *lines)
{
	struct responses_exchange *r = of;
	json_object *all = openai_logprobs(lines, r->asked.wanted.top);
	responses_logprobs(&r->answer, json_object_get(json_at(all, "content")));
	json_object_put(all);
}

/* Keeps the response before it is sent, since the next request may refer to it at once. */
static void responses_on_end(void *of, const struct answer_ending *known, struct text *out)
{
	struct responses_exchange *r = of;
	struct text last = {0};
	json_object *whole = responses_end(&r->answer, known, &last);
	responses_keep(r, whole);
	text_add(out, last.data, last.length);
	out->failed |= last.failed;
	text_free(&last);
	if (r->answer.streams)
		json_object_put(whole);
	else
		json_finish(out, whole);
}

static void responses_exchange_free(void *of)
{
	struct responses_exchange *r = of;
	responses_free(&r->answer);
	responses_asked_free(&r->asked);
	free(r);
}

static const struct answer_format responses_format = {
	.begin = responses_begin,
	.thought = responses_thought,
	.text = responses_text,
	.call = responses_call,
	.logprobs = responses_on_logprobs,
	.end = responses_on_end,
	.fail = responses_fail,
	.pause = reply_pause,
	.free = responses_exchange_free,
};

/* Adds params that the request did not set to the fields that the response repeats. */
static void responses_echo_params(const struct http_request *r, struct responses_asked *asked)
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

/* Sets *p to the reason why responses_read refused a body. */
static int responses_refused(struct problem *p, const struct err *e)
{
	answer_problem(p, e);
	if (e->code == ENOENT && !strcmp(p->param, "previous_response_id"))
		p->kind = PROBLEM_PREVIOUS;
	return -1;
}

enum MHD_Result responses_create(struct http_request *r)
{
	struct problem p = {0};
	struct err e;
	struct responses_exchange *new = calloc(1, sizeof *new);
	if (!new)
		return MHD_NO;
	new->gateway = r->gateway;
	new->key = r->key;
	(void)snprintf(new->id, sizeof new->id, "%s", r->id);
	const struct responses_past past = {new, responses_past_messages, responses_past_item};
	if (responses_read(&new->asked, r->json, &past, &e)) {
		responses_exchange_free(new);
		responses_refused(&p, &e);
		return reply_problem(r, &p);
	}
	if (tree_model(r->gateway->options->tree, new->asked.wanted.model))
		responses_echo_params(r, &new->asked);
	new->answer = (struct responses_answer){
		.asked = &new->asked,
		.id = new->id,
		.model = new->asked.wanted.model,
		.created = (uint64_t)time(NULL),
		.streams = new->asked.wanted.stream,
	};
	return answer_request(r, &responses_format, new, &new->asked.wanted);
}

enum MHD_Result responses_count(struct http_request *r)
{
	struct problem p = {0};
	struct responses_exchange of = {.gateway = r->gateway, .key = r->key};
	const struct responses_past past = {&of, responses_past_messages, responses_past_item};
	struct err e;
	uint64_t tokens;
	int code = responses_read(&of.asked, r->json, &past, &e)
			   ? responses_refused(&p, &e)
			   : answer_tokens(r, &of.asked.wanted, &tokens, &p);
	responses_asked_free(&of.asked);
	if (code)
		return reply_problem(r, &p);
	return reply_json(r, MHD_HTTP_OK,
			  json_new("object=response.input_tokens input_tokens=%ju", tokens));
}

/* ---- GET and DELETE ---- */

static enum MHD_Result responses_reply_unknown(struct http_request *r)
{
	struct problem p = {0};
	problem_set(&p, PROBLEM_NOT_FOUND, "response_id",
		    "The response \"%.80s\" is not kept here (any more)", r->rest);
	return reply_problem(r, &p);
}

/* The newest item comes first, unless the query says asc. */
static enum MHD_Result responses_reply_items(struct http_request *r, const char *id)
{
	static const struct reply_paging paging = {"after", "before", 20, 100};
	struct responses_exchange of = {.gateway = r->gateway, .key = r->key};
	const struct responses_past past = {&of, responses_past_messages, responses_past_item};
	const char *order = reply_query(r, "order");
	json_object *items = responses_kept_get(r->gateway->responses, r->key, id, KEPT_INPUT);
	if (!items)
		return responses_reply_unknown(r);
	json_object *shown = responses_items_shown(items, id, &past);
	json_object_put(items);
	if (!shown)
		return MHD_NO;
	size_t count = json_length(shown);
	for (size_t i = 0; (!order || strcmp(order, "asc") != 0) && i < count / 2; i++) {
		json_object *first = json_object_get(json_object_array_get_idx(shown, i));
		json_object *last =
			json_object_get(json_object_array_get_idx(shown, count - 1 - i));
		json_object_array_put_idx(shown, i, last);
		json_object_array_put_idx(shown, count - 1 - i, first);
	}
	return reply_list(r, shown, &paging);
}

enum MHD_Result responses_get(struct http_request *r)
{
	static const char ITEMS[] = "/input_items";
	char id[40] = "";
	const char *bare = responses_bare_id(r->rest);
	size_t n = bare ? strcspn(bare, "/") : sizeof id;
	if (n >= sizeof id)
		return responses_reply_unknown(r);
	memcpy(id, bare, n);
	if (strcmp(bare + n, ITEMS) == 0)
		return responses_reply_items(r, id);
	json_object *whole = responses_kept_get(r->gateway->responses, r->key, bare, KEPT_RESPONSE);
	return whole ? reply_json(r, MHD_HTTP_OK, whole) : responses_reply_unknown(r);
}

enum MHD_Result responses_other(struct http_request *r)
{
	struct problem p = {0};
	problem_set(&p, PROBLEM_NOT_FOUND, NULL,
		    "%.200s is not supported: nothing is compacted here (truncation: auto drops "
		    "the oldest messages), and to cancel an answer, close its connection",
		    r->path);
	return reply_problem(r, &p);
}

enum MHD_Result responses_delete(struct http_request *r)
{
	const char *bare = responses_bare_id(r->rest);
	if (!bare || !responses_kept_remove(r->gateway->responses, r->key, bare))
		return responses_reply_unknown(r);
	return reply_json(r, MHD_HTTP_OK,
			  json_new("id=%s object=response deleted=%p", r->rest,
				   json_object_new_boolean(true)));
}
