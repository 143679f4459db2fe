/* moefs umount: takes a mount away, which is named by where it is, or by a model that is in it. */
#include "fs/commands/busy.h"
#include "fs/commands/commands.h"
#include "fs/commands/look.h"
#include "fs/program/unmount.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATIENCE = 3000 }; /* milliseconds until it is looked who may hold a mount */

/* ---- which ---- */

/* As mountinfo would write it: the last part is not looked at, since a mount whose program is gone
 * cannot be. malloc'ed; NULL: there is no such path. */
static char *real_point(const char *path)
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

static const struct mount_seen *at_point(const struct mounts_seen *mounts, const char *path)
{
	char *real = real_point(path);
	const struct mount_seen *found = NULL;
	for (size_t i = 0; real && i < mounts->count; i++)
		if (!mounts->list[i].hidden && !strcmp(mounts->list[i].point, real))
			found = &mounts->list[i];
	free(real);
	return found;
}

static int has_model(const struct mount_seen *m, const char *wanted, bool *has, struct err *e)
{
	const char *name, *state;
	struct look look;
	size_t place = 0;
	int code = look_at_mount(&look, m, e);
	*has = false;
	if (code)
		return code;
	while (!look.words && !*has && look_next(&look, &place, &name, &state))
		*has = !strcmp(name, wanted);
	look_free(&look);
	return 0;
}

/* The only mount that has it. */
static int with_model(const struct mounts_seen *mounts, const char *name,
		      const struct mount_seen **out, struct err *e)
{
	*out = NULL;
	for (size_t i = 0; i < mounts->count; i++) {
		const struct mount_seen *m = &mounts->list[i];
		bool has = false;
		int code = m->hidden ? 0 : has_model(m, name, &has, e);
		if (code)
			return code;
		if (has && *out)
			return err_set(e, EINVAL,
				       "%s is mounted at %s and at %s: say which is to go", name,
				       (*out)->point, m->point);
		if (has)
			*out = m;
	}
	return 0;
}

static int find(const struct mounts_seen *mounts, const char *word, const struct mount_seen **out,
		struct err *e)
{
	*out = at_point(mounts, word);
	int code = *out || strchr(word, '/') ? 0 : with_model(mounts, word, out, e);
	if (code || *out)
		return code;
	return err_set(e, ENOENT,
		       "%s is no mount of moefs%s; moefs list shows those that there are", word,
		       strchr(word, '/') ? "" : ", and no model in one");
}

/* ---- the daemon's end ---- */

/* In another space of process numbers it may be anybody's. */
static bool is_daemon(long process)
{
	char path[64], name[16] = "";
	(void)snprintf(path, sizeof path, "/proc/%ld/comm", process);
	FILE *f = fopen(path, "re");
	bool read = f && fgets(name, sizeof name, f);
	if (f)
		(void)fclose(f);
	return read && (!strncmp(name, "moefs", 5) || !strncmp(name, "mount.moefs", 11));
}

struct ending {
	int fd; /* of the process that serves the mount; -1: not known which one that is */
	long process;
};

static struct ending daemon_of(const struct mount_seen *m)
{
	struct ending d = {.fd = -1};
	struct look look;
	struct err unknown;
	if (look_at_mount(&look, m, &unknown))
		return d;
	d.process = look.process;
	look_free(&look);
	if (d.process > 0 && is_daemon(d.process))
		d.fd = (int)syscall(SYS_pidfd_open, (pid_t)d.process, 0);
	return d;
}

static bool has_ended(int fd, int milliseconds)
{
	struct pollfd end = {.fd = fd, .events = POLLIN};
	int n;
	while ((n = poll(&end, 1, milliseconds)) < 0 && errno == EINTR)
		;
	return n != 0;
}

/* Until then it may be writing to its store, which whoever unmounts may be about to delete. Where
 * another mount namespace has a copy of the mount it does not end: -EBUSY, and who holds that. */
static int wait_for_end(const struct ending *d, const struct mount_seen *m, struct err *e)
{
	char who[512] = "";
	bool said = false;
	while (d->fd >= 0 && !*who && !has_ended(d->fd, PATIENCE)) {
		busy_elsewhere(m->device, who, sizeof who);
		if (!*who && !said)
			(void)fprintf(stderr, "moefs: waiting for process %ld to end\n",
				      d->process);
		said = true;
	}
	if (!*who)
		return 0;
	return err_set(e, EBUSY,
		       "%s is unmounted here, but other mount namespaces still have it, those of "
		       "%s: process %ld goes on until they end",
		       m->point, who, d->process);
}

/* ---- the command ---- */

/* Where this command began is no reason to keep it. */
static int take_away(const struct mount_seen *m, bool lazily, struct err *e)
{
	(void)!chdir("/");
	struct err why;
	char who[512];
	struct ending daemon = {.fd = -1};
	if (!lazily)
		daemon = daemon_of(m);
	int code = unmount(m->point, lazily, &why);
	int waited = code ? 0 : wait_for_end(&daemon, m, e);
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
	busy_words(m->point, who, sizeof who);
	return err_set(
		e, EBUSY,
		"%s is in use%s%s: leave it (cd) and close its files; or `moefs umount -z` takes "
		"it away all the same, and what is in use goes with its last user",
		m->point, *who ? " by " : "", who);
}

int umount_run(int argc, char **argv, struct err *e)
{
	bool lazily = argc > 1 && (!strcmp(argv[1], "-z") || !strcmp(argv[1], "--lazy"));
	if (argc != 2 + lazily || (!lazily && *argv[1] == '-'))
		return COMMAND_WRONG;
	struct mounts_seen mounts;
	const struct mount_seen *found;
	int code = mounts_read(&mounts, NULL, e);
	if (code)
		return COMMAND_FAILED;
	code = find(&mounts, argv[argc - 1], &found, e);
	if (!code)
		code = take_away(found, lazily, e);
	mounts_free(&mounts);
	return code ? COMMAND_FAILED : 0;
}
