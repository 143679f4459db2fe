/* The inside of an open store, shared by store.c, which reads it, and store_index.c, which reads,
 * checks and writes its index. */
#ifndef MOEFS_CACHE_STORE_INSIDE_H
#define MOEFS_CACHE_STORE_INSIDE_H

#include "cache/err.h"
#include "cache/store.h"
#include "cache/store_format.h"

#include <pthread.h>
#include <stdint.h>

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
};

/* Reads the index that is in a folder; `out` is to be freed if it succeeds. */
int index_read(struct store_index *out, int dir, const char *folder, struct err *e);
/* Writes it into the partial file beside it and syncs that. With the lock held. */
int index_write(int dir, const char *folder, const struct store_index *index, struct err *e);

/* Whether a store is the one that this plan makes; -ESTALE in words. The heads of its files are
 * held to the plan's where it is not identified. */
int store_matches(const struct store *s, const struct store_plan *plan, struct err *e);

#endif
