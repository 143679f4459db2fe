/* -o http[=ADDR]: moefs-http as a child, which serves this mount as long as it is there. */
#ifndef MOEFS_FS_PROGRAM_HTTP_H
#define MOEFS_FS_PROGRAM_HTTP_H

#include "cache/err.h"

#include <sys/types.h>

struct http {
	int socket;    /* that listens; -1: none is wanted */
	pid_t process; /* 0: it was not begun */
};

/* Takes the address, so that one which cannot be had is said before anything is mounted. NULL: none
 * is wanted; "": the usual one. */
int http_listen(struct http *h, const char *address, struct err *e);
/* Once the tree answers. */
int http_begin(struct http *h, const char *tree, struct err *e);
/* Tells it to end. It looks into the tree for that, so it is waited for only when that is gone
 * (http_wait). */
void http_end(const struct http *h);
void http_wait(struct http *h);

#endif
