/* The inside of an open store (store.c, store_in_place.c) and of a conversion under way
 * (store_writer.c, store_resume.c, store_put.c). Only these files include this header. */
#ifndef MOEFS_CACHE_STORE_INSIDE_H
#define MOEFS_CACHE_STORE_INSIDE_H

#include "cache/checksum.h"
#include "cache/err.h"
#include "cache/store.h"
#include "cache/store_files.h"
#include "cache/store_format.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- an open store ---- */

struct in_place_state;
struct in_place_source;

struct store {
	char *folder; /* for error messages */
	struct store_index index;
	int experts, direct, dense; /* open files, or -1 */
	uint32_t align;		    /* of reads through `direct` */

	pthread_mutex_t look; /* guards the fields below; no lock is taken under it */
	uint32_t looked_at;   /* the record in `looked`, unless that is NULL */
	uint8_t *looked;      /* [store_scratch_bytes] */
	/* [units], enum unit_state, changed by the writer whose view this is. NULL: all units are
	 * DONE. */
	_Atomic uint8_t *state;
	struct in_place_state *place; /* NULL: the store has its own files */
};

/* A store whose files are not open yet. NULL: out of memory, with the error set. */
struct store *store_new(const char *folder, struct err *e);

/* In store_in_place.c: the functions of store.h for a store in place; record: layer * experts +
 * expert. */
/* Makes a store without files a store in place of this source. After a failure of->close will not
 * be called. */
int store_in_place_attach(struct store *s, const struct in_place_source *of, struct err *e);
void store_in_place_free(struct in_place_state *p); /* may be NULL */
void store_in_place_extents(const struct store *s, uint32_t record, struct store_extents *out);
int store_in_place_verify(const struct store *s, uint32_t record, const struct store_pieces *stored,
			  struct err *e);
int store_in_place_read_record(const struct store *s, uint32_t record, uint64_t offset,
			       void *buffer, size_t bytes, struct err *e);
int store_in_place_read_dense(const struct store *s, uint32_t unit, void *buffer, size_t bytes,
			      struct err *e);
int store_in_place_read_failed(const struct store *s, uint32_t record, int code, struct err *e);

/* ---- a conversion under way ---- */

/* LEFT: the unit is in an earlier conversion's journal, and its data has not been checked yet. */
enum unit_state { UNIT_MISSING, UNIT_LEFT, UNIT_OPEN, UNIT_DONE };
enum { EXPERTS_FILE, DENSE_FILE, DATA_FILES };

struct writer_file {
	const char *name, *partial;
	int fd;	       /* of the partial file */
	uint64_t size; /* of the file when it is created */
	bool grows;    /* the file grows beyond `size`: coded experts */
};

struct store_writer {
	char *folder;
	struct store_lock lock;
	int journal;  /* open file, or -1 */
	bool resumed; /* some units were LEFT */
	bool lent;    /* a view, which outlives the writer, owns index and state */
	struct writer_file file[DATA_FILES];
	bool renamed[DATA_FILES]; /* from partial to name, by an attempt to publish */
	struct store_index index; /* filled unit by unit, published at the end */
	struct store_digest digest;
	uint64_t expected_bytes; /* of experts.safetensors, for the check of free space */

	pthread_mutex_t mutex; /* guards the fields below, and checksums[] of open units */
	pthread_cond_t synced;
	pthread_cond_t ended; /* signals that a unit is no longer open */
	_Atomic uint8_t
		*state; /* [units], enum unit_state; changed under the mutex, read without */
	struct store_put *finished; /* list of units that are written and wait for a sync */
	uint64_t deferred_bytes;    /* of finished units that no thread waits for */
	bool ending;		    /* the thread ends when the list is empty */
	bool syncing;		    /* a thread is in fdatasync; it alone uses the journal */
	struct err failure; /* code != 0: a sync failed, and nothing can be trusted any more */
	uint64_t journal_end;
	bool journal_dirty;
	uint64_t experts_end; /* coded: end of the last record; the syncing thread appends here */

	pthread_t thread; /* commits groups of deferred units */
	bool has_thread;
	store_done_fn *done;
	void *done_ctx;
};

/* Where a unit lies: its file, and the offset and size in that file. A coded record gets its place
 * when it is committed; before that it has 0 bytes. */
struct writer_place {
	const struct writer_file *file;
	uint64_t offset, bytes;
};
struct writer_place writer_unit_place(const struct store_writer *w, uint32_t unit);
static inline bool store_unit_is_coded(const struct store_writer *w, uint32_t unit)
{
	return w->index.stored && unit < store_records(&w->index.info);
}

/* ---- a unit that is being written ---- */

struct store_put {
	struct store_writer *writer;
	uint32_t unit;
	struct writer_place place; /* the range still to be written; coded: to be collected */
	XXH3_state_t *hash;	   /* of the bytes as stored */
	uint8_t *record; /* a coded record: the bytes collected so far; NULL after coding */
	uint8_t *coded;	 /* the coded record, until it is written */
	size_t stored;	 /* bytes written, or size of `coded` */
	int failed;	 /* negative errno of a failed write; then the unit is never committed */

	struct store_put *next; /* in the writer's list; guarded by its mutex, like the rest */
	bool deferred;		/* no thread waits for this unit */
	bool settled;		/* the commit has ended, with: */
	int result;
	struct err error;
};

/* Checks that the unit is complete, and codes it if needed. A failure ends the unit. */
int put_seal(struct store_put *p, struct err *e);
/* Ends the unit and frees p. Call without the mutex. */
void put_end(struct store_put *p, enum unit_state state);

/* Changes the unit from UNIT_OPEN to `state`. Call without the mutex. */
void writer_unit_end(struct store_writer *w, uint32_t unit, enum unit_state state);

/* Makes a writer for this plan without touching the disk. */
int store_writer_new(struct store_writer **out, const char *folder, const struct store_plan *plan,
		     struct err *e);
/* Removes the files of a conversion: journal and *.partial. */
void store_remove_leftovers(const struct store_writer *w);
/* Closes all files, which releases the lock, and frees everything. */
void store_writer_free(struct store_writer *w);

#endif
