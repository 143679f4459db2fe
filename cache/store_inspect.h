/* Stores as folders, for who lists and removes them: what lies there, without opening it for use.
 */
#ifndef MOEFS_CACHE_STORE_INSPECT_H
#define MOEFS_CACHE_STORE_INSPECT_H

#include "cache/err.h"
#include "cache/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum store_kind {
	STORE_COMPLETE,
	STORE_UNFINISHED, /* a conversion, or refining, is under way, or was interrupted */
	STORE_IN_PLACE, /* what is kept of a checkpoint that is used in place (store_in_place.h) */
};

struct store_seen {
	enum store_kind kind;
	struct store_key key; /* of one in place the fingerprint alone, as in its key */
	uint64_t bytes;	      /* that its files take on the disk */
	struct timespec used; /* when a mount last loaded it, or wrote to it */
};

/* What refining makes of a store is in a folder beside it, of the same name with this ending. */
#define STORE_REFINED ".refined"

/* -ENOENT: there is no store in this folder. Others, in words: it cannot be looked at, as another
 * user's (-EPERM), or its index is damaged. */
int store_inspect(const char *folder, struct store_seen *out, struct err *e);

/* Whether somebody converts in this folder, or has its data open; false where that cannot be told:
 * of one in place, and on file systems without leases. */
bool store_in_use(const char *folder);

/* Whether a complete store of the checkpoint with this fingerprint is there. */
bool store_complete_of(const char *folder, const uint64_t fingerprint[2]);
/* Whether what was refined of it is complete, of the same checkpoint: the next mount takes that. */
bool store_superseded(const char *folder, const struct store_seen *seen);

/* Removes the store and its folder, the index first, so that what is left by a failure is no store.
 * -EBUSY: it is in use; -ENOENT: it is none; -ENOTEMPTY: a folder lies in it, which is not ours.
 * Nothing is removed then. Others: what is left is named. */
int store_remove(const char *folder, struct err *e);

/* The path of the checkpoint that a store is of, which is kept beside it, and by its time when it
 * was last loaded. A hint, as heat is. `store_checkpoint`: -ENOENT: none is kept. */
int store_keep_checkpoint(const char *folder, const char *path, struct err *e);
int store_checkpoint(const char *folder, char *path, size_t size, struct err *e);

#endif
