/* The store: a converted checkpoint on disk, complete or absent, never half.
 *
 * A store is a folder:
 *   experts.safetensors   all expert records; plain: in (layer, expert) order, end to end, those of
 *                         a layer of one size; the data begins at a multiple of 4096, so that a
 *                         record is one O_DIRECT read of the enclosing aligned range. Coded: see
 *                         below
 *   dense.safetensors     everything else, as units of at most a few MiB
 *   index                 small and binary: what a mount reads instead of the headers
 *   lock                  held (flock) by the process that converts, refines or removes
 *   journal, *.partial    while converting, or after an interruption
 *
 * This layer knows bytes, units and (layer, expert) numbers; the engine knows what the bytes mean,
 * and writes the text of the two safetensors headers. A unit is a contiguous run of bytes of one
 * file with one XXH3 checksum: unit layer · experts + expert is that expert's record, and the dense
 * units follow.
 *
 * The index also has a digest of the engine's plan, by which this layer tells layouts apart: two
 * layouts may have equal sizes and different meanings. A store is read only with the plan that it
 * matches (store_check). Any other plan makes a new store.
 *
 * The order that makes a crash harmless: a unit's data is written, then fdatasync'ed, then its
 * journal entry is written; when all units are in, both files and then the index are synced and
 * renamed and the folder is synced. A stale index goes before the data is renamed, and the new one
 * comes last: a folder without an index that matches its key is not a store. Units may be finished
 * in any order by any number of threads; an interrupted conversion resumes from the journal if the
 * key and the plan are the same.
 *
 * A coded store keeps each record as codec.h makes it, and is private to this program; its dense
 * part is as any other's. Stored records have a length each and lie in the order in which they were
 * committed, each at the next multiple of 4096 after the one before: a record is one O_DIRECT read
 * with nothing of its neighbours in it, its place need not be known before it is written, and
 * nothing is lost between two but the rest of a page, after a crash as well. Place and length are
 * in the journal and the index. The unit's checksum is that of the stored bytes, so that a resume
 * decodes nothing and damage never reaches the decoder; a sum of the decoded record is among them,
 * so that what was decoded is what was written.
 *
 * Files are created 0600 with O_NOFOLLOW, and must belong to the caller's user.
 */
#ifndef MOEFS_CACHE_STORE_H
#define MOEFS_CACHE_STORE_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STORE_ALIGN = 4096 };

/* The key that a store must match to be used: the source it was made from, and the recipe. */
struct store_key {
	uint64_t fingerprint[2];
	char recipe[48]; /* text, zero-padded */
};

enum store_codec {
	STORE_PLAIN,
	STORE_CODED, /* records as codec.h makes them */
};

struct store_range {
	uint64_t offset, bytes;
};

/* The engine's digest of its plan: every tensor's role, shape, format and place. This layer only
 * compares it. */
struct store_digest {
	uint64_t word[2];
};

/* The layout of a store's units. */
struct store_layout {
	struct store_digest digest;
	enum store_codec codec;
	uint32_t layers, experts;
	uint64_t record_bytes;	     /* of the layer where records are largest */
	const uint64_t *layer_bytes; /* [layers], of a record of each; NULL: record_bytes in all */
	const struct store_range *dense; /* ascending, adjacent, from 0 */
	uint32_t dense_units;
};

struct store_info {
	struct store_key key;
	struct store_digest digest;
	enum store_codec codec;	  /* of the expert records */
	uint32_t layers, experts; /* routed layers, and experts in each */
	uint64_t experts_base; /* offset of record 0 in experts.safetensors, a multiple of 4096 */
	/* The exact size of a decoded record, in the layer with the largest; 0 without experts. */
	uint64_t record_bytes;
	bool mixed;	     /* layers have sizes of their own: store_record_bytes */
	uint64_t dense_base; /* offset of the data in dense.safetensors */
	uint64_t dense_bytes;
	uint32_t dense_units;
};

/* ---- reading ---- */

/* A complete store, the view of a conversion under way (store_writer_view), or a checkpoint used in
 * place (store_in_place.h). */
struct store;

/* Opens a complete store and reads its index. -ENOENT: there is none (no folder, no index, or only
 * a conversion under way); -ESTALE: it was made from another source or by another recipe (key given
 * and different); other codes: unreadable, foreign or damaged, in words. key may be NULL. */
int store_open(struct store **out, const char *folder, const struct store_key *key, struct err *e);
void store_close(struct store *s);
/* 0 if the store has this layout; then each unit has the size that the layout gives it. Else
 * -ESTALE with a sentence. */
int store_check(const struct store *s, const struct store_layout *layout, struct err *e);
const struct store_info *store_info(const struct store *s);
const char *store_folder(const struct store *s); /* as it was opened, for the words of errors */

/* Bytes of a decoded record of a layer. */
uint64_t store_record_bytes(const struct store *s, uint32_t layer);
/* Bytes of all expert records as stored. */
uint64_t store_experts_bytes(const struct store *s);

/* File and place of an expert's record, for readers with their own I/O (the pager). fd is open for
 * plain reads; direct_fd for O_DIRECT, or -1 where the file system refuses it, and then `align`
 * is 1. */
struct store_extent {
	int fd, direct_fd;
	uint64_t offset, bytes; /* as stored: in a coded store each record has its own */
	uint32_t align;		/* of offset, length and memory for direct_fd */
	uint64_t checksum;
};
/* For a store with files of its own, where a record is in one piece. */
struct store_extent store_expert(const struct store *s, uint32_t layer, uint32_t expert);

/* For any store: a record's pieces, in order. A store in place (store_in_place.h) has several. */
enum { STORE_PIECES = 12 };
struct store_extents {
	uint32_t count;
	struct store_extent extent[STORE_PIECES];
};
void store_expert_extents(const struct store *s, uint32_t layer, uint32_t expert,
			  struct store_extents *out);
/* Pieces of a record in memory: as read, or one whole record. */
struct store_pieces {
	uint32_t count;
	struct store_span {
		const void *data;
		size_t bytes;
	} piece[STORE_PIECES];
};
/* Fills the sentence for a failed read; code is an errno, ENODATA if a file ended too early. */
int store_read_failed(const struct store *s, uint32_t layer, uint32_t expert, int code,
		      struct err *e);
/* Whether the record is in the store: always, except in the view of a conversion. One atomic look:
 * a record that is in stays in; one that is not may come in at any moment. The other functions here
 * may be called only for records that are in. */
bool store_has_expert(const struct store *s, uint32_t layer, uint32_t expert);
/* 0 if the stored bytes have their checksum; else -EIO, naming store, layer and expert. */
int store_verify_expert(const struct store *s, uint32_t layer, uint32_t expert, const void *stored,
			struct err *e);
/* Verifies and decodes the bytes of store_expert's extent: -EIO as above, or -ENOMEM. In a plain
 * store *record is `stored`, and scratch may be NULL; in a coded store the record is decoded into
 * scratch[store_scratch_bytes]. Any number of threads, each with its own scratch. */
int store_unpack_expert(const struct store *s, uint32_t layer, uint32_t expert, const void *stored,
			void *scratch, const void **record, struct err *e);
/* The same for the pieces of store_expert_extents: *record is the decoded record, or in a plain
 * store `stored`. -ESTALE: a file that is used in place was changed. */
int store_unpack_pieces(const struct store *s, uint32_t layer, uint32_t expert,
			const struct store_pieces *stored, void *scratch,
			struct store_pieces *record, struct err *e);
size_t store_scratch_bytes(const struct store *s); /* enough for any record; 0: plain */
/* Reads bytes [offset, offset + bytes) of a record, which must lie within it, for callers that look
 * at an expert piece by piece. Unverified in a plain store. In a coded store the whole record is
 * read, verified and kept decoded until another is asked for. */
int store_read_expert(struct store *s, uint32_t layer, uint32_t expert, uint64_t offset,
		      void *buffer, size_t bytes, struct err *e);
/* Reads a whole record[bytes] through the page cache and verifies it, for callers that need one.
 * -EIO if the layer's records are of another size. */
int store_read_record(const struct store *s, uint32_t layer, uint32_t expert, void *record,
		      size_t bytes, struct err *e);

/* store_dense_unit: unit i is [offset, offset + bytes) of the data section. store_read_dense: reads
 * the whole unit into buffer[bytes], -EIO if that is not its size, and verifies the checksum. From
 * any thread. */
struct store_range store_dense_unit(const struct store *s, uint32_t unit);
int store_read_dense(const struct store *s, uint32_t unit, void *buffer, size_t bytes,
		     struct err *e);
/* Any bytes of the dense data, unverified: for rows of an embedding, since the unit's checksum
 * covers more. */
int store_read_dense_bytes(const struct store *s, uint64_t offset, void *buffer, size_t bytes,
			   struct err *e);

/* ---- writing ---- */

struct store_plan {
	struct store_key key;
	struct store_layout layout;
	/* Coded: what a stored record is expected to take, to tell whether the space will do; 0
	 * leaves that to the writes. */
	uint64_t expected_bytes;
	/* The whole safetensors heads: length, JSON, padding (the experts' to a multiple of 4096).
	 * A file with neither head nor data is empty. */
	const void *experts_header;
	size_t experts_header_bytes;
	const void *dense_header;
	size_t dense_header_bytes;
};

struct store_writer;

/* Creates the folder if needed (not its parents), takes the lock, and starts or resumes. -EBUSY:
 * another process is converting this checkpoint. -EEXIST: the finished store is there already
 * (another process was faster): open it. Leftovers of another plan are removed; a published store
 * of another key or layout stays until the new one replaces it. The space is checked first: -ENOSPC
 * says how much is missing and where, and leaves nothing behind that was not there before.
 */
int store_writer_open(struct store_writer **out, const char *folder, const struct store_plan *plan,
		      struct err *e);
/* The key of the interrupted conversion in this folder; -ENOENT if there is none that can be
 * resumed. */
int store_unfinished(const char *folder, struct store_key *key);
uint32_t store_writer_units(const struct store_writer *w);
/* True if the unit is in. For a unit of an earlier, interrupted conversion the first call reads the
 * data and checks it (so that resuming by itself takes no time). */
bool store_writer_has(struct store_writer *w, uint32_t unit);
/* Whether this writer resumed an earlier conversion. */
bool store_writer_resumed(const struct store_writer *w);
/* True once a sync failed: then only closing and opening again helps. */
bool store_writer_failed(struct store_writer *w);
/* Whether store_writer_open would resume an interrupted conversion by this plan. */
bool store_interrupted(const char *folder, const struct store_plan *plan);

/* Writes one unit in order, then commits it. Any number of puts may be open at once, each used by
 * one thread. Each begin is followed by exactly one commit, defer or abandon. -EEXIST: the unit is
 * in, or open elsewhere (store_writer_wait). A record that will be coded is collected in memory,
 * coded by the committing thread, and written then. After a failed commit the unit is missing and
 * may be begun again, unless a sync failed, or the writing of a coded record: then every later call
 * fails with the same words. */
struct store_put;
int store_put_begin(struct store_writer *w, uint32_t unit, struct store_put **out, struct err *e);
int store_put_bytes(struct store_put *p, const void *data, size_t bytes, struct err *e);
int store_put_commit(struct store_put *p, struct err *e); /* frees p, also when it fails */
void store_put_abandon(struct store_put *p);

/* Deferred commits: the writer's own thread commits in groups and then reports each unit's result
 * to `done`, with no lock held. The caller waits only while more than 32 MiB of records (or one
 * record, if larger) are not yet committed. For plain records these are dirty pages of the system,
 * for coded ones memory. Until then the unit counts as open (store_writer_wait). An error of
 * store_put_defer is reported like one of store_put_commit, and not to `done`.
 *
 * store_writer_defer is called once, before the first. Closing the writer finishes all deferred
 * commits; `done` must not wait for the thread that closes. */
typedef void store_done_fn(void *ctx, uint32_t unit, int failed, const struct err *e);
int store_writer_defer(struct store_writer *w, store_done_fn *done, void *ctx, struct err *e);
int store_put_defer(struct store_put *p, struct err *e); /* frees p, also when it fails */
/* Waits up to `milliseconds` while the unit is open elsewhere. False: it still is. */
bool store_writer_wait(struct store_writer *w, uint32_t unit, unsigned milliseconds);

/* A view of the store so far: everything above works on it for the units that are in. The view must
 * outlive the writer. It remains usable when the store is published or given up; units that were
 * not in then never come in. One view per writer. */
int store_writer_view(struct store_writer *w, struct store **out, struct err *e);

/* Publishes the store if every unit is in, else fails. No put may be open or deferred. After a
 * failure it may be called again and continues where it failed, unless a sync of the data did
 * (store_writer_failed). Either way only store_writer_close, with keep, is left to do. */
int store_writer_publish(struct store_writer *w, struct err *e);
/* Both: if it is not published, the journal is kept for a resume. Frees w and the lock. */
int store_writer_finish(struct store_writer *w, struct err *e);
/* Gives up for now. keep: leave the journal for a later resume; else remove what was written. */
void store_writer_close(struct store_writer *w, bool keep);

#endif
