/* Processes and mounts, as /proc lists them (proc(5)). Each function reads small files that the
 * kernel makes without waiting for anything.
 *
 * A request carries the number of the thread that made it. Numbers are reused, so callers remember
 * the thread's process with its start time. A process of another PID namespace has the number 0
 * here and cannot be told apart from others.
 *
 * A relay is a process that acts for another machine: OpenSSH's server, behind sshfs. Any of its
 * processes may make any request. So all relays count as one process, which has no parent and never
 * ends. */
#ifndef MOEFS_FS_BASE_PROC_H
#define MOEFS_FS_BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROC_RELAY = -1 };
struct process {
	pid_t id;
	uint64_t began; /* clock ticks since boot; 0: unknown */
};

/* A process, its parent, and so on. */
enum { LINEAGE_MOST = 3 };
struct lineage {
	struct process of[LINEAGE_MOST];
	unsigned count;
};

/* Returns the process of a thread, or the thread itself if /proc does not tell. */
pid_t proc_of_thread(pid_t thread);
/* Returns the lineage of a thread's process: at most `most` processes; fewer if /proc shows fewer;
 * none for a process of another namespace. */
void proc_lineage(pid_t thread, unsigned most, struct lineage *out);
/* Whether the process still runs. False if it has ended, even if its number is in use again. */
bool proc_lives(const struct process *p);

static inline bool proc_is_relay(const struct lineage *l)
{
	return l->count && l->of[0].id == PROC_RELAY;
}

static inline bool proc_same(const struct process *a, const struct process *b)
{
	return a->id == b->id && a->began == b->began;
}

/* The functions from here on are for commands. For a process whose /proc files this user may not
 * read they return false or an empty result. */

/* Calls visit for each running process until a call returns nonzero, and returns that. -errno:
 * /proc cannot be listed. */
int proc_each(int (*visit)(void *ctx, pid_t id), void *ctx);
/* The name of the process's program (at most 15 bytes). False, with name "?": unknown. */
bool proc_name(pid_t id, char *name, size_t size);
/* Whether the process has `path`, or a file in it, open. Does not touch the file system of
 * `path`. */
bool proc_has_open(pid_t id, const char *path);
/* Whether the process has a file open there, has its working directory or root there, or runs a
 * program from there. */
bool proc_uses(pid_t id, const char *path);

/* A mount, as mountinfo lists it. */
struct mountinfo {
	char *point, *source; /* decoded */
	char *type, *options; /* options: those of the file system itself */
	char *device;	      /* MAJOR:MINOR, the same in all mount namespaces */
};

/* Calls visit for each mount, the oldest first, until a call returns nonzero, and returns that.
 * table: NULL means /proc/self/mountinfo. -errno: the table cannot be read. */
int proc_each_mount(const char *table, int (*visit)(void *ctx, const struct mountinfo *m),
		    void *ctx);
/* Whether the file system of a device (MAJOR:MINOR) is mounted in the process's mount namespace. */
bool proc_has_mounted(pid_t id, const char *device);

#endif
