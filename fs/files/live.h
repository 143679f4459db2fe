/* What kinds of files share that are live or assembled but for a part (live.c): members of their
 * struct file_ops. */
#ifndef MOEFS_FS_LIVE_H
#define MOEFS_FS_LIVE_H

#include "fs/mount/handle.h"

enum { VALUE_MAX_BYTES = 64 << 10 };

ssize_t live_read(struct handle *h, struct file_call *c, char *buffer);
int live_write(struct handle *h, const char *data, size_t size, uint64_t offset, struct err *e);
int assembled_write(struct handle *h, const char *data, size_t size, uint64_t offset,
		    struct err *e);
int assembled_truncate(struct handle *h, uint64_t size, struct err *e);
int assembled_flush(struct handle *h, bool by_opener, struct err *e);
void assembled_release(struct handle *h);

#endif
