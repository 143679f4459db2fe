/* Whose process is at the other end of a connection from this machine.
 *
 * Loopback addresses are open to every local user, so without keys the gateway asks the kernel who
 * has the client's socket, and serves the user who runs the gateway and root alone. What forwards
 * for others (a proxy, `ssh -L`, a container's port) counts as the user that it runs as. */
#ifndef MOEFS_FS_GATEWAY_PEER_H
#define MOEFS_FS_GATEWAY_PEER_H

#include <stdbool.h>

/* Whether the client of an accepted connection is a process of the gateway's own user or of root.
 * To be asked once, when the connection is accepted: later the client may have closed its end, and
 * its addresses may be another's. False as well where the kernel does not tell. */
bool peer_is_own_user(int socket);

#endif
