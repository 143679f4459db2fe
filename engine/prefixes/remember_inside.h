/* Shared by remember.c and remember_bound.c. */
#ifndef MOEFS_ENGINE_PREFIXES_REMEMBER_INSIDE_H
#define MOEFS_ENGINE_PREFIXES_REMEMBER_INSIDE_H

#include "engine/prefixes/remember.h"

#include <pthread.h>

enum { REMEMBER_NAME = 33 }; /* 32 digits and a NUL */

struct remember_waiting { /* an answer to write */
	struct remember_waiting *next;
	struct remember_entry x;
};

struct remember {
	int dir;       /* descriptor of the folder; this and the next two are constant */
	uint64_t most; /* bytes */
	bool all;      /* users share answers */

	pthread_mutex_t writing; /* held while files are written or removed */
	uint64_t used;		 /* bytes of all files, as far as known (writing) */
	uint64_t written;	 /* files written so far (writing) */

	pthread_mutex_t lock; /* of all fields below; no lock is taken under it */
	struct remember_waiting *waiting, *last; /* the first and the last */
	size_t waiting_bytes;
	uint64_t used_last; /* the last `used`, for readers without `writing` */
	struct err failure; /* of the last write; code 0: it succeeded */
};

/* Whether an open folder or regular file belongs to the process's user; *bytes: its size. */
bool remember_is_own(int fd, bool folder, uint64_t *bytes);
/* Opens a folder that belongs to the process's user. Returns a descriptor or a negative errno;
 * -EPERM: it belongs to another user. */
int remember_open_folder(int dir, const char *name);

/* remember_bound.c; Counts the bytes in the folder, and removes the least recently used files if
 * there are too many. `writing` is held, or no other thread has r. */
void remember_bound(struct remember *r);

#endif
