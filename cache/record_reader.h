/* Reads whole expert records into aligned buffers, several at a time: with io_uring where the
 * kernel allows it, else with pread in the calling thread. A record in several pieces is one read:
 * its pieces are in flight together, and the read ends with the last piece.
 *
 * Only one thread uses a reader at a time, without a lock. A reader knows files and offsets, not
 * experts: the caller's tag says which read has ended. It neither verifies nor caches records. The
 * eventfd `wake`, which several readers may share, ends a wait, so that a thread that waits for a
 * read also learns of new work.
 *
 * A piece is read as the enclosing range with the alignment that O_DIRECT needs. Where O_DIRECT
 * fails with EINVAL or reads too little, the rest is read through the page cache, at any offset.
 */
#ifndef MOEFS_CACHE_RECORD_READER_H
#define MOEFS_CACHE_RECORD_READER_H

#include "cache/err.h"
#include "cache/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { READER_MOST = 8 }; /* reads in flight */

struct record_reader;

/* capacity: 1 … READER_MOST reads in flight. ring: try io_uring; without it reads run one at a
 * time. wake: a non-blocking eventfd, owned by the caller, which must outlive the reader. */
int reader_create(struct record_reader **out, unsigned capacity, bool ring, int wake,
		  struct err *e);
void reader_destroy(struct record_reader *r); /* no read may be in flight */

/* True if reads use io_uring. */
bool reader_has_ring(const struct record_reader *r);
/* How many more reads can be queued before one has to be waited for and released. */
unsigned reader_room(const struct record_reader *r);

/* reader_queue queues a read (reader_room must not be 0); reader_submit hands queued reads to the
 * kernel. */
int reader_queue(struct record_reader *r, const struct store_extents *record, void *tag,
		 struct err *e);
void reader_submit(struct record_reader *r);

struct read_done {
	void *tag;
	int result; /* 0, or the negative errno of the piece that failed first; -ENODATA: a file
		     * ended too early */
	struct store_pieces record; /* valid until reader_release; empty if the read failed */
	uint64_t bytes;		    /* bytes read from the disk, enclosing ranges included */
	unsigned buffer;	    /* for the reader only */
};
/* Waits until a queued read ends: true. False: `wake` was signalled first (the call takes one count
 * from the eventfd). Without queued reads only `wake` ends the wait. */
bool reader_wait(struct record_reader *r, struct read_done *out);
void reader_release(struct record_reader *r, const struct read_done *done);

/* Frees the buffers that no read uses; the next reads allocate them again. From any thread. */
void reader_rest(struct record_reader *r);

#endif
