/* Notifications from the kernel that memory becomes short, if the kernel grants them.
 *
 *     /proc/pressure/memory   stalls of the whole machine (accounting/psi.rst)
 *     version 2               the group's memory.pressure, and memory.events of all groups above
 *     version 1               the group's memory.pressure_level, and its usage crossing into the
 *                             margin of a limit, of all groups above, by cgroup.event_control
 *
 * Any of them may be missing or forbidden, so notifications only speed up the periodic look and do
 * not replace it. Only one thread may use a struct pressure.
 */
#ifndef MOEFS_ENGINE_MEMORY_PRESSURE_H
#define MOEFS_ENGINE_MEMORY_PRESSURE_H

#include "engine/memory/memory.h"

#include <poll.h>

enum pressure_signal {
	PRESSURE_NONE,	/* the time is over, or the caller's descriptor is ready */
	PRESSURE_LOOK,	/* something has changed: look at the numbers */
	PRESSURE_SHORT, /* this process's group stalls, whatever the numbers say */
};

enum pressure_kind {
	PRESSURE_STALLS,  /* a PSI trigger; POLLERR ends it */
	PRESSURE_FILE,	  /* a file that is ready when it changes after the last read */
	PRESSURE_COUNTER, /* an eventfd, reset by reading */
};

enum { PRESSURE_SOURCES = 16 };

struct pressure {
	struct pollfd fds[PRESSURE_SOURCES + 1]; /* the last is the caller's; -1: closed */
	struct pressure_source {
		enum pressure_signal signal;
		enum pressure_kind kind;
	} source[PRESSURE_SOURCES];
	int count;
};

/* Opens the notifications that the kernel grants; there may be none. */
void pressure_open(struct pressure *p, const struct memory *m);
void pressure_close(struct pressure *p);
/* Waits for a signal until the time is over or `wake` is readable. */
enum pressure_signal pressure_wait(struct pressure *p, int wake, int milliseconds);

#endif
