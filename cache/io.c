/* The real implementation of io.h; tests replace it with their own. */
#include "cache/io.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Linux transfers at most 2 GiB less a page per call. A smaller round number keeps O_DIRECT
 * aligned.
 */
static const size_t io_most = (size_t)1 << 30;

static int64_t io_result(int64_t rc)
{
	return rc < 0 ? -errno : rc;
}

int64_t io_pread(int fd, void *buffer, size_t bytes, uint64_t offset)
{
	return io_result(pread(fd, buffer, bytes < io_most ? bytes : io_most, (off_t)offset));
}

int64_t io_pwrite(int fd, const void *buffer, size_t bytes, uint64_t offset)
{
	return io_result(pwrite(fd, buffer, bytes < io_most ? bytes : io_most, (off_t)offset));
}

int io_sync(int fd)
{
	return (int)io_result(fdatasync(fd));
}

int io_sync_folder(int fd)
{
	return (int)io_result(fsync(fd));
}

int io_reserve(int fd, uint64_t bytes)
{
	/* fallocate, not posix_fallocate: where the file system cannot reserve space,
	 * posix_fallocate writes every block. A sparse file of the right size is used instead. */
	if (bytes > 0 && fallocate(fd, 0, 0, (off_t)bytes) == 0)
		return 0;
	if (bytes > 0 && errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	return (int)io_result(ftruncate(fd, (off_t)bytes));
}

int io_free_space(int folder, uint64_t *bytes)
{
	struct statvfs v;
	if (fstatvfs(folder, &v))
		return -errno;
	if (__builtin_mul_overflow((uint64_t)v.f_bavail, (uint64_t)v.f_frsize, bytes))
		*bytes = UINT64_MAX;
	return 0;
}

int io_rename(int folder, const char *from, const char *to)
{
	return (int)io_result(renameat(folder, from, folder, to));
}

int io_remove(int folder, const char *name)
{
	return (int)io_result(unlinkat(folder, name, 0));
}

int io_ring_submit(struct io_uring *ring)
{
	return io_uring_submit(ring);
}

int io_ring_next(struct io_uring *ring, uint64_t *tag, int64_t *result)
{
	struct io_uring_cqe *cqe;
	int rc = io_uring_wait_cqe(ring, &cqe);
	if (rc < 0)
		return rc;
	*tag = io_uring_cqe_get_data64(cqe);
	*result = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return 0;
}
