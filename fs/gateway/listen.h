/* The socket that is listened on. */
#ifndef MOEFS_FS_GATEWAY_LISTEN_H
#define MOEFS_FS_GATEWAY_LISTEN_H

#include "cache/err.h"

#include <stdbool.h>

/* Where it is unless something else is asked for. */
#define LISTEN_DEFAULT "127.0.0.1:11435"

/* Whether nobody beyond this machine can reach it: a loopback address, or a socket's file. */
bool listen_is_local(int socket);
/* address: ADDR:PORT, unix:PATH, or fd:N, which is open already. A socket's file that nobody
 * listens on any more is taken away. The socket, or -errno. */
int listen_on(const char *address, struct err *e);
/* Where it is, as in a URL: 127.0.0.1:11435, [::1]:80, unix:/run/x. */
void listen_words(int socket, char *words, unsigned size);

#endif
