/* A request on its way through the gateway, and the table of all routes.
 *
 * Each connection has a thread, and a request is handled in that thread alone. The handler of its
 * route is called once the body has arrived. The handler may block, and gives exactly one answer
 * with one of the functions in reply.h. */
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
	const char *path;  /* as requested, without its query */
	const char *rest;  /* the path after a route that ends in a slash; else "" */
	int client;	   /* the connection's socket */
	size_t key;	   /* the number of the client's key in key_file; 0 without keys */
	char allowed[64];  /* the path's methods, if the request has another method */
	char id[32];	   /* letters and digits, as in chatcmpl-ID */
	struct text body;  /* as received */
	json_object *json; /* the body, an object, if the route needs one */
	bool begun, answered, too_large;
	bool own_user;	 /* without keys: the client is a process of the gateway's user or root */
	bool unclear;	 /* it is unclear where the request ends: refuse it, then disconnect */
	bool cut;	 /* `path` ends at a zero byte, after which the request's path continues */
	unsigned status; /* of the answer */
	uint64_t began_ns;
};

/* ---- a request's way to its handler: http_request.c, for server.c ---- */

/* NULL: out of memory. */
struct http_request *request_make(struct gateway *g, struct MHD_Connection *connection);
void request_free(struct http_request *r);
/* Finds the route, and refuses everything that can be refused before the body arrives. */
int request_admit(struct http_request *r, const char *method, struct problem *p);
/* Call when the body has arrived: sets r->json, if the route needs one. */
int request_parse(struct http_request *r, struct problem *p);
/* Logs a line. whole: the client received the whole answer. The body is logged only with -o
 * log_prompts. */
void request_log(const struct http_request *r, bool whole);
uint64_t request_clock(void); /* nanoseconds, monotonic */

/* ---- routes.c ---- */

enum route_flags {
	ROUTE_JSON = 1, /* the body must be a JSON object */
	ROUTE_OPEN = 2, /* needs no key: reveals nothing about models and conversations */
	ROUTE_PAGE = 4, /* for a browser: with headers that limit what may run, not cached */
};

struct route {
	const char *method;
	const char *path; /* if it ends in a slash: everything below it */
	enum protocol protocol;
	unsigned flags;
	enum MHD_Result (*handle)(struct http_request *r);
};

/* Finds a request's route. NULL: there is none; then *other is a route with this path and another
 * method, or NULL. */
const struct route *route_find(const char *method, const char *path, const struct route **other);
/* Lists a path's methods, in the form of an Allow header. */
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
