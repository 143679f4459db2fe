/* The choices of a completion, and their log-probabilities. See completion.h. */
#include "fs/gateway/openai/completion.h"
#include "fs/gateway/body/fields.h"
#include "fs/gateway/openai/tokens.h"

#include <string.h>

struct lines { /* of a choice's logprobs */
	struct json_object *tokens, *logprobs, *tops, *offsets;
	size_t offset;
};

/* ---- log-probabilities, as this endpoint has them ---- */

static size_t characters_begun(const char *text, size_t size)
{
	size_t n = 0;
	for (size_t i = 0; i < size; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

static void add_token(struct lines *l, const char *token, size_t size, struct json_object *logprob,
		      struct json_object *top)
{
	json_object_array_add(l->tokens, json_object_new_string_len(token, (int)size));
	json_object_array_add(l->logprobs, logprob);
	json_object_array_add(l->tops, top);
	json_object_array_add(l->offsets, json_object_new_int64((int64_t)l->offset));
	l->offset += characters_begun(token, size);
}

/* A token may have a part of a character alone: what is counted is the text, what is sent is one.
 */
static void add_scored(void *ctx, const struct scored *t)
{
	struct lines *l = ctx;
	struct text text = {0};
	size_t before = l->offset;
	text_add_characters(&text, t->text, t->size);
	add_token(l, text.length ? text.data : "", text.length,
		  t->first ? NULL : json_object_new_double(t->logprob), NULL);
	l->offset = before + characters_begun(t->text, t->size);
	text_free(&text);
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

struct json_object *completion_frame(const struct completion *c, struct json_object *choices)
{
	return openai_frame(c->id, "text_completion", c->created, c->name, choices);
}

int completion_choice(struct completion *c, struct json_object *choices, size_t i, bool echo,
		      const struct text *text, const struct text *lines, const char *finish,
		      struct problem *p)
{
	const struct text *prompt = &c->prompt[i / c->n];
	struct json_object *choice = json_object_new_object(), *logprobs = NULL;
	struct text whole = {0};
	int code = 0;
	if (echo)
		text_add_characters(&whole, prompt->data, prompt->length);
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

struct json_object *completion_usage(const struct completion *c)
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

int completion_take(struct completion *c, size_t i, struct text *text, struct text *lines,
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
