/* What OpenAI's endpoints have in common. See openai.h. */
#include "fs/gateway/openai/openai.h"
#include "fs/gateway/body/fields.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct problem *p)
{
	return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
}

/* ---- params ---- */

static const struct {
	const char *field, *param;
	double least, most;
} numbers[] = {
	{"temperature", "temperature", 0, 2},
	{"top_p", "top_p", 0, 1},
	{"min_p", "min_p", 0, 1},
	{"frequency_penalty", "frequency_penalty", -2, 2},
	{"presence_penalty", "presence_penalty", -2, 2},
	{"repetition_penalty", "repetition_penalty", .01, 100},
};

static int take_numbers(struct json_object *body, struct wish *w, struct problem *p)
{
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		double value;
		int there = field_number(body, numbers[i].field, numbers[i].least, numbers[i].most,
					 &value, p);
		if (there < 0)
			return -1;
		if (there && !wish_param(w, numbers[i].param, numbers[i].field, "%.17g", value))
			return no_memory(p);
	}
	return 0;
}

/* The newer name of max_tokens counts. */
static int take_counts(struct json_object *body, struct wish *w, struct problem *p)
{
	uint64_t most, top, seed;
	int64_t signed_seed;
	const char *name =
		field_get(body, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
	int there = field_count(body, name, 1, INT_MAX, &most, p);
	if (there > 0 && !wish_param(w, "max_tokens", name, "%" PRIu64, most))
		return no_memory(p);
	if (there >= 0) /* beside OpenAI's own, as others have it */
		there = field_count(body, "top_k", 0, INT_MAX, &top, p);
	if (there > 0 && !wish_param(w, "top_k", "top_k", "%" PRIu64, top))
		return no_memory(p);
	struct json_object *s = there >= 0 ? field_get(body, "seed") : NULL;
	if (s && !json_object_is_type(s, json_type_int))
		return problem_set(p, PROBLEM_INVALID, "seed", "'seed' must be a whole number");
	signed_seed = s ? json_object_get_int64(s) : 0;
	seed = s && signed_seed >= 0 ? json_object_get_uint64(s) : (uint64_t)signed_seed;
	if (s && !wish_param(w, "seed", "seed", "%" PRIu64, seed))
		return no_memory(p);
	return there < 0 ? -1 : 0;
}

/* As params/stop has it: one a line, with escapes. */
static void add_stop(struct text *out, const char *stop)
{
	if (out->length)
		text_string(out, "\n");
	for (; *stop; stop++)
		if (*stop == '\n')
			text_string(out, "\\n");
		else if (*stop == '\t')
			text_string(out, "\\t");
		else if (*stop == '\\')
			text_string(out, "\\\\");
		else
			text_add(out, stop, 1);
}

static int take_stop(struct json_object *body, struct wish *w, struct problem *p)
{
	struct json_object *stop = field_get(body, "stop");
	bool list = json_object_is_type(stop, json_type_array);
	size_t count = list ? json_object_array_length(stop) : stop != NULL;
	struct text lines = {0};
	int code = 0;
	for (size_t i = 0; i < count && !code; i++) {
		struct json_object *one = list ? json_object_array_get_idx(stop, i) : stop;
		const char *text = json_object_get_string(one);
		if (!json_object_is_type(one, json_type_string) || !*text ||
		    strlen(text) != (size_t)json_object_get_string_len(one) || strchr(text, '\r'))
			code = problem_set(p, PROBLEM_INVALID, "stop",
					   "'stop' must be a text or a list of texts, none empty");
		else
			add_stop(&lines, text);
	}
	if (!code && lines.length &&
	    (lines.failed ||
	     !wish_param(w, "stop", "stop", "%.*s\n", (int)lines.length, lines.data)))
		code = no_memory(p);
	text_free(&lines);
	return code;
}

static int take_bias(struct json_object *body, struct wish *w, struct problem *p)
{
	struct json_object *bias = NULL;
	struct text lines = {0};
	int there = field_object(body, "logit_bias", &bias, p), code = 0;
	if (there <= 0)
		return there;
	json_object_object_foreach(bias, id, value)
	{
		bool number = json_object_is_type(value, json_type_int) ||
			      json_object_is_type(value, json_type_double);
		if (!*id || id[strspn(id, "0123456789")] || !number)
			code = problem_set(p, PROBLEM_INVALID, "logit_bias",
					   "'logit_bias' must have a number for each token's id");
		text_format(&lines, "%s%s %.17g", lines.length ? "\n" : "", id,
			    json_object_get_double(value));
	}
	if (!code && lines.length &&
	    (lines.failed ||
	     !wish_param(w, "logit_bias", "logit_bias", "%.*s", (int)lines.length, lines.data)))
		code = no_memory(p);
	text_free(&lines);
	return code;
}

int openai_sampling(struct json_object *body, struct wish *w, struct problem *p)
{
	return take_numbers(body, w, p) || take_counts(body, w, p) || take_stop(body, w, p) ||
			       take_bias(body, w, p)
		       ? -1
		       : 0;
}

/* ---- what cannot be served ---- */

static const struct {
	const char *field, *why;
} refused[] = {
	{"functions", "use 'tools'"},
	{"function_call", "use 'tool_choice'"},
	{"audio", "models here give text alone"},
	{"prediction", "predicted outputs are not known here"},
	{"web_search_options", "there is no search here"},
	{"suffix", "a text between two others cannot be asked for here"},
};

int openai_refuse(struct json_object *body, struct problem *p)
{
	struct json_object *modalities = field_get(body, "modalities");
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct json_object *value = field_get(body, refused[i].field);
		bool empty = json_object_is_type(value, json_type_string) &&
			     !json_object_get_string_len(value);
		if (value && !empty)
			return problem_set(p, PROBLEM_INVALID, refused[i].field,
					   "'%s' cannot be served: %s", refused[i].field,
					   refused[i].why);
	}
	for (size_t i = 0; json_object_is_type(modalities, json_type_array) &&
			   i < json_object_array_length(modalities);
	     i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(modalities, i));
		if (!name || strcmp(name, "text") != 0)
			return problem_set(p, PROBLEM_INVALID, "modalities",
					   "'modalities' cannot be served but for text");
	}
	return 0;
}

/* ---- answers ---- */

const char *openai_finish(const struct usage *u)
{
	if (!strcmp(u->finish, "length") || !strcmp(u->finish, "tool_calls"))
		return u->finish;
	return "stop";
}

static struct json_object *number(uint64_t n)
{
	return json_object_new_int64((int64_t)n);
}

struct json_object *openai_usage(const struct usage *u, size_t count)
{
	struct json_object *all = json_object_new_object(), *of_prompt = json_object_new_object(),
			   *of_output = json_object_new_object();
	uint64_t output = 0;
	for (size_t i = 0; i < count; i++)
		output += u[i].output;
	json_object_object_add(all, "prompt_tokens", number(u->prompt));
	json_object_object_add(all, "completion_tokens", number(output));
	json_object_object_add(all, "total_tokens", number(u->prompt + output));
	json_object_object_add(of_prompt, "cached_tokens", number(u->cached));
	json_object_object_add(all, "prompt_tokens_details", of_prompt);
	json_object_object_add(of_output, "accepted_prediction_tokens", number(0));
	json_object_object_add(of_output, "rejected_prediction_tokens", number(0));
	json_object_object_add(all, "completion_tokens_details", of_output);
	return all;
}

/* The bytes of a token, of which the tree tells those that are no characters. */
static struct json_object *bytes_of(struct json_object *line)
{
	struct json_object *told = field_get(line, "bytes"), *text = field_get(line, "token");
	const char *token = text ? json_object_get_string(text) : "";
	if (told)
		return json_object_get(told);
	struct json_object *bytes = json_object_new_array();
	for (; *token; token++)
		json_object_array_add(bytes, json_object_new_int((unsigned char)*token));
	return bytes;
}

static struct json_object *one_logprob(struct json_object *line)
{
	struct json_object *one = json_object_new_object();
	struct json_object *token = field_get(line, "token");
	json_object_object_add(one, "token", json_object_get(token));
	json_object_object_add(one, "logprob", json_object_get(field_get(line, "logprob")));
	json_object_object_add(one, "bytes", bytes_of(line));
	return one;
}

struct json_object *openai_logprobs(const struct text *lines, uint64_t top)
{
	struct json_object *all = json_object_new_object(), *content = json_object_new_array();
	for (size_t at = 0; at < lines->length;) {
		const char *begin = lines->data + at;
		const char *end = memchr(begin, '\n', lines->length - at);
		size_t n = end ? (size_t)(end - begin) : lines->length - at;
		char *copy = strndup(begin, n);
		struct json_object *line = copy ? json_tokener_parse(copy) : NULL;
		struct json_object *others = field_get(line, "top_logprobs");
		free(copy);
		at += n + 1;
		if (!line)
			continue;
		struct json_object *one = one_logprob(line), *list = json_object_new_array();
		for (size_t i = 0; others && i < json_object_array_length(others) && i < top; i++)
			json_object_array_add(list,
					      one_logprob(json_object_array_get_idx(others, i)));
		json_object_object_add(one, "top_logprobs", list);
		json_object_array_add(content, one);
		json_object_put(line);
	}
	json_object_object_add(all, "content", content);
	json_object_object_add(all, "refusal", NULL);
	return all;
}

struct json_object *openai_call(struct json_object *call, int index)
{
	struct json_object *new = json_object_new_object(), *one = json_object_new_object();
	struct json_object *function = field_get(call, "function");
	struct json_object *arguments = field_get(function, "arguments");
	const char *text =
		json_object_is_type(arguments, json_type_string)
			? json_object_get_string(arguments)
			: json_object_to_json_string_ext(arguments, JSON_C_TO_STRING_NOSLASHESCAPE);
	if (index >= 0)
		json_object_object_add(new, "index", json_object_new_int(index));
	json_object_object_add(new, "id", json_object_get(field_get(call, "id")));
	json_object_object_add(new, "type", json_object_new_string("function"));
	json_object_object_add(one, "name", json_object_get(field_get(function, "name")));
	json_object_object_add(one, "arguments", json_object_new_string(arguments ? text : "{}"));
	json_object_object_add(new, "function", one);
	return new;
}

struct json_object *openai_frame(const char *id, const char *object, time_t created,
				 const char *model, struct json_object *choices)
{
	struct json_object *all = json_object_new_object();
	json_object_object_add(all, "id", json_object_new_string(id));
	json_object_object_add(all, "object", json_object_new_string(object));
	json_object_object_add(all, "created", json_object_new_int64(created));
	json_object_object_add(all, "model", json_object_new_string(model));
	json_object_object_add(all, "system_fingerprint",
			       json_object_new_string("moefs-" MOEFS_VERSION));
	json_object_object_add(all, "choices", choices);
	return all;
}
