/* -o http[=ADDR]: moefs-http as a child process, which serves this mount until the mount ends. */
#ifndef MOEFS_FS_PROGRAM_HTTP_H
#define MOEFS_FS_PROGRAM_HTTP_H

#include "fs/base/daemon_log.h"

#include <pthread.h>
#include <sys/types.h>

struct http {
	int socket;	      /* the listening socket; -1: no HTTP, or the child has the socket */
	const char *key_file; /* borrowed; NULL: none */
	pid_t process;	      /* 0: not started */
	struct daemon_log *log;
	int messages; /* reading end of a pipe: the child's standard error */
	pthread_t listener;
};

/* Listens, so that an unusable address is reported before anything is mounted. address: NULL: no
 * HTTP; "": the default address. key_file must outlive h; NULL: only the mount's user and root are
 * served, and the address must be a local one. */
int http_listen(struct http *h, const char *address, const char *key_file, struct err *e);
/* Starts moefs-http, once the tree answers. Its messages go to `log` (NULL: they are dropped). It
 * does not keep our standard output or error open, since our caller may read them to their end. */
int http_begin(struct http *h, const char *tree, struct daemon_log *log, struct err *e);
/* The address: http://127.0.0.1:11435, or unix:PATH; empty: no HTTP. Call this before
 * http_begin. */
void http_url(const struct http *h, char *url, unsigned size);
/* http_end tells moefs-http to end; call it before unmounting. http_wait waits for its end; call it
 * after unmounting, since moefs-http still uses the tree while it ends. */
void http_end(const struct http *h);
void http_wait(struct http *h);

#endif
