/* moefs umount: unmounts a mountpoint, or the mount of a model, and waits for the daemon's end. */
#include "fs/base/proc.h"
#include "fs/commands/commands.h"
#include "fs/commands/mounts.h"
#include "fs/program/mountpoint.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATIENCE = 3000 }; /* milliseconds before umount gives up, or checks who uses a mount */

/* ---- finding the mount ---- */

/* A mountpoint in mountinfo's form. Its last part is not accessed, since that fails if the mount's
 * daemon has ended. malloc'ed; NULL: there is no such path. */
static char *umount_real_path(const char *path)
{
	char *real = realpath(path, NULL), *copy = real ? NULL : strdup(path), *full = NULL;
	if (!copy)
		return real;
	size_t length = strlen(copy);
	while (length > 1 && copy[length - 1] == '/')
		copy[--length] = 0;
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy;
	if (slash)
		*slash = 0;
	char *folder = realpath(!slash ? "." : *copy ? copy : "/", NULL);
	if (folder && asprintf(&full, "%s/%s", strcmp(folder, "/") != 0 ? folder : "", name) < 0)
		full = NULL;
	free(folder);
	free(copy);
	return full;
}

static const struct mount_seen *umount_at_point(const struct mounts_seen *mounts, const char *path)
{
	char *real = umount_real_path(path);
	const struct mount_seen *found = NULL;
	for (size_t i = 0; real && i < mounts->count; i++)
		if (!mounts->list[i].hidden && !strcmp(mounts->list[i].point, real))
			found = &mounts->list[i];
	free(real);
	return found;
}

/* Finds the only mount that has the model; *out is NULL if there is none. */
static int umount_with_model(const struct mounts_seen *mounts, const char *wanted,
			     const struct mount_seen **out, struct err *e)
{
	*out = NULL;
	for (size_t i = 0; i < mounts->count; i++) {
		const struct mount_seen *m = &mounts->list[i];
		const char *name, *state;
		struct mount_look look = {.failed = "hidden"};
		size_t place = 0;
		bool has = false;
		int code = m->hidden ? 0 : mounts_look(&look, m, e);
		if (code)
			return code;
		while (!look.failed && !has && mounts_next_model(&look, &place, &name, &state))
			has = !strcmp(name, wanted);
		mounts_look_free(&look);
		if (has && *out)
			return err_set(e, EINVAL,
				       "%s is mounted at %s and at %s: name the mountpoint", wanted,
				       (*out)->point, m->point);
		if (has)
			*out = m;
	}
	return 0;
}

static int umount_find(const struct mounts_seen *mounts, const char *word,
		       const struct mount_seen **out, struct err *e)
{
	*out = umount_at_point(mounts, word);
	int code = *out || strchr(word, '/') ? 0 : umount_with_model(mounts, word, out, e);
	if (code || *out)
		return code;
	return err_set(e, ENOENT, "%s is not a mount of moefs%s; moefs list shows the mounts", word,
		       strchr(word, '/') ? "" : ", and no mount has a model of this name");
}

/* ---- who uses a mount ---- */

struct umount_users {
	bool (*uses)(pid_t id, const char *what);
	const char *what;
	char words[512]; /* "bash (812), tail (840)": those that this user may see */
	bool others;	 /* some do not run a program of moefs */
};

static int umount_add_user(void *ctx, pid_t id)
{
	struct umount_users *u = ctx;
	char name[64];
	size_t used = strlen(u->words);
	if (id == getpid() || used + 1 >= sizeof u->words || !u->uses(id, u->what))
		return 0;
	(void)proc_name(id, name, sizeof name);
	u->others |= strncmp(name, "moefs", 5) != 0;
	(void)snprintf(u->words + used, sizeof u->words - used, "%s%s (%ld)", used ? ", " : "",
		       name, (long)id);
	return 0;
}

/* ---- the end of the daemon ---- */

struct umount_daemon {
	int fd; /* a pidfd; -1: unknown */
	long process;
};

static struct umount_daemon umount_daemon_of(const struct mount_seen *m)
{
	struct umount_daemon d = {.fd = -1};
	struct mount_look look;
	struct err unknown;
	char name[16];
	if (mounts_look(&look, m, &unknown))
		return d;
	d.process = look.process;
	mounts_look_free(&look);
	/* If the mount is from another PID namespace, the number may be any process here. */
	bool ours = d.process > 0 && proc_name((pid_t)d.process, name, sizeof name) &&
		    (!strncmp(name, "moefs", 5) || !strncmp(name, "mount.moefs", 11));
	if (ours)
		d.fd = (int)syscall(SYS_pidfd_open, (pid_t)d.process, 0);
	return d;
}

/* Until its end the daemon may write to its store, which the caller may want to delete. If another
 * mount namespace has a copy of the mount, the daemon does not end: -EBUSY, and e names the
 * processes there. */
static int umount_wait(const struct umount_daemon *d, const struct mount_seen *m, struct err *e)
{
	bool said = false;
	while (d->fd >= 0) {
		struct pollfd end = {.fd = d->fd, .events = POLLIN};
		struct umount_users u = {.uses = proc_has_mounted, .what = m->device};
		int n = poll(&end, 1, PATIENCE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != 0)
			break;
		(void)proc_each(umount_add_user, &u);
		if (*u.words)
			return err_set(e, EBUSY,
				       "%s is unmounted here, but other mount namespaces still "
				       "have it, those of "
				       "%s: process %ld goes on until they end",
				       m->point, u.words, d->process);
		if (!said)
			(void)fprintf(stderr, "moefs: waiting for process %ld to end\n",
				      d->process);
		said = true;
	}
	return 0;
}

/* ---- the command ---- */

/* A gateway closes its files shortly after its client has the answer, commands like moefs list open
 * every mount briefly, and programs that have just ended are gone soon. So a busy mount is tried
 * again while it has no other users. -EBUSY: `u` has its users. */
static int umount_patiently(const struct mount_seen *m, bool lazily, struct umount_users *u,
			    struct err *e)
{
	enum { PAUSE = 20 }; /* milliseconds */
	for (int waited = 0;; waited += PAUSE) {
		int code = mountpoint_unmount(m->point, lazily, e);
		if (code != -EBUSY)
			return code;
		*u = (struct umount_users){.uses = proc_uses, .what = m->point};
		(void)proc_each(umount_add_user, u);
		if (u->others || waited >= PATIENCE)
			return code;
		(void)poll(NULL, 0, PAUSE);
	}
}

static int umount_mount(const struct mount_seen *m, bool lazily, struct err *e)
{
	(void)!chdir("/"); /* the command itself must not keep the mount in use */
	struct err why;
	struct umount_daemon daemon = {.fd = -1};
	if (!lazily)
		daemon = umount_daemon_of(m);
	struct umount_users u;
	int code = umount_patiently(m, lazily, &u, &why);
	int waited = code ? 0 : umount_wait(&daemon, m, e);
	if (daemon.fd >= 0)
		close(daemon.fd);
	if (!code)
		return waited;
	if (code == -EPERM && m->uid != geteuid())
		return err_set(e, EPERM,
			       "%s is the mount of user %u: only that user and root may unmount it",
			       m->point, (unsigned)m->uid);
	if (code != -EBUSY)
		return err_set(e, -code, "%s", why.text);
	return err_set(e, EBUSY,
		       "%s is in use%s%s: leave it (cd) and close its files, or run moefs umount "
		       "-z, which unmounts it now; the "
		       "daemon then ends with the last user",
		       m->point, *u.words ? " by " : "", u.words);
}

int umount_run(int argc, char **argv, struct err *e)
{
	bool lazily = argc > 1 && (!strcmp(argv[1], "-z") || !strcmp(argv[1], "--lazy"));
	if (argc != 2 + lazily || (!lazily && *argv[1] == '-'))
		return COMMAND_WRONG;
	struct mounts_seen mounts;
	const struct mount_seen *found;
	if (mounts_read(&mounts, NULL, e))
		return COMMAND_FAILED;
	int code = umount_find(&mounts, argv[argc - 1], &found, e);
	if (!code)
		code = umount_mount(found, lazily, e);
	mounts_free(&mounts);
	return code ? COMMAND_FAILED : 0;
}
