/* -o http[=ADDR]: moefs-http as a child process, which serves this mount as long as it lives. */
#ifndef MOEFS_FS_PROGRAM_HTTP_H
#define MOEFS_FS_PROGRAM_HTTP_H

#include "fs/base/daemon_log.h"

#include <pthread.h>
#include <sys/types.h>

struct http {
	int socket;	      /* listens; -1: no HTTP, or the child has it */
	const char *key_file; /* borrowed; NULL: none */
	pid_t process;	      /* 0: not started */
	struct daemon_log *log;
	int messages; /* the reading end of the child's standard error */
	pthread_t listener;
};

/* Listens, so that an address that cannot be had is reported before anything is mounted. address:
 * NULL: no HTTP; "": the default one. key_file must outlive h; NULL: only the mount's user and root
 * are served, and the address must be of this machine alone. */
int http_listen(struct http *h, const char *address, const char *key_file, struct err *e);
/* Starts moefs-http, once the tree answers. Its messages go to `log` (NULL: nowhere). It keeps
 * neither our standard output nor our standard error open, which our caller may read to their end.
 */
int http_begin(struct http *h, const char *tree, struct daemon_log *log, struct err *e);
/* Where it listens: http://127.0.0.1:11435, or unix:PATH; empty: no HTTP. Before http_begin. */
void http_url(const struct http *h, char *url, unsigned size);
/* Tells moefs-http to end, before unmounting; then http_wait waits, after unmounting, since it
 * looks into the tree while it ends. */
void http_end(const struct http *h);
void http_wait(struct http *h);

#endif
