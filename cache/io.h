/* The system calls with which the store and the pager read and write their data, and nothing else.
 *
 * Tests inject faults here: short reads, EIO, a full disk, a crash between any two operations. The
 * linker does the replacing: all of these functions are in one object of the library, so a test
 * program that defines them itself never links that object. So no table of pointers has to be
 * passed through every call, and no global state or build flag is needed.
 *
 * Each function makes one attempt of one call and returns the result of the call, or a negative
 * errno. Callers repeat the call after a short transfer or EINTR.
 */
#ifndef MOEFS_CACHE_IO_H
#define MOEFS_CACHE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

struct io_uring;

/* Returns the bytes transferred, at most 1 GiB per call; 0 from io_pread: end of file. */
int64_t io_pread(int fd, void *buffer, size_t bytes, uint64_t offset);
int64_t io_pwrite(int fd, const void *buffer, size_t bytes, uint64_t offset);

/* Returns once the data (for a folder: its entries) is on the medium. */
int io_sync(int fd);
int io_sync_folder(int fd);

/* Gives a file its full size and, where the file system can, reserves the space. */
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

/* Hands queued reads to the kernel; returns how many the kernel took. */
int io_ring_submit(struct io_uring *ring);
/* Waits for one read to end: stores the read's tag, and the result that pread would have had. A
 * poll that ends has the tag IO_RING_POLL. */
enum { IO_RING_POLL = 1 << 30 };
int io_ring_next(struct io_uring *ring, uint64_t *tag, int64_t *result);

#endif
