/* -o http[=ADDR]: moefs-http as a child, which serves this mount as long as it is there. */
#ifndef MOEFS_FS_PROGRAM_HTTP_H
#define MOEFS_FS_PROGRAM_HTTP_H

#include "fs/base/daemon_log.h"

#include <pthread.h>
#include <sys/types.h>

struct http {
	int socket;	      /* that listens; -1: none is wanted */
	const char *key_file; /* borrowed, as moefs-http's -o key_file=; NULL: none */
	pid_t process;	      /* 0: it was not begun */
	struct daemon_log *log;
	int messages; /* pipe that the gateway's standard error goes into */
	pthread_t listener;
};

/* Takes the address and the file of keys, so that one which cannot be had is said before anything
 * is mounted. address: NULL: none is wanted; "": the usual one. key_file: NULL: the mount's user
 * asks without a key, and the address must be of this machine alone; else it must outlive h. */
int http_listen(struct http *h, const char *address, const char *key_file, struct err *e);
/* Once the tree answers. What the gateway has to say is said by `said` (NULL: nowhere); it keeps
 * nothing of our standard output and error, which whoever started us may read to their end. */
int http_begin(struct http *h, const char *tree, struct daemon_log *log, struct err *e);
/* Where it listens: http://127.0.0.1:11435, or unix:PATH. Empty: it does not. Before http_begin. */
void http_url(const struct http *h, char *url, unsigned size);
/* Tells it to end. It looks into the tree for that, so it is waited for only when that is gone
 * (http_wait). */
void http_end(const struct http *h);
void http_wait(struct http *h);

#endif
