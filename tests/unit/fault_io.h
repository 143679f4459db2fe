/* Faults on demand: the functions of cache/io.h again, failing where a test says so.
 *
 * A program that includes this (once) defines them all, so the linker takes none from the library;
 * it is a header with code in it because every other .c file here is linked into every test.
 *
 * A power cut is a kill after which everything that was not synced is undone: writes, renames and
 * removals, all of them or a random half, as a disk may have written some of them.
 */
#ifndef MOEFS_TESTS_FAULT_IO_H
#define MOEFS_TESTS_FAULT_IO_H

#include "cache/io.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum fault_op {
	OP_READ = 1,
	OP_WRITE = 2,
	OP_SYNC = 4,
	OP_RESERVE = 8,
	OP_FOLDER = 16, /* renames, removals, and the syncing of the folder */
	OP_SUBMIT = 32,
};

enum cut { CUT_NOTHING, CUT_ALL, CUT_HALF };

static struct {
	long kill_at;		  /* the operation before which the process dies, from 1; 0 never */
	enum cut cut;		  /* what of the unsynced is lost then */
	_Atomic unsigned fail_on; /* kinds of operations, or-ed */
	_Atomic long fail_at;	  /* which of these fails, from 1; 0: every one */
	_Atomic int fail_code;	  /* an errno; 0: a read at the end of the file */
	_Atomic bool stutter; /* transfers of at most 700 bytes, and every third call interrupted */
	uint64_t free_bytes;  /* what the disk has; 0: what it really has */
	_Atomic long hold_at; /* the read that hangs, from 1, until this is 0 again */
	_Atomic bool held;    /* it does */
	_Atomic uint64_t
		hang_file;    /* its inode: every io_pread of it hangs, until this is 0 again */
	_Atomic long hanging; /* so many do */
	const char *_Atomic hold_sync; /* syncs of files with this in their names hang, until it is
					  NULL */
	_Atomic long syncs_held;       /* so many do */
	_Atomic long reads;	       /* so far */
	_Atomic long operations, failable;
	struct {
		enum fault_op op;
		int fd;
	} trace[64]; /* what was done while `tracing`, by one thread */
	unsigned traced;
	bool tracing;
} faults;

/* ---- what a power cut undoes ---- */

struct undo {
	struct undo *next; /* the one before */
	int fd;		   /* of the file written, or of the folder */
	uint64_t offset, size;
	uint8_t *old;
	char from[64], to[64], saved[32]; /* a rename; only saved and to: a removal */
};
static struct undo *undos;
static pthread_mutex_t undo_lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */

static void undo_one(const struct undo *u)
{
	if (u->old) {
		if (pwrite(u->fd, u->old, u->size, (off_t)u->offset) < 0)
			abort();
		return;
	}
	if (u->from[0])
		(void)renameat(u->fd, u->to, u->fd, u->from);
	if (u->saved[0])
		(void)renameat(u->fd, u->saved, u->fd, u->to);
}

static void cut_power(void)
{
	unsigned seed = (unsigned)faults.kill_at;
	bool skip_folder = false;
	pthread_mutex_lock(&undo_lock); /* for good: the end is near */
	for (struct undo *u = undos; u; u = u->next) {
		bool lose = faults.cut == CUT_ALL || (rand_r(&seed) & 64);
		/* Folder operations are lost from the last backwards, never out of the middle. */
		if (!u->old && !lose)
			skip_folder = true;
		if (lose && (u->old || !skip_folder))
			undo_one(u);
		else if (u->saved[0])
			(void)unlinkat(u->fd, u->saved, 0);
	}
}

static struct undo *undo_new(int fd)
{
	struct undo *u = calloc(1, sizeof *u);
	u->fd = fd;
	return u;
}

static void remember(struct undo *u)
{
	pthread_mutex_lock(&undo_lock);
	u->next = undos;
	undos = u;
	pthread_mutex_unlock(&undo_lock);
}

static void settle(int fd)
{
	pthread_mutex_lock(&undo_lock);
	for (struct undo **link = &undos; *link;) {
		struct undo *u = *link;
		if (u->fd != fd) {
			link = &u->next;
			continue;
		}
		*link = u->next;
		if (u->saved[0])
			(void)unlinkat(u->fd, u->saved, 0);
		free(u->old);
		free(u);
	}
	pthread_mutex_unlock(&undo_lock);
}

static void save_name(struct undo *u, const char *name)
{
	static unsigned n;
	(void)snprintf(u->to, sizeof u->to, "%s", name);
	(void)snprintf(u->saved, sizeof u->saved, "saved-%u", n++);
	if (linkat(u->fd, name, u->fd, u->saved, 0))
		u->saved[0] = 0;
}

/* ---- the gate that every operation passes ---- */

static int gate(enum fault_op op, int fd)
{
	if (faults.tracing && faults.traced < 64) {
		faults.trace[faults.traced].op = op;
		faults.trace[faults.traced++].fd = fd;
	}
	if (++faults.operations == faults.kill_at) {
		if (faults.cut != CUT_NOTHING)
			cut_power();
		(void)kill(getpid(), SIGKILL);
	}
	if (faults.stutter && op != OP_FOLDER && op != OP_SUBMIT && faults.operations % 3 == 0)
		return -EINTR;
	if (faults.fail_on & op) {
		long n = ++faults.failable;
		if (faults.fail_at == 0 || n == faults.fail_at)
			return faults.fail_code ? -faults.fail_code : 1;
	}
	return 0;
}

static size_t cut_short(size_t bytes)
{
	return faults.stutter && bytes > 700 ? 700 : bytes;
}

/* ---- a read that hangs ---- */

static const struct timespec fault_moment = {.tv_nsec = 1000000};

/* True for the one read that is to hang. */
static bool hangs(void)
{
	bool it = ++faults.reads == faults.hold_at;
	if (it)
		faults.held = true;
	return it;
}

static void hang(void)
{
	while (faults.hold_at)
		(void)nanosleep(&fault_moment, NULL);
	faults.held = false;
}

static void hang_with_file(int fd)
{
	struct stat st;
	if (!faults.hang_file || fstat(fd, &st) || st.st_ino != faults.hang_file)
		return;
	faults.hanging++;
	while (faults.hang_file)
		(void)nanosleep(&fault_moment, NULL);
	faults.hanging--;
}

static void hang_sync(int fd)
{
	char link[32], path[512];
	const char *name = faults.hold_sync;
	if (!name)
		return;
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = 0;
	if (!strstr(path, name))
		return;
	faults.syncs_held++;
	while (faults.hold_sync)
		(void)nanosleep(&fault_moment, NULL);
	faults.syncs_held--;
}

/* The completion that is held back, and whose it is. Others of the same ring pass it by. */
static struct {
	struct io_uring *_Atomic ring;
	uint64_t tag;
	int64_t result;
} held_back;

/* ---- io.h ---- */

int64_t io_pread(int fd, void *buffer, size_t bytes, uint64_t offset)
{
	if (hangs())
		hang();
	hang_with_file(fd);
	int rc = gate(OP_READ, fd);
	if (rc)
		return rc < 0 ? rc : 0;
	/* O_DIRECT takes no odd length: read it all and say less. */
	int64_t n = pread(fd, buffer, bytes, (off_t)offset);
	return n < 0 ? -errno : (int64_t)cut_short((size_t)n);
}

int64_t io_pwrite(int fd, const void *buffer, size_t bytes, uint64_t offset)
{
	int rc = gate(OP_WRITE, fd);
	if (rc)
		return rc;
	bytes = cut_short(bytes);
	if (faults.cut != CUT_NOTHING) {
		struct undo *u = undo_new(fd);
		u->offset = offset;
		u->old = malloc(bytes);
		memset(u->old, 0xee, bytes); /* beyond the end a torn write may leave anything */
		u->size = bytes;
		if (pread(fd, u->old, bytes, (off_t)offset) < 0)
			abort();
		remember(u);
	}
	int64_t n = pwrite(fd, buffer, bytes, (off_t)offset);
	return n < 0 ? -errno : n;
}

int io_sync(int fd)
{
	hang_sync(fd);
	int rc = gate(OP_SYNC, fd);
	if (!rc)
		settle(fd);
	return rc;
}

int io_sync_folder(int fd)
{
	int rc = gate(OP_FOLDER, fd);
	if (!rc)
		settle(fd);
	return rc;
}

int io_reserve(int fd, uint64_t bytes)
{
	int rc = gate(OP_RESERVE, fd);
	return rc ? rc : ftruncate(fd, (off_t)bytes);
}

int io_free_space(int folder, uint64_t *bytes)
{
	(void)folder;
	*bytes = faults.free_bytes ? faults.free_bytes : UINT64_MAX;
	return 0;
}

int io_rename(int folder, const char *from, const char *to)
{
	int rc = gate(OP_FOLDER, folder);
	if (rc)
		return rc;
	if (faults.cut != CUT_NOTHING) {
		struct undo *u = undo_new(folder);
		save_name(u, to);
		(void)snprintf(u->from, sizeof u->from, "%s", from);
		remember(u);
	}
	return renameat(folder, from, folder, to) ? -errno : 0;
}

int io_remove(int folder, const char *name)
{
	int rc = gate(OP_FOLDER, folder);
	if (rc)
		return rc;
	if (faults.cut != CUT_NOTHING) {
		struct undo *u = undo_new(folder);
		save_name(u, name);
		remember(u);
	}
	return unlinkat(folder, name, 0) ? -errno : 0;
}

int io_ring_submit(struct io_uring *ring)
{
	int rc = gate(OP_SUBMIT, -1);
	return rc ? rc : io_uring_submit(ring);
}

/* The next completion, or, once it may, the one that was held back. */
static int next_completion(struct io_uring *ring, uint64_t *tag, int64_t *result)
{
	struct __kernel_timespec moment = {.tv_nsec = 1000000};
	for (;;) {
		struct io_uring_cqe *cqe;
		bool holding = held_back.ring == ring;
		if (holding && !faults.hold_at) {
			*tag = held_back.tag;
			*result = held_back.result;
			held_back.ring = NULL;
			faults.held = false;
			return 0;
		}
		int rc = holding ? io_uring_wait_cqe_timeout(ring, &cqe, &moment)
				 : io_uring_wait_cqe(ring, &cqe);
		if (holding && rc == -ETIME)
			continue;
		if (rc < 0)
			return rc;
		*tag = io_uring_cqe_get_data64(cqe);
		*result = cqe->res;
		io_uring_cqe_seen(ring, cqe);
		if (*tag == IO_RING_POLL || !hangs())
			return 0;
		held_back.tag = *tag;
		held_back.result = *result;
		held_back.ring = ring;
	}
}

int io_ring_next(struct io_uring *ring, uint64_t *tag, int64_t *result)
{
	int rc = next_completion(ring, tag, result);
	if (rc < 0)
		return rc;
	if (*tag == IO_RING_POLL)
		return 0;
	rc = gate(OP_READ, -1);
	if (rc)
		*result = rc < 0 ? rc : 0;
	else if (*result > 0)
		*result = (int64_t)cut_short((size_t)*result);
	return 0;
}

#endif
