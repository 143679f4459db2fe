/* The protocols between a service and systemd, without systemd's library: sd_notify(3) and
 * sd_listen_fds(3). moefs and moefs-http share this. */
#ifndef MOEFS_FS_BASE_SYSTEMD_H
#define MOEFS_FS_BASE_SYSTEMD_H

#include "cache/err.h"

/* Sends a state, "READY=1" or "STOPPING=1", to the socket that NOTIFY_SOCKET names (units of
 * Type=notify). Does nothing outside such a unit. Never blocks. */
void systemd_notify(const char *state);

/* Returns the socket that a .socket unit passes to this process (LISTEN_PID, LISTEN_FDS). -1: none.
 * -EINVAL: the unit passes several. */
int systemd_socket(struct err *e);

#endif
