/* What remember.c and remember_bound.c share. */
#ifndef MOEFS_ENGINE_PREFIXES_REMEMBER_INSIDE_H
#define MOEFS_ENGINE_PREFIXES_REMEMBER_INSIDE_H

#include "engine/prefixes/remember.h"

#include <pthread.h>

enum { REMEMBER_NAME = 33 }; /* 32 digits and a NUL */

struct remember_waiting { /* to be written */
	struct remember_waiting *next;
	struct remember_entry x;
};

struct remember {
	int dir;       /* this and the next two: constant */
	uint64_t most; /* bytes */
	bool all;      /* users share */

	pthread_mutex_t writing; /* held by who writes or removes files */
	uint64_t used;		 /* bytes of all files, as far as known (writing) */
	uint64_t written;	 /* files so far (writing) */

	pthread_mutex_t lock; /* of all below; nothing is taken under it */
	struct remember_waiting *waiting, *last; /* the first, the last */
	size_t waiting_bytes;
	uint64_t used_last; /* `used`, for others */
	struct err failure; /* of the last file; code 0: it was written */
};

/* Whether an open folder or regular file belongs to the process; *bytes: its size. */
bool remember_is_own(int fd, bool folder, uint64_t *bytes);
/* The descriptor of a folder of the process's own, or a negative errno; -EPERM: another user's. */
int remember_open_folder(int dir, const char *name);

/* remember_bound.c; `writing` is held, or nobody else has r. Counts what is in the folder, and if it
 * is too much, removes the files that were used longest ago. */
void remember_bound(struct remember *r);

#endif
