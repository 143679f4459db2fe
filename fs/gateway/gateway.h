/* State shared by all requests, the options, and the listener. */
#ifndef MOEFS_FS_GATEWAY_GATEWAY_H
#define MOEFS_FS_GATEWAY_GATEWAY_H

#include "cache/err.h"
#include "fs/gateway/turn/client_wait.h"
#include "fs/gateway/turn/session_removal.h"

#include <regex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- options: gateway_options.c ---- */

struct gateway_options { /* strings belong to argv; free with gateway_options_free */
	const char *tree;
	const char *listen; /* ADDR:PORT or unix:PATH */
	const char *cert, *key, *key_file;
	const char *cors; /* an origin, or *; NULL: none */
	const char *host; /* one more accepted name in Host headers */
	regex_t *ignored; /* matches lines to remove from system texts; NULL: none */
	const char *poll; /* on or off; NULL: as the tree needs */
	bool log_prompts, verbose, help, version;
	unsigned timeout; /* seconds that a client may be silent */
	unsigned connections, active, queue, body;
};

int gateway_options_parse(struct gateway_options *o, int argc, char **argv, struct err *e);
void gateway_options_free(struct gateway_options *o);
extern const char gateway_options_help[];

/* ---- state shared by all requests ---- */

struct gateway {
	const struct gateway_options *options;
	struct gate *gate;	  /* slots for turns */
	struct access_keys *keys; /* NULL: no key is needed */
	struct responses_kept *responses;
	struct removal removal;	       /* sessions still to be removed */
	struct client_reads reads;     /* threads that wait for a token in read(2) */
	dev_t device;		       /* the tree's device when this gateway began */
	bool polls;		       /* the tree's files can be polled */
	char id[64];		       /* MACHINE.PROCESS.START, part of its sessions' names */
	void (*log)(const char *line); /* from any thread */
	atomic_bool stopping;
	atomic_uint_fast64_t next_session;
	atomic_uint_fast64_t model_known; /* the last model found, and the second (turn_begin.c) */
	struct counters {
		atomic_uint_fast64_t requests[6]; /* by the first digit of the answer's status */
		atomic_uint_fast64_t active, dropped;
		atomic_uint_fast64_t prompt_tokens, cached_tokens, output_tokens;
	} counters;
};

/* ---- the web page's files, generated from page/ ---- */

struct web_file {
	const char *name; /* NULL ends the list */
	const unsigned char *data;
	size_t size;
};
extern const struct web_file web_files[];

/* ---- the listener: server.c ---- */

struct server;

/* Serves connections to a listening socket, which the server then owns. */
int server_begin(struct server **out, struct gateway *g, int socket, struct err *e);
/* Call each second: disconnects clients that take too long over a request. */
void server_tick(struct server *s);
/* Accepts no more connections, disconnects all clients, and returns when all requests have ended.
 * NULL does nothing. */
void server_end(struct server *s);

#endif
