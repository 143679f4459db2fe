/* Tokens of texts, from the tree's files: POST /tokenize and /detokenize, and functions for
 * completions. See openai.h. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/openai/openai.h"
#include "fs/gateway/turn/tree_client.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Asks a file, and adds its answer and a zero byte to `out`. The tree drops one newline at the end
 * of a text, so this adds one. */
static int tokens_ask(const struct http_request *r, const char *model, const char *file,
		      const char *text, size_t size, struct text *out, struct problem *p)
{
	const char *tree = r->gateway->options->tree;
	struct text question = {0};
	text_add(&question, text, size);
	text_add(&question, "\n", 1);
	int code = question.failed ? -ENOMEM
				   : tree_ask(tree, question.data, question.length, out, "%s/%s",
					      model, file);
	text_free(&question);
	text_add(out, "", 1);
	if (!code && !out->failed)
		return 0;
	struct tree_failure f;
	(void)tree_failure_read(&f, NULL, tree, ".");
	enum problem_kind kind = tree_failure_kind(&f);
	return problem_set(p, kind ? kind : PROBLEM_FAILED, NULL, "%s",
			   kind ? f.message : strerror(-code));
}

int tokens_encode(const struct http_request *r, const char *model, const char *text, size_t size,
		  json_object **out, struct problem *p)
{
	struct text ids = {0};
	*out = json_object_new_array();
	int code = size ? tokens_ask(r, model, "tokenizer/encode", text, size, &ids, p) : 0;
	for (char *at = ids.data, *end; !code && at && *at; at = end + strspn(end, "\n")) {
		long id = strtol(at, &end, 10);
		if (end == at)
			break;
		json_object_array_add(*out, json_object_new_int64(id));
	}
	text_free(&ids);
	if (code) {
		json_object_put(*out);
		*out = NULL;
	}
	return code;
}

int tokens_decode(const struct http_request *r, const char *model, json_object *ids,
		  struct text *out, struct problem *p)
{
	struct text lines = {0}, text = {0};
	size_t count = json_object_array_length(ids);
	int code = 0;
	for (size_t i = 0; i < count && !code; i++) {
		json_object *id = json_object_array_get_idx(ids, i);
		int64_t value = json_object_get_int64(id);
		if (!json_object_is_type(id, json_type_int) || value < 0 || value > INT_MAX)
			code = problem_set(p, PROBLEM_INVALID, "tokens",
					   "\"tokens\" must be whole numbers, 0 or greater");
		text_format(&lines, "%lld\n", (long long)value);
	}
	if (!code && count)
		code = lines.failed ? problem_no_memory(p)
				    : tokens_ask(r, model, "tokenizer/decode", lines.data,
						 lines.length, &text, p);
	if (!code && text.length > 2) /* without the newline and the zero */
		text_add(out, text.data, text.length - 2);
	text_free(&lines);
	text_free(&text);
	return code;
}

int tokens_embed(const struct http_request *r, const char *model, const struct text *texts,
		 struct text *out, struct problem *p)
{
	return tokens_ask(r, model, "embed.npy", texts->data, texts->length, out, p);
}

/* ---- score ---- */

static int token_hex_digit(char c)
{
	return c >= 'a' ? c - 'a' + 10 : c >= 'A' ? c - 'A' + 10 : c - '0';
}

/* Decodes the escapes of a quoted text in place. Returns the rest after the closing quote. */
static char *token_unquote(char *at)
{
	char *to = at;
	while (*at && *at != '"') {
		if (*at != '\\') {
			*to++ = *at++;
			continue;
		}
		at++;
		if (*at == 'x' && at[1] && at[2]) {
			*to++ = (char)(token_hex_digit(at[1]) << 4 | token_hex_digit(at[2]));
			at += 3;
		} else if (*at) {
			*to++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at == 'r' ? '\r' : *at;
			at++;
		}
	}
	char *behind = *at ? at + 1 : at;
	*to = 0;
	return behind;
}

int tokens_score(const struct http_request *r, const char *model, const char *text, size_t size,
		 void (*visit)(void *ctx, const struct scored_token *token), void *ctx,
		 struct problem *p)
{
	struct text lines = {0};
	int code = tokens_ask(r, model, "score", text, size, &lines, p);
	/* Lines `ID LOGPROB "TEXT"`, then two lines that do not begin with a number. */
	for (char *at = lines.data; !code && at && *at >= '0' && *at <= '9';) {
		struct scored_token token = {0};
		char *number = strchr(at, ' '), *quote = number ? strchr(number, '"') : NULL;
		if (!quote)
			break;
		token.first = number[1] == '-' && number[2] == ' ';
		token.logprob = token.first ? 0 : strtod(number, NULL);
		token.text = quote + 1;
		at = token_unquote(quote + 1);
		token.size = strlen(token.text);
		visit(ctx, &token);
		at += strspn(at, "\n");
	}
	text_free(&lines);
	return code;
}

/* ---- endpoints ---- */

static int tokens_take_model(struct http_request *r, const char **model, struct problem *p)
{
	int there = field_text(r->json, "model", model, p);
	if (there == 0)
		return problem_set(p, PROBLEM_INVALID, "model", "\"model\" is missing");
	return there < 0 ? -1 : turn_model(r, *model, p);
}

enum MHD_Result tokens_tokenize(struct http_request *r)
{
	struct problem p = {0};
	const char *model, *text = NULL;
	json_object *ids;
	if (tokens_take_model(r, &model, &p))
		return reply_problem(r, &p);
	const char *name = json_at(r->json, "prompt") ? "prompt" : "content";
	int there = field_text(r->json, name, &text, &p);
	if (there == 0)
		problem_set(&p, PROBLEM_INVALID, "prompt", "\"prompt\" is missing");
	if (there <= 0 || tokens_encode(r, model, text, strlen(text), &ids, &p))
		return reply_problem(r, &p);
	char context[32];
	tree_line(r->gateway->options->tree, context, sizeof context, "%s/info/context", model);
	return reply_json(r, MHD_HTTP_OK,
			  json_new("count=%ju max_model_len=%p tokens=%p",
				   (uintmax_t)json_length(ids),
				   json_object_new_int64(atoll(context)), ids));
}

enum MHD_Result tokens_detokenize(struct http_request *r)
{
	struct problem p = {0};
	const char *model;
	json_object *ids = NULL;
	struct text text = {0}, characters = {0};
	if (tokens_take_model(r, &model, &p))
		return reply_problem(r, &p);
	int there = field_list(r->json, "tokens", &ids, &p);
	if (there == 0)
		problem_set(&p, PROBLEM_INVALID, "tokens", "\"tokens\" is missing");
	if (there <= 0 || tokens_decode(r, model, ids, &text, &p)) {
		text_free(&text);
		return reply_problem(r, &p);
	}
	json_object *all = json_object_new_object();
	text_add_characters(&characters, text.data, text.length);
	json_put_n(all, "prompt", characters.data, characters.length);
	text_free(&text);
	text_free(&characters);
	return reply_json(r, MHD_HTTP_OK, all);
}
