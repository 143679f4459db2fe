/* The inside of an open store (store.c, store_in_place.c) and of a conversion under way
 * (store_writer.c, store_resume.c, store_put.c). For these files only. */
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
	char *folder; /* for the words of errors */
	struct store_index index;
	int experts, direct, dense; /* descriptors, or -1 */
	uint32_t align;		    /* of reads through `direct` */

	pthread_mutex_t look; /* guards what follows; nothing is taken under it */
	uint32_t looked_at;   /* the record in `looked`, if that is not NULL */
	uint8_t *looked;      /* [store_scratch_bytes] */
	/* [units], enum unit_state, changed by the writer that this is a view of; NULL: all are in
	 */
	_Atomic uint8_t *state;
	struct in_place_state *place; /* NULL: it has files of its own */
};

/* None of its files is open yet; NULL: out of memory, in words. */
struct store *store_new(const char *folder, struct err *e);

/* store_in_place.c: what store.h says, of a store in place and its record `record`. */
/* Makes an empty store one in place of this source. After a failure `of->close` is not called. */
int store_in_place_attach(struct store *s, const struct in_place_source *of, struct err *e);
void store_in_place_free(struct in_place_state *p); /* NULL is fine */
void store_in_place_extents(const struct store *s, uint32_t record, struct store_extents *out);
int store_in_place_verify(const struct store *s, uint32_t record, const struct store_pieces *stored,
			  struct err *e);
int store_in_place_read_record(const struct store *s, uint32_t record, uint64_t offset,
			       void *buffer, size_t bytes, struct err *e);
int store_in_place_read_dense(const struct store *s, uint32_t unit, void *buffer, size_t bytes,
			      struct err *e);
int store_in_place_read_failed(const struct store *s, uint32_t record, int code, struct err *e);

/* ---- a conversion under way ---- */

/* LEFT: an earlier conversion's journal has it, and its data has not been looked at yet. */
enum unit_state { UNIT_MISSING, UNIT_LEFT, UNIT_OPEN, UNIT_DONE };
enum { EXPERTS_FILE, DENSE_FILE, DATA_FILES };

struct writer_file {
	const char *name, *partial;
	int fd;	       /* of the partial file */
	uint64_t size; /* that it has from the start */
	bool grows;    /* beyond that: experts that are coded */
};

struct store_writer {
	char *folder;
	struct store_lock lock;
	int journal;  /* its descriptor, or -1 */
	bool resumed; /* some units were LEFT */
	bool lent;    /* index and state belong to a view, which outlives this */
	struct writer_file file[DATA_FILES];
	bool renamed[DATA_FILES]; /* from partial to name, by an attempt to publish */
	struct store_index index; /* filled unit by unit, and published at the end */
	struct store_digest digest;
	uint64_t expected_bytes; /* of experts.safetensors, for the check of space */

	pthread_mutex_t mutex; /* guards what follows, and checksums[] of open units */
	pthread_cond_t synced;
	pthread_cond_t ended; /* a unit is no longer open */
	_Atomic uint8_t
		*state; /* [units], enum unit_state; changed under the mutex, read without */
	struct store_put *finished; /* written, waiting to be synced */
	uint64_t deferred_bytes;    /* of finished units that nobody waits for */
	bool ending;		    /* the thread leaves when no more are finished */
	bool syncing;		    /* one thread is in fdatasync; it alone touches the journal */
	struct err failure; /* code != 0: a sync failed, after which nothing more can be trusted */
	uint64_t journal_end;
	bool journal_dirty;
	uint64_t experts_end; /* coded: of the last record; the one who syncs appends there */

	pthread_t thread; /* leads groups of deferred units */
	bool has_thread;
	store_done_fn *done;
	void *done_ctx;
};

/* Where a unit lies: its file, and the offset and size in that file. A coded record has a place
 * once it is committed, and 0 bytes before. */
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
	struct writer_place place; /* what is still to be written; coded: to be collected */
	XXH3_state_t *hash;	   /* of the bytes as they are stored */
	uint8_t *record; /* of a coded record: what was collected, and once that is whole */
	uint8_t *coded;	 /* what it became, until it is written */
	size_t stored;	 /* bytes of it as they are stored */
	int failed;	 /* of a write: a negative errno; such a unit is never committed */

	struct store_put *next; /* in the writer's list, under its mutex, as is what follows */
	bool deferred;		/* nobody waits for it */
	bool settled;		/* the outcome: */
	int result;
	struct err error;
};

/* Checks that the unit is whole, and codes it if it is to be coded; after a failure the unit is
 * ended. */
int put_seal(struct store_put *p, struct err *e);
/* Ends the unit and frees p. The mutex is not held. */
void put_end(struct store_put *p, enum unit_state state);

/* Ends UNIT_OPEN. The mutex is not held. */
void writer_unit_end(struct store_writer *w, uint32_t unit, enum unit_state state);

/* A writer for this plan, of which nothing is on disk yet. */
int store_writer_new(struct store_writer **out, const char *folder, const struct store_plan *plan,
		     struct err *e);
/* Removes what a conversion leaves while it runs: journal and *.partial. */
void store_remove_leftovers(const struct store_writer *w);
/* Closes all descriptors and with them gives up the lock; frees everything. */
void store_writer_free(struct store_writer *w);

#endif
