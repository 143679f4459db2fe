/* What a completion is asked, field by field, and its turns' beginning and end. See completion.h.
 */
#include "fs/gateway/openai/completion.h"
#include "fs/gateway/body/fields.h"
#include "fs/gateway/openai/tokens.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_TOKENS = 16 };

/* Ids may end in the middle of a character, or begin there; the tree takes texts. */
static bool is_whole(const struct text *prompt)
{
	struct text characters = {0};
	text_add_characters(&characters, prompt->data, prompt->length);
	bool same = characters.length == prompt->length &&
		    (!prompt->length || memcmp(characters.data, prompt->data, prompt->length) == 0);
	text_free(&characters);
	return same;
}

static int add_prompt(struct completion *c, struct json_object *one, struct problem *p)
{
	if (c->prompts == CHOICES_MOST)
		return problem_set(p, PROBLEM_INVALID, "prompt", "at most %d prompts at once",
				   CHOICES_MOST);
	struct text *to = &c->prompt[c->prompts++];
	if (json_object_is_type(one, json_type_array)) {
		if (tokens_decode(c->request, c->model, one, to, p))
			return -1;
		if (!is_whole(to))
			return problem_set(p, PROBLEM_INVALID, "prompt",
					   "'prompt': these ids are no whole characters");
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
	uint64_t best = 0;
	int there = field_count(body, "logprobs", 0, 20, &c->top, p);
	c->logprobs = there > 0;
	c->tokens = DEFAULT_TOKENS;
	c->n = 1;
	if (there < 0 || field_bool(body, "echo", &c->echo, p) < 0 ||
	    field_count(body, "n", 1, CHOICES_MOST, &c->n, p) < 0 ||
	    field_count(body, "max_tokens", 0, INT_MAX, &c->tokens, p) < 0 ||
	    field_count(body, "best_of", 1, CHOICES_MOST, &best, p) < 0 ||
	    field_object(body, "stream_options", &options, p) < 0 ||
	    field_bool(options, "include_usage", &c->include_usage, p) < 0)
		return -1;
	if (best && best != c->n)
		return problem_set(p, PROBLEM_INVALID, "best_of",
				   "'best_of' is not served: ask for 'n' answers, and choose");
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

/* Where nothing is to follow, no turn counts it. */
static int count_prompts(struct completion *c, struct problem *p)
{
	for (size_t i = 0; i < c->prompts; i++) {
		struct json_object *ids;
		if (tokens_encode(c->request, c->model, c->prompt[i].data, c->prompt[i].length,
				  &ids, p))
			return -1;
		c->usage[i * c->n].prompt = json_object_array_length(ids);
		json_object_put(ids);
	}
	return 0;
}

static int begin_turns(struct completion *c, struct wish *w, struct problem *p)
{
	c->count = c->prompts * c->n;
	if (c->count > CHOICES_MOST)
		return problem_set(p, PROBLEM_INVALID, "n", "at most %d choices at once",
				   CHOICES_MOST);
	if (!c->tokens)
		return count_prompts(c, p);
	for (size_t i = 0; i < c->count; i++) {
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

int completion_begin(struct completion *c, struct problem *p)
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

void completion_end(void *completion)
{
	struct completion *c = completion;
	for (size_t i = 0; i < CHOICES_MOST; i++) {
		turn_end(c->turns[i]);
		text_free(&c->prompt[i]);
		text_free(&c->parts[i].text);
		text_free(&c->parts[i].lines);
	}
	free(c);
}
