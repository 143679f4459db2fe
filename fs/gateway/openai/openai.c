/* Shared by OpenAI's endpoints; and GET /v1/models. See openai.h. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/body/wanted.h"
#include "fs/gateway/openai/openai.h"
#include "fs/gateway/turn/tree_client.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- params ---- */

static int openai_take_numbers(json_object *body, struct turn_wish *w, struct problem *p)
{
	static const struct {
		const char *field;
		double least, most;
	} numbers[] = {
		{"temperature", 0, 2},
		{"top_p", 0, 1},
		{"min_p", 0, 1},
		{"frequency_penalty", -2, 2},
		{"presence_penalty", -2, 2},
		{"repetition_penalty", .01, 100},
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		const char *field = numbers[i].field;
		double value;
		int there = field_number(body, field, numbers[i].least, numbers[i].most, &value, p);
		if (there < 0 || (there && turn_wish_param(w, p, field, field, "%.17g", value)))
			return -1;
	}
	return 0;
}

/* max_completion_tokens, the newer name of max_tokens, takes precedence. top_k is not in OpenAI's
 * API, but many servers have it. */
static int openai_take_counts(json_object *body, struct turn_wish *w, struct problem *p)
{
	const char *name =
		json_at(body, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
	json_object *seed = json_at(body, "seed");
	uint64_t value;
	int there = field_count(body, name, 1, INT_MAX, &value, p);
	if (there < 0 || (there && turn_wish_param(w, p, "max_tokens", name, "%" PRIu64, value)))
		return -1;
	there = field_count(body, "top_k", 0, INT_MAX, &value, p);
	if (there < 0 || (there && turn_wish_param(w, p, "top_k", "top_k", "%" PRIu64, value)))
		return -1;
	if (!seed)
		return 0;
	if (!json_object_is_type(seed, json_type_int))
		return problem_set(p, PROBLEM_INVALID, "seed", "\"seed\" must be a whole number");
	int64_t number = json_object_get_int64(seed);
	value = number >= 0 ? json_object_get_uint64(seed) : (uint64_t)number;
	return turn_wish_param(w, p, "seed", "seed", "%" PRIu64, value);
}

/* Adds lines as a param, unless there are none, and frees the lines. */
static int openai_take_lines(struct turn_wish *w, const char *name, struct text *lines,
			     struct problem *p)
{
	int code = 0;
	if (lines->failed)
		code = problem_no_memory(p);
	else if (lines->length)
		code = turn_wish_param(w, p, name, name, "%.*s", (int)lines->length, lines->data);
	text_free(lines);
	return code;
}

static int openai_take_stop(json_object *body, struct turn_wish *w, struct problem *p)
{
	json_object *stop = json_at(body, "stop");
	bool list = json_object_is_type(stop, json_type_array);
	size_t count = list ? json_length(stop) : stop != NULL;
	struct text lines = {0};
	for (size_t i = 0; i < count; i++) {
		json_object *one = list ? json_object_array_get_idx(stop, i) : stop;
		const char *text = json_object_get_string(one);
		if (!json_object_is_type(one, json_type_string) || !*text ||
		    strlen(text) != (size_t)json_object_get_string_len(one) || strchr(text, '\r')) {
			text_free(&lines);
			return problem_set(
				p, PROBLEM_INVALID, "stop",
				"\"stop\" must be a text or a list of texts, none empty");
		}
		wanted_stop_line(&lines, text);
	}
	return openai_take_lines(w, "stop", &lines, p);
}

static int openai_take_bias(json_object *body, struct turn_wish *w, struct problem *p)
{
	json_object *bias = NULL;
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
					   "\"logit_bias\" must have a number for each token's id");
		text_format(&lines, "%s%s %.17g", lines.length ? "\n" : "", id,
			    json_object_get_double(value));
	}
	if (!code)
		return openai_take_lines(w, "logit_bias", &lines, p);
	text_free(&lines);
	return code;
}

/* Reads the texts of which the answer must be one: structured_outputs.choice as in vLLM, and
 * guided_choice of its older versions. Other structured_outputs are refused: use
 * response_format. */
static int openai_take_choices(json_object *body, struct turn_wish *w, struct problem *p)
{
	static const char field[] = "structured_outputs";
	json_object *outputs = NULL, *choices = json_at(body, "guided_choice");
	if (field_object(body, field, &outputs, p) < 0)
		return -1;
	if (outputs && !json_at(outputs, "choice"))
		return problem_set(p, PROBLEM_INVALID, field,
				   "\"structured_outputs\" may only be a choice; "
				   "\"response_format\" takes schemas");
	w->chosen = outputs ? field : "guided_choice";
	choices = outputs ? json_at(outputs, "choice") : choices;
	if (!choices)
		return 0;
	if (!json_object_is_type(choices, json_type_array))
		return problem_set(p, PROBLEM_INVALID, w->chosen,
				   "\"%s\" must have a list of texts", w->chosen);
	if (json_at(body, "response_format"))
		return problem_set(p, PROBLEM_INVALID, w->chosen,
				   "\"%s\" cannot be used with \"response_format\"", w->chosen);
	w->choices = json_object_get(choices);
	return turn_wish_param(w, p, "format", w->chosen, "choices");
}

int openai_sampling(json_object *body, struct turn_wish *w, struct problem *p)
{
	return openai_take_numbers(body, w, p) || openai_take_counts(body, w, p) ||
			       openai_take_stop(body, w, p) || openai_take_bias(body, w, p) ||
			       openai_take_choices(body, w, p)
		       ? -1
		       : 0;
}

/* ---- fields that are not supported ---- */

int openai_refuse(json_object *body, struct problem *p)
{
	static const struct {
		const char *field, *why;
	} refused[] = {
		{"functions", "use \"tools\""},
		{"function_call", "use \"tool_choice\""},
		{"audio", "models here only write text"},
		{"prediction", "predicted outputs are not known here"},
		{"web_search_options", "there is no web search here"},
		{"suffix", "a text cannot be filled in before a suffix"},
	};
	json_object *modalities = json_at(body, "modalities");
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		json_object *value = json_at(body, refused[i].field);
		bool empty = json_object_is_type(value, json_type_string) &&
			     !json_object_get_string_len(value);
		if (value && !empty)
			return problem_set(p, PROBLEM_INVALID, refused[i].field,
					   "\"%s\" is not supported: %s", refused[i].field,
					   refused[i].why);
	}
	for (size_t i = 0; i < json_length(modalities); i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(modalities, i));
		if (!name || strcmp(name, "text") != 0)
			return problem_set(p, PROBLEM_INVALID, "modalities",
					   "\"modalities\" may only be text");
	}
	return 0;
}

int openai_model(struct http_request *r, const char **model, struct problem *p)
{
	int there = field_text(r->json, "model", model, p);
	if (there == 0)
		return problem_set(p, PROBLEM_INVALID, "model", "\"model\" is missing");
	return there < 0 || turn_model(r, *model, p) || openai_refuse(r->json, p) ? -1 : 0;
}

/* ---- answers ---- */

const char *openai_finish(const struct usage *u)
{
	if (!strcmp(u->finish, "length") || !strcmp(u->finish, "tool_calls"))
		return u->finish;
	return strcmp(u->finish, "repetition") ? "stop" : "length";
}

json_object *openai_usage(const struct usage *u, size_t count)
{
	uint64_t output = 0;
	bool remembered = true;
	for (size_t i = 0; i < count; i++) {
		output += u[i].output;
		remembered &= u[i].remembered;
	}
	json_object *of_prompt = json_new("cached_tokens=%ju", u->cached);
	json_object *of_output =
		json_new("accepted_prediction_tokens=%u rejected_prediction_tokens=%u", 0u, 0u);
	json_object *usage =
		json_new("prompt_tokens=%ju completion_tokens=%ju total_tokens=%ju "
			 "prompt_tokens_details=%p completion_tokens_details=%p",
			 u->prompt, output, u->prompt + output, of_prompt, of_output);
	return wanted_note_remembered(usage, remembered);
}

/* A line of logprobs.jsonl without its alternative tokens. The tree gives a token's bytes only if
 * they are not characters. */
static json_object *openai_logprob(json_object *line)
{
	json_object *text = json_at(line, "token"),
		    *bytes = json_object_get(json_at(line, "bytes"));
	const char *token = text ? json_object_get_string(text) : "";
	if (!bytes) {
		bytes = json_object_new_array();
		for (; *token; token++)
			json_object_array_add(bytes, json_object_new_int((unsigned char)*token));
	}
	return json_new("token=%p logprob=%p bytes=%p", json_object_get(text),
			json_object_get(json_at(line, "logprob")), bytes);
}

json_object *openai_logprobs(const struct text *lines, uint64_t top)
{
	json_object *content = json_object_new_array();
	for (size_t at = 0; at < lines->length;) {
		const char *begin = lines->data + at;
		const char *end = memchr(begin, '\n', lines->length - at);
		size_t n = end ? (size_t)(end - begin) : lines->length - at;
		char *copy = strndup(begin, n);
		json_object *line = copy ? json_tokener_parse(copy) : NULL;
		json_object *others = json_at(line, "top_logprobs");
		free(copy);
		at += n + 1;
		if (!line)
			continue;
		json_object *one = openai_logprob(line), *list = json_object_new_array();
		for (size_t i = 0; i < json_length(others) && i < top; i++)
			json_object_array_add(list,
					      openai_logprob(json_object_array_get_idx(others, i)));
		json_object_object_add(one, "top_logprobs", list);
		json_object_array_add(content, one);
		json_object_put(line);
	}
	return json_new("content=%p refusal=null", content);
}

json_object *openai_call(json_object *call)
{
	json_object *function = json_at(call, "function");
	json_object *arguments = json_at(function, "arguments");
	const char *text =
		json_object_is_type(arguments, json_type_string)
			? json_object_get_string(arguments)
			: json_object_to_json_string_ext(arguments, JSON_C_TO_STRING_NOSLASHESCAPE);
	return json_new("id=%p type=function function=%p", json_object_get(json_at(call, "id")),
			json_new("name=%p arguments=%s", json_object_get(json_at(function, "name")),
				 arguments ? text : "{}"));
}

json_object *openai_frame(const char *id, const char *object, time_t created, const char *model,
			  json_object *choices)
{
	return json_new(
		"id=%s object=%s created=%ju model=%s system_fingerprint=moefs-" MOEFS_VERSION
		" choices=%p",
		id, object, (uintmax_t)created, model, choices);
}

void openai_fail(void *of, const struct problem *p, struct text *out)
{
	(void)of;
	json_event(out, NULL, problem_json(p, PROTOCOL_OPENAI, NULL));
}

void openai_pause(void *of, struct text *out)
{
	(void)of;
	reply_pause(out);
}

/* ---- GET /v1/models and /v1/models/NAME: the folders of the tree ---- */

/* Has OpenAI's members and Anthropic's, and the context's size, from which agents decide when to
 * shorten a conversation. */
static json_object *openai_model_object(const char *tree, const char *name)
{
	static const char *const sizes[] = {"context_length", "max_input_tokens", "max_tokens"};
	char context[32], path[TREE_PATH], made[32] = "";
	struct stat st = {0};
	struct tm utc;
	tree_line(tree, context, sizeof context, "%s/info/context", name);
	if (tree_path(path, tree, "%s/config.json", name))
		(void)stat(path, &st);
	if (gmtime_r(&st.st_mtime, &utc))
		strftime(made, sizeof made, "%Y-%m-%dT%H:%M:%SZ", &utc);
	json_object *m =
		json_new("id=%s object=model created=%ju owned_by=moefs type=model "
			 "display_name=%s created_at=%s lifecycle=active capabilities=null "
			 "deprecated_at=null line=null retires_at=null",
			 name, (uintmax_t)st.st_mtime, name, made);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		json_object_object_add(m, sizes[i],
				       json_object_new_int64(strtoll(context, NULL, 10)));
	return m;
}

struct openai_models {
	const char *tree;
	json_object *data;
};

static int openai_add_model(void *ctx, const char *name)
{
	struct openai_models *l = ctx;
	json_object_array_add(l->data, openai_model_object(l->tree, name));
	return 0;
}

enum MHD_Result openai_list_models(struct http_request *r)
{
	/* Anthropic's clients page; OpenAI's take the whole list, which is the default. */
	static const struct reply_paging paging = {"after_id", "before_id", SIZE_MAX, 1000};
	struct openai_models l = {r->gateway->options->tree, json_object_new_array()};
	struct problem p = {0};
	int code = tree_models(l.tree, openai_add_model, &l);
	bool gone = tree_is_gone(l.tree, r->gateway->device);
	if (!code && !gone)
		return reply_list(r, l.data, &paging);
	json_object_put(l.data);
	problem_set(&p, PROBLEM_NOT_NOW, NULL, gone ? "%s" : "the tree cannot be read: %s",
		    gone ? tree_gone_words : strerror(-code));
	return reply_problem(r, &p);
}

enum MHD_Result openai_get_model(struct http_request *r)
{
	struct problem p = {0};
	const char *tree = r->gateway->options->tree;
	int code = turn_model(r, r->rest, &p);
	/* turn_model remembers a model for a second. */
	if (!code && tree_is_gone(tree, r->gateway->device))
		code = problem_set(&p, PROBLEM_NOT_NOW, NULL, "%s", tree_gone_words);
	return code ? reply_problem(r, &p)
		    : reply_json(r, MHD_HTTP_OK, openai_model_object(tree, r->rest));
}
