/* Processes, as /proc names them. A request carries the number of the thread that made it; what is
 * remembered of who asked is the process that the thread belongs to, with the time of its start,
 * since numbers are used again.
 *
 * Each function reads a few hundred bytes of /proc, which the kernel makes without waiting for
 * anything. A process of another namespace has the number 0 here, and is nobody.
 *
 * A relay is a process that does what others ask of it from another machine: OpenSSH's, behind
 * sshfs. Which of them asks what is not to be known, nor does one of them have to be the same each
 * time, so that all relays are one process here, without a parent, which never ends. */
#ifndef MOEFS_FS_PROCESS_H
#define MOEFS_FS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCESS_RELAY = -1 };
struct process {
	pid_t id;
	uint64_t began; /* ticks since the machine's start; 0: could not be found out */
};

/* A process, its parent, and so on. */
enum { LINE_MOST = 3 };
struct line {
	struct process of[LINE_MOST];
	unsigned count;
};

/* The process that a thread belongs to; the thread itself if that cannot be found out. */
pid_t process_of(pid_t thread);
/* The line of a thread's process: at most `most` processes, fewer where /proc does not show more,
 * none for a process of another namespace. */
void process_line(pid_t thread, unsigned most, struct line *out);
/* Whether it has neither ended nor made way for another of its number. */
bool process_lives(const struct process *p);

static inline bool process_relays(const struct line *l)
{
	return l->count && l->of[0].id == PROCESS_RELAY;
}

static inline bool process_same(const struct process *a, const struct process *b)
{
	return a->id == b->id && a->began == b->began;
}

#endif
