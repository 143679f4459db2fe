/* Answers to requests: in one piece, as a list in pages, as a growing text, or as a stream of
 * events. Each function gives the one answer of the request. */
#ifndef MOEFS_FS_GATEWAY_REPLY_H
#define MOEFS_FS_GATEWAY_REPLY_H

#include "fs/gateway/http_request.h"

/* Takes json. Without memory for the answer the connection is closed. */
enum MHD_Result reply_json(struct http_request *r, unsigned status, json_object *json);
enum MHD_Result reply_problem(struct http_request *r, const struct problem *p);
/* Copies data. type: the value of Content-Type. */
enum MHD_Result reply_text(struct http_request *r, unsigned status, const char *type,
			   const char *data, size_t size);
/* Answers a browser that asks whether a page may send requests (-o cors=). */
enum MHD_Result reply_preflight(struct http_request *r);

/* ---- lists ---- */

/* How a protocol pages through a list. */
struct reply_paging {
	const char *after, *before; /* names of its queries */
	size_t limit, most;	    /* objects per page: by default, and at most */
};

/* Answers with the page of `data` (a list of objects with ids, taken) that the request's query
 * selects. */
enum MHD_Result reply_list(struct http_request *r, json_object *data,
			   const struct reply_paging *paging);
/* The value of a member of the query; NULL: not given. */
const char *reply_query(const struct http_request *r, const char *name);

/* ---- texts that grow ---- */

/* Adds the next part to `out`. It may block, but watches the client, and returns -1 once the client
 * has disconnected. 0: more will come, and `out` may be unchanged; 1: the text is complete. */
typedef int stream_next(void *ctx, struct text *out);

/* Sends a text that begins with `first`, which the caller keeps. Takes ctx: `end` is called in
 * every case, and frees it. */
enum MHD_Result reply_growing(struct http_request *r, unsigned status, const char *type,
			      const struct text *first, stream_next *next, void (*end)(void *ctx),
			      void *ctx);

/* ---- streams of events (text/event-stream) ---- */

/* After this time without an event a stream begins, or says that it is still alive. */
enum { STREAM_PAUSE_MS = 10 * 1000 };

/* A stream of events, in any protocol. It begins with the model's first text, or after a pause. A
 * failure before that is an error with its status; a failure after that is the last event. */
struct event_stream {
	/* Waits at most a pause for news, and adds it. 0: more will come; 1: complete; -1: failed,
	 * *p. */
	int (*step)(void *of, struct text *out, struct problem *p);
	/* Adds the last event of a failed stream. */
	void (*fail)(void *of, const struct problem *p, struct text *out);
	/* Adds an event or comment that says that the stream is still alive. */
	void (*pause)(void *of, struct text *out);
	void (*end)(void *of); /* frees `of`, and this struct with it */
	void *of;
	struct text first; /* events from before the stream began */
	bool over;	   /* the stream ends with `first` */
};
/* Takes s->of. */
enum MHD_Result reply_events(struct http_request *r, struct event_stream *s);
/* Adds a comment, so that proxies and clients do not give up. */
void reply_pause(struct text *out);

#endif
