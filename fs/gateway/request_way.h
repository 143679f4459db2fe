/* What the listener does with a request before its handler and after it. */
#ifndef MOEFS_FS_GATEWAY_REQUEST_WAY_H
#define MOEFS_FS_GATEWAY_REQUEST_WAY_H

#include "fs/gateway/request.h"

/* NULL: out of memory. */
struct request *request_make(struct gateway *g, struct MHD_Connection *connection);
void request_free(struct request *r);
/* Finds its row, and all that can be said before the body comes. */
int request_admit(struct request *r, const char *method, struct problem *p);
/* The body is there: r->json, where the row wants one. */
int request_parse(struct request *r, struct problem *p);
/* A line for the log; whole: its client has all of the answer. What was asked is told only where
 * that is wanted. */
void request_log(const struct request *r, bool whole);
uint64_t request_clock(void); /* nanoseconds that only grow */

#endif
