/* An answer as a stream of events, whatever its protocol: the events before the stream is begun,
 * pauses while nothing comes, and failures.
 *
 * A stream begins with the first thing that the model says, or after some seconds without any: what
 * fails before is an error with its status, what fails later the stream's last event. */
#ifndef MOEFS_FS_GATEWAY_EVENT_STREAM_H
#define MOEFS_FS_GATEWAY_EVENT_STREAM_H

#include "fs/gateway/request.h"

/* How long nothing comes before a stream says that it is there. */
enum { STREAM_PAUSE_MS = 10 * 1000 };

struct event_stream {
	/* Adds what is new, having waited for it for a pause at most: 0: more will come; 1: that
	 * was all; -1: it failed, *p. */
	int (*step)(void *of, struct text *out, struct problem *p);
	/* Adds the last event of what has failed, and what says that nothing comes. */
	void (*fail)(void *of, const struct problem *p, struct text *out);
	void (*pause)(void *of, struct text *out);
	void (*end)(void *of); /* frees what it is of, and this with it */
	void *of;
	struct text first; /* the events that came before it was begun */
	bool over;	   /* with the first: what comes after them is nothing */
};
/* Answers. What it is of is given away. */
enum MHD_Result event_stream(struct request *r, struct event_stream *s);

#endif
