/* The files of a store's folder: their names, safe opening, whole reads and writes, the lock, and
 * small files that are replaced as a whole.
 *
 * Others may be able to write where a store lies. So opening never follows a symbolic link, never
 * opens a device or pipe, never opens a file of another user, and always uses 0600 and
 * close-on-exec. store_format.h describes the contents of the files.
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

/* Returns the descriptor of the folder, or a negative errno with a sentence. -ENOENT: no such
 * folder. */
int store_folder_open(const char *folder, struct err *e);

/* Returns the descriptor of a file in the folder, or a negative errno with a sentence. `flags` is
 * O_RDONLY or O_RDWR with O_CREAT or O_EXCL; `folder` is used only in error messages. -ENOENT: no
 * such file. */
int store_file_open(int dir, const char *folder, const char *name, int flags, struct err *e);

/* Returns a second descriptor, for O_DIRECT, of the file that `plain` is open on, and sets *align
 * to the alignment of offsets, lengths and memory that O_DIRECT needs there. Where O_DIRECT is
 * refused: -1, with *align = 1. */
int store_file_open_direct(int dir, const char *name, int flags, int plain, uint32_t *align);

/* Returns the file's size, or a negative errno with a sentence. */
int64_t store_file_size(int fd, const char *folder, const char *name, struct err *e);

/* Each transfers all bytes, in as many calls as needed. -EIO: the file ends early. */
int store_file_read(int fd, void *buffer, size_t bytes, uint64_t offset, const char *folder,
		    const char *name, struct err *e);
int store_file_write(int fd, const void *data, size_t bytes, uint64_t offset, const char *folder,
		     const char *name, struct err *e);
int store_file_reserve(int fd, uint64_t bytes, const char *folder, const char *name, struct err *e);
int store_file_sync(int fd, const char *folder, const char *name, struct err *e);
int store_folder_sync(int dir, const char *folder, struct err *e);

/* Sets the error for a failed write; a full disk has a sentence of its own. */
int store_write_error(struct err *e, int code, const char *folder, const char *name);

/* ---- the lock ---- */

/* The lock of a store's folder: a flock on the file `lock`, held by the process that converts in
 * the folder or changes its index. Only the holder removes the file. */
struct store_lock {
	int dir, fd;	  /* descriptors of the folder and of the locked file; -1: none */
	bool made_folder; /* store_lock_take made the folder */
};

/* Creates the folder if needed (not its parents) and takes the lock. -EBUSY: another process holds
 * the lock. After a failure call store_lock_close. */
int store_lock_take(struct store_lock *l, const char *folder, struct err *e);
/* store_lock_take for an existing folder. -EAGAIN: the folder or the lock's file is being
 * removed. */
int store_lock_try(struct store_lock *l, const char *folder, struct err *e);
/* Removes the lock's file. Closing the lock then releases it. */
void store_lock_remove(const struct store_lock *l);
void store_lock_close(struct store_lock *l);

/* ---- small files ---- */

/* Small files in a store's folder that are read and replaced as a whole: heat, checksums, the
 * checkpoint's path. After a crash there is the old file, the new file, or a file with a wrong
 * checksum; readers ignore the last. */
/* Reads at most the first `most` bytes of the file into a buffer that the caller frees. -ENOENT: no
 * folder, or no such file; also the other codes of opening a file. */
int store_small_file_read(uint8_t **out, size_t *bytes, size_t most, const char *folder,
			  const char *name, struct err *e);
/* Replaces the file: writes `partial` and renames it. After a failure the old file is still there.
 */
int store_small_file_write(const void *data, size_t bytes, const char *folder, const char *name,
			   const char *partial, struct err *e);

#endif
