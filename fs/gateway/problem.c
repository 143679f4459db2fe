/* See problem.h. */
#include "fs/gateway/problem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* The HTTP status, the seconds of Retry-After, OpenAI's type and code, Anthropic's type. */
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

int problem_no_memory(struct problem *p)
{
	return problem_set(p, PROBLEM_FAILED, NULL, "out of memory");
}

int problem_gone(struct problem *p)
{
	return problem_set(p, PROBLEM_GONE, NULL, "the client has gone away");
}

unsigned problem_status(const struct problem *p, enum protocol protocol)
{
	enum { OVERLOADED = 529 }; /* Anthropic's own status, in place of 503 */
	if (protocol == PROTOCOL_ANTHROPIC && p->kind == PROBLEM_NOT_NOW)
		return OVERLOADED;
	return kinds[p->kind].status;
}

unsigned problem_retry(const struct problem *p)
{
	return kinds[p->kind].retry;
}

static void problem_put(json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, text && *text ? json_object_new_string(text) : NULL);
}

json_object *problem_json(const struct problem *p, enum protocol protocol, const char *request)
{
	json_object *all = json_object_new_object(), *error = json_object_new_object();
	if (protocol == PROTOCOL_OPENAI) {
		problem_put(error, "message", p->text);
		problem_put(error, "type", kinds[p->kind].openai);
		problem_put(error, "param", p->param);
		problem_put(error, "code", kinds[p->kind].code);
		json_object_object_add(all, "error", error);
		return all;
	}
	char text[sizeof p->text];
	(void)snprintf(text, sizeof text, "%s", p->text);
	/* Anthropic's clients recognise a prompt that is too long by these words of their
	 * service. */
	if (p->kind == PROBLEM_TOO_LONG && p->maximum)
		(void)snprintf(text, sizeof text,
			       "prompt is too long: %" PRIu64 " tokens > %" PRIu64 " maximum",
			       p->tokens, p->maximum);
	problem_put(all, "type", "error");
	problem_put(error, "type", kinds[p->kind].anthropic);
	problem_put(error, "message", text);
	/* Anthropic's packages recognise a lost thread by this code, and begin it again. */
	if (p->kind == PROBLEM_THREAD) {
		json_object *details = json_object_new_object();
		problem_put(details, "error_code", kinds[p->kind].code);
		json_object_object_add(error, "details", details);
	}
	problem_put(all, "request_id", request);
	json_object_object_add(all, "error", error);
	return all;
}
