/* The socket to listen on. moefs uses this file, too, for -o http. */
#ifndef MOEFS_FS_GATEWAY_LISTEN_H
#define MOEFS_FS_GATEWAY_LISTEN_H

#include "cache/err.h"

#include <stdbool.h>

/* The default address. */
#define LISTEN_DEFAULT "127.0.0.1:11435"

/* Whether only this machine can reach the socket: it has a loopback address, or is a file. */
bool listen_is_local(int socket);
/* Makes a socket that listens. address: ADDR:PORT, unix:PATH, or fd:N, which is open already. A
 * socket's file that nobody listens on any more is removed. The socket, or -errno. */
int listen_on(const char *address, struct err *e);
/* The socket's address, as in a URL: 127.0.0.1:11435, [::1]:80, unix:/run/x. */
void listen_words(int socket, char *words, unsigned size);

#endif
