/* POST /v1/completions: a text goes to the model as it stands, and goes on. */
#include "fs/gateway/fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/handlers.h"
#include "fs/gateway/openai.h"
#include "fs/gateway/tokens.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAUSE_MS = 10 * 1000, DEFAULT_TOKENS = 16 };

struct lines { /* of a choice's logprobs */
	struct json_object *tokens, *logprobs, *tops, *offsets;
	size_t offset;
};

struct completion {
	struct request *request;
	const char *model;
	time_t created;
	uint64_t n, tokens, top;
	bool echo, logprobs, include_usage;
	size_t prompts, count, over;
	struct text prompt[CHOICES_MOST];
	struct turn *turns[CHOICES_MOST];
	struct usage usage[CHOICES_MOST];
	struct part {
		struct text text, lines;
		bool begun, over;
	} parts[CHOICES_MOST];
	struct text first;
	bool broken;
	char id[48], name[256];
};

static void end(void *ctx)
{
	struct completion *c = ctx;
	for (size_t i = 0; i < CHOICES_MOST; i++) {
		turn_end(c->turns[i]);
		text_free(&c->prompt[i]);
		text_free(&c->parts[i].text);
		text_free(&c->parts[i].lines);
	}
	text_free(&c->first);
	free(c);
}

/* ---- what is asked ---- */

static int add_prompt(struct completion *c, struct json_object *one, struct problem *p)
{
	if (c->prompts == CHOICES_MOST)
		return problem_set(p, PROBLEM_INVALID, "prompt", "at most %d prompts at once",
				   CHOICES_MOST);
	struct text *to = &c->prompt[c->prompts++];
	if (json_object_is_type(one, json_type_array)) {
		if (tokens_decode(c->request, c->model, one, to, p))
			return -1;
	} else if (json_object_is_type(one, json_type_string))
		text_add(to, json_object_get_string(one), (size_t)json_object_get_string_len(one));
	else
		return problem_set(p, PROBLEM_INVALID, "prompt",
				   "'prompt' must be a text, ids, or a list of these");
	return to->length && !to->failed
		       ? 0
		       : problem_set(p, PROBLEM_INVALID, "prompt", "'prompt' must not be empty");
}

static int take_prompts(struct completion *c, struct problem *p)
{
	struct json_object *prompt = field_get(c->request->json, "prompt");
	bool list = json_object_is_type(prompt, json_type_array) &&
		    json_object_array_length(prompt) &&
		    !json_object_is_type(json_object_array_get_idx(prompt, 0), json_type_int);
	if (!list)
		return add_prompt(c, prompt, p);
	for (size_t i = 0; i < json_object_array_length(prompt); i++)
		if (add_prompt(c, json_object_array_get_idx(prompt, i), p))
			return -1;
	return 0;
}

/* There as an object that includes it: {"suffix": …} is refused by openai_refuse. */
static int take_fields(struct completion *c, struct wish *w, struct problem *p)
{
	struct json_object *body = c->request->json, *options = NULL;
	uint64_t best;
	int there = field_count(body, "logprobs", 0, 20, &c->top, p);
	c->logprobs = there > 0;
	c->tokens = DEFAULT_TOKENS;
	c->n = 1;
	if (there < 0 || field_bool(body, "echo", &c->echo, p) < 0 ||
	    field_count(body, "n", 1, CHOICES_MOST, &c->n, p) < 0 ||
	    field_count(body, "max_tokens", 0, INT_MAX, &c->tokens, p) < 0 ||
	    field_count(body, "best_of", 1, 1, &best, p) < 0 ||
	    field_object(body, "stream_options", &options, p) < 0 ||
	    field_bool(options, "include_usage", &c->include_usage, p) < 0)
		return -1;
	if (!c->tokens && !c->echo)
		return problem_set(p, PROBLEM_INVALID, "max_tokens",
				   "'max_tokens' is 0, which asks for nothing without 'echo'");
	/* The other fields that count tokens are read elsewhere, by their own rules. */
	json_object_object_del(body, "max_tokens");
	if (openai_sampling(body, w, p))
		return -1;
	w->logprobs = c->logprobs;
	bool fits = wish_param(w, "max_tokens", "max_tokens", "%" PRIu64, c->tokens) &&
		    wish_param(w, "chat", "prompt", "off") &&
		    (!c->logprobs ||
		     wish_param(w, "logprobs", "logprobs", "%" PRIu64, c->top ? c->top : 1));
	return fits ? 0 : problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
}

static int begin_turns(struct completion *c, struct wish *w, struct problem *p)
{
	c->count = c->prompts * c->n;
	if (c->count > CHOICES_MOST)
		return problem_set(p, PROBLEM_INVALID, "n", "at most %d choices at once",
				   CHOICES_MOST);
	for (size_t i = 0; i < c->count && c->tokens; i++) {
		struct text *prompt = &c->prompt[i / c->n];
		/* The tree leaves out one newline at the end. */
		if (i % c->n == 0)
			text_add(prompt, "\n", 1);
		w->prompt = prompt->data;
		w->prompt_size = prompt->length;
		w->beside = i > 0;
		if (prompt->failed)
			return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
		if (turn_begin(&c->turns[i], c->request, w, p))
			return -1;
		if (i % c->n == c->n - 1)
			text_cut(prompt, prompt->length - 1);
	}
	return 0;
}

static int begin(struct completion *c, struct problem *p)
{
	struct wish w = {0};
	struct json_object *body = c->request->json;
	int there = field_text(body, "model", &c->model, p);
	if (there == 0)
		problem_set(p, PROBLEM_INVALID, "model", "'model' is missing");
	if (there <= 0 || turn_model(c->request, c->model, p) || openai_refuse(body, p))
		return -1;
	w.model = c->model;
	(void)snprintf(c->name, sizeof c->name, "%s", c->model);
	int code = take_fields(c, &w, p) || take_prompts(c, p) || begin_turns(c, &w, p) ? -1 : 0;
	wish_free(&w);
	return code;
}

/* ---- log-probabilities, as this endpoint has them ---- */

static void add_token(struct lines *l, const char *token, size_t size, struct json_object *logprob,
		      struct json_object *top)
{
	json_object_array_add(l->tokens, json_object_new_string_len(token, (int)size));
	json_object_array_add(l->logprobs, logprob);
	json_object_array_add(l->tops, top);
	json_object_array_add(l->offsets, json_object_new_int64((int64_t)l->offset));
	for (size_t i = 0; i < size; i++) /* in characters */
		l->offset += ((unsigned char)token[i] & 0xc0) != 0x80;
}

static void add_scored(void *ctx, const struct scored *t)
{
	add_token(ctx, t->text, t->size, t->first ? NULL : json_object_new_double(t->logprob),
		  NULL);
}

static void add_lines(struct lines *l, const struct text *lines, uint64_t top)
{
	struct json_object *chat = openai_logprobs(lines, top);
	struct json_object *content = field_get(chat, "content");
	for (size_t i = 0; i < json_object_array_length(content); i++) {
		struct json_object *one = json_object_array_get_idx(content, i);
		struct json_object *others = field_get(one, "top_logprobs"), *tops = NULL;
		struct json_object *token = field_get(one, "token");
		if (top)
			tops = json_object_new_object();
		for (size_t k = 0; tops && k < json_object_array_length(others); k++) {
			struct json_object *other = json_object_array_get_idx(others, k);
			json_object_object_add(tops,
					       json_object_get_string(field_get(other, "token")),
					       json_object_get(field_get(other, "logprob")));
		}
		add_token(l, json_object_get_string(token),
			  (size_t)json_object_get_string_len(token),
			  json_object_get(field_get(one, "logprob")), tops);
	}
	json_object_put(chat);
}

/* Of the prompt, where it is echoed, and of what followed. */
static int choice_logprobs(struct completion *c, size_t i, bool echo, const struct text *lines,
			   struct json_object **out, struct problem *p)
{
	const struct text *prompt = &c->prompt[i / c->n];
	struct lines l = {json_object_new_array(), json_object_new_array(), json_object_new_array(),
			  json_object_new_array(), 0};
	int code = 0;
	if (echo)
		code = tokens_score(c->request, c->name, prompt->data, prompt->length, add_scored,
				    &l, p);
	add_lines(&l, lines, c->top);
	*out = json_object_new_object();
	json_object_object_add(*out, "tokens", l.tokens);
	json_object_object_add(*out, "token_logprobs", l.logprobs);
	json_object_object_add(*out, "top_logprobs", l.tops);
	json_object_object_add(*out, "text_offset", l.offsets);
	return code;
}

/* ---- answers ---- */

static struct json_object *frame(const struct completion *c, struct json_object *choices)
{
	struct json_object *all = json_object_new_object();
	json_object_object_add(all, "id", json_object_new_string(c->id));
	json_object_object_add(all, "object", json_object_new_string("text_completion"));
	json_object_object_add(all, "created", json_object_new_int64(c->created));
	json_object_object_add(all, "model", json_object_new_string(c->name));
	json_object_object_add(all, "choices", choices);
	return all;
}

/* The texts are used up. finish NULL: it goes on. */
static int add_choice(struct completion *c, struct json_object *choices, size_t i, bool echo,
		      struct text *text, const struct text *lines, const char *finish,
		      struct problem *p)
{
	const struct text *prompt = &c->prompt[i / c->n];
	struct json_object *choice = json_object_new_object(), *logprobs = NULL;
	struct text whole = {0};
	int code = 0;
	if (echo)
		text_add(&whole, prompt->data, prompt->length);
	text_add(&whole, text->data, text->length);
	if (c->logprobs)
		code = choice_logprobs(c, i, echo, lines, &logprobs, p);
	json_object_object_add(choice, "index", json_object_new_int((int)i));
	json_object_object_add(
		choice, "text",
		json_object_new_string_len(whole.length ? whole.data : "", (int)whole.length));
	json_object_object_add(choice, "logprobs", logprobs);
	json_object_object_add(choice, "finish_reason",
			       finish ? json_object_new_string(finish) : NULL);
	json_object_array_add(choices, choice);
	text_free(&whole);
	return code;
}

static struct json_object *all_usage(const struct completion *c)
{
	struct json_object *usage;
	struct usage sum[CHOICES_MOST];
	memcpy(sum, c->usage, sizeof sum);
	for (size_t i = c->n; i < c->count; i += c->n) {
		sum[0].prompt += sum[i].prompt;
		sum[0].cached += sum[i].cached;
	}
	usage = openai_usage(sum, c->count);
	return usage;
}

/* News of a choice: `text` and `lines` grow by it. */
static int take(struct completion *c, size_t i, struct text *text, struct text *lines,
		struct problem *p)
{
	struct news n = {0};
	int code = turn_take(c->turns[i], &n, p);
	/* What thinks here thinks aloud. */
	text_add(text, n.thoughts.data, n.thoughts.length);
	text_add(text, n.output.data, n.output.length);
	text_add(lines, n.logprobs.data, n.logprobs.length);
	if (n.over && !code) {
		c->parts[i].over = true;
		c->over++;
		turn_usage(c->turns[i], &c->usage[i]);
		turn_end(c->turns[i]);
		c->turns[i] = NULL;
	}
	news_free(&n);
	return code;
}

static int wait(struct completion *c, int milliseconds, struct problem *p)
{
	return turns_wait(c->turns, c->count, c->request->client, milliseconds)
		       ? problem_set(p, PROBLEM_GONE, NULL, "the client has gone away")
		       : 0;
}

static int whole_answer(struct completion *c, struct json_object **out, struct problem *p)
{
	while (c->tokens && c->over < c->count) {
		if (wait(c, -1, p))
			return -1;
		for (size_t i = 0; i < c->count; i++)
			if (!c->parts[i].over &&
			    take(c, i, &c->parts[i].text, &c->parts[i].lines, p))
				return -1;
	}
	struct json_object *choices = json_object_new_array();
	for (size_t i = 0; i < c->count; i++)
		if (add_choice(c, choices, i, c->echo, &c->parts[i].text, &c->parts[i].lines,
			       c->tokens ? openai_finish(&c->usage[i]) : "length", p)) {
			json_object_put(choices);
			return -1;
		}
	*out = frame(c, choices);
	json_object_object_add(*out, "usage", all_usage(c));
	return 0;
}

/* ---- streams ---- */

static int step_one(struct completion *c, struct text *out, size_t i, struct problem *p)
{
	struct text text = {0}, lines = {0};
	bool echo = c->echo && !c->parts[i].begun;
	int code = c->tokens ? take(c, i, &text, &lines, p) : 0;
	bool over = !c->tokens || c->parts[i].over;
	if (!code && (text.length || lines.length || over)) {
		struct json_object *choices = json_object_new_array(), *all;
		code = add_choice(c, choices, i, echo, &text, &lines,
				  !over	      ? NULL
				  : c->tokens ? openai_finish(&c->usage[i])
					      : "length",
				  p);
		c->parts[i].begun = true;
		all = frame(c, choices);
		if (c->include_usage)
			json_object_object_add(all, "usage", NULL);
		if (!code)
			event_add(out, NULL, all);
		json_object_put(all);
	}
	if (!c->tokens && !c->parts[i].over) {
		c->parts[i].over = true;
		c->over++;
	}
	text_free(&text);
	text_free(&lines);
	return code;
}

static int step(struct completion *c, struct text *out, struct problem *p)
{
	if (c->tokens && wait(c, PAUSE_MS, p))
		return -1;
	for (size_t i = 0; i < c->count; i++)
		if (!c->parts[i].over && step_one(c, out, i, p))
			return -1;
	if (c->over < c->count)
		return 0;
	if (c->include_usage) {
		struct json_object *all = frame(c, json_object_new_array());
		json_object_object_add(all, "usage", all_usage(c));
		event_add(out, NULL, all);
		json_object_put(all);
	}
	text_string(out, "data: [DONE]\n\n");
	return 1;
}

static void add_error(struct text *out, const struct problem *p)
{
	struct json_object *json = problem_json(p, PROTOCOL_OPENAI);
	event_add(out, NULL, json);
	json_object_put(json);
}

static int next(void *ctx, struct text *out)
{
	struct completion *c = ctx;
	struct problem p = {0};
	if (c->first.length) {
		text_add(out, c->first.data, c->first.length);
		text_free(&c->first);
		return c->broken || c->over == c->count;
	}
	int code = step(c, out, &p);
	if (code < 0 && p.kind == PROBLEM_GONE)
		return -1;
	if (code < 0)
		add_error(out, &p);
	if (!out->length)
		event_pause(out);
	return code < 0 ? 1 : code;
}

static enum MHD_Result stream(struct request *r, struct completion *c)
{
	struct problem p = {0};
	int code = step(c, &c->first, &p);
	if (code < 0 && (!c->first.length || p.kind == PROBLEM_GONE)) {
		end(c);
		return reply_problem(r, &p);
	}
	c->broken = code < 0;
	if (c->broken)
		add_error(&c->first, &p);
	if (!c->first.length)
		event_pause(&c->first);
	return reply_stream(r, next, end, c);
}

enum MHD_Result completions(struct request *r)
{
	struct problem p = {0};
	bool streams = false;
	struct json_object *answer = NULL;
	struct completion *c = calloc(1, sizeof *c);
	if (!c)
		return MHD_NO;
	c->request = r;
	c->created = time(NULL);
	(void)snprintf(c->id, sizeof c->id, "cmpl-%s", r->id);
	int code = field_bool(r->json, "stream", &streams, &p) < 0 || begin(c, &p) ? -1 : 0;
	if (!code && streams)
		return stream(r, c);
	if (!code)
		code = whole_answer(c, &answer, &p);
	end(c);
	return code ? reply_problem(r, &p) : reply_json(r, MHD_HTTP_OK, answer);
}
