/* Writes Anthropic's stream of events, or one message if the request does not ask for a stream. See
 * anthropic.h.
 *
 *     message_start, ping
 *     content_block_start, content_block_delta…, content_block_stop    for each block
 *     message_delta, message_stop                                      or: error
 *
 * A block is a thought, a text, or a tool's call. Thoughts come before the text, calls in the order
 * of the model. A block is closed before the next one opens. */
#include "fs/gateway/body/json_fields.h"
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

static json_object *anthropic_usage(const struct answer_ending *end)
{
	uint64_t cached =
		end->cached_tokens < end->prompt_tokens ? end->cached_tokens : end->prompt_tokens;
	json_object *usage = json_new("input_tokens=%ju cache_creation_input_tokens=%u "
				      "cache_read_input_tokens=%ju output_tokens=%ju",
				      end->prompt_tokens - cached, 0u, cached, end->output_tokens);
	return wanted_note_remembered(usage, end->remembered);
}

/* stop_reason, stop_sequence: NULL while the answer grows. */
static json_object *anthropic_message(struct anthropic_answer *a, const char *stop_reason,
				      const char *stop_sequence, const struct answer_ending *end)
{
	json_object *content = a->content ? a->content : json_object_new_array();
	a->content = NULL;
	return json_new("id=%s type=message role=assistant model=%s content=%p stop_reason=%s "
			"stop_sequence=%s usage=%p",
			a->id, a->model, content, stop_reason, stop_sequence, anthropic_usage(end));
}

/* ---- blocks ---- */

/* For each kind of block: its type, the member with its text, and the type of its deltas. */
static const struct {
	const char *type, *key, *delta;
} kinds[] = {
	[BLOCK_THINKING] = {"thinking", "thinking", "thinking_delta"},
	[BLOCK_TEXT] = {"text", "text", "text_delta"},
};

static void anthropic_start_block(struct anthropic_answer *a, json_object *block, struct text *out)
{
	json_event(out, "content_block_start",
		   json_new("type=content_block_start index=%u content_block=%p", a->index, block));
	if (!a->pinged)
		anthropic_ping(out);
	a->pinged = true;
}

static void anthropic_send_delta(struct anthropic_answer *a, const char *type, const char *key,
				 const char *text, size_t n, struct text *out)
{
	json_object *delta = json_new("type=%s", type);
	json_put_n(delta, key, text, n);
	json_event(out, "content_block_delta",
		   json_new("type=content_block_delta index=%u delta=%p", a->index, delta));
}

static void anthropic_stop_block(struct anthropic_answer *a, struct text *out)
{
	json_event(out, "content_block_stop",
		   json_new("type=content_block_stop index=%u", a->index++));
}

static json_object *anthropic_empty_block(enum anthropic_block kind)
{
	json_object *block = json_new("type=%s", kinds[kind].type);
	json_put(block, kinds[kind].key, "");
	if (kind == BLOCK_THINKING)
		json_put(block, "signature", "");
	return block;
}

/* Adds a block to a message that is not streamed. */
static void anthropic_keep_block(struct anthropic_answer *a, json_object *block, struct text *out)
{
	if (!a->content)
		a->content = json_object_new_array();
	if (!block || !a->content || json_object_array_add(a->content, block) < 0) {
		json_object_put(block);
		out->failed = true;
	}
}

/* A thought's signature is not secret. It says that the thoughts are unchanged, and is not checked
 * when it comes back. */
static void anthropic_close_block(struct anthropic_answer *a, struct text *out)
{
	char signature[32];
	int n = snprintf(signature, sizeof signature, "moefs%016" PRIx64, a->sum);
	enum anthropic_block was = a->open;
	a->open = BLOCK_NONE;
	if (was == BLOCK_NONE)
		return;
	if (a->streams) {
		if (was == BLOCK_THINKING)
			anthropic_send_delta(a, "signature_delta", "signature", signature,
					     (size_t)n, out);
		anthropic_stop_block(a, out);
		return;
	}
	json_object *block = anthropic_empty_block(was);
	json_put_n(block, kinds[was].key, a->said.data, a->said.length);
	if (was == BLOCK_THINKING)
		json_put(block, "signature", signature);
	out->failed |= a->said.failed;
	text_cut(&a->said, 0);
	anthropic_keep_block(a, block, out);
}

static void anthropic_add(struct anthropic_answer *a, enum anthropic_block kind, const char *text,
			  size_t n, struct text *out)
{
	if (!n)
		return;
	if (a->open != kind) {
		anthropic_close_block(a, out);
		a->open = kind;
		if (a->streams)
			anthropic_start_block(a, anthropic_empty_block(kind), out);
	}
	if (a->streams)
		anthropic_send_delta(a, kinds[kind].delta, kinds[kind].key, text, n, out);
	else
		text_add(&a->said, text, n);
}

/* ---- news ---- */

void anthropic_ping(struct text *out)
{
	json_event(out, "ping", json_new("type=ping"));
}

void anthropic_begin(void *of, const struct answer_ending *known, struct text *out)
{
	struct anthropic_answer *a = of;
	if (a->streams)
		json_event(out, "message_start",
			   json_new("type=message_start message=%p",
				    anthropic_message(a, NULL, NULL, known)));
}

void anthropic_thought(void *of, const char *text, size_t n, struct text *out)
{
	struct anthropic_answer *a = of;
	if (!a->sum)
		a->sum = TEXT_HASH;
	a->sum = text_hash(a->sum, text, n);
	anthropic_add(a, BLOCK_THINKING, text, n, out);
}

void anthropic_text(void *of, const char *text, size_t n, struct text *out)
{
	anthropic_add(of, BLOCK_TEXT, text, n, out);
}

void anthropic_call(void *of, json_object *call, struct text *out)
{
	struct anthropic_answer *a = of;
	json_object *function = json_at(call, "function");
	json_object *input = json_at(function, "arguments");
	anthropic_close_block(a, out);
	json_object *block = json_new("type=tool_use id=%s name=%s input={}", json_text(call, "id"),
				      json_text(function, "name"));
	if (!a->streams) {
		if (input)
			json_object_object_add(block, "input", json_object_get(input));
		anthropic_keep_block(a, block, out);
		return;
	}
	const char *text =
		input ? json_object_to_json_string_ext(
				input, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
		      : "{}";
	anthropic_start_block(a, block, out);
	anthropic_send_delta(a, "input_json_delta", "partial_json", "", 0, out);
	anthropic_send_delta(a, "input_json_delta", "partial_json", text, strlen(text), out);
	anthropic_stop_block(a, out);
}

/* ---- the end ---- */

static const char *anthropic_stop_reason(const struct answer_ending *end)
{
	static const struct {
		const char *finish, *reason;
	} rows[] = {{"stop", "stop_sequence"},
		    {"length", "max_tokens"},
		    {"repetition", "max_tokens"},
		    {"tool_calls", "tool_use"}};
	if (strcmp(end->finish, "length") == 0 && end->max_tokens &&
	    end->output_tokens < end->max_tokens)
		return "model_context_window_exceeded";
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(end->finish, rows[i].finish) == 0)
			return rows[i].reason;
	return "end_turn";
}

void anthropic_end(void *of, const struct answer_ending *end, struct text *out)
{
	struct anthropic_answer *a = of;
	const char *sequence = strcmp(end->finish, "stop") == 0 ? end->stop : NULL;
	const char *reason = anthropic_stop_reason(end);
	anthropic_close_block(a, out);
	if (!a->streams) {
		json_finish(out, anthropic_message(a, reason, sequence, end));
		return;
	}
	json_event(out, "message_delta",
		   json_new("type=message_delta delta=%p usage=%p",
			    json_new("stop_reason=%s stop_sequence=%s", reason, sequence),
			    anthropic_usage(end)));
	json_event(out, "message_stop", json_new("type=message_stop"));
}

void anthropic_fail(void *of, const struct problem *p, struct text *out)
{
	const struct anthropic_answer *a = of;
	json_event(out, "error", problem_json(p, PROTOCOL_ANTHROPIC, a->request));
}
