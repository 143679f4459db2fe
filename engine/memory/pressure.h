/* Notifications from the kernel that memory becomes short, where it grants them.
 *
 *     /proc/pressure/memory   stalls of the whole machine (accounting/psi.rst)
 *     version 2               the group's memory.pressure, and memory.events of all groups above
 *     version 1               the group's memory.pressure_level, and its usage crossing into the
 *                             margin of a limit, of all groups above, by cgroup.event_control
 *
 * Any of them may be missing or forbidden, so notifications make a periodic look faster and never
 * replace it. One thread uses a struct pressure.
 */
#ifndef MOEFS_ENGINE_MEMORY_PRESSURE_H
#define MOEFS_ENGINE_MEMORY_PRESSURE_H

#include "engine/memory/memory.h"

#include <poll.h>

enum pressure_signal {
	PRESSURE_NONE,	/* time is over, or the caller's own descriptor is ready */
	PRESSURE_LOOK,	/* something has changed; the numbers say what */
	PRESSURE_SHORT, /* this process's own group stalls, whatever the numbers say */
};

enum pressure_kind {
	PRESSURE_STALLS,  /* a trigger on a file of stalls; an error ends it */
	PRESSURE_FILE,	  /* is polled from its last reading on */
	PRESSURE_COUNTER, /* an eventfd, emptied by reading */
};

enum { PRESSURE_SOURCES = 16 };

struct pressure {
	struct pollfd fds[PRESSURE_SOURCES + 1]; /* the last is the caller's; -1: gone */
	struct pressure_source {
		enum pressure_signal signal;
		enum pressure_kind kind;
	} source[PRESSURE_SOURCES];
	int count;
};

/* Opens the notifications that the kernel grants, perhaps none. */
void pressure_open(struct pressure *p, const struct memory *m);
void pressure_close(struct pressure *p);
/* Waits for a signal, at most this long, or until `wake` can be read. */
enum pressure_signal pressure_wait(struct pressure *p, int wake, int milliseconds);

#endif
