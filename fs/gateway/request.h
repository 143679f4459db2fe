/* A request on its way through the gateway, and its answer.
 *
 * Each connection has a thread, and a request lives in it alone: the handler of its route is called
 * once the body is there, may block, and gives exactly one answer by one of the reply_ functions.
 */
#ifndef MOEFS_FS_GATEWAY_REQUEST_H
#define MOEFS_FS_GATEWAY_REQUEST_H

#include "fs/gateway/problem.h"
#include "fs/base/text.h"

#include <microhttpd.h>

struct gateway;
struct route;

struct request {
	struct gateway *gateway;
	struct MHD_Connection *connection;
	const struct route *route;
	const char *path;	  /* as it was asked for, without its query */
	const char *rest;	  /* of the path, behind a route that ends in a slash; else "" */
	int client;		  /* the connection's socket, watched for its hang-up */
	size_t key;		  /* whose it is: the key's number in key_file, 0 without keys */
	char allowed[64];	  /* where its method is none of its path's: those that are */
	char id[32];		  /* of its own, as in chatcmpl-ID; letters and digits */
	struct text body;	  /* what came */
	struct json_object *json; /* the body, an object, where the route wants one */
	bool begun, answered, too_large;
	bool own_user;	 /* without keys: the client is a process of the gateway's user or root */
	bool unclear;	 /* where the request ends: the connection ends with its refusal */
	bool cut;	 /* the path goes on behind a zero byte, which ends `path` */
	unsigned status; /* that was answered with */
	uint64_t began_ns;
};

/* What a stream gives next: events are added to `out`. It may block, but watches the client and
 * returns -1 once that is gone. 0: more will come; 1: `out` has the last of it. An empty out with 0
 * is a step in which nothing came. */
typedef int stream_next(void *ctx, struct text *out);

/* The answers. json is given away. What cannot be answered closes the connection. */
enum MHD_Result reply_json(struct request *r, unsigned status, struct json_object *json);
enum MHD_Result reply_problem(struct request *r, const struct problem *p);
/* Data is copied. type: as in Content-Type. */
enum MHD_Result reply_text(struct request *r, unsigned status, const char *type, const char *data,
			   size_t size);
/* To a page's question whether it may ask (-o cors=). */
enum MHD_Result reply_preflight(struct request *r);
/* A stream of events (text/event-stream). ctx is given away: `end` frees it, on every way, and
 * where the client has gone away as well. */
enum MHD_Result reply_stream(struct request *r, stream_next *next, void (*end)(void *ctx),
			     void *ctx);
/* The same of any type, beginning with what is in `first`, which stays the caller's. */
enum MHD_Result reply_growing(struct request *r, const char *type, const struct text *first,
			      stream_next *next, void (*end)(void *ctx), void *ctx);

/* Events as streams have them: `data: JSON`, and `event: NAME` before it unless that is NULL. json
 * is not taken. */
void event_add(struct text *out, const char *name, struct json_object *json);
/* A comment, which keeps proxies and clients from taking a long wait for the end. */
void event_pause(struct text *out);

#endif
