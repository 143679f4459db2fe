/* An answer as /v1/messages gives it: events in their order, or one message. See anthropic.h.
 *
 * Thoughts come before the text and calls where they come; each is a block, and a block is closed
 * before the next one opens. */
#include "fs/gateway/anthropic/anthropic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void anthropic_free(struct anthropic_answer *a)
{
	json_object_put(a->content);
	text_free(&a->said);
	a->content = NULL;
}

static json_object *typed(const char *type)
{
	json_object *o = json_object_new_object();
	json_put(o, "type", type);
	return o;
}

static json_object *usage(const struct ending *end)
{
	uint64_t cached =
		end->cached_tokens < end->prompt_tokens ? end->cached_tokens : end->prompt_tokens;
	json_object *o = json_object_new_object();
	json_put_number(o, "input_tokens", end->prompt_tokens - cached);
	json_put_number(o, "cache_creation_input_tokens", 0);
	json_put_number(o, "cache_read_input_tokens", cached);
	json_put_number(o, "output_tokens", end->output_tokens);
	return o;
}

static json_object *message(struct anthropic_answer *a)
{
	json_object *o = json_object_new_object();
	json_put(o, "id", a->id);
	json_put(o, "type", "message");
	json_put(o, "role", "assistant");
	json_put(o, "model", a->model);
	json_object_object_add(o, "content", a->content ? a->content : json_object_new_array());
	a->content = NULL;
	json_put(o, "stop_reason", NULL);
	json_put(o, "stop_sequence", NULL);
	return o;
}

/* ---- blocks ---- */

/* Not a secret: it says that these are the thoughts as they came, and nobody asks it. */
static void sign(struct anthropic_answer *a, const char *text, size_t n)
{
	if (!a->sum)
		a->sum = 0xcbf29ce484222325U;
	for (size_t i = 0; i < n; i++)
		a->sum = (a->sum ^ (uint8_t)text[i]) * 0x100000001b3U;
}

static void start(struct anthropic_answer *a, json_object *block, struct text *out)
{
	json_object *event = typed("content_block_start");
	json_put_number(event, "index", a->index);
	json_object_object_add(event, "content_block", block);
	json_event(out, "content_block_start", event);
	if (!a->pinged)
		anthropic_ping(out);
	a->pinged = true;
}

static void delta(struct anthropic_answer *a, const char *type, const char *key, const char *text,
		  size_t n, struct text *out)
{
	json_object *event = typed("content_block_delta"), *d = typed(type);
	json_put_number(event, "index", a->index);
	json_put_n(d, key, text, n);
	json_object_object_add(event, "delta", d);
	json_event(out, "content_block_delta", event);
}

static void stop(struct anthropic_answer *a, struct text *out)
{
	json_object *event = typed("content_block_stop");
	json_put_number(event, "index", a->index++);
	json_event(out, "content_block_stop", event);
}

/* By block: its type, the key of its text, and the type of its deltas. */
static const struct {
	const char *type, *key, *delta;
} kinds[] = {
	[BLOCK_THINKING] = {"thinking", "thinking", "thinking_delta"},
	[BLOCK_TEXT] = {"text", "text", "text_delta"},
};

static json_object *empty_block(enum anthropic_block kind)
{
	json_object *block = typed(kinds[kind].type);
	json_put(block, kinds[kind].key, "");
	if (kind == BLOCK_THINKING)
		json_put(block, "signature", "");
	return block;
}

static void keep(struct anthropic_answer *a, json_object *block, struct text *out)
{
	if (!a->content)
		a->content = json_object_new_array();
	if (!block || !a->content || json_object_array_add(a->content, block) < 0) {
		json_object_put(block);
		out->failed = true;
	}
}

static void close_block(struct anthropic_answer *a, struct text *out)
{
	char signature[32];
	int n = snprintf(signature, sizeof signature, "moefs%016" PRIx64, a->sum);
	enum anthropic_block was = a->open;
	a->open = BLOCK_NONE;
	if (was == BLOCK_NONE)
		return;
	if (a->streams) {
		if (was == BLOCK_THINKING)
			delta(a, "signature_delta", "signature", signature, (size_t)n, out);
		stop(a, out);
		return;
	}
	json_object *block = empty_block(was);
	json_put_n(block, kinds[was].key, a->said.data, a->said.length);
	if (was == BLOCK_THINKING)
		json_put(block, "signature", signature);
	out->failed |= a->said.failed;
	text_cut(&a->said, 0);
	keep(a, block, out);
}

static void add(struct anthropic_answer *a, enum anthropic_block kind, const char *text, size_t n,
		struct text *out)
{
	if (!n)
		return;
	if (a->open != kind) {
		close_block(a, out);
		a->open = kind;
		if (a->streams)
			start(a, empty_block(kind), out);
	}
	if (a->streams)
		delta(a, kinds[kind].delta, kinds[kind].key, text, n, out);
	else
		text_add(&a->said, text, n);
}

/* ---- what comes ---- */

void anthropic_ping(struct text *out)
{
	json_event(out, "ping", typed("ping"));
}

void anthropic_begin(struct anthropic_answer *a, const struct ending *known, struct text *out)
{
	if (!a->streams)
		return;
	json_object *event = typed("message_start"), *m = message(a);
	json_object_object_add(m, "usage", usage(known));
	json_object_object_add(event, "message", m);
	json_event(out, "message_start", event);
}

void anthropic_thought(struct anthropic_answer *a, const char *text, size_t n, struct text *out)
{
	sign(a, text, n);
	add(a, BLOCK_THINKING, text, n, out);
}

void anthropic_text(struct anthropic_answer *a, const char *text, size_t n, struct text *out)
{
	add(a, BLOCK_TEXT, text, n, out);
}

void anthropic_call(struct anthropic_answer *a, json_object *call, struct text *out)
{
	json_object *function = json_at(call, "function"), *block = typed("tool_use");
	json_object *input = json_at(function, "arguments");
	close_block(a, out);
	json_put(block, "id", json_text(call, "id"));
	json_put(block, "name", json_text(function, "name"));
	if (!a->streams) {
		json_object_object_add(block, "input",
				       input ? json_object_get(input) : json_object_new_object());
		keep(a, block, out);
		return;
	}
	const char *text = json_object_to_json_string_ext(
		input, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	json_object_object_add(block, "input", json_object_new_object());
	start(a, block, out);
	delta(a, "input_json_delta", "partial_json", "", 0, out);
	delta(a, "input_json_delta", "partial_json", input ? text : "{}", input ? strlen(text) : 2,
	      out);
	stop(a, out);
}

/* ---- its end ---- */

static const char *reason(const struct ending *end)
{
	static const struct {
		const char *finish, *reason;
	} rows[] = {
		{"stop", "stop_sequence"}, {"length", "max_tokens"}, {"tool_calls", "tool_use"}};
	bool full = strcmp(end->finish, "length") == 0 && end->max_tokens &&
		    end->output_tokens < end->max_tokens;
	if (full)
		return "model_context_window_exceeded";
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(end->finish, rows[i].finish) == 0)
			return rows[i].reason;
	return "end_turn";
}

void anthropic_end(struct anthropic_answer *a, const struct ending *end, struct text *out)
{
	const char *text = strcmp(end->finish, "stop") == 0 ? end->stop : NULL;
	close_block(a, out);
	if (!a->streams) {
		json_object *m = message(a);
		json_put(m, "stop_reason", reason(end));
		json_put(m, "stop_sequence", text);
		json_object_object_add(m, "usage", usage(end));
		json_finish(out, m);
		return;
	}
	json_object *event = typed("message_delta"), *d = json_object_new_object();
	json_put(d, "stop_reason", reason(end));
	json_put(d, "stop_sequence", text);
	json_object_object_add(event, "delta", d);
	json_object_object_add(event, "usage", usage(end));
	json_event(out, "message_delta", event);
	json_event(out, "message_stop", typed("message_stop"));
}
