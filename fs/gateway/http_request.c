/* A request's way to its handler: creating, checking, parsing and logging it. See
 * http_request.h. */
#include "fs/gateway/http_request.h"
#include "fs/gateway/body/document.h"
#include "fs/gateway/access.h"
#include "fs/gateway/gateway.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

uint64_t request_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct http_request *request_make(struct gateway *g, struct MHD_Connection *connection)
{
	struct http_request *r = calloc(1, sizeof *r);
	uint8_t random[12] = {0};
	if (!r)
		return NULL;
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	r->gateway = g;
	r->connection = connection;
	r->path = "";
	r->rest = "";
	r->client = info ? info->connect_fd : -1;
	r->began_ns = request_clock();
	(void)!getrandom(random, sizeof random, 0);
	for (size_t i = 0; i < sizeof random; i++)
		(void)snprintf(r->id + 2 * i, 3, "%02x", random[i]);
	return r;
}

/* Refuses paths of other services. 0: the path is not one of them. */
static int request_refuse_service(const struct http_request *r, struct problem *p)
{
	static const struct {
		const char *path, *what;
	} rows[] = {
		{"/v1/images", "images"},
		{"/v1/audio", "speech"},
		{"/v1/moderations", "moderations"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t n = strlen(rows[i].path);
		if (!strncmp(r->path, rows[i].path, n) && (!r->path[n] || r->path[n] == '/'))
			return problem_set(p, PROBLEM_NOT_FOUND, NULL, "no model here makes %s",
					   rows[i].what);
	}
	return 0;
}

int request_admit(struct http_request *r, const char *method, struct problem *p)
{
	const struct route *other;
	r->route = route_find(method, r->path, &other);
	if (!r->route)
		r->route = other; /* for a refusal in its protocol's format */
	if (r->unclear)
		return problem_set(p, PROBLEM_INVALID, NULL,
				   "It is not clear where the request ends: give one "
				   "Content-Length, or Transfer-Encoding: chunked, and no blank "
				   "before a colon");
	if (access_check(r, p))
		return -1;
	if (!r->route && !r->cut && request_refuse_service(r, p))
		return -1;
	if (!r->route || r->cut)
		return problem_set(p, PROBLEM_NOT_FOUND, NULL, "There is nothing at %.200s%s",
				   r->path, r->cut ? "%00" : "");
	if (r->route == other) {
		route_methods(r->path, r->allowed, sizeof r->allowed);
		return problem_set(p, PROBLEM_METHOD, NULL, "%s is asked for by %s, not %.20s",
				   other->path, other->method, method);
	}
	size_t n = strlen(r->route->path);
	r->rest = r->route->path[n - 1] == '/' ? r->path + n : "";
	return access_check_size(r, p);
}

int request_parse(struct http_request *r, struct problem *p)
{
	enum { DEPTH = 128 };
	if (r->too_large)
		return problem_set(p, PROBLEM_TOO_LARGE, NULL,
				   "The body is larger than %u bytes (-o body=)",
				   r->gateway->options->body);
	if (!(r->route->flags & ROUTE_JSON))
		return 0;
	if (r->body.length &&
	    memchr(r->body.data, 0, r->body.length)) /* the parser would end there */
		return problem_set(p, PROBLEM_INVALID, NULL,
				   "The body is not valid JSON: there is a zero byte in it");
	struct document_error why;
	text_add(&r->body, "", 1); /* ends a number at the end of the body */
	r->json = document_parse(&r->body, DEPTH, &why);
	if (!r->json && !why.words)
		return problem_no_memory(p);
	if (!r->json)
		return problem_set(p, PROBLEM_INVALID, NULL,
				   "The body is not valid JSON: %s at byte %zu", why.words, why.at);
	if (!json_object_is_type(r->json, json_type_object))
		return problem_set(p, PROBLEM_INVALID, NULL, "The body must be a JSON object");
	return 0;
}

void request_log(const struct http_request *r, bool whole)
{
	const struct gateway_options *o = r->gateway->options;
	char line[1024];
	if (!o->verbose && !o->log_prompts)
		return;
	(void)snprintf(line, sizeof line, "%s %s %u%s, %llu ms", r->route ? r->route->method : "-",
		       r->route ? r->route->path : "-", r->status, whole ? "" : " (broken off)",
		       (unsigned long long)(request_clock() - r->began_ns) / 1000000);
	r->gateway->log(line);
	if (o->log_prompts && r->json)
		r->gateway->log(json_object_to_json_string_ext(r->json, JSON_C_TO_STRING_PLAIN));
}

void request_free(struct http_request *r)
{
	json_object_put(r->json);
	text_free(&r->body);
	free(r);
}
