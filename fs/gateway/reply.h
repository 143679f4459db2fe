/* Answers to requests: in one piece, as a list in pages, as a text that grows, or as a stream of
 * events. Each function gives the request's one answer. */
#ifndef MOEFS_FS_GATEWAY_REPLY_H
#define MOEFS_FS_GATEWAY_REPLY_H

#include "fs/gateway/http_request.h"

/* json is taken. Where there is no memory for the answer the connection is closed. */
enum MHD_Result reply_json(struct http_request *r, unsigned status, json_object *json);
enum MHD_Result reply_problem(struct http_request *r, const struct problem *p);
/* data is copied. type: as in Content-Type. */
enum MHD_Result reply_text(struct http_request *r, unsigned status, const char *type,
			   const char *data, size_t size);
/* Answers a page that asks whether it may send requests (-o cors=). */
enum MHD_Result reply_preflight(struct http_request *r);

/* ---- lists ---- */

/* How a protocol pages through a list. */
struct reply_paging {
	const char *after, *before; /* its queries */
	size_t limit, most;	    /* objects on a page: by default, and at most */
};

/* Answers with the page of `data` (taken; objects with ids) that the request's query asks for. */
enum MHD_Result reply_list(struct http_request *r, json_object *data,
			   const struct reply_paging *paging);
/* A member of the query; NULL: it is not there. */
const char *reply_query(const struct http_request *r, const char *name);

/* ---- what grows ---- */

/* Adds what comes next to `out`. It may block, but watches the client, and returns -1 once the
 * client has gone. 0: more will come, and `out` may have nothing yet; 1: `out` has the last of it.
 */
typedef int stream_next(void *ctx, struct text *out);

/* A text that begins with `first`, which stays the caller's. ctx is taken: `end` frees it, on every
 * way. */
enum MHD_Result reply_growing(struct http_request *r, unsigned status, const char *type,
			      const struct text *first, stream_next *next, void (*end)(void *ctx),
			      void *ctx);

/* ---- streams of events (text/event-stream) ---- */

/* After so long without an event a stream begins, or says that it is still there. */
enum { STREAM_PAUSE_MS = 10 * 1000 };

/* A stream of events, in any protocol. It begins with the first thing that the model says, or after
 * a pause. A failure before that is an error with its status; a failure after that is the last
 * event. */
struct event_stream {
	/* Adds what is new, after waiting for it for at most a pause. 0: more will come; 1: that
	 * was all; -1: it failed, *p. */
	int (*step)(void *of, struct text *out, struct problem *p);
	/* Adds the last event of a stream that failed. */
	void (*fail)(void *of, const struct problem *p, struct text *out);
	/* Adds what says that the stream is still there. */
	void (*pause)(void *of, struct text *out);
	void (*end)(void *of); /* frees `of`, and this struct with it */
	void *of;
	struct text first; /* the events from before the stream began */
	bool over;	   /* nothing comes after `first` */
};
/* s->of is taken. */
enum MHD_Result reply_events(struct http_request *r, struct event_stream *s);
/* Adds a comment, which keeps proxies and clients from giving up. */
void reply_pause(struct text *out);

#endif
