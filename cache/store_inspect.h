/* Stores as folders, for listing and removing them: which files a folder has, without opening the
 * store for use. */
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

/* Refining writes its store into a folder beside the store's, of the same name with this ending. */
#define STORE_REFINED ".refined"

/* -ENOENT: there is no store in this folder. Other codes, with a sentence: the folder belongs to
 * another user (-EPERM), its index is damaged, and so on. */
int store_inspect(const char *folder, struct store_seen *out, struct err *e);

/* Whether a process converts in this folder or has its data open; false where that cannot be found
 * out: for a store in place, and on file systems without leases. */
bool store_in_use(const char *folder);

/* Whether a complete store of the checkpoint with this fingerprint is there. */
bool store_complete_of(const char *folder, const uint64_t fingerprint[2]);
/* Whether the store's refined store is complete and of the same checkpoint: then the next mount
 * uses that one. */
bool store_superseded(const char *folder, const struct store_seen *seen);

/* Removes the store and its folder, the index first, so that what a failure leaves behind is no
 * store. Nothing is removed after -EBUSY: in use; -ENOENT: not a store; -ENOTEMPTY: the folder
 * contains another folder, which moefs did not make. Other codes: the sentence names what is left.
 */
int store_remove(const char *folder, struct err *e);

/* The path of the store's checkpoint, saved beside the store; the file's time says when the store
 * was last loaded. A hint, as heat is. store_checkpoint: -ENOENT: none is saved. */
int store_keep_checkpoint(const char *folder, const char *path, struct err *e);
int store_checkpoint(const char *folder, char *path, size_t size, struct err *e);

#endif
