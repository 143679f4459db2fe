/* Failures in the shapes of the protocols. See problem.h. */
#include "fs/gateway/problem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const struct {
	unsigned status, retry;
	const char *openai, *code, *anthropic;
} kinds[PROBLEM_KINDS] = {
	[PROBLEM_NONE] = {500, 0, "server_error", NULL, "api_error"},
	[PROBLEM_INVALID] = {400, 0, "invalid_request_error", NULL, "invalid_request_error"},
	[PROBLEM_KEY] = {401, 0, "invalid_request_error", "invalid_api_key",
			 "authentication_error"},
	[PROBLEM_FORBIDDEN] = {403, 0, "invalid_request_error", NULL, "permission_error"},
	[PROBLEM_NOT_FOUND] = {404, 0, "invalid_request_error", NULL, "not_found_error"},
	[PROBLEM_MODEL] = {404, 0, "invalid_request_error", "model_not_found", "not_found_error"},
	[PROBLEM_PREVIOUS] = {400, 0, "invalid_request_error", "previous_response_not_found",
			      "invalid_request_error"},
	[PROBLEM_THREAD] = {404, 0, "invalid_request_error", "thread_not_found", "not_found_error"},
	[PROBLEM_METHOD] = {405, 0, "invalid_request_error", "method_not_allowed",
			    "invalid_request_error"},
	[PROBLEM_TOO_LARGE] = {413, 0, "invalid_request_error", NULL, "request_too_large"},
	[PROBLEM_TOO_LONG] = {400, 0, "invalid_request_error", "context_length_exceeded",
			      "invalid_request_error"},
	[PROBLEM_BUSY] = {429, 5, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"},
	[PROBLEM_FAILED] = {500, 0, "server_error", NULL, "api_error"},
	[PROBLEM_NOT_NOW] = {503, 10, "server_error", NULL, "overloaded_error"},
	[PROBLEM_GONE] = {499, 0, "server_error", NULL, "api_error"},
};

int problem_set(struct problem *p, enum problem_kind kind, const char *param, const char *format,
		...)
{
	va_list values;
	p->kind = kind;
	p->tokens = p->maximum = 0;
	(void)snprintf(p->param, sizeof p->param, "%s", param ? param : "");
	va_start(values, format);
	(void)vsnprintf(p->text, sizeof p->text, format, values);
	va_end(values);
	return -1;
}

unsigned problem_status(const struct problem *p, enum protocol protocol)
{
	enum { OVERLOADED = 529 }; /* Anthropic's own, for what is 503 elsewhere */
	if (protocol == PROTOCOL_ANTHROPIC && p->kind == PROBLEM_NOT_NOW)
		return OVERLOADED;
	return kinds[p->kind].status;
}

unsigned problem_retry(const struct problem *p)
{
	return kinds[p->kind].retry;
}

static struct json_object *text_or_null(const char *text)
{
	return text && *text ? json_object_new_string(text) : NULL;
}

/* Anthropic's clients look for its own service's words where a prompt is too long. */
static struct json_object *anthropic_message(const struct problem *p)
{
	char text[128];
	if (p->kind != PROBLEM_TOO_LONG || !p->maximum)
		return json_object_new_string(p->text);
	(void)snprintf(text, sizeof text,
		       "prompt is too long: %" PRIu64 " tokens > %" PRIu64 " maximum", p->tokens,
		       p->maximum);
	return json_object_new_string(text);
}

/* By which Anthropic's packages know what they can mend: a lost thread they begin again. */
static struct json_object *anthropic_details(const struct problem *p)
{
	if (p->kind != PROBLEM_THREAD)
		return NULL;
	struct json_object *details = json_object_new_object();
	json_object_object_add(details, "error_code", json_object_new_string(kinds[p->kind].code));
	return details;
}

struct json_object *problem_json(const struct problem *p, enum protocol protocol,
				 const char *request)
{
	struct json_object *all = json_object_new_object(), *error = json_object_new_object();
	if (!all || !error) {
		json_object_put(all);
		json_object_put(error);
		return NULL;
	}
	if (protocol == PROTOCOL_ANTHROPIC) {
		json_object_object_add(all, "type", json_object_new_string("error"));
		json_object_object_add(error, "type",
				       json_object_new_string(kinds[p->kind].anthropic));
		json_object_object_add(error, "message", anthropic_message(p));
		struct json_object *details = anthropic_details(p);
		if (details)
			json_object_object_add(error, "details", details);
		json_object_object_add(all, "request_id", json_object_new_string(request));
	} else {
		json_object_object_add(error, "message", json_object_new_string(p->text));
		json_object_object_add(error, "type",
				       json_object_new_string(kinds[p->kind].openai));
		json_object_object_add(error, "param", text_or_null(p->param));
		json_object_object_add(error, "code", text_or_null(kinds[p->kind].code));
	}
	json_object_object_add(all, "error", error);
	return all;
}
