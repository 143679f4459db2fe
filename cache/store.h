/* The store: a converted checkpoint on disk. It is either complete or not a store.
 *
 * A store is a folder:
 *   experts.safetensors   all expert records. In a plain store they lie end to end in (layer,
 *                         expert) order, the records of a layer have one size, and the data
 *                         begins at a multiple of 4096, so that a record is one O_DIRECT read of
 *                         the enclosing aligned range. For a coded store see below
 *   dense.safetensors     everything else, as units of at most a few MiB
 *   index                 small and binary; a mount reads it instead of the headers
 *   lock                  held (flock) by the process that converts, refines or removes
 *   journal, *.partial    during a conversion, or after an interruption
 *
 * This layer knows bytes, units and (layer, expert) numbers. The engine knows what the bytes mean
 * and writes the text of the two safetensors headers. A unit is a contiguous run of bytes in one
 * file with one XXH3 checksum. Unit layer · experts + expert is that expert's record; the dense
 * units follow.
 *
 * The index also has a digest of the engine's plan, with which this layer tells layouts apart: two
 * layouts may have equal sizes and different meanings. A store is read only with the plan that it
 * was made by (store_check). Any other plan makes a new store.
 *
 * The order of writes makes a crash harmless. A unit's data is written and fdatasync'ed before its
 * journal entry is written. When all units are written, both files and then the index are synced
 * and renamed, and the folder is synced. An old index is removed before the data is renamed, and
 * the new index is renamed last: a folder without an index that matches its key is not a store. Any
 * number of threads may finish units, in any order. An interrupted conversion resumes from the
 * journal if the key and the plan are the same.
 *
 * A coded store keeps each record in the form of codec.h and is private to this program. Its dense
 * part is like that of a plain store. Each stored record has a length of its own. Records lie in
 * the order in which they were committed, each at the next multiple of 4096 after the one before.
 * So a record is one O_DIRECT read without bytes of its neighbours, its place need not be known
 * before it is written, and only the rest of a page is lost between two records, also after a
 * crash. Place and length are in the journal and the index. The unit's checksum covers the stored
 * bytes, so a resume need not decode, and damaged bytes never reach the decoder. The stored bytes
 * contain a checksum of the decoded record, which verifies the decoding.
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

/* What a store must match to be used: the source that it was made from, and the recipe. */
struct store_key {
	uint64_t fingerprint[2];
	char recipe[48]; /* text, zero-padded */
};

enum store_codec {
	STORE_PLAIN,
	STORE_CODED, /* records in the form of codec.h */
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
	uint64_t record_bytes;	     /* the largest record's size */
	const uint64_t *layer_bytes; /* [layers], record sizes; NULL: record_bytes in all */
	const struct store_range *dense; /* [dense_units], ascending and adjacent, from 0 on */
	uint32_t dense_units;
};

struct store_info {
	struct store_key key;
	struct store_digest digest;
	enum store_codec codec;	  /* of the expert records */
	uint32_t layers, experts; /* routed layers, and experts in each */
	uint64_t experts_base; /* offset of record 0 in experts.safetensors, a multiple of 4096 */
	/* The exact size of the largest decoded record; 0 without experts. */
	uint64_t record_bytes;
	bool mixed;	     /* layers differ in record size: see store_record_bytes */
	uint64_t dense_base; /* offset of the data in dense.safetensors */
	uint64_t dense_bytes;
	uint32_t dense_units;
};

/* ---- reading ---- */

/* A complete store, the view of a conversion under way (store_writer_view), or a checkpoint used in
 * place (store_in_place.h). */
struct store;

/* Opens a complete store and reads its index. -ENOENT: there is none (no folder, no index, or only
 * an unfinished conversion); -ESTALE: `key` is given, and the store was made from another source or
 * by another recipe; other codes: the store is unreadable, foreign or damaged. key may be NULL. */
int store_open(struct store **out, const char *folder, const struct store_key *key, struct err *e);
void store_close(struct store *s);
/* Returns 0 if the store has this layout; then each unit has the size given by the layout.
 * Otherwise -ESTALE with a sentence. */
int store_check(const struct store *s, const struct store_layout *layout, struct err *e);
const struct store_info *store_info(const struct store *s);
const char *store_folder(const struct store *s); /* as given to store_open, for error messages */

/* Bytes of a decoded record of a layer. */
uint64_t store_record_bytes(const struct store *s, uint32_t layer);
/* Bytes of all expert records as stored. */
uint64_t store_experts_bytes(const struct store *s);

/* File and place of an expert's record, for readers with their own I/O (the pager). fd is open for
 * plain reads, direct_fd for O_DIRECT. Where the file system refuses O_DIRECT, direct_fd is -1 and
 * `align` is 1. */
struct store_extent {
	int fd, direct_fd;
	uint64_t offset, bytes; /* as stored: in a coded store each record has its own */
	uint32_t align;		/* of offset, length and memory for direct_fd */
	uint64_t checksum;
};
/* For a store with its own files, where a record is in one piece. */
struct store_extent store_expert(const struct store *s, uint32_t layer, uint32_t expert);

/* For any store: a record's pieces, in order. A store in place (store_in_place.h) has several. */
enum { STORE_PIECES = 12 };
struct store_extents {
	uint32_t count;
	struct store_extent extent[STORE_PIECES];
};
void store_expert_extents(const struct store *s, uint32_t layer, uint32_t expert,
			  struct store_extents *out);
/* The pieces of a record in memory: as read, or one piece with the whole record. */
struct store_pieces {
	uint32_t count;
	struct store_span {
		const void *data;
		size_t bytes;
	} piece[STORE_PIECES];
};
/* Sets the error for a failed read. code: an errno; ENODATA: a file ended too early. */
int store_read_failed(const struct store *s, uint32_t layer, uint32_t expert, int code,
		      struct err *e);
/* Whether the store has the record: always, except in the view of a conversion. Reads one atomic. A
 * record that the store has stays; a record that is missing may be added at any moment. Call the
 * other functions here only for records that the store has. */
bool store_has_expert(const struct store *s, uint32_t layer, uint32_t expert);
/* Returns 0 if the stored bytes match their checksum. Otherwise -EIO; the error names store, layer
 * and expert. */
int store_verify_expert(const struct store *s, uint32_t layer, uint32_t expert, const void *stored,
			struct err *e);
/* Verifies and decodes the bytes of store_expert's extent: -EIO as above, or -ENOMEM. In a plain
 * store *record is `stored`, and scratch may be NULL. In a coded store the record is decoded into
 * scratch[store_scratch_bytes]. From any number of threads, each with its own scratch. */
int store_unpack_expert(const struct store *s, uint32_t layer, uint32_t expert, const void *stored,
			void *scratch, const void **record, struct err *e);
/* store_unpack_expert for the pieces of store_expert_extents. *record is the decoded record, or in
 * a plain store `stored`. -ESTALE: a file used in place was changed. */
int store_unpack_pieces(const struct store *s, uint32_t layer, uint32_t expert,
			const struct store_pieces *stored, void *scratch,
			struct store_pieces *record, struct err *e);
size_t store_scratch_bytes(const struct store *s); /* enough for any record; 0: plain */
/* Reads bytes [offset, offset + bytes) of a record, for callers that inspect an expert piece by
 * piece. The range must lie within the record. Not verified in a plain store. In a coded store the
 * whole record is read, verified and kept decoded until another record is read. */
int store_read_expert(struct store *s, uint32_t layer, uint32_t expert, uint64_t offset,
		      void *buffer, size_t bytes, struct err *e);
/* Reads a whole record[bytes] through the page cache and verifies it. -EIO if the layer's records
 * have another size. */
int store_read_record(const struct store *s, uint32_t layer, uint32_t expert, void *record,
		      size_t bytes, struct err *e);

/* store_dense_unit: unit i is [offset, offset + bytes) of the data section. store_read_dense: reads
 * the whole unit into buffer[bytes] and verifies the checksum; -EIO if the unit has another size.
 * From any thread. */
struct store_range store_dense_unit(const struct store *s, uint32_t unit);
int store_read_dense(const struct store *s, uint32_t unit, void *buffer, size_t bytes,
		     struct err *e);
/* Reads any bytes of the dense data without verifying them. For rows of an embedding: the unit's
 * checksum covers more than a row. */
int store_read_dense_bytes(const struct store *s, uint64_t offset, void *buffer, size_t bytes,
			   struct err *e);

/* ---- writing ---- */

struct store_plan {
	struct store_key key;
	struct store_layout layout;
	/* Coded: the expected size of a stored record, for the check of free space. 0: no check in
	 * advance; a full disk then fails a write. */
	uint64_t expected_bytes;
	/* The complete safetensors headers: length, JSON, padding (the experts' header to a
	 * multiple of 4096). A file without header and data is empty. */
	const void *experts_header;
	size_t experts_header_bytes;
	const void *dense_header;
	size_t dense_header_bytes;
};

struct store_writer;

/* Creates the folder if needed (not its parents), takes the lock, and starts or resumes a
 * conversion. -EBUSY: another process is converting this checkpoint. -EEXIST: the complete store is
 * there already (another process was faster): open it. Removes what another plan's conversion left.
 * A published store of another key or layout stays until the new store replaces it. Checks the free
 * space first: -ENOSPC says how much is missing and where, and leaves nothing new behind.
 */
int store_writer_open(struct store_writer **out, const char *folder, const struct store_plan *plan,
		      struct err *e);
/* The key of the interrupted conversion in this folder; -ENOENT if none can be resumed. */
int store_unfinished(const char *folder, struct store_key *key);
uint32_t store_writer_units(const struct store_writer *w);
/* True if the unit is written. For a unit of an earlier, interrupted conversion the first call
 * reads and checks the data, so that store_writer_open itself takes no time. */
bool store_writer_has(struct store_writer *w, uint32_t unit);
/* Whether this writer resumed an earlier conversion. */
bool store_writer_resumed(const struct store_writer *w);
/* True once a sync has failed. Then the writer has to be closed and opened again. */
bool store_writer_failed(struct store_writer *w);
/* Whether store_writer_open would resume an interrupted conversion by this plan. */
bool store_interrupted(const char *folder, const struct store_plan *plan);

/* Writes one unit from start to end, then commits it. Any number of puts may be open at once, each
 * used by one thread. After each begin call exactly one of commit, defer and abandon. -EEXIST: the
 * unit is written already, or open in another put (store_writer_wait). A record that will be coded
 * is collected in memory, coded by the committing thread, and then written. After a failed commit
 * the unit is missing and may be begun again. But if a sync or the writing of a coded record
 * failed, every later call fails with the same error. */
struct store_put;
int store_put_begin(struct store_writer *w, uint32_t unit, struct store_put **out, struct err *e);
int store_put_bytes(struct store_put *p, const void *data, size_t bytes, struct err *e);
int store_put_commit(struct store_put *p, struct err *e); /* frees p, also when it fails */
void store_put_abandon(struct store_put *p);

/* Deferred commits: the writer's own thread commits groups of units and reports each unit's result
 * to `done`, without holding a lock. The caller waits only while more than 32 MiB of records (or
 * one record, if larger) are uncommitted. Uncommitted plain records are dirty pages of the system;
 * coded ones are in memory. Until the commit the unit counts as open (store_writer_wait). An error
 * of store_put_defer itself is returned, like an error of store_put_commit, and not reported to
 * `done`.
 *
 * Call store_writer_defer once, before the first store_put_defer. Closing the writer finishes all
 * deferred commits; `done` must not wait for the thread that closes. */
typedef void store_done_fn(void *ctx, uint32_t unit, int failed, const struct err *e);
int store_writer_defer(struct store_writer *w, store_done_fn *done, void *ctx, struct err *e);
int store_put_defer(struct store_put *p, struct err *e); /* frees p, also when it fails */
/* Waits up to `milliseconds` while the unit is open in another put. False: it is still open. */
bool store_writer_wait(struct store_writer *w, uint32_t unit, unsigned milliseconds);

/* A view of the store so far: all functions above work on the view for the units that are written.
 * The view must outlive the writer. It remains usable when the store is published or the writer is
 * closed; units that are missing then never come. One view per writer. */
int store_writer_view(struct store_writer *w, struct store **out, struct err *e);

/* Publishes the store. Fails if a unit is missing. No put may be open or deferred. After a failure
 * it may be called again and continues where it failed, unless a sync of the data failed
 * (store_writer_failed). After this only store_writer_close, with keep, may be called. */
int store_writer_publish(struct store_writer *w, struct err *e);
/* Publishes and closes. If publishing fails, the journal is kept for a resume. Frees w and the
 * lock. */
int store_writer_finish(struct store_writer *w, struct err *e);
/* Ends writing without publishing. keep: leaves the journal for a later resume; otherwise removes
 * everything that was written. */
void store_writer_close(struct store_writer *w, bool keep);

#endif
