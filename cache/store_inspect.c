#include "cache/store_inspect.h"

#include "cache/io.h"
#include "cache/store_files.h"
#include "cache/store_inside.h"
#include "cache/store_in_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECKPOINT "checkpoint"
static const char mark[] = "moefs' store of "; /* precedes the path in CHECKPOINT */
enum { PATH_MOST = 4096 };

/* ---- the folder's files ---- */

/* Calls `visit` for each name in the folder until a call returns nonzero, and returns that. */
static int inspect_each_file(int dir, int (*visit)(void *ctx, int dir, const char *name), void *ctx)
{
	int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), failed = 0;
	DIR *files = again < 0 ? NULL : fdopendir(again);
	if (!files) {
		failed = -errno;
		io_close(again);
		return failed;
	}
	struct dirent *f;
	errno = 0;
	for (; !failed && (f = readdir(files)); errno = 0)
		if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0)
			failed = visit(ctx, dir, f->d_name);
	if (!failed)
		failed = -errno;
	(void)closedir(files);
	return failed;
}

/* Files that a mount writes when it uses a store. Reading leaves no trace, and inspecting a store
 * must not count as use.
 */
static bool inspect_tells_use(const char *name)
{
	static const char *const names[] = {CHECKPOINT, STORE_INDEX, STORE_JOURNAL,
					    "heat",	SUMS_FILE,   "text"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static int inspect_add_file(void *ctx, int dir, const char *name)
{
	struct store_seen *out = ctx;
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0; /* it was removed meanwhile */
	out->bytes += (uint64_t)st.st_blocks * 512;
	if (inspect_tells_use(name) && st.st_mtim.tv_sec >= out->used.tv_sec)
		out->used = st.st_mtim;
	return 0;
}

/* ---- inspecting ---- */

/* Reads the first bytes of a file. False: the file is missing or shorter. */
static bool inspect_read_head(int dir, const char *folder, const char *name, void *head,
			      size_t bytes)
{
	int fd = store_file_open(dir, folder, name, O_RDONLY, NULL);
	bool good = fd >= 0 && !store_file_read(fd, head, bytes, 0, folder, name, NULL);
	io_close(fd);
	return good;
}

static int inspect_find_kind(int dir, const char *folder, struct store_seen *out, struct err *e)
{
	struct store_index index;
	struct store_journal_head journal;
	struct store_sums_identity sums;
	uint8_t head[JOURNAL_HEAD];
	char path[PATH_MOST];
	int failed = store_index_read(&index, dir, folder, e);
	if (!failed) {
		out->kind = STORE_COMPLETE;
		out->key = index.info.key;
		store_index_free(&index);
		return 0;
	}
	if (failed != -ENOENT)
		return failed;
	if (inspect_read_head(dir, folder, STORE_JOURNAL, head, JOURNAL_HEAD) &&
	    store_journal_decode_head(&journal, head)) {
		out->kind = STORE_UNFINISHED;
		out->key = journal.key;
		return 0;
	}
	if (inspect_read_head(dir, folder, SUMS_FILE, head, SUMS_HEAD) &&
	    store_sums_decode_head(&sums, head)) {
		out->kind = STORE_IN_PLACE;
		memcpy(out->key.fingerprint, sums.source, sizeof sums.source);
		return 0;
	}
	if (!store_checkpoint(folder, path, sizeof path, NULL)) {
		/* The folder of a refined store, before its conversion begins, holds only the text
		 * to refine by. Any other folder belongs to a store in place of which no unit was
		 * read yet. */
		const size_t n = strlen(folder), ending = strlen(STORE_REFINED);
		bool refined = n > ending && !strcmp(folder + n - ending, STORE_REFINED);
		out->kind = refined ? STORE_UNFINISHED : STORE_IN_PLACE;
		return 0;
	}
	return err_set(e, ENOENT, "%s: is not a store of moefs", folder);
}

int store_inspect(const char *folder, struct store_seen *out, struct err *e)
{
	*out = (struct store_seen){0};
	int dir = store_folder_open(folder, e);
	if (dir < 0)
		return dir;
	int failed = inspect_find_kind(dir, folder, out, e);
	if (!failed && (failed = inspect_each_file(dir, inspect_add_file, out)))
		failed = err_sys(e, -failed, "%s: cannot be listed", folder);
	close(dir);
	return failed;
}

bool store_complete_of(const char *folder, const uint64_t fingerprint[2])
{
	struct store_seen seen;
	return !store_inspect(folder, &seen, NULL) && seen.kind == STORE_COMPLETE &&
	       !memcmp(seen.key.fingerprint, fingerprint, sizeof seen.key.fingerprint);
}

bool store_superseded(const char *folder, const struct store_seen *seen)
{
	char refined[PATH_MOST];
	int n = snprintf(refined, sizeof refined, "%s" STORE_REFINED, folder);
	return seen->kind == STORE_COMPLETE && n < (int)sizeof refined &&
	       store_complete_of(refined, seen->key.fingerprint);
}

/* ---- in use ---- */

/* The kernel grants a write lease only if nobody else has the file open. The lease is returned at
 * once. A process that opens the file in between waits until then; the kernel announces it with
 * SIGURG, which is ignored. */
static bool inspect_is_open_elsewhere(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	(void)fcntl(fd, F_SETSIG, SIGURG);
	bool open = fcntl(fd, F_SETLEASE, F_WRLCK) && errno == EAGAIN;
	(void)fcntl(fd, F_SETLEASE, F_UNLCK);
	close(fd);
	return open;
}

static bool inspect_is_locked(int dir)
{
	int fd = openat(dir, STORE_LOCK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
	io_close(fd);
	return locked;
}

bool store_in_use(const char *folder)
{
	int dir = store_folder_open(folder, NULL);
	bool used = dir >= 0 &&
		    (inspect_is_locked(dir) || inspect_is_open_elsewhere(dir, STORE_EXPERTS) ||
		     inspect_is_open_elsewhere(dir, STORE_DENSE));
	io_close(dir);
	return used;
}

/* ---- removing ---- */

static int inspect_refuse_folder(void *ctx, int dir, const char *name)
{
	(void)ctx;
	struct stat st;
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) ? 0
										    : -ENOTEMPTY;
}

static int inspect_remove_file(void *ctx, int dir, const char *name)
{
	(void)ctx; /* the lock's file is removed last */
	int failed = strcmp(name, STORE_LOCK) ? io_remove(dir, name) : 0;
	return failed == -ENOENT ? 0 : failed;
}

/* Call with the lock held. Removes the lock's file last. */
static int inspect_remove_all(const struct store_lock *lock, const char *folder, struct err *e)
{
	int failed = inspect_remove_file(NULL, lock->dir, STORE_INDEX);
	if (!failed)
		failed = inspect_each_file(lock->dir, inspect_remove_file, NULL);
	if (failed)
		return err_sys(e, -failed, "%s: cannot be removed completely", folder);
	store_lock_remove(lock);
	return rmdir(folder) ? err_sys(e, errno, "%s: is empty, and cannot be removed", folder) : 0;
}

int store_remove(const char *folder, struct err *e)
{
	struct store_seen seen;
	struct store_lock lock = {.dir = -1, .fd = -1};
	int failed = store_inspect(folder, &seen, e);
	if (!failed && store_in_use(folder))
		failed = err_set(e, EBUSY, "%s: is in use; unmount its model first", folder);
	if (!failed)
		failed = store_lock_try(&lock, folder, e);
	if (failed == -EAGAIN)
		failed = err_set(e, EBUSY, "%s: is being removed", folder);
	if (!failed && (failed = inspect_each_file(lock.dir, inspect_refuse_folder, NULL))) {
		store_lock_remove(&lock);
		failed = failed == -ENOTEMPTY
				 ? err_set(e, ENOTEMPTY,
					   "%s: is not removed because it contains another folder; "
					   "move that folder elsewhere",
					   folder)
				 : err_sys(e, -failed, "%s: cannot be listed, and is not removed",
					   folder);
	}
	if (!failed)
		failed = inspect_remove_all(&lock, folder, e);
	store_lock_close(&lock);
	return failed;
}

/* ---- the checkpoint's path ---- */

int store_keep_checkpoint(const char *folder, const char *path, struct err *e)
{
	char text[sizeof mark + PATH_MOST];
	int n = snprintf(text, sizeof text, "%s%s\n", mark, path);
	if (n >= (int)sizeof text)
		return err_set(e, ENAMETOOLONG, "%.64s…: the path is too long", path);
	return store_small_file_write(text, (size_t)n, folder, CHECKPOINT, CHECKPOINT STORE_PARTIAL,
				      e);
}

int store_checkpoint(const char *folder, char *path, size_t size, struct err *e)
{
	const size_t before = strlen(mark);
	uint8_t *in;
	size_t bytes;
	int failed = store_small_file_read(&in, &bytes, before + PATH_MOST, folder, CHECKPOINT, e);
	if (failed)
		return failed;
	size_t length = bytes > before + 1 ? bytes - before - 1 : 0; /* without the newline */
	if (!length || length >= size || memcmp(in, mark, before) != 0 || in[before] != '/' ||
	    in[bytes - 1] != '\n' || memchr(in + before, 0, length))
		failed = err_set(e, ENOENT, "%s/" CHECKPOINT ": was not written by moefs", folder);
	else {
		memcpy(path, in + before, length);
		path[length] = 0;
	}
	free(in);
	return failed;
}
