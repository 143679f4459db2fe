/* The socket to listen on. moefs uses this file, too, for -o http. */
#ifndef MOEFS_FS_GATEWAY_LISTEN_H
#define MOEFS_FS_GATEWAY_LISTEN_H

#include "cache/err.h"

#include <stdbool.h>

/* The default address. */
#define LISTEN_DEFAULT "127.0.0.1:11435"

/* Whether only this machine can reach the socket: it has a loopback address, or is a file. */
bool listen_is_local(int socket);
/* Makes a listening socket. address: ADDR:PORT, unix:PATH, or fd:N (already open). Removes a
 * socket's file that no process listens on any more. Returns the socket, or -errno. */
int listen_on(const char *address, struct err *e);
/* The socket's address in the form used in URLs: 127.0.0.1:11435, [::1]:80, unix:/run/x. */
void listen_words(int socket, char *words, unsigned size);

#endif
