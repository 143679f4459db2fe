/* POST /v1/completions: reads the request, and writes a stream or one completion.
 *
 * A prompt is a text or a list of token ids, and each prompt has n choices. The tree takes texts,
 * so ids are decoded first. */
#include "fs/gateway/body/json_fields.h"
#include "cache/utf8.h"
#include "fs/gateway/openai/openai.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct completion {
	struct http_request *request;
	const char *model;
	time_t created;
	uint64_t n, tokens, top; /* choices per prompt; max_tokens; logprobs */
	bool echo, logprobs, include_usage;
	size_t prompts, count, over; /* count: all choices; over: complete ones */
	struct text prompt[CHOICES_MOST];
	struct turn *turns[CHOICES_MOST];
	struct usage usage[CHOICES_MOST];
	struct completion_choice {
		struct text text, lines;
		bool begun, over;
	} choices[CHOICES_MOST];
	struct event_stream stream;
	char id[48], name[256];
};

/* Whether a text is whole characters: ids may begin or end within a character. */
static bool completion_is_whole(const struct text *prompt)
{
	struct text characters = {0};
	text_add_characters(&characters, prompt->data, prompt->length);
	bool same = characters.length == prompt->length &&
		    (!prompt->length || memcmp(characters.data, prompt->data, prompt->length) == 0);
	text_free(&characters);
	return same;
}

static int completion_add_prompt(struct completion *c, json_object *one, struct problem *p)
{
	if (c->prompts == CHOICES_MOST)
		return problem_set(p, PROBLEM_INVALID, "prompt", "at most %d prompts at once",
				   CHOICES_MOST);
	struct text *to = &c->prompt[c->prompts++];
	if (json_object_is_type(one, json_type_array)) {
		if (tokens_decode(c->request, c->model, one, to, p))
			return -1;
		if (!completion_is_whole(to))
			return problem_set(p, PROBLEM_INVALID, "prompt",
					   "\"prompt\": these ids are not whole characters");
	} else if (json_object_is_type(one, json_type_string))
		text_add(to, json_object_get_string(one), (size_t)json_object_get_string_len(one));
	else
		return problem_set(p, PROBLEM_INVALID, "prompt",
				   "\"prompt\" must be a text, ids, or a list of these");
	return to->length && !to->failed
		       ? 0
		       : problem_set(p, PROBLEM_INVALID, "prompt", "\"prompt\" must not be empty");
}

/* Reads `prompt`: one prompt, or a list of them. */
static int completion_take_prompts(struct completion *c, struct problem *p)
{
	json_object *prompt = json_at(c->request->json, "prompt");
	if (!json_length(prompt) ||
	    json_object_is_type(json_object_array_get_idx(prompt, 0), json_type_int))
		return completion_add_prompt(c, prompt, p);
	for (size_t i = 0; i < json_length(prompt); i++)
		if (completion_add_prompt(c, json_object_array_get_idx(prompt, i), p))
			return -1;
	return 0;
}

static int completion_take_fields(struct completion *c, struct turn_wish *w, struct problem *p)
{
	json_object *body = c->request->json, *options = NULL;
	uint64_t best = 0;
	int there = field_count(body, "logprobs", 0, 20, &c->top, p);
	c->logprobs = there > 0;
	c->tokens = 16; /* OpenAI's default */
	c->n = 1;
	if (there < 0 || field_bool(body, "echo", &c->echo, p) < 0 ||
	    field_count(body, "n", 1, CHOICES_MOST, &c->n, p) < 0 ||
	    field_count(body, "max_tokens", 0, INT_MAX, &c->tokens, p) < 0 ||
	    field_count(body, "best_of", 1, CHOICES_MOST, &best, p) < 0 ||
	    field_object(body, "stream_options", &options, p) < 0 ||
	    field_bool(options, "include_usage", &c->include_usage, p) < 0)
		return -1;
	if (best && best != c->n)
		return problem_set(
			p, PROBLEM_INVALID, "best_of",
			"\"best_of\" is not supported: ask for \"n\" answers and choose one");
	if (!c->tokens && !c->echo)
		return problem_set(p, PROBLEM_INVALID, "max_tokens",
				   "\"max_tokens\" is 0, which asks for nothing without \"echo\"");
	/* openai_sampling reads the other fields, and would read this one by the rules of chat. */
	json_object_object_del(body, "max_tokens");
	if (openai_sampling(body, w, p))
		return -1;
	w->logprobs = c->logprobs;
	return turn_wish_param(w, p, "max_tokens", "max_tokens", "%" PRIu64, c->tokens) ||
			       turn_wish_param(w, p, "chat", "prompt", "off") ||
			       (c->logprobs && turn_wish_param(w, p, "logprobs", "logprobs",
							       "%" PRIu64, c->top ? c->top : 1))
		       ? -1
		       : 0;
}

static int completion_begin_turns(struct completion *c, struct turn_wish *w, struct problem *p)
{
	c->count = c->prompts * c->n;
	if (c->count > CHOICES_MOST)
		return problem_set(p, PROBLEM_INVALID, "n", "at most %d choices at once",
				   CHOICES_MOST);
	/* Without an answer no turn counts the prompts' tokens. */
	for (size_t i = 0; i < c->prompts && !c->tokens; i++) {
		json_object *ids;
		if (tokens_encode(c->request, c->model, c->prompt[i].data, c->prompt[i].length,
				  &ids, p))
			return -1;
		c->usage[i * c->n].prompt = json_length(ids);
		json_object_put(ids);
	}
	for (size_t i = 0; i < c->count && c->tokens; i++) {
		struct text *prompt = &c->prompt[i / c->n];
		/* The tree drops one newline at the end of a prompt. */
		if (i % c->n == 0)
			text_add(prompt, "\n", 1);
		w->prompt = prompt->data;
		w->prompt_size = prompt->length;
		w->beside = i > 0;
		if (prompt->failed)
			return problem_no_memory(p);
		if (turn_begin(&c->turns[i], c->request, w, p))
			return -1;
		if (i % c->n == c->n - 1)
			text_cut(prompt, prompt->length - 1);
	}
	return 0;
}

static void completion_end(void *completion)
{
	struct completion *c = completion;
	for (size_t i = 0; i < CHOICES_MOST; i++) {
		turn_end(c->turns[i]);
		text_free(&c->prompt[i]);
		text_free(&c->choices[i].text);
		text_free(&c->choices[i].lines);
	}
	free(c);
}

/* ---- logprobs: lists of all tokens, in parallel ---- */

struct completion_lines {
	json_object *tokens, *logprobs, *tops, *offsets;
	size_t offset; /* of the next token, in characters */
};

static size_t completion_count_characters(const char *text, size_t size)
{
	size_t n = 0;
	for (size_t i = 0; i < size; i++)
		n += !utf8_goes_on(text[i]);
	return n;
}

/* Takes logprob and top. */
static void completion_add_token(struct completion_lines *l, const char *token, size_t size,
				 json_object *logprob, json_object *top)
{
	json_object_array_add(l->tokens, json_object_new_string_len(token, (int)size));
	json_object_array_add(l->logprobs, logprob);
	json_object_array_add(l->tops, top);
	json_object_array_add(l->offsets, json_object_new_int64((int64_t)l->offset));
	l->offset += completion_count_characters(token, size);
}

/* Adds a token of the prompt. A token may be part of a character, which is sent as U+FFFD; but
 * offsets count characters of the text. */
static void completion_add_scored(void *ctx, const struct scored_token *t)
{
	struct completion_lines *l = ctx;
	struct text text = {0};
	size_t before = l->offset;
	text_add_characters(&text, t->text, t->size);
	completion_add_token(l, text.length ? text.data : "", text.length,
			     t->first ? NULL : json_object_new_double(t->logprob), NULL);
	l->offset = before + completion_count_characters(t->text, t->size);
	text_free(&text);
}

static void completion_add_lines(struct completion_lines *l, const struct text *lines, uint64_t top)
{
	json_object *chat = openai_logprobs(lines, top);
	json_object *content = json_at(chat, "content");
	for (size_t i = 0; i < json_object_array_length(content); i++) {
		json_object *one = json_object_array_get_idx(content, i);
		json_object *others = json_at(one, "top_logprobs"), *tops = NULL;
		json_object *token = json_at(one, "token");
		if (top)
			tops = json_object_new_object();
		for (size_t k = 0; tops && k < json_object_array_length(others); k++) {
			json_object *other = json_object_array_get_idx(others, k);
			json_object_object_add(tops,
					       json_object_get_string(json_at(other, "token")),
					       json_object_get(json_at(other, "logprob")));
		}
		completion_add_token(l, json_object_get_string(token),
				     (size_t)json_object_get_string_len(token),
				     json_object_get(json_at(one, "logprob")), tops);
	}
	json_object_put(chat);
}

/* ---- answers ---- */

static json_object *completion_frame(const struct completion *c, json_object *choices)
{
	return openai_frame(c->id, "text_completion", c->created, c->name, choices);
}

static json_object *completion_usage(const struct completion *c)
{
	struct usage sum[CHOICES_MOST];
	memcpy(sum, c->usage, sizeof sum);
	for (size_t i = c->n; i < c->count; i += c->n) {
		sum[0].prompt += sum[i].prompt;
		sum[0].cached += sum[i].cached;
	}
	return openai_usage(sum, c->count);
}

/* Adds choice `i` to `choices`: text, and lines of logprobs.jsonl. echo: the prompt comes first. */
static int completion_add_choice(struct completion *c, json_object *choices, size_t i, bool echo,
				 const struct text *text, const struct text *lines,
				 struct problem *p)
{
	const struct text *prompt = &c->prompt[i / c->n];
	const char *finish = !c->tokens		  ? "length"
			     : c->choices[i].over ? openai_finish(&c->usage[i])
						  : NULL;
	json_object *choice = json_new("index=%u", (unsigned)i), *logprobs = NULL;
	struct text whole = {0};
	int code = 0;
	if (echo)
		text_add_characters(&whole, prompt->data, prompt->length);
	text_add(&whole, text->data, text->length);
	if (c->logprobs) {
		struct completion_lines l = {json_object_new_array(), json_object_new_array(),
					     json_object_new_array(), json_object_new_array(), 0};
		if (echo)
			code = tokens_score(c->request, c->name, prompt->data, prompt->length,
					    completion_add_scored, &l, p);
		completion_add_lines(&l, lines, c->top);
		logprobs = json_new("tokens=%p token_logprobs=%p top_logprobs=%p text_offset=%p",
				    l.tokens, l.logprobs, l.tops, l.offsets);
	}
	json_put_n(choice, "text", whole.data, whole.length);
	json_object_object_add(choice, "logprobs", logprobs);
	json_put(choice, "finish_reason", finish);
	json_object_array_add(choices, choice);
	text_free(&whole);
	return code;
}

/* Takes the news of choice `i`, and ends its turn with the answer. Thoughts are part of the
 * text. */
static int completion_take(struct completion *c, size_t i, struct text *text, struct text *lines,
			   struct problem *p)
{
	struct news n = {0};
	int code = turn_take(c->turns[i], &n, p);
	text_add(text, n.thoughts.data, n.thoughts.length);
	text_add(text, n.output.data, n.output.length);
	text_add(lines, n.logprobs.data, n.logprobs.length);
	if (n.over && !code) {
		c->choices[i].over = true;
		c->over++;
		turn_usage(c->turns[i], &c->usage[i]);
		turn_end(c->turns[i]);
		c->turns[i] = NULL;
	}
	news_free(&n);
	return code;
}

static int completion_whole(struct completion *c, json_object **out, struct problem *p)
{
	while (c->tokens && c->over < c->count) {
		if (turns_wait(c->turns, c->count, c->request->client, -1, p))
			return -1;
		for (size_t i = 0; i < c->count; i++)
			if (!c->choices[i].over &&
			    completion_take(c, i, &c->choices[i].text, &c->choices[i].lines, p))
				return -1;
	}
	json_object *choices = json_object_new_array();
	for (size_t i = 0; i < c->count; i++)
		if (completion_add_choice(c, choices, i, c->echo, &c->choices[i].text,
					  &c->choices[i].lines, p)) {
			json_object_put(choices);
			return -1;
		}
	*out = completion_frame(c, choices);
	json_object_object_add(*out, "usage", completion_usage(c));
	return 0;
}

/* ---- streams ---- */

static int completion_step_choice(struct completion *c, struct text *out, size_t i,
				  struct problem *p)
{
	struct text text = {0}, lines = {0};
	bool echo = c->echo && !c->choices[i].begun;
	int code = c->tokens ? completion_take(c, i, &text, &lines, p) : 0;
	if (!c->tokens) {
		c->choices[i].over = true;
		c->over++;
	}
	if (!code && (text.length || lines.length || c->choices[i].over)) {
		json_object *choices = json_object_new_array();
		code = completion_add_choice(c, choices, i, echo, &text, &lines, p);
		c->choices[i].begun = true;
		json_object *chunk = completion_frame(c, choices);
		if (c->include_usage)
			json_object_object_add(chunk, "usage", NULL);
		if (code)
			json_object_put(chunk);
		else
			json_event(out, NULL, chunk);
	}
	text_free(&text);
	text_free(&lines);
	return code;
}

/* See struct event_stream. */
static int completion_step(void *of, struct text *out, struct problem *p)
{
	struct completion *c = of;
	if (c->tokens && turns_wait(c->turns, c->count, c->request->client, STREAM_PAUSE_MS, p))
		return -1;
	for (size_t i = 0; i < c->count; i++)
		if (!c->choices[i].over && completion_step_choice(c, out, i, p))
			return -1;
	if (c->over < c->count)
		return 0;
	if (c->include_usage) {
		json_object *chunk = completion_frame(c, json_object_new_array());
		json_object_object_add(chunk, "usage", completion_usage(c));
		json_event(out, NULL, chunk);
	}
	text_string(out, "data: [DONE]\n\n");
	return 1;
}

enum MHD_Result completions(struct http_request *r)
{
	struct problem p = {0};
	bool streams = false;
	json_object *answer = NULL;
	struct completion *c = calloc(1, sizeof *c);
	if (!c)
		return MHD_NO;
	c->request = r;
	c->created = time(NULL);
	(void)snprintf(c->id, sizeof c->id, "cmpl-%s", r->id);
	struct turn_wish w = {0};
	int code = field_bool(r->json, "stream", &streams, &p) < 0 || openai_model(r, &c->model, &p)
			   ? -1
			   : 0;
	if (!code) {
		w.model = c->model;
		(void)snprintf(c->name, sizeof c->name, "%s", c->model);
		code = completion_take_fields(c, &w, &p) || completion_take_prompts(c, &p) ||
		       completion_begin_turns(c, &w, &p);
	}
	turn_wish_free(&w);
	if (!code && streams) {
		c->stream = (struct event_stream){.step = completion_step,
						  .fail = openai_fail,
						  .pause = openai_pause,
						  .end = completion_end,
						  .of = c};
		return reply_events(r, &c->stream);
	}
	if (!code)
		code = completion_whole(c, &answer, &p);
	completion_end(c);
	return code ? reply_problem(r, &p) : reply_json(r, MHD_HTTP_OK, answer);
}
