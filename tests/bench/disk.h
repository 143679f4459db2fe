/* The disk's ceiling: O_DIRECT reads of whole records from a temporary file, several in flight. */
#ifndef MOEFS_TESTS_BENCH_DISK_H
#define MOEFS_TESTS_BENCH_DISK_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>

struct disk {
	int fd; /* of disk_open: the file is unlinked and disappears when this is closed */
	uint64_t bytes;
};

enum { DISK_ALIGN = 4096, DISK_DEPTH_MOST = 64 };

/* Makes a file of random bytes in `folder`. ENOTSUP: its file system has no O_DIRECT. */
int disk_open(struct disk *d, const char *folder, uint64_t bytes, struct err *e);
/* An existing file. An empty one is ENOTSUP, too. */
int disk_open_file(struct disk *d, const char *path, struct err *e);
void disk_close(struct disk *d);

/* Bytes per second of reading records (a multiple of 4096 long) at random places for `seconds`,
 * `depth` of them in flight through io_uring. */
int disk_read(const struct disk *d, uint32_t record, uint32_t depth, double seconds, double *rate,
	      struct err *e);

#endif
