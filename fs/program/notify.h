/* Telling systemd that the tree answers, where it waits for that (Type=notify, sd_notify(3)). */
#ifndef MOEFS_FS_NOTIFY_H
#define MOEFS_FS_NOTIFY_H

/* "READY=1", "STOPPING=1". Does nothing where nobody waits. Never blocks. */
void notify(const char *state);

#endif
