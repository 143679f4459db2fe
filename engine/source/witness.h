/* Watches a source during its conversion, and records what was read (identity.h).
 *
 * Each piece of a tensor that is read for converting is noted with its XXH3, after a check that its
 * file has not changed since source_look. So no bytes of a changed source get into a store. A note
 * is written to the folder's IDENTITY_PARTIAL before the store's journal says that the piece was
 * used. An interrupted conversion is resumed only with the source that it began with. If the stamps
 * are equal, it is resumed at once. If they differ, everything that it had read is read again and
 * compared. If they differ and the last process did not record that all its notes are on disk, the
 * conversion begins again.
 *
 * Order of calls: witness_begin, witness_attach. Then, with the store's lock held: witness_open,
 * any number of reads from any threads, witness_finish before the store is published, and
 * witness_publish afterwards; or instead witness_close before the lock is released.
 */
#ifndef MOEFS_ENGINE_SOURCE_WITNESS_H
#define MOEFS_ENGINE_SOURCE_WITNESS_H

#include "cache/err.h"
#include "engine/source/files.h"
#include "engine/source/identity.h"

struct witness;

/* Callbacks that report checking. Must outlive the witness. */
struct witness_watch {
	/* Called before `bytes` bytes are read again, and with 0 at the end. */
	void (*checking)(void *ctx, uint64_t bytes);
	identity_went_fn *went;
	void *ctx;
};

/* now: a fresh source_look, used only during this call. folder must outlive the witness. May read
 * everything again that an interrupted conversion in the folder had read. name: the name that
 * another store has for this source, to use it here, too; NULL: see witness_name. */
int witness_begin(struct witness **out, const struct source_state *now, const uint64_t name[2],
		  const char *folder, const struct witness_watch *watch, struct err *e);
void witness_free(struct witness *w); /* NULL is fine; does not change the folder */

/* The source's name, for the store's key: the name given to witness_begin, the name in the resumed
 * conversion, or a new one. For an unchanged source it is always the same. */
const uint64_t *witness_name(const struct witness *w);

/* Notes every read of these files from now on, until witness_finish succeeds. -ESTALE: the source
 * has changed since it was looked at. */
int witness_attach(struct witness *w, struct files *f, struct err *e);

/* -EBUSY: another process has worked on this conversion since witness_begin. */
int witness_open(struct witness *w, struct err *e);
/* Hashes the bytes that were not read, and checks all files once more. -ESTALE: a file has changed
 * since it was looked at; -ENOENT: a file is gone. May be called again after an error, and also
 * after success and with the files closed. */
int witness_finish(struct witness *w, struct err *e);
/* Call this when the store is published: gives the notes their final name. */
void witness_publish(struct witness *w);
/* Call this if the conversion ends before publishing. keep: keep the notes for the next conversion;
 * else remove them.
 */
void witness_close(struct witness *w, bool keep);

#endif
