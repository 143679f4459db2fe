/* The files of a store's folder: their names, opening them safely, whole reads and writes, the
 * lock, and small files that are replaced as a whole.
 *
 * A store may lie where others can write, so opening is suspicious: never through a symbolic link,
 * never a device or pipe, never a file of another user, always 0600 and close-on-exec.
 * store_format.h knows what is in the files.
 */
#ifndef MOEFS_CACHE_STORE_FILES_H
#define MOEFS_CACHE_STORE_FILES_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_EXPERTS "experts.safetensors"
#define STORE_DENSE "dense.safetensors"
#define STORE_INDEX "index"
#define STORE_JOURNAL "journal"
#define STORE_LOCK "lock"
#define STORE_PARTIAL ".partial" /* the suffix of a file that is not published yet */

/* The descriptor of the folder, or a negative errno in words. -ENOENT: it does not exist. */
int store_folder_open(const char *folder, struct err *e);

/* The descriptor of a file in it, or a negative errno in words. `flags` is O_RDONLY or O_RDWR with
 * O_CREAT or O_EXCL; `folder` is for the words only. -ENOENT: it does not exist. */
int store_file_open(int dir, const char *folder, const char *name, int flags, struct err *e);

/* A second descriptor, for O_DIRECT, of the file that `plain` is open on, and the alignment of
 * offsets, lengths and memory that O_DIRECT needs there; -1, with an align of 1, where O_DIRECT is
 * refused. */
int store_file_open_direct(int dir, const char *name, int flags, int plain, uint32_t *align);

/* The file's size, or a negative errno in words. */
int64_t store_file_size(int fd, const char *folder, const char *name, struct err *e);

/* Transfers all bytes, in as many calls as needed; a file that ends early is -EIO. */
int store_file_read(int fd, void *buffer, size_t bytes, uint64_t offset, const char *folder,
		    const char *name, struct err *e);
int store_file_write(int fd, const void *data, size_t bytes, uint64_t offset, const char *folder,
		     const char *name, struct err *e);
int store_file_reserve(int fd, uint64_t bytes, const char *folder, const char *name, struct err *e);
int store_file_sync(int fd, const char *folder, const char *name, struct err *e);
int store_folder_sync(int dir, const char *folder, struct err *e);

/* Fills the sentence for a failed write; a full disk has its own. */
int store_write_error(struct err *e, int code, const char *folder, const char *name);

/* ---- the lock ---- */

/* The lock of a store's folder: held (flock on a file of its own) by the process that converts in
 * the folder or changes its index. Only the holder removes the file. */
struct store_lock {
	int dir, fd;	  /* of the folder and of the locked file; -1: none */
	bool made_folder; /* by store_lock_take */
};

/* Creates the folder if needed (not its parents) and takes the lock. -EBUSY: another process holds
 * it. After a failure call store_lock_close. */
int store_lock_take(struct store_lock *l, const char *folder, struct err *e);
/* The same for an existing folder; -EAGAIN: the folder or the lock's file is being removed. */
int store_lock_try(struct store_lock *l, const char *folder, struct err *e);
/* Removes the lock's file; closing then gives the lock up. */
void store_lock_remove(const struct store_lock *l);
void store_lock_close(struct store_lock *l);

/* ---- small files ---- */

/* Small files in a store's folder that are read and replaced as a whole: heat, checksums, the
 * checkpoint's path. A crash leaves the old file, the new one, or one that its own checksum
 * refuses; readers must do without. */
/* Reads the file's first bytes, at most `most`, into a buffer that the caller frees. -ENOENT: no
 * folder, or no such file; also the other codes of opening one. */
int store_small_file_read(uint8_t **out, size_t *bytes, size_t most, const char *folder,
			  const char *name, struct err *e);
/* Replaces the file: writes `partial` and renames it. After a failure the old file is still there.
 */
int store_small_file_write(const void *data, size_t bytes, const char *folder, const char *name,
			   const char *partial, struct err *e);

#endif
