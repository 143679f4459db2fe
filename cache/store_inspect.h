/* Stores as folders, for listing and removing: which files a folder has, without opening the store
 * for use. */
#ifndef MOEFS_CACHE_STORE_INSPECT_H
#define MOEFS_CACHE_STORE_INSPECT_H

#include "cache/err.h"
#include "cache/store.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum store_kind {
	STORE_COMPLETE,
	STORE_UNFINISHED, /* a conversion or refining is under way or was interrupted */
	STORE_IN_PLACE, /* what is saved for a checkpoint used in place (store_in_place.h) */
};

struct store_seen {
	enum store_kind kind;
	struct store_key key; /* of a store in place: only the fingerprint */
	uint64_t bytes;	      /* disk space of the files */
	struct timespec used; /* when a mount last loaded the store or wrote to it */
};

/* Refining writes its store into a second folder: the store's name with this ending. */
#define STORE_REFINED ".refined"

/* Fills *out. -ENOENT: there is no store in this folder. Other codes: the folder belongs to another
 * user (-EPERM), its index is damaged, and so on. */
int store_inspect(const char *folder, struct store_seen *out, struct err *e);

/* Whether a process is converting in this folder or has its data open. False if that cannot be
 * found out: for a store in place, and on file systems without leases. */
bool store_in_use(const char *folder);

/* Whether the folder has a complete store of the checkpoint with this fingerprint. */
bool store_complete_of(const char *folder, const uint64_t fingerprint[2]);
/* Whether the store's refined store is complete and of the same checkpoint. Then the next mount
 * uses the refined store. */
bool store_superseded(const char *folder, const struct store_seen *seen);

/* Removes the store and its folder. The index is removed first, so that after a failure the rest is
 * not a store. Nothing is removed after -EBUSY: the store is in use; -ENOENT: the folder is not a
 * store; -ENOTEMPTY: it contains another folder, which moefs did not make. Other codes: the
 * sentence says what is left.
 */
int store_remove(const char *folder, struct err *e);

/* Saves and reads the path of the store's checkpoint, in a file beside the store. The file's time
 * tells when the store was last loaded. Like heat, the file is a hint. store_checkpoint: -ENOENT:
 * no path is saved. */
int store_keep_checkpoint(const char *folder, const char *path, struct err *e);
int store_checkpoint(const char *folder, char *path, size_t size, struct err *e);

#endif
