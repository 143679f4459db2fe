/* Reads of whole expert records into aligned buffers, several in flight: io_uring where the kernel
 * lets us, else pread in the calling thread.
 *
 * A reader is used by one thread at a time; it has no lock. It knows files and offsets, not
 * experts: a caller's tag says which read has ended. Records are neither verified nor cached here.
 *
 * A record is read as the enclosing range that O_DIRECT asks for. What O_DIRECT refuses (EINVAL) or
 * leaves unfinished (a short read) is completed through the page cache, which takes any offset.
 */
#ifndef MOEFS_CACHE_READER_H
#define MOEFS_CACHE_READER_H

#include "cache/err.h"
#include "cache/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { READER_DEPTH = 8 }; /* reads in flight, enough to keep one disk busy with records of 1 MB */

struct reader;

/* ring: try io_uring; the reader falls back to pread by itself. */
int reader_create(struct reader **out, bool ring, struct err *e);
void reader_destroy(struct reader *r); /* with no read in flight */

/* True if reads go on while the caller does something else. */
bool reader_async(const struct reader *r);
/* How many more reads it takes before one must be waited for and released. */
unsigned reader_room(const struct reader *r);

/* Queues a read (there must be room), and hands the queued ones to the kernel. */
int reader_queue(struct reader *r, const struct store_extent *record, uint32_t tag, struct err *e);
void reader_submit(struct reader *r);

struct read_done {
	uint32_t tag;
	int result;	    /* 0, or a negative errno; -ENODATA: the file ended too early */
	const void *record; /* valid until reader_release; NULL if it failed */
	uint64_t bytes;	    /* that came from the disk, the enclosing range's */
	unsigned buffer;    /* the reader's own */
};
/* Waits for any one of the reads that were queued; there must be one. */
void reader_wait(struct reader *r, struct read_done *out);
void reader_release(struct reader *r, const struct read_done *done);

#endif
