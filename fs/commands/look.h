/* A look into a mount: who serves it, and its models. By a process of its own, which is ended where
 * the mount does not answer, so that a daemon that is stopped stops nobody else. */
#ifndef MOEFS_FS_COMMANDS_LOOK_H
#define MOEFS_FS_COMMANDS_LOOK_H

#include "fs/commands/mounts.h"
#include "fs/base/text.h"

struct look {
	long process;	   /* 0: not known */
	const char *words; /* why nothing more is known; NULL: all is */
	struct text items; /* NAME and STATE of each model, each terminated by a zero; look_free */
};

int look_at_mount(struct look *out, const struct mount_seen *m, struct err *e);
/* The model after *place (0: the first), whose name and state are until look_free; false: none. */
bool look_next(const struct look *l, size_t *place, const char **name, const char **state);
void look_free(struct look *l);

#endif
