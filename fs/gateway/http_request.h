/* A request on its way through the gateway, and the table of everything that is served.
 *
 * Each connection has a thread, and a request lives in that thread alone. The handler of its route
 * is called once the body is there. It may block, and gives exactly one answer by one of the
 * functions in reply.h. */
#ifndef MOEFS_FS_GATEWAY_HTTP_REQUEST_H
#define MOEFS_FS_GATEWAY_HTTP_REQUEST_H

#include "fs/gateway/problem.h"
#include "fs/base/text.h"

#include <microhttpd.h>
#include <stdbool.h>

struct gateway;

struct http_request {
	struct gateway *gateway;
	struct MHD_Connection *connection;
	const struct route *route;
	const char *path;  /* as it was asked for, without its query */
	const char *rest;  /* the path behind a route that ends in a slash; else "" */
	int client;	   /* the connection's socket */
	size_t key;	   /* the number of the client's key in key_file; 0 without keys */
	char allowed[64];  /* the path's methods, where the request has another one */
	char id[32];	   /* letters and digits, as in chatcmpl-ID */
	struct text body;  /* as it came */
	json_object *json; /* the body, an object, where the route wants one */
	bool begun, answered, too_large;
	bool own_user;	 /* without keys: the client is a process of the gateway's user or root */
	bool unclear;	 /* where the request ends: the connection ends with its refusal */
	bool cut;	 /* the path continues after a zero byte, at which `path` ends */
	unsigned status; /* of the answer */
	uint64_t began_ns;
};

/* ---- a request's way to its handler: http_request.c, for server.c ---- */

/* NULL: out of memory. */
struct http_request *request_make(struct gateway *g, struct MHD_Connection *connection);
void request_free(struct http_request *r);
/* Finds the route, and refuses whatever can be refused before the body comes. */
int request_admit(struct http_request *r, const char *method, struct problem *p);
/* The body is there: sets r->json, where the route wants one. */
int request_parse(struct http_request *r, struct problem *p);
/* Logs a line. whole: the client has got all of the answer. The body is logged only on request. */
void request_log(const struct http_request *r, bool whole);
uint64_t request_clock(void); /* nanoseconds that only grow */

/* ---- routes.c ---- */

enum route_flags {
	ROUTE_JSON = 1, /* the body must be a JSON object */
	ROUTE_OPEN = 2, /* needs no key: it tells nothing about models and conversations */
	ROUTE_PAGE = 4, /* for a browser: with headers about what may run, and not cached */
};

struct route {
	const char *method;
	const char *path; /* one that ends in a slash stands for everything below it */
	enum protocol protocol;
	unsigned flags;
	enum MHD_Result (*handle)(struct http_request *r);
};

/* A request's route. NULL: there is none; then *other is a route with this path and another method,
 * or NULL. */
const struct route *route_find(const char *method, const char *path, const struct route **other);
/* A path's methods, as an Allow header lists them. */
void route_methods(const char *path, char *methods, size_t size);

/* ---- handlers ---- */

enum MHD_Result openai_list_models(struct http_request *r);
enum MHD_Result openai_get_model(struct http_request *r);
enum MHD_Result chat_completions(struct http_request *r);
enum MHD_Result anthropic_create(struct http_request *r);
enum MHD_Result anthropic_count(struct http_request *r);
enum MHD_Result responses_create(struct http_request *r);
enum MHD_Result responses_count(struct http_request *r);
enum MHD_Result responses_other(struct http_request *r);
enum MHD_Result responses_get(struct http_request *r);
enum MHD_Result responses_delete(struct http_request *r);
enum MHD_Result completions(struct http_request *r);
enum MHD_Result embeddings_create(struct http_request *r);
enum MHD_Result tokens_tokenize(struct http_request *r);
enum MHD_Result tokens_detokenize(struct http_request *r);
enum MHD_Result status_health(struct http_request *r);
enum MHD_Result status_metrics(struct http_request *r);
enum MHD_Result web_page(struct http_request *r);
enum MHD_Result web_read(struct http_request *r);
enum MHD_Result web_write(struct http_request *r);
enum MHD_Result web_make(struct http_request *r);
enum MHD_Result web_remove(struct http_request *r);
enum MHD_Result web_move(struct http_request *r);

#endif
