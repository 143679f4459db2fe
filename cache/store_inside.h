/* The inside of an open store, shared by store.c, which reads it, store_index.c, which reads,
 * checks and writes its index, and store_place.c, where it is a checkpoint in the place of one. */
#ifndef MOEFS_CACHE_STORE_INSIDE_H
#define MOEFS_CACHE_STORE_INSIDE_H

#include "cache/err.h"
#include "cache/store.h"
#include "cache/store_format.h"

#include <pthread.h>
#include <stdint.h>

struct placed;

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
	struct placed *place; /* NULL: it has files of its own */
};

/* None of its files is open yet; NULL: out of memory, in words. */
struct store *store_new(const char *folder, struct err *e);

/* Reads the index that is in a folder; `out` is to be freed if it succeeds. */
int index_read(struct store_index *out, int dir, const char *folder, struct err *e);
/* Writes it into the partial file beside it and syncs that. With the lock held. */
int index_write(int dir, const char *folder, const struct store_index *index, struct err *e);

/* placed.c: what store.h says, of a store in place and its record `record`. */
void placed_free(struct placed *p); /* NULL is fine */
void placed_extents(const struct store *s, uint32_t record, struct store_extents *out);
int placed_verify(const struct store *s, uint32_t record, const struct store_pieces *stored,
		  struct err *e);
int placed_read_record(const struct store *s, uint32_t record, uint64_t offset, void *buffer,
		       size_t bytes, struct err *e);
int placed_read_dense(const struct store *s, uint32_t unit, void *buffer, size_t bytes,
		      struct err *e);
int placed_read_failed(const struct store *s, uint32_t record, int code, struct err *e);

#endif
