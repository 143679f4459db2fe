/* Watches a source while it is converted, and writes down what was read (identity.h).
 *
 * Each piece of a tensor that is read for converting is noted with its XXH3, after a check that its
 * file has not changed since source_look. So no bytes of a changed source get into a store. A note
 * is in the folder's IDENTITY_PARTIAL before the store's journal says that the piece was used. An
 * interrupted conversion is resumed only for the source that it began with: with equal stamps at
 * once; with other stamps after everything it had read was read again and is the same. If the
 * process could not record that all its notes are on the disk, and the stamps differ, the
 * conversion begins again.
 *
 * The order of a conversion: witness_begin, witness_attach; with the store's lock held
 * witness_open, any number of reads from any threads, witness_finish before the store is published
 * and witness_publish after that; or witness_close before the lock is given up.
 */
#ifndef MOEFS_ENGINE_SOURCE_WITNESS_H
#define MOEFS_ENGINE_SOURCE_WITNESS_H

#include "cache/err.h"
#include "engine/source/files.h"
#include "engine/source/identity.h"

struct witness;

/* What hears of checking, for as long as the witness lives. */
struct witness_watch {
	/* `bytes` will be read again: called before the first of them, and with 0 at the end. */
	void (*checking)(void *ctx, uint64_t bytes);
	identity_went_fn *went;
	void *ctx;
};

/* `now` is fresh and only used during this call; the folder's name outlives the witness. May read
 * all that an interrupted conversion in the folder had read. name: another store's name of this
 * source, to be used here, too; NULL: see witness_name. */
int witness_begin(struct witness **out, const struct source_state *now, const uint64_t name[2],
		  const char *folder, const struct witness_watch *watch, struct err *e);
void witness_free(struct witness *w); /* NULL is fine; leaves the folder as it is */

/* The source's name, for the store's key: the given one, that of the conversion that is taken up,
 * or a new one. Two looks at an unchanged source give the same. */
const uint64_t *witness_name(const struct witness *w);

/* Hears of all that is read of these files from now on, until witness_finish has succeeded.
 * -ESTALE: it is no longer what was looked at. */
int witness_attach(struct witness *w, struct files *f, struct err *e);

/* -EBUSY: another process has worked on this conversion since witness_begin. */
int witness_open(struct witness *w, struct err *e);
/* Hashes the bytes that were not read, and compares all files once more. -ESTALE in words: one has
 * changed since it was looked at; -ENOENT: one is gone. May be called again after a failure, and
 * once it has succeeded with the files closed. */
int witness_finish(struct witness *w, struct err *e);
/* The store is published: the notes get their final name. */
void witness_publish(struct witness *w);
/* The conversion ends before it is published. keep: leave the notes for the next conversion; else
 * remove them.
 */
void witness_close(struct witness *w, bool keep);

#endif
