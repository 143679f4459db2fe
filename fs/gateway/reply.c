/* Answers to requests. See request.h. */
#include "fs/gateway/body/characters.h"
#include "fs/gateway/gateway.h"
#include "fs/gateway/request.h"
#include "fs/gateway/routes.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* What a page may do: run and show what came from here, speak with here, and stand in no other. */
static const char *const page_headers[][2] = {
	{"Content-Security-Policy",
	 "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
	 "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	{"Referrer-Policy", "no-referrer"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Cache-Control", "no-cache"},
};

static void add_headers(const struct request *r, struct MHD_Response *response, const char *type)
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

static enum MHD_Result give(struct request *r, unsigned status, struct MHD_Response *response)
{
	r->answered = true;
	r->status = status;
	enum MHD_Result result = MHD_queue_response(r->connection, status, response);
	MHD_destroy_response(response);
	return result;
}

/* An answer that comes before all of the body has: what follows of it is not read as a request. */
static struct MHD_Response *of_data(const struct request *r, const char *data, size_t size,
				    const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		size, (void *)(uintptr_t)data, MHD_RESPMEM_MUST_COPY);
	if (response)
		add_headers(r, response, type);
	return response;
}

enum MHD_Result reply_text(struct request *r, unsigned status, const char *type, const char *data,
			   size_t size)
{
	struct MHD_Response *response = of_data(r, data, size, type);
	return response ? give(r, status, response) : MHD_NO;
}

enum MHD_Result reply_json(struct request *r, unsigned status, struct json_object *json)
{
	struct text text = {0};
	text_add_object(&text, json, JSON_C_TO_STRING_NOSLASHESCAPE);
	enum MHD_Result result =
		text.failed ? MHD_NO
			    : reply_text(r, status, "application/json", text.data, text.length);
	text_free(&text);
	json_object_put(json);
	return result;
}

/* What both protocols have is asked in the one whose header is there. */
static enum protocol protocol_of(const struct request *r)
{
	if (MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "anthropic-version"))
		return PROTOCOL_ANTHROPIC;
	return r->route ? r->route->protocol : PROTOCOL_OPENAI;
}

enum MHD_Result reply_problem(struct request *r, const struct problem *p)
{
	struct json_object *json = problem_json(p, protocol_of(r), r->id);
	struct text text = {0};
	text_add_object(&text, json, JSON_C_TO_STRING_NOSLASHESCAPE);
	struct MHD_Response *response =
		text.failed ? NULL : of_data(r, text.data, text.length, "application/json");
	text_free(&text);
	json_object_put(json);
	if (!response || p->kind == PROBLEM_GONE) {
		if (response)
			MHD_destroy_response(response);
		return MHD_NO;
	}
	if (problem_retry(p)) {
		char seconds[16];
		(void)snprintf(seconds, sizeof seconds, "%u", problem_retry(p));
		MHD_add_response_header(response, "Retry-After", seconds);
	}
	if (p->kind == PROBLEM_METHOD)
		MHD_add_response_header(response, "Allow", r->allowed);
	if (p->kind == PROBLEM_KEY)
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	return give(r, problem_status(p, protocol_of(r)), response);
}

enum MHD_Result reply_preflight(struct request *r)
{
	struct MHD_Response *response = of_data(r, "", 0, "text/plain");
	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE");
	MHD_add_response_header(
		response, "Access-Control-Allow-Headers",
		"authorization, content-type, x-api-key, anthropic-version, anthropic-beta");
	MHD_add_response_header(response, "Access-Control-Max-Age", "600");
	return give(r, MHD_HTTP_NO_CONTENT, response);
}

/* ---- streams ---- */

struct stream {
	struct MHD_Connection *connection;
	unsigned timeout;
	stream_next *next;
	void (*end)(void *ctx);
	void *ctx;
	struct text pending; /* events that did not fit */
	size_t sent;	     /* of them */
	int held;	     /* the socket, as long as nothing goes out of it; -1 */
	bool over;
};

/* What is sent waits in the socket until it is let go, so that the head of an answer and its first
 * events arrive together: alone it would wake a client that it tells nothing. Of other sockets than
 * TCP's each piece goes out as it comes. */
static void hold(struct stream *s, int socket)
{
	s->held = setsockopt(socket, IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int)) ? -1 : socket;
}

static void let_go(struct stream *s)
{
	if (s->held >= 0)
		(void)setsockopt(s->held, IPPROTO_TCP, TCP_CORK, &(int){0}, sizeof(int));
	s->held = -1;
}

/* Until there is something to give: an answer takes its time, which is not the client's idleness.
 * So that the library counts that alone, its timeout is off meanwhile; setting it again begins it
 * anew. */
static int refill(struct stream *s)
{
	int more = 0;
	if (s->sent)
		let_go(s);
	text_cut(&s->pending, 0);
	s->sent = 0;
	MHD_set_connection_option(s->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
	while (!more && !s->pending.length)
		more = s->next(s->ctx, &s->pending);
	MHD_set_connection_option(s->connection, MHD_CONNECTION_OPTION_TIMEOUT, s->timeout);
	s->over = more == 1;
	return more < 0 || s->pending.failed ? -1 : 0;
}

static ssize_t stream_read(void *cls, uint64_t position, char *buffer, size_t size)
{
	struct stream *s = cls;
	(void)position;
	if (s->sent == s->pending.length && s->over)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (s->sent == s->pending.length && refill(s))
		return MHD_CONTENT_READER_END_WITH_ERROR;
	size_t left = s->pending.length - s->sent, n = left < size ? left : size;
	if (!n)
		return MHD_CONTENT_READER_END_OF_STREAM;
	memcpy(buffer, s->pending.data + s->sent, n);
	s->sent += n;
	return (ssize_t)n;
}

static void stream_free(void *cls)
{
	struct stream *s = cls;
	let_go(s);
	s->end(s->ctx);
	text_free(&s->pending);
	free(s);
}

enum MHD_Result reply_stream(struct request *r, stream_next *next, void (*end)(void *ctx),
			     void *ctx)
{
	return reply_growing(r, "text/event-stream; charset=utf-8", NULL, next, end, ctx);
}

enum MHD_Result reply_growing(struct request *r, const char *type, const struct text *first,
			      stream_next *next, void (*end)(void *ctx), void *ctx)
{
	enum { BLOCK = 16 << 10 };
	struct stream *s = malloc(sizeof *s);
	if (!s) {
		end(ctx);
		return MHD_NO;
	}
	*s = (struct stream){.held = -1,
			     .connection = r->connection,
			     .timeout = r->gateway->options->timeout,
			     .next = next,
			     .end = end,
			     .ctx = ctx};
	if (first)
		text_add(&s->pending, first->data, first->length);
	struct MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK, stream_read, s, stream_free);
	if (!response) {
		stream_free(s);
		return MHD_NO;
	}
	add_headers(r, response, type);
	if (!(r->route->flags & ROUTE_PAGE))
		MHD_add_response_header(response, "Cache-Control", "no-cache");
	hold(s, r->client);
	MHD_add_response_header(response, "X-Accel-Buffering", "no");
	return give(r, MHD_HTTP_OK, response);
}

void event_add(struct text *out, const char *name, struct json_object *json)
{
	if (name)
		text_format(out, "event: %s\n", name);
	text_string(out, "data: ");
	text_add_object(out, json, JSON_C_TO_STRING_NOSLASHESCAPE);
	text_string(out, "\n\n");
}

void event_pause(struct text *out)
{
	text_string(out, ": still working\n\n");
}
