/* The listener: connections, what every request must pass before its handler, and the log. */
#ifndef MOEFS_FS_GATEWAY_SERVER_H
#define MOEFS_FS_GATEWAY_SERVER_H

#include "fs/gateway/gateway.h"

#include "cache/err.h"

struct server;

/* On a socket that listens, which is the server's from then on. */
int server_begin(struct server **out, struct gateway *g, int socket, struct err *e);
/* To be called each second: hangs up on who takes too long over a request. */
void server_tick(struct server *s);
/* Takes no more connections, hangs up on all clients, and returns when all requests have ended.
 * NULL is fine. */
void server_end(struct server *s);

#endif
