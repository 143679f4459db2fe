#include "cache/store_lock.h"

#include "cache/io.h"
#include "cache/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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
	/* The one who removes the lock file holds it: a lock on a removed file excludes nobody. */
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
	if (l->fd >= 0)
		close(l->fd);
	if (l->dir >= 0)
		close(l->dir);
	l->dir = l->fd = -1;
}
