#include "tests/bench/disk.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { WRITE_BYTES = 4 << 20, HUGE_PAGE = 2 << 20 };

/* ---- the file ---- */

static int check_space(const char *folder, uint64_t bytes, struct err *e)
{
	struct statvfs v;
	if (statvfs(folder, &v))
		return err_sys(e, errno, "%s: cannot be looked at", folder);
	uint64_t room = (uint64_t)v.f_bavail * v.f_frsize;
	if (room / 2 < bytes)
		return err_set(e, ENOSPC,
			       "%s: a file of %llu MB would take more than half of what is free; "
			       "choose another --dir or a smaller --file",
			       folder, (unsigned long long)(bytes >> 20));
	return 0;
}

static int make_file(struct disk *d, const char *folder, struct err *e)
{
	char path[4096];
	if (snprintf(path, sizeof path, "%s/moefs-bench-XXXXXX", folder) >= (int)sizeof path)
		return err_set(e, ENAMETOOLONG, "%.64s…: the path is too long", folder);
	d->fd = mkostemp(path, O_CLOEXEC | O_DIRECT);
	if (d->fd < 0 && errno == EINVAL) {
		unlink(path); /* made, and then refused */
		return err_set(e, ENOTSUP, "%s: its file system has no O_DIRECT", folder);
	}
	if (d->fd < 0)
		return err_sys(e, errno, "%s: cannot be made", path);
	unlink(path);
	return 0;
}

/* Random, since some devices deduplicate. */
static int fill_file(const struct disk *d, const char *folder, struct err *e)
{
	void *buffer = aligned_alloc(DISK_ALIGN, WRITE_BYTES);
	int failed = buffer ? 0 : err_set(e, ENOMEM, "out of memory for writing a file");
	for (uint64_t done = 0; done < d->bytes && !failed;) {
		random_bytes(buffer, WRITE_BYTES, done);
		size_t want = d->bytes - done < WRITE_BYTES ? d->bytes - done : WRITE_BYTES;
		ssize_t got = pwrite(d->fd, buffer, want, (off_t)done);
		if (got <= 0 && errno != EINTR)
			failed = err_sys(e, got ? errno : EIO,
					 "%s: a file of %llu MB cannot be "
					 "written",
					 folder, (unsigned long long)(d->bytes >> 20));
		done += got > 0 ? (uint64_t)got / DISK_ALIGN * DISK_ALIGN : 0;
	}
	free(buffer);
	if (!failed && fsync(d->fd))
		failed = err_sys(e, errno, "%s: a file cannot be synced", folder);
	return failed;
}

int disk_open(struct disk *d, const char *folder, uint64_t bytes, struct err *e)
{
	*d = (struct disk){.fd = -1, .bytes = bytes / DISK_ALIGN * DISK_ALIGN};
	int failed = check_space(folder, d->bytes, e);
	if (!failed)
		failed = make_file(d, folder, e);
	if (!failed)
		failed = fill_file(d, folder, e);
	if (failed)
		disk_close(d);
	return failed;
}

int disk_open_file(struct disk *d, const char *path, struct err *e)
{
	struct stat st;
	*d = (struct disk){.fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC)};
	if (d->fd < 0)
		return err_sys(e, errno, "%s: cannot be read directly", path);
	if (fstat(d->fd, &st) || st.st_size < DISK_ALIGN) {
		disk_close(d);
		return err_set(e, ENOTSUP, "%s: there is nothing in it", path);
	}
	d->bytes = (uint64_t)st.st_size / DISK_ALIGN * DISK_ALIGN;
	return 0;
}

void disk_close(struct disk *d)
{
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

/* ---- reading ---- */

struct reading {
	const struct disk *disk;
	struct io_uring ring;
	uint8_t *buffers; /* one record for each read in flight */
	uint32_t record, in_flight;
	uint64_t random;
};

static void start_read(struct reading *r, uint32_t buffer)
{
	uint64_t places = r->disk->bytes / r->record;
	uint64_t at = random_u64(&r->random) % places * r->record;
	struct io_uring_sqe *s = io_uring_get_sqe(&r->ring);
	if (!s) /* cannot be: the ring has an entry for each buffer */
		return;
	io_uring_prep_read(s, r->disk->fd, r->buffers + (size_t)buffer * r->record, r->record, at);
	io_uring_sqe_set_data64(s, buffer);
	r->in_flight++;
}

/* Waits for one read; its buffer's number, or a negative errno. */
static int end_read(struct reading *r, struct err *e)
{
	struct io_uring_cqe *c;
	int code = io_uring_submit_and_wait(&r->ring, 1);
	if (code >= 0 || code == -EINTR)
		code = io_uring_wait_cqe(&r->ring, &c);
	if (code == -EINTR)
		return end_read(r, e);
	if (code < 0)
		return err_sys(e, -code, "io_uring does not go on");
	int got = c->res, buffer = (int)io_uring_cqe_get_data64(c);
	io_uring_cqe_seen(&r->ring, c);
	r->in_flight--;
	if (got != (int)r->record)
		return err_sys(e, got < 0 ? -got : EIO, "a record of %u bytes cannot be read",
			       r->record);
	return buffer;
}

static int read_for(struct reading *r, uint32_t depth, double seconds, double *rate, struct err *e)
{
	double begun = seconds_now(), passed = 0;
	uint64_t records = 0;
	int failed = 0;
	for (uint32_t i = 0; i < depth; i++)
		start_read(r, i);
	while (r->in_flight) {
		int buffer = end_read(r, e);
		if (buffer < 0 && !failed)
			failed = buffer;
		if (failed && !r->in_flight)
			break;
		records += buffer >= 0;
		passed = seconds_now() - begun;
		if (passed < seconds && !failed)
			start_read(r, (uint32_t)buffer);
		if (failed && buffer < 0 && failed != -EIO)
			break; /* the ring itself is broken: closing it ends the rest */
	}
	*rate = (double)records * r->record / passed;
	return failed;
}

int disk_read(const struct disk *d, uint32_t record, uint32_t depth, double seconds, double *rate,
	      struct err *e)
{
	/* Other places each time: a host keeps earlier reads in memory. */
	uint64_t seed = (uint64_t)(seconds_now() * 1e9);
	struct reading r = {.disk = d, .record = record, .random = seed};
	if (record > d->bytes || depth > DISK_DEPTH_MOST)
		return err_set(e, ERANGE, "a record of %u bytes is larger than the file", record);
	int code = io_uring_queue_init(DISK_DEPTH_MOST, &r.ring, 0);
	if (code)
		return err_sys(e, -code, "there is no io_uring here");
	size_t bytes = ((size_t)record * depth + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	r.buffers = aligned_alloc(HUGE_PAGE, bytes);
	if (r.buffers) /* the device's best: small pages cost it up to half of its speed */
		(void)madvise(r.buffers, bytes, MADV_HUGEPAGE);
	int failed = r.buffers ? read_for(&r, depth, seconds, rate, e)
			       : err_set(e, ENOMEM, "out of memory for %u reads", depth);
	io_uring_queue_exit(&r.ring);
	free(r.buffers);
	return failed;
}
