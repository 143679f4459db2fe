/* Waiting for files while watching who asked: a client that hangs up is seen at once, not when
 * something is next written to it. */
#ifndef MOEFS_FS_GATEWAY_TURN_CLIENT_H
#define MOEFS_FS_GATEWAY_TURN_CLIENT_H

#include <poll.h>
#include <stddef.h>

enum { CLIENT_FILES = 64 };

/* Waits until one of at most CLIENT_FILES files is ready (their revents say which), so many
 * milliseconds (-1: forever). How many are; 0: the time is over; -EPIPE: the client has hung up. */
int client_wait(int client, struct pollfd *files, size_t count, int milliseconds);

#endif
