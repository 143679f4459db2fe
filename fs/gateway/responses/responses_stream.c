/* Writes the stream of events of /v1/responses, and the response. See responses.h.
 *
 *     response.created, response.in_progress
 *     response.output_item.added, response.content_part.added     for each reasoning and text
 *     response.output_text.delta…, response.output_text.done
 *     response.content_part.done, response.output_item.done
 *     response.completed                                          or: incomplete, failed
 *
 * An item's id is made of its response's id and its index there, so that a reference to it is
 * found. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/responses/responses.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* For each kind of part: the item's type and the prefix of its id, the part's type, and the name of
 * its events. */
static const struct {
	const char *item, *mark, *part, *event;
} kinds[] = {
	[PART_REASONING] = {"reasoning", "rs", "reasoning_text", "response.reasoning_text"},
	[PART_TEXT] = {"message", "msg", "output_text", "response.output_text"},
};

void responses_free(struct responses_answer *a)
{
	json_object_put(a->output);
	json_object_put(a->logprobs);
	text_free(&a->said);
	dialog_free(&a->dialog);
	a->output = NULL;
}

/* The id of the open item, or of the next one. */
static const char *responses_item_id(const struct responses_answer *a, const char *mark,
				     char id[96])
{
	(void)snprintf(id, 96, "%s_%s_%zu", mark, a->id, json_length(a->output));
	return id;
}

bool responses_item_place(const char *item, char *response, size_t size, unsigned *index)
{
	const char *from = strchr(item, '_'), *to = strrchr(item, '_');
	if (!from || from == to || (size_t)(to - from) > size || !to[1] ||
	    strspn(to + 1, "0123456789") != strlen(to + 1) || strlen(to + 1) > 6)
		return false;
	memcpy(response, from + 1, (size_t)(to - from) - 1);
	response[to - from - 1] = 0;
	*index = (unsigned)strtoul(to + 1, NULL, 10);
	return true;
}

/* ---- items ---- */

/* Makes an event about the current item; mark: the prefix of its item_id. */
static json_object *responses_event(struct responses_answer *a, const char *type, const char *mark)
{
	char id[96];
	return json_new("type=%s sequence_number=%ju item_id=%s output_index=%u", type,
			a->sequence++, responses_item_id(a, mark, id),
			(unsigned)json_length(a->output));
}

static void responses_send_item(struct responses_answer *a, const char *type, json_object *item,
				struct text *out)
{
	json_event(out, type,
		   json_new("type=%s sequence_number=%ju output_index=%u item=%p", type,
			    a->sequence++, (unsigned)json_length(a->output), item));
}

/* Ends the current item. */
static void responses_keep_item(struct responses_answer *a, json_object *item, struct text *out)
{
	if (a->streams)
		responses_send_item(a, "response.output_item.done", json_object_get(item), out);
	if (!a->output)
		a->output = json_object_new_array();
	if (!item || !a->output || json_object_array_add(a->output, item) < 0) {
		json_object_put(item);
		out->failed = true;
	}
}

/* ---- the response ---- */

/* end: NULL while the answer grows. */
static json_object *responses_object(struct responses_answer *a, const char *status,
				     const struct answer_ending *end)
{
	char id[80];
	(void)snprintf(id, sizeof id, "resp_%s", a->id);
	json_object *o =
		json_new("id=%s object=response created_at=%ju status=%s", id, a->created, status);
	json_object_object_foreach(a->asked->echo, key, value)
		json_object_object_add(o, key, json_object_get(value));
	json_put(o, "model", a->model);
	json_put(o, "completed_at", NULL);
	json_put(o, "error", NULL);
	json_put(o, "incomplete_details", NULL);
	json_object_object_add(o, "output",
			       a->output ? json_object_get(a->output) : json_object_new_array());
	json_object *usage = NULL;
	if (end)
		usage = wanted_note_remembered(
			json_new("input_tokens=%ju input_tokens_details=%p output_tokens=%ju "
				 "output_tokens_details=%p total_tokens=%ju",
				 end->prompt_tokens,
				 json_new("cached_tokens=%ju cache_write_tokens=%u",
					  end->cached_tokens, 0u),
				 end->output_tokens,
				 json_new("reasoning_tokens=%ju", end->thought_tokens),
				 end->prompt_tokens + end->output_tokens),
			end->remembered);
	json_object_object_add(o, "usage", usage);
	return o;
}

static void responses_send_response(struct responses_answer *a, const char *type,
				    json_object *response, struct text *out)
{
	json_event(
		out, type,
		json_new("type=%s sequence_number=%ju response=%p", type, a->sequence++, response));
}

void responses_begin(void *of, const struct answer_ending *known, struct text *out)
{
	struct responses_answer *a = of;
	(void)known;
	if (!a->streams)
		return;
	responses_send_response(a, "response.created", responses_object(a, "in_progress", NULL),
				out);
	responses_send_response(a, "response.in_progress", responses_object(a, "in_progress", NULL),
				out);
}

/* ---- reasoning and text ---- */

void responses_logprobs(struct responses_answer *a, json_object *list)
{
	if (!a->logprobs)
		a->logprobs = json_object_new_array();
	for (size_t i = 0; i < json_length(list); i++)
		json_object_array_add(a->logprobs,
				      json_object_get(json_object_array_get_idx(list, i)));
	json_object_put(list);
}

/* The logprobs of the open part, from an index on. */
static json_object *responses_logprobs_from(const struct responses_answer *a, size_t from)
{
	json_object *list = json_object_new_array();
	for (size_t i = from; i < json_length(a->logprobs); i++)
		json_object_array_add(list,
				      json_object_get(json_object_array_get_idx(a->logprobs, i)));
	return list;
}

static json_object *responses_part_object(const struct responses_answer *a)
{
	json_object *o = json_new("type=%s", kinds[a->open].part);
	json_put_n(o, "text", a->said.data, a->said.length);
	if (a->open == PART_TEXT) {
		json_object_object_add(o, "annotations", json_object_new_array());
		json_object_object_add(o, "logprobs", responses_logprobs_from(a, 0));
	}
	return o;
}

/* The current item, with its text so far. */
static json_object *responses_item_object(const struct responses_answer *a, const char *status)
{
	char id[96];
	json_object *o =
		json_new("id=%s type=%s status=%s", responses_item_id(a, kinds[a->open].mark, id),
			 kinds[a->open].item, status);
	json_object *content = json_object_new_array();
	if (a->open == PART_TEXT)
		json_put(o, "role", "assistant");
	else
		json_object_object_add(o, "summary", json_object_new_array());
	if (a->said.length)
		json_object_array_add(content, responses_part_object(a));
	json_object_object_add(o, "content", content);
	return o;
}

static json_object *responses_part_event(struct responses_answer *a, const char *type)
{
	json_object *event = responses_event(a, type, kinds[a->open].mark);
	json_object_object_add(event, "content_index", json_object_new_int(0));
	return event;
}

static void responses_send_part(struct responses_answer *a, const char *type, struct text *out)
{
	json_object *event = responses_part_event(a, type);
	json_object_object_add(event, "part", responses_part_object(a));
	json_event(out, type, event);
}

/* from: index of the first logprob that belongs to the text. */
static void responses_send_text(struct responses_answer *a, const char *what, const char *key,
				const char *text, size_t n, size_t from, struct text *out)
{
	char type[64];
	(void)snprintf(type, sizeof type, "%s.%s", kinds[a->open].event, what);
	json_object *event = responses_part_event(a, type);
	json_put_n(event, key, text, n);
	if (a->open == PART_TEXT)
		json_object_object_add(event, "logprobs", responses_logprobs_from(a, from));
	json_event(out, type, event);
}

static void responses_close_part(struct responses_answer *a, const char *status, struct text *out)
{
	if (a->open == PART_NONE)
		return;
	if (a->streams) {
		responses_send_text(a, "done", "text", a->said.data, a->said.length, 0, out);
		responses_send_part(a, "response.content_part.done", out);
	}
	responses_keep_item(a, responses_item_object(a, status), out);
	out->failed |= a->said.failed;
	text_cut(&a->said, 0);
	if (a->open == PART_TEXT) {
		json_object_put(a->logprobs);
		a->logprobs = NULL;
		a->logprobs_sent = 0;
	}
	a->open = PART_NONE;
}

static void responses_add(struct responses_answer *a, enum responses_part kind, const char *text,
			  size_t n, struct text *out)
{
	if (!n)
		return;
	if (a->open != kind) {
		responses_close_part(a, "completed", out);
		a->open = kind;
		if (a->streams) {
			responses_send_item(a, "response.output_item.added",
					    responses_item_object(a, "in_progress"), out);
			responses_send_part(a, "response.content_part.added", out);
		}
	}
	text_add(&a->said, text, n);
	if (a->streams)
		responses_send_text(a, "delta", "delta", text, n, a->logprobs_sent, out);
	if (kind == PART_TEXT && a->logprobs)
		a->logprobs_sent = json_object_array_length(a->logprobs);
}

void responses_thought(void *of, const char *text, size_t n, struct text *out)
{
	struct responses_answer *a = of;
	responses_add(a, PART_REASONING, text, n, out);
	dialog_think(&a->dialog, text, n);
}

void responses_text(void *of, const char *text, size_t n, struct text *out)
{
	struct responses_answer *a = of;
	responses_add(a, PART_TEXT, text, n, out);
	dialog_say(&a->dialog, "assistant", text, n, "");
}

/* ---- calls ---- */

struct responses_call_kind {
	const char *type, *mark, *key, *delta, *done;
};

static const struct responses_call_kind function_call = {"function_call", "fc", "arguments",
							 "response.function_call_arguments.delta",
							 "response.function_call_arguments.done"};
static const struct responses_call_kind custom_call = {"custom_tool_call", "ctc", "input",
						       "response.custom_tool_call_input.delta",
						       "response.custom_tool_call_input.done"};

/* known: the call's entry in asked->names. */
static json_object *responses_call_item(const struct responses_answer *a,
					const struct responses_call_kind *kind, json_object *call,
					const json_object *known, const char *status,
					const char *text)
{
	char id[96];
	const char *space = json_text(known, "namespace");
	const char *name =
		known ? json_text(known, "name") : json_text(json_at(call, "function"), "name");
	json_object *o = json_new("id=%s type=%s status=%s call_id=%s name=%s",
				  responses_item_id(a, kind->mark, id), kind->type, status,
				  json_text(call, "id"), name);
	if (space)
		json_put(o, "namespace", space);
	json_put(o, kind->key, text);
	return o;
}

void responses_call(void *of, json_object *call, struct text *out)
{
	struct responses_answer *a = of;
	json_object *function = json_at(call, "function");
	json_object *arguments = json_at(function, "arguments");
	const char *name = json_text(function, "name");
	const json_object *known = name ? json_at(a->asked->names, name) : NULL;
	bool custom = json_true(known, "custom");
	const struct responses_call_kind *kind = custom ? &custom_call : &function_call;
	const char *text = NULL;
	if (custom)
		text = json_text(arguments, "input");
	else if (arguments)
		text = json_object_to_json_string_ext(
			arguments, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (!text)
		text = custom ? "" : "{}";
	responses_close_part(a, "completed", out);
	if (a->streams) {
		responses_send_item(a, "response.output_item.added",
				    responses_call_item(a, kind, call, known, "in_progress", ""),
				    out);
		json_object *event = responses_event(a, kind->delta, kind->mark);
		json_put(event, "delta", text);
		json_event(out, kind->delta, event);
		event = responses_event(a, kind->done, kind->mark);
		json_put(event, kind->key, text);
		if (!custom)
			json_put(event, "name", known ? json_text(known, "name") : name);
		json_event(out, kind->done, event);
	}
	responses_keep_item(a, responses_call_item(a, kind, call, known, "completed", text), out);
	dialog_call(&a->dialog, json_text(call, "id"), name, arguments);
}

/* ---- the end ---- */

json_object *responses_end(struct responses_answer *a, const struct answer_ending *end,
			   struct text *out)
{
	bool cut = !strcmp(end->finish, "length") || !strcmp(end->finish, "repetition");
	const char *status = cut ? "incomplete" : "completed";
	responses_close_part(a, status, out);
	json_object *whole = responses_object(a, status, end);
	if (cut)
		json_object_object_add(whole, "incomplete_details",
				       json_new("reason=max_output_tokens"));
	else
		json_object_object_add(whole, "completed_at", json_object_new_int64(time(NULL)));
	if (a->streams)
		responses_send_response(a, cut ? "response.incomplete" : "response.completed",
					json_object_get(whole), out);
	return whole;
}

void responses_fail(void *of, const struct problem *p, struct text *out)
{
	struct responses_answer *a = of;
	const char *code = p->kind == PROBLEM_BUSY ? "rate_limit_exceeded" : "server_error";
	responses_close_part(a, "incomplete", out);
	json_object *whole = responses_object(a, "failed", NULL);
	json_object_object_add(whole, "error", json_new("code=%s message=%s", code, p->text));
	responses_send_response(a, "response.failed", whole, out);
}
