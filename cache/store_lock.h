/* The lock of a store's folder: who converts in it, or changes its index, holds it (flock on a file
 * that is there for that alone). The one who removes the file holds it. */
#ifndef MOEFS_CACHE_STORE_LOCK_H
#define MOEFS_CACHE_STORE_LOCK_H

#include "cache/err.h"

#include <stdbool.h>

struct store_lock {
	int dir, fd;	  /* of the folder and of the locked file; -1: none */
	bool made_folder; /* by store_lock_take */
};

/* Makes the folder if need be (not its parents) and takes the lock. -EBUSY: another process has it.
 * After a failure store_lock_close. */
int store_lock_take(struct store_lock *l, const char *folder, struct err *e);
/* The same at a folder that is there; -EAGAIN: it, or the lock's file, is just being removed. */
int store_lock_try(struct store_lock *l, const char *folder, struct err *e);
/* Removes the lock's file, which gives it up once it is closed. */
void store_lock_remove(const struct store_lock *l);
void store_lock_close(struct store_lock *l);

#endif
