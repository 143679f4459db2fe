/* An answer as /v1/responses gives it: events in their order, and one response. See responses.h.
 *
 * An item's id is made of its response's and its place there, so that a reference to it finds it.
 */
#include "fs/gateway/responses/responses.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* By part: the item's type and the mark of its id, the part's type, and its events' name. */
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

static unsigned place(const struct responses_answer *a)
{
	return a->output ? (unsigned)json_object_array_length(a->output) : 0;
}

static void put_id(const struct responses_answer *a, json_object *o, const char *key,
		   const char *mark)
{
	char id[96];
	(void)snprintf(id, sizeof id, "%s_%s_%u", mark, a->id, place(a));
	json_put(o, key, id);
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

/* ---- events ---- */

static json_object *begin_event(struct responses_answer *a, const char *type)
{
	json_object *event = json_object_new_object();
	json_put(event, "type", type);
	json_put_number(event, "sequence_number", a->sequence++);
	return event;
}

/* of: the item that it is of, or NULL for the item itself. */
static json_object *item_event(struct responses_answer *a, const char *type, const char *mark)
{
	json_object *event = begin_event(a, type);
	if (mark)
		put_id(a, event, "item_id", mark);
	json_put_number(event, "output_index", place(a));
	return event;
}

static json_object *part_event(struct responses_answer *a, const char *type)
{
	json_object *event = item_event(a, type, kinds[a->open].mark);
	json_put_number(event, "content_index", 0);
	return event;
}

static void send_item(struct responses_answer *a, const char *type, json_object *item,
		      struct text *out)
{
	json_object *event = item_event(a, type, NULL);
	json_object_object_add(event, "item", item);
	json_event(out, type, event);
}

/* The item is complete, and the next one's place is behind it. */
static void keep_item(struct responses_answer *a, json_object *item, struct text *out)
{
	if (a->streams)
		send_item(a, "response.output_item.done", json_object_get(item), out);
	if (!a->output)
		a->output = json_object_new_array();
	if (!item || !a->output || json_object_array_add(a->output, item) < 0) {
		json_object_put(item);
		out->failed = true;
	}
}

/* ---- the response ---- */

static json_object *usage(const struct ending *end)
{
	json_object *o = json_object_new_object(), *in = json_object_new_object(),
		    *made = json_object_new_object();
	json_put_number(in, "cached_tokens", end->cached_tokens);
	json_put_number(in, "cache_write_tokens", 0);
	json_put_number(made, "reasoning_tokens", end->thought_tokens);
	json_put_number(o, "input_tokens", end->prompt_tokens);
	json_object_object_add(o, "input_tokens_details", in);
	json_put_number(o, "output_tokens", end->output_tokens);
	json_object_object_add(o, "output_tokens_details", made);
	json_put_number(o, "total_tokens", end->prompt_tokens + end->output_tokens);
	return o;
}

/* end: NULL while it goes on. */
static json_object *response(struct responses_answer *a, const char *status,
			     const struct ending *end)
{
	char id[80];
	json_object *o = json_object_new_object();
	(void)snprintf(id, sizeof id, "resp_%s", a->id);
	json_put(o, "id", id);
	json_put(o, "object", "response");
	json_put_number(o, "created_at", a->created);
	json_put(o, "status", status);
	json_object_object_foreach(a->asked->echo, key, value)
		json_object_object_add(o, key, json_object_get(value));
	json_put(o, "model", a->model);
	json_put(o, "completed_at", NULL);
	json_put(o, "error", NULL);
	json_put(o, "incomplete_details", NULL);
	json_object_object_add(o, "output",
			       a->output ? json_object_get(a->output) : json_object_new_array());
	json_object_object_add(o, "usage", end ? usage(end) : NULL);
	return o;
}

static void send_response(struct responses_answer *a, const char *type, json_object *whole,
			  struct text *out)
{
	json_object *event = begin_event(a, type);
	json_object_object_add(event, "response", whole);
	json_event(out, type, event);
}

void responses_begin(struct responses_answer *a, struct text *out)
{
	if (!a->streams)
		return;
	send_response(a, "response.created", response(a, "in_progress", NULL), out);
	send_response(a, "response.in_progress", response(a, "in_progress", NULL), out);
}

/* ---- reasoning and text ---- */

/* Those from a place on, of the open part. */
static json_object *logprobs_from(const struct responses_answer *a, size_t from)
{
	json_object *list = json_object_new_array();
	size_t count = a->logprobs ? json_object_array_length(a->logprobs) : 0;
	for (size_t i = from; i < count; i++)
		json_object_array_add(list,
				      json_object_get(json_object_array_get_idx(a->logprobs, i)));
	return list;
}

void responses_logprobs(struct responses_answer *a, json_object *list)
{
	size_t count = list ? json_object_array_length(list) : 0;
	if (!a->logprobs)
		a->logprobs = json_object_new_array();
	for (size_t i = 0; i < count; i++)
		json_object_array_add(a->logprobs,
				      json_object_get(json_object_array_get_idx(list, i)));
	json_object_put(list);
}

static json_object *part(const struct responses_answer *a)
{
	json_object *o = json_object_new_object();
	json_put(o, "type", kinds[a->open].part);
	json_put_n(o, "text", a->said.data, a->said.length);
	if (a->open == PART_TEXT) {
		json_object_object_add(o, "annotations", json_object_new_array());
		json_object_object_add(o, "logprobs", logprobs_from(a, 0));
	}
	return o;
}

/* With what it has said so far, or where it begins without a part. */
static json_object *item(const struct responses_answer *a, const char *status)
{
	json_object *o = json_object_new_object(), *content = json_object_new_array();
	put_id(a, o, "id", kinds[a->open].mark);
	json_put(o, "type", kinds[a->open].item);
	json_put(o, "status", status);
	if (a->open == PART_TEXT)
		json_put(o, "role", "assistant");
	else
		json_object_object_add(o, "summary", json_object_new_array());
	if (a->said.length)
		json_object_array_add(content, part(a));
	json_object_object_add(o, "content", content);
	return o;
}

static void send_part(struct responses_answer *a, const char *type, struct text *out)
{
	json_object *event = part_event(a, type);
	json_object_object_add(event, "part", part(a));
	json_event(out, type, event);
}

/* from: the first of the part's likelihoods that go with it. */
static void send_text(struct responses_answer *a, const char *what, const char *key,
		      const char *text, size_t n, size_t from, struct text *out)
{
	char type[64];
	(void)snprintf(type, sizeof type, "%s.%s", kinds[a->open].event, what);
	json_object *event = part_event(a, type);
	json_put_n(event, key, text, n);
	if (a->open == PART_TEXT)
		json_object_object_add(event, "logprobs", logprobs_from(a, from));
	json_event(out, type, event);
}

static void close_part(struct responses_answer *a, const char *status, struct text *out)
{
	if (a->open == PART_NONE)
		return;
	if (a->streams) {
		send_text(a, "done", "text", a->said.data, a->said.length, 0, out);
		send_part(a, "response.content_part.done", out);
	}
	keep_item(a, item(a, status), out);
	out->failed |= a->said.failed;
	text_cut(&a->said, 0);
	if (a->open == PART_TEXT) {
		json_object_put(a->logprobs);
		a->logprobs = NULL;
		a->logprobs_sent = 0;
	}
	a->open = PART_NONE;
}

static void add(struct responses_answer *a, enum responses_part kind, const char *text, size_t n,
		struct text *out)
{
	if (!n)
		return;
	if (a->open != kind) {
		close_part(a, "completed", out);
		a->open = kind;
		if (a->streams) {
			send_item(a, "response.output_item.added", item(a, "in_progress"), out);
			send_part(a, "response.content_part.added", out);
		}
	}
	text_add(&a->said, text, n);
	if (a->streams)
		send_text(a, "delta", "delta", text, n, a->logprobs_sent, out);
	if (kind == PART_TEXT && a->logprobs)
		a->logprobs_sent = json_object_array_length(a->logprobs);
}

void responses_thought(struct responses_answer *a, const char *text, size_t n, struct text *out)
{
	add(a, PART_REASONING, text, n, out);
	dialog_think(&a->dialog, text, n);
}

void responses_text(struct responses_answer *a, const char *text, size_t n, struct text *out)
{
	add(a, PART_TEXT, text, n, out);
	dialog_say(&a->dialog, "assistant", text, n, "");
}

/* ---- calls ---- */

struct call_kind {
	const char *type, *mark, *key, *delta, *done;
};

static const struct call_kind function_call = {"function_call", "fc", "arguments",
					       "response.function_call_arguments.delta",
					       "response.function_call_arguments.done"};
static const struct call_kind custom_call = {"custom_tool_call", "ctc", "input",
					     "response.custom_tool_call_input.delta",
					     "response.custom_tool_call_input.done"};

static json_object *call_item(const struct responses_answer *a, const struct call_kind *kind,
			      json_object *call, const json_object *known, const char *status,
			      const char *text)
{
	json_object *o = json_object_new_object();
	const char *space = json_text(known, "namespace");
	put_id(a, o, "id", kind->mark);
	json_put(o, "type", kind->type);
	json_put(o, "status", status);
	json_put(o, "call_id", json_text(call, "id"));
	json_put(o, "name",
		 known ? json_text(known, "name") : json_text(json_at(call, "function"), "name"));
	if (space)
		json_put(o, "namespace", space);
	json_put(o, kind->key, text);
	return o;
}

static void send_call_text(struct responses_answer *a, const struct call_kind *kind,
			   const char *type, const char *key, const char *text, const char *name,
			   struct text *out)
{
	json_object *event = item_event(a, type, kind->mark);
	json_put(event, key, text);
	if (name)
		json_put(event, "name", name);
	json_event(out, type, event);
}

void responses_call(struct responses_answer *a, json_object *call, struct text *out)
{
	json_object *function = json_at(call, "function");
	json_object *arguments = json_at(function, "arguments");
	const char *name = json_text(function, "name"), *input = json_text(arguments, "input");
	const json_object *known = name ? json_at(a->asked->names, name) : NULL;
	bool custom = json_true(known, "custom");
	const struct call_kind *kind = custom ? &custom_call : &function_call;
	const char *text = custom ? input
				  : json_object_to_json_string_ext(
					    arguments, JSON_C_TO_STRING_PLAIN |
							       JSON_C_TO_STRING_NOSLASHESCAPE);
	if (!text || (!custom && !arguments))
		text = custom ? "" : "{}";
	close_part(a, "completed", out);
	if (a->streams) {
		send_item(a, "response.output_item.added",
			  call_item(a, kind, call, known, "in_progress", ""), out);
		send_call_text(a, kind, kind->delta, "delta", text, NULL, out);
		send_call_text(a, kind, kind->done, kind->key, text,
			       custom  ? NULL
			       : known ? json_text(known, "name")
				       : name,
			       out);
	}
	keep_item(a, call_item(a, kind, call, known, "completed", text), out);
	dialog_call(&a->dialog, json_text(call, "id"), name, arguments);
}

/* ---- its end ---- */

json_object *responses_end(struct responses_answer *a, const struct ending *end, struct text *out)
{
	bool cut = strcmp(end->finish, "length") == 0;
	const char *status = cut ? "incomplete" : "completed";
	close_part(a, status, out);
	json_object *whole = response(a, status, end);
	if (cut) {
		json_object *why = json_object_new_object();
		json_put(why, "reason", "max_output_tokens");
		json_object_object_add(whole, "incomplete_details", why);
	} else
		json_put_number(whole, "completed_at", (uint64_t)time(NULL));
	if (a->streams)
		send_response(a, cut ? "response.incomplete" : "response.completed",
			      json_object_get(whole), out);
	return whole;
}

void responses_fail(struct responses_answer *a, const char *code, const char *message,
		    struct text *out)
{
	close_part(a, "incomplete", out);
	json_object *error = json_object_new_object(), *whole = response(a, "failed", NULL);
	json_put(error, "code", code);
	json_put(error, "message", message);
	json_object_object_add(whole, "error", error);
	send_response(a, "response.failed", whole, out);
}
