/* Opening, reading and writing the files of a store; see the header. */
#include "cache/store_files.h"

#include "cache/io.h"
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns fd if it is of the right type and belongs to the caller; otherwise closes fd and
 * fails. */
static int store_check_owned(int fd, bool folder, const char *path, const char *name, struct err *e)
{
	struct stat st;
	int rc = 0;
	if (fstat(fd, &st))
		rc = err_sys(e, errno, "%s/%s: cannot look at it", path, name);
	else if (folder ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))
		rc = err_set(e, EINVAL, "%s/%s: is not a %s; remove it", path, name,
			     folder ? "folder" : "regular file");
	else if (st.st_uid != geteuid())
		rc = err_set(e, EPERM,
			     "%s/%s: belongs to user %u, not to you; mount as that user (as root "
			     "with -o uid=%u), or choose another folder with -o store=",
			     path, name, (unsigned)st.st_uid, (unsigned)st.st_uid);
	if (rc)
		close(fd);
	return rc ? rc : fd;
}

/* Sets the error for a failed open. For a symbolic link O_NOFOLLOW gives ELOOP (file) or ENOTDIR
 * (folder). */
static int store_open_error(const char *folder, const char *name, int code, struct err *e)
{
	if (code == ELOOP)
		return err_set(e, ELOOP,
			       "%s/%s: is a symbolic link, which moefs does not follow; remove it",
			       folder, name);
	return err_sys(e, code, "%s/%s: cannot open", folder, name);
}

int store_folder_open(const char *folder, struct err *e)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOTDIR)
		return err_set(e, ENOTDIR,
			       "%s: is not a folder (a symbolic link is not followed); remove it, "
			       "or choose another folder with -o store=",
			       folder);
	if (fd < 0)
		return store_open_error(folder, "", errno, e);
	return store_check_owned(fd, true, folder, "", e);
}

int store_file_open(int dir, const char *folder, const char *name, int flags, struct err *e)
{
	/* O_NONBLOCK: a pipe in place of the file must be refused, not waited for. */
	int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (fd < 0)
		return store_open_error(folder, name, errno, e);
	return store_check_owned(fd, false, folder, name, e);
}

/* The alignment of offsets, lengths and memory that O_DIRECT needs; 0: O_DIRECT is not available.
 */
static uint32_t store_direct_alignment(int fd)
{
	struct statx x;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) || !(x.stx_mask & STATX_DIOALIGN))
		return STORE_ALIGN; /* kernels before 6.1: a page is enough for all usual disks */
	uint32_t align = x.stx_dio_mem_align > x.stx_dio_offset_align ? x.stx_dio_mem_align
								      : x.stx_dio_offset_align;
	bool usable = x.stx_dio_mem_align && x.stx_dio_offset_align && (align & (align - 1)) == 0;
	return usable ? align : 0;
}

int store_file_open_direct(int dir, const char *name, int flags, int plain, uint32_t *align)
{
	struct stat one, other;
	*align = 1;
	int fd = openat(dir, name, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK | flags);
	if (fd < 0)
		return -1;
	uint32_t asked = store_direct_alignment(fd);
	/* The file may have been replaced between the two opens. */
	if (asked && !fstat(plain, &one) && !fstat(fd, &other) && one.st_dev == other.st_dev &&
	    one.st_ino == other.st_ino) {
		*align = asked;
		return fd;
	}
	close(fd);
	return -1;
}

int64_t store_file_size(int fd, const char *folder, const char *name, struct err *e)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_sys(e, errno, "%s/%s: cannot look at it", folder, name);
	return st.st_size;
}

int store_file_read(int fd, void *buffer, size_t bytes, uint64_t offset, const char *folder,
		    const char *name, struct err *e)
{
	for (uint64_t done = 0; done < bytes;) {
		uint64_t at = offset + done;
		int64_t n = io_pread(fd, (char *)buffer + done, bytes - done, at);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return err_sys(e, (int)-n, "%s/%s: cannot read", folder, name);
		if (n == 0)
			return err_set(
				e, EIO,
				"%s/%s: ends at byte %llu, in the middle of its data; remove "
				"the folder to convert again",
				folder, name, (unsigned long long)at);
		done += (uint64_t)n;
	}
	return 0;
}

int store_write_error(struct err *e, int code, const char *folder, const char *name)
{
	if (code == ENOSPC || code == EDQUOT)
		return err_sys(
			e, code,
			"%s/%s: cannot be written; free some space, or choose another folder "
			"with -o store=",
			folder, name);
	if (code == EFBIG)
		return err_sys(e, code,
			       "%s/%s: cannot be written; raise the limit on file sizes (ulimit "
			       "-f), or choose a disk without such a limit with -o store=",
			       folder, name);
	return err_sys(e, code, "%s/%s: cannot be written", folder, name);
}

int store_file_write(int fd, const void *data, size_t bytes, uint64_t offset, const char *folder,
		     const char *name, struct err *e)
{
	for (size_t done = 0; done < bytes;) {
		int64_t n = io_pwrite(fd, (const char *)data + done, bytes - done, offset + done);
		if (n == -EINTR)
			continue;
		if (n <= 0) /* else a write of no bytes would be repeated forever */
			return store_write_error(e, n < 0 ? (int)-n : EIO, folder, name);
		done += (size_t)n;
	}
	return 0;
}

int store_file_reserve(int fd, uint64_t bytes, const char *folder, const char *name, struct err *e)
{
	int rc;
	do
		rc = io_reserve(fd, bytes);
	while (rc == -EINTR);
	return rc ? store_write_error(e, -rc, folder, name) : 0;
}

int store_file_sync(int fd, const char *folder, const char *name, struct err *e)
{
	int rc;
	do
		rc = io_sync(fd);
	while (rc == -EINTR);
	return rc ? store_write_error(e, -rc, folder, name) : 0;
}

int store_folder_sync(int dir, const char *folder, struct err *e)
{
	int rc;
	do
		rc = io_sync_folder(dir);
	while (rc == -EINTR);
	return rc ? store_write_error(e, -rc, folder, "") : 0;
}

/* ---- the lock ---- */

int store_lock_try(struct store_lock *l, const char *folder, struct err *e)
{
	l->fd = -1;
	l->dir = store_folder_open(folder, e);
	if (l->dir < 0)
		return l->dir == -ENOENT ? -EAGAIN : l->dir;
	l->fd = store_file_open(l->dir, folder, STORE_LOCK, O_RDWR | O_CREAT, e);
	if (l->fd < 0)
		return l->fd == -ENOENT ? -EAGAIN : l->fd;
	if (flock(l->fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			return err_sys(e, errno, "%s/" STORE_LOCK ": cannot lock", folder);
		return err_set(
			e, EBUSY,
			"%s: another process is converting this checkpoint; wait until it is done",
			folder);
	}
	/* The holder of the lock removes the file, and a lock on a removed file excludes no other
	 * process. So check that the locked file is still the one in the folder. */
	struct stat held, named;
	if (fstat(l->fd, &held) || fstatat(l->dir, STORE_LOCK, &named, AT_SYMLINK_NOFOLLOW) ||
	    held.st_ino != named.st_ino || held.st_dev != named.st_dev)
		return -EAGAIN;
	return 0;
}

int store_lock_take(struct store_lock *l, const char *folder, struct err *e)
{
	int rc;
	*l = (struct store_lock){.dir = -1, .fd = -1};
	do {
		store_lock_close(l);
		if (mkdir(folder, 0700) == 0)
			l->made_folder = true;
		else if (errno != EEXIST)
			return err_sys(e, errno,
				       "%s: cannot make this folder for the store; choose another "
				       "with -o store=",
				       folder);
		rc = store_lock_try(l, folder, e);
	} while (rc == -EAGAIN);
	return rc;
}

void store_lock_remove(const struct store_lock *l)
{
	(void)io_remove(l->dir, STORE_LOCK);
}

void store_lock_close(struct store_lock *l)
{
	io_close(l->fd);
	io_close(l->dir);
	l->dir = l->fd = -1;
}

/* ---- small files ---- */

int store_small_file_read(uint8_t **out, size_t *bytes, size_t most, const char *folder,
			  const char *name, struct err *e)
{
	int dir = store_folder_open(folder, e);
	int fd = dir < 0 ? dir : store_file_open(dir, folder, name, O_RDONLY, e);
	int64_t size = fd < 0 ? fd : store_file_size(fd, folder, name, e);
	int failed = size < 0 ? (int)size : 0;
	*bytes = !failed && (uint64_t)size < most ? (size_t)size : most;
	*out = failed ? NULL : malloc(most + 1);
	if (!failed && !*out)
		failed = err_sys(e, ENOMEM, "%s/%s", folder, name);
	if (!failed)
		failed = store_file_read(fd, *out, *bytes, 0, folder, name, e);
	io_close(fd);
	io_close(dir);
	if (failed) {
		free(*out);
		*out = NULL;
	}
	return failed;
}

int store_small_file_write(const void *data, size_t bytes, const char *folder, const char *name,
			   const char *partial, struct err *e)
{
	int dir = store_folder_open(folder, e);
	int fd = dir < 0 ? dir
			 : store_file_open(dir, folder, partial, O_RDWR | O_CREAT | O_TRUNC, e);
	int failed = fd < 0 ? fd : store_file_write(fd, data, bytes, 0, folder, partial, e);
	io_close(fd);
	if (!failed && (failed = io_rename(dir, partial, name)))
		failed = err_sys(e, -failed, "%s/%s: cannot be written", folder, name);
	if (failed && fd >= 0)
		(void)io_remove(dir, partial); /* if it stays, the next attempt overwrites it */
	io_close(dir);
	return failed;
}
