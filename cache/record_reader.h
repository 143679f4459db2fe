/* Reads of whole expert records into aligned buffers, several in flight: by io_uring where the
 * kernel allows it, else by pread in the calling thread. A record in several pieces is one read:
 * its pieces are in flight together, and the read ends with the last of them.
 *
 * One thread uses a reader at a time, without a lock. A reader knows files and offsets, not
 * experts: the caller's tag says which read has ended. It neither verifies nor caches records. The
 * eventfd `wake`, which several readers may share, ends a wait, so that a thread that waits for a
 * read also hears of new work.
 *
 * A piece is read as the enclosing range that O_DIRECT asks for. What O_DIRECT refuses (EINVAL) or
 * leaves unfinished (a short read) is completed through the page cache, which takes any offset.
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

/* capacity: 1 … READER_MOST reads in flight. ring: try io_uring; without it reads continue one at a
 * time. wake: an eventfd that does not block; it belongs to the caller and outlives the reader. */
int reader_create(struct record_reader **out, unsigned capacity, bool ring, int wake,
		  struct err *e);
void reader_destroy(struct record_reader *r); /* with no read in flight */

/* True if reads continue by io_uring. */
bool reader_has_ring(const struct record_reader *r);
/* How many more reads it takes before one must be waited for and released. */
unsigned reader_room(const struct record_reader *r);

/* Queues a read (there must be room), and hands the queued ones to the kernel. */
int reader_queue(struct record_reader *r, const struct store_extents *record, void *tag,
		 struct err *e);
void reader_submit(struct record_reader *r);

struct read_done {
	void *tag;
	int result; /* 0, or a negative errno, the first piece's; -ENODATA: a file ended too early
		     */
	struct store_pieces record; /* valid until reader_release; none if it failed */
	uint64_t bytes;		    /* that came from the disk, the enclosing ranges' */
	unsigned buffer;	    /* the reader's own */
};
/* Waits for a queued read to end: true. False: `wake` was signalled first (one count is taken from
 * it); without a read in work that is the only end. */
bool reader_wait(struct record_reader *r, struct read_done *out);
void reader_release(struct record_reader *r, const struct read_done *done);

/* Frees the buffers that no read uses; the next reads allocate them again. Any thread. */
void reader_rest(struct record_reader *r);

#endif
