/* The store's files as files: names, opening them safely, whole reads and writes.
 *
 * Opening is suspicious, since a store may lie where others can write: never through a symbolic
 * link, never a device or pipe, never what belongs to another user, always 0600 and close-on-exec.
 * What is in the files is the business of store_format.h.
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

/* A second descriptor of the file that `plain` is open on, for O_DIRECT, and what that asks of
 * offsets, lengths and memory; -1, with an align of 1, where it is not to be had. */
int store_file_open_direct(int dir, const char *name, int flags, int plain, uint32_t *align);

/* The file's size, or a negative errno in words. */
int64_t store_file_size(int fd, const char *folder, const char *name, struct err *e);

/* All bytes, however many calls it takes; a file that ends early is -EIO. */
int store_file_read(int fd, void *buffer, size_t bytes, uint64_t offset, const char *folder,
		    const char *name, struct err *e);
int store_file_write(int fd, const void *data, size_t bytes, uint64_t offset, const char *folder,
		     const char *name, struct err *e);
int store_file_reserve(int fd, uint64_t bytes, const char *folder, const char *name, struct err *e);
int store_file_sync(int fd, const char *folder, const char *name, struct err *e);
int store_folder_sync(int dir, const char *folder, struct err *e);

/* The sentence for something that failed while converting: a full disk has its own. */
int store_write_error(struct err *e, int code, const char *folder, const char *name);

/* ---- the lock ---- */

/* The lock of a store's folder: who converts in it, or changes its index, holds it (flock on a file
 * that is there for that alone). The one who removes the file holds it. */
struct store_lock {
	int dir, fd;	  /* of the folder and of the locked file; -1: none */
	bool made_folder; /* by store_lock_take */
};

/* Makes the folder if need be (not its parents) and takes the lock. -EBUSY: another process has it.
 * After a failure store_lock_close. */
int store_lock_take(struct store_lock *l, const char *folder, struct err *e);
/* The same at a folder that is there; -EAGAIN: it, or the lock's file, is just being removed. */
int store_lock_try(struct store_lock *l, const char *folder, struct err *e);
/* Removes the lock's file, which gives it up once it is closed. */
void store_lock_remove(const struct store_lock *l);
void store_lock_close(struct store_lock *l);

/* ---- small files ---- */

/* Small files in a store's folder that are read and replaced as a whole: heat, sums. A crash leaves
 * the old one, the new one, or one that its own checksum refuses; who reads it must do without. */
/* The file's first bytes, `most` at most, in a buffer that the caller frees. -ENOENT: there is no
 * folder, or no such file; also the other codes of opening one (store_files.h). */
int store_small_file_read(uint8_t **out, size_t *bytes, size_t most, const char *folder,
			  const char *name, struct err *e);
/* Replaces the file, by way of the name `partial`. After a failure the old one is still there. */
int store_small_file_write(const void *data, size_t bytes, const char *folder, const char *name,
			   const char *partial, struct err *e);

#endif
