/* The system calls by which the store and the pager touch their data, and nothing else.
 *
 * This is the seam where tests inject faults: short reads, EIO, a full disk, a crash between any
 * two operations. It is a seam of the linker: all of these functions live in one object of the
 * library, so a test program that defines them itself never pulls that object in. That needs no
 * table of pointers carried through every call, no global state, and no flags in the build.
 *
 * Each is one attempt of one call: it returns what the call returned, or a negative errno. Callers
 * repeat after a short transfer or EINTR.
 */
#ifndef MOEFS_CACHE_IO_H
#define MOEFS_CACHE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

struct io_uring;

/* Bytes transferred, at most 1 GiB at once; 0 from io_pread is the end of the file. */
int64_t io_pread(int fd, void *buffer, size_t bytes, uint64_t offset);
int64_t io_pwrite(int fd, const void *buffer, size_t bytes, uint64_t offset);

/* The data is on the medium; for a folder: its entries are. */
int io_sync(int fd);
int io_sync_folder(int fd);

/* Gives a file its full size and, where the file system can, the space for it. */
int io_reserve(int fd, uint64_t bytes);
/* Bytes that the calling user may still write in this folder. */
int io_free_space(int folder, uint64_t *bytes);

int io_rename(int folder, const char *from, const char *to);
int io_remove(int folder, const char *name);

/* Closes a descriptor, unless it is negative. */
static inline void io_close(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* Hands queued reads to the kernel; returns how many it took. */
int io_ring_submit(struct io_uring *ring);
/* Waits for one read to end: its tag, and what a pread would have returned; or for a poll, whose
 * tag is IO_RING_POLL. */
enum { IO_RING_POLL = 1 << 30 };
int io_ring_next(struct io_uring *ring, uint64_t *tag, int64_t *result);

#endif
