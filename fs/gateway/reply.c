/* See reply.h. */
#include "fs/gateway/body/json_fields.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/reply.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* A page may run and show only our own files, may send requests only to us, and may not be in a
 * frame. */
static const char *const page_headers[][2] = {
	{"Content-Security-Policy",
	 "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
	 "img-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
	 "require-trusted-types-for 'script'; trusted-types page"},
	{"Referrer-Policy", "no-referrer"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Cache-Control", "no-cache"},
};

static void reply_add_headers(const struct http_request *r, struct MHD_Response *response,
			      const char *type)
{
	const char *origin = r->gateway->options->cors;
	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "x-request-id", r->id); /* OpenAI's */
	MHD_add_response_header(response, "request-id", r->id);	  /* Anthropic's */
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (r->unclear)
		MHD_add_response_header(response, "Connection", "close");
	if (r->route && r->route->flags & ROUTE_PAGE)
		for (size_t i = 0; i < sizeof page_headers / sizeof *page_headers; i++)
			MHD_add_response_header(response, page_headers[i][0], page_headers[i][1]);
	if (origin) {
		MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
		MHD_add_response_header(response, "Vary", "Origin");
	}
}

static enum MHD_Result reply_give(struct http_request *r, unsigned status,
				  struct MHD_Response *response)
{
	r->answered = true;
	r->status = status;
	enum MHD_Result result = MHD_queue_response(r->connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static struct MHD_Response *reply_of_data(const struct http_request *r, const char *data,
					  size_t size, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		size, (void *)(uintptr_t)data, MHD_RESPMEM_MUST_COPY);
	if (response)
		reply_add_headers(r, response, type);
	return response;
}

enum MHD_Result reply_text(struct http_request *r, unsigned status, const char *type,
			   const char *data, size_t size)
{
	struct MHD_Response *response = reply_of_data(r, data, size, type);
	return response ? reply_give(r, status, response) : MHD_NO;
}

/* Takes json. NULL: out of memory. */
static struct MHD_Response *reply_of_json(const struct http_request *r, json_object *json)
{
	struct text text = {0};
	json_finish(&text, json);
	struct MHD_Response *response =
		text.failed ? NULL : reply_of_data(r, text.data, text.length, "application/json");
	text_free(&text);
	return response;
}

enum MHD_Result reply_json(struct http_request *r, unsigned status, json_object *json)
{
	struct MHD_Response *response = reply_of_json(r, json);
	return response ? reply_give(r, status, response) : MHD_NO;
}

enum MHD_Result reply_problem(struct http_request *r, const struct problem *p)
{
	/* For a path of both protocols, answer in the protocol whose header the client sent. */
	bool anthropic =
		MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "anthropic-version");
	enum protocol protocol = anthropic  ? PROTOCOL_ANTHROPIC
				 : r->route ? r->route->protocol
					    : PROTOCOL_OPENAI;
	if (p->kind == PROBLEM_GONE)
		return MHD_NO;
	struct MHD_Response *response = reply_of_json(r, problem_json(p, protocol, r->id));
	if (!response)
		return MHD_NO;
	if (problem_retry(p)) {
		char seconds[16];
		(void)snprintf(seconds, sizeof seconds, "%u", problem_retry(p));
		MHD_add_response_header(response, "Retry-After", seconds);
	}
	if (p->kind == PROBLEM_METHOD)
		MHD_add_response_header(response, "Allow", r->allowed);
	if (p->kind == PROBLEM_KEY)
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	return reply_give(r, problem_status(p, protocol), response);
}

enum MHD_Result reply_preflight(struct http_request *r)
{
	struct MHD_Response *response = reply_of_data(r, "", 0, "text/plain");
	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE");
	MHD_add_response_header(
		response, "Access-Control-Allow-Headers",
		"authorization, content-type, x-api-key, anthropic-version, anthropic-beta");
	MHD_add_response_header(response, "Access-Control-Max-Age", "600");
	return reply_give(r, MHD_HTTP_NO_CONTENT, response);
}

/* ---- lists ---- */

const char *reply_query(const struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* The index of the object that a query names by its id; SIZE_MAX: the query is not given. */
static int reply_find_id(const struct http_request *r, const char *query, json_object *data,
			 size_t *place, struct problem *p)
{
	const char *id = reply_query(r, query);
	*place = SIZE_MAX;
	for (size_t i = 0; id && i < json_object_array_length(data); i++) {
		json_object *other = json_at(json_object_array_get_idx(data, i), "id");
		if (strcmp(json_object_get_string(other), id) != 0)
			continue;
		*place = i;
		return 0;
	}
	return id ? problem_set(p, PROBLEM_INVALID, query, "%s: the list has no entry \"%.100s\"",
				query, id)
		  : 0;
}

/* The id at an index of the list, a new reference; NULL: the list is shorter. */
static json_object *reply_id_at(json_object *data, size_t place)
{
	return json_object_get(json_at(json_object_array_get_idx(data, place), "id"));
}

enum MHD_Result reply_list(struct http_request *r, json_object *data,
			   const struct reply_paging *paging)
{
	struct problem p = {0};
	const char *text = reply_query(r, "limit");
	size_t limit = paging->limit, after, before, count = json_object_array_length(data);
	if (text)
		limit = strspn(text, "0123456789") == strlen(text) && strlen(text) < 6
				? strtoul(text, NULL, 10)
				: 0;
	int code = 0;
	if (text && (!limit || limit > paging->most))
		code = problem_set(&p, PROBLEM_INVALID, "limit",
				   "limit: must be a number from 1 to %zu", paging->most);
	if (code || reply_find_id(r, paging->after, data, &after, &p) ||
	    reply_find_id(r, paging->before, data, &before, &p)) {
		json_object_put(data);
		return reply_problem(r, &p);
	}
	size_t from = after == SIZE_MAX ? 0 : after + 1, to = before == SIZE_MAX ? count : before;
	if (to < from)
		to = from;
	bool more = to - from > limit; /* in the requested direction */
	if (more && before != SIZE_MAX)
		from = to - limit;
	else if (more)
		to = from + limit;
	json_object_array_del_idx(data, to, count - to);
	json_object_array_del_idx(data, 0, from);
	return reply_json(r, MHD_HTTP_OK,
			  json_new("object=list first_id=%p last_id=%p has_more=%p data=%p",
				   reply_id_at(data, 0), reply_id_at(data, to - from - 1),
				   json_object_new_boolean(more), data));
}

/* ---- texts that grow ---- */

struct growing_reply {
	struct MHD_Connection *connection;
	unsigned timeout;
	stream_next *next;
	void (*end)(void *ctx);
	void *ctx;
	struct text pending; /* bytes that did not fit into the library's buffer */
	size_t sent;	     /* bytes of it already sent */
	int held;	     /* the socket while it holds back data; else -1 */
	bool over;
};

static void reply_let_go(struct growing_reply *s)
{
	if (s->held >= 0)
		(void)setsockopt(s->held, IPPROTO_TCP, TCP_CORK, &(int){0}, sizeof(int));
	s->held = -1;
}

/* Waits until there is something to send. The library's timeout is for idle clients, so it is off
 * meanwhile; setting it again restarts it. */
static int reply_refill(struct growing_reply *s)
{
	int more = 0;
	if (s->sent)
		reply_let_go(s);
	text_cut(&s->pending, 0);
	s->sent = 0;
	MHD_set_connection_option(s->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
	while (!more && !s->pending.length)
		more = s->next(s->ctx, &s->pending);
	MHD_set_connection_option(s->connection, MHD_CONNECTION_OPTION_TIMEOUT, s->timeout);
	s->over = more == 1;
	return more < 0 || s->pending.failed ? -1 : 0;
}

static ssize_t reply_stream_read(void *cls, uint64_t position, char *buffer, size_t size)
{
	struct growing_reply *s = cls;
	(void)position;
	if (s->sent == s->pending.length && s->over)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (s->sent == s->pending.length && reply_refill(s))
		return MHD_CONTENT_READER_END_WITH_ERROR;
	size_t left = s->pending.length - s->sent, n = left < size ? left : size;
	if (!n)
		return MHD_CONTENT_READER_END_OF_STREAM;
	memcpy(buffer, s->pending.data + s->sent, n);
	s->sent += n;
	return (ssize_t)n;
}

static void reply_stream_free(void *cls)
{
	struct growing_reply *s = cls;
	reply_let_go(s);
	s->end(s->ctx);
	text_free(&s->pending);
	free(s);
}

enum MHD_Result reply_growing(struct http_request *r, unsigned status, const char *type,
			      const struct text *first, stream_next *next, void (*end)(void *ctx),
			      void *ctx)
{
	enum { BLOCK = 16 << 10 };
	struct growing_reply *s = malloc(sizeof *s);
	if (!s) {
		end(ctx);
		return MHD_NO;
	}
	*s = (struct growing_reply){.held = -1,
				    .connection = r->connection,
				    .timeout = r->gateway->options->timeout,
				    .next = next,
				    .end = end,
				    .ctx = ctx};
	if (first)
		text_add(&s->pending, first->data, first->length);
	struct MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK, reply_stream_read, s, reply_stream_free);
	if (!response) {
		reply_stream_free(s);
		return MHD_NO;
	}
	reply_add_headers(r, response, type);
	if (!(r->route->flags & ROUTE_PAGE))
		MHD_add_response_header(response, "Cache-Control", "no-cache");
	/* Makes a TCP socket hold back its data until reply_let_go, so that the head of an answer
	 * and its first events arrive together: the head alone would wake the client for
	 * nothing. */
	if (!setsockopt(r->client, IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int)))
		s->held = r->client;
	MHD_add_response_header(response, "X-Accel-Buffering", "no");
	return reply_give(r, status, response);
}

void reply_pause(struct text *out)
{
	text_string(out, ": still working\n\n");
}

/* ---- streams of events ---- */

static int reply_events_next(void *ctx, struct text *out)
{
	struct event_stream *s = ctx;
	struct problem p = {0};
	if (s->first.length) {
		text_add(out, s->first.data, s->first.length);
		text_free(&s->first);
		return s->over;
	}
	int code = s->step(s->of, out, &p);
	if (code < 0 && p.kind == PROBLEM_GONE)
		return -1;
	if (code < 0)
		s->fail(s->of, &p, out);
	else if (!out->length)
		s->pause(s->of, out);
	return code != 0;
}

static void reply_events_end(void *ctx)
{
	struct event_stream *s = ctx;
	text_free(&s->first);
	s->end(s->of);
}

enum MHD_Result reply_events(struct http_request *r, struct event_stream *s)
{
	struct problem p = {0};
	int code = 0;
	time_t until = time(NULL) + STREAM_PAUSE_MS / 1000;
	while (!code && !s->first.length && time(NULL) < until)
		code = s->step(s->of, &s->first, &p);
	if (code < 0 && (!s->first.length || p.kind == PROBLEM_GONE)) {
		reply_events_end(s);
		return reply_problem(r, &p);
	}
	s->over = code != 0;
	if (code < 0)
		s->fail(s->of, &p, &s->first);
	else if (!s->first.length)
		s->pause(s->of, &s->first);
	return reply_growing(r, MHD_HTTP_OK, "text/event-stream; charset=utf-8", NULL, reply_events_next,
			     reply_events_end, s);
}
