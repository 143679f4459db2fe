/* See mounts.h. */
#include "fs/commands/mounts.h"
#include "fs/base/proc.h"
#include "fs/base/standard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the list of mounts ---- */

static int mounts_add(void *ctx, const struct mountinfo *entry)
{
	static const char user[] = ",user_id=";
	struct mounts_seen *m = ctx;
	for (size_t i = 0; i < m->count;
	     i++) /* this mount covers the earlier one */
		m->list[i].hidden |= m->list[i].point && !strcmp(m->list[i].point, entry->point);
	if (strcmp(entry->type, "fuse.moefs") != 0)
		return 0;
	struct mount_seen *grown = realloc(m->list, (m->count + 1) * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	m->list = grown;
	const char *uid = strstr(entry->options, user); /* rw or ro comes first */
	struct mount_seen *added = &grown[m->count++];
	*added = (struct mount_seen){.point = strdup(entry->point),
				     .source = strdup(entry->source),
				     .uid = uid ? (uid_t)strtoul(uid + sizeof user - 1, NULL, 10)
						: 0};
	(void)snprintf(added->device, sizeof added->device, "%s", entry->device);
	return added->point && added->source ? 0 : -ENOMEM;
}

int mounts_read(struct mounts_seen *out, const char *table, struct err *e)
{
	*out = (struct mounts_seen){0};
	int code = proc_each_mount(table, mounts_add, out);
	if (!code)
		return 0;
	mounts_free(out);
	return err_sys(e, -code, "cannot list the mounts of %s",
		       table ? table : "/proc/self/mountinfo");
}

void mounts_free(struct mounts_seen *m)
{
	while (m->count) {
		m->count--;
		free(m->list[m->count].point);
		free(m->list[m->count].source);
	}
	free(m->list);
	m->list = NULL;
}

/* ---- a mount's tree ---- */

int mounts_value(const char *folder, const char *file, char *value, size_t size)
{
	char path[4096];
	int n = snprintf(path, sizeof path, "%s/%s", folder, file);
	if (n < 0 || n >= (int)sizeof path)
		return -ENAMETOOLONG;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t length = read(fd, value, size - 1);
	int code = length < 0 ? -errno : 0;
	close(fd);
	if (code)
		return code;
	value[length] = 0;
	value[strcspn(value, "\n")] = 0;
	return 0;
}

static int mounts_may_be_model(const struct dirent *entry)
{
	return entry->d_type == DT_DIR && *entry->d_name != '.';
}

int mounts_models(const struct mount_seen *m,
		  int (*visit)(void *ctx, const char *folder, const char *name), void *ctx)
{
	struct dirent **entries;
	int count = m->hidden ? -1 : scandir(m->point, &entries, mounts_may_be_model, alphasort);
	int result = 0;
	if (count < 0)
		return m->hidden ? -EACCES : -errno;
	for (int i = 0; i < count; i++) {
		char folder[4096], state[4096];
		const char *name = entries[i]->d_name;
		int n = snprintf(folder, sizeof folder, "%s/%s", m->point, name);
		int code = snprintf(state, sizeof state, "%s/info/state", folder);
		if (!result && n < (int)sizeof folder && code < (int)sizeof state &&
		    access(state, F_OK) == 0)
			result = visit(ctx, folder, name);
		free(entries[i]);
	}
	free(entries);
	return result;
}

/* ---- asking a mount ---- */

enum { PATIENCE = 5 };		   /* seconds */
enum { UNREADABLE = 3, GONE = 4 }; /* exit statuses of the process that looks */

static int mounts_add_model(void *ctx, const char *folder, const char *name)
{
	struct text *t = ctx;
	char state[64];
	if (mounts_value(folder, "info/state", state, sizeof state))
		state[0] = 0;
	text_add(t, name, strlen(name) + 1);
	text_add(t, state, strlen(state) + 1);
	return 0;
}

/* Writes the number of the daemon's process, then the models. Returns the exit status. */
static int mounts_tell(const struct mount_seen *m, int out)
{
	struct text t = {0};
	char process[32];
	(void)signal(SIGALRM, SIG_DFL);
	alarm(PATIENCE);
	if (mounts_value(m->point, "pid", process, sizeof process))
		strcpy(process, "0");
	text_add(&t, process, strlen(process) + 1);
	int code = mounts_models(m, mounts_add_model, &t);
	if (code)
		return code == -ENOTCONN ? GONE : UNREADABLE;
	return t.failed || standard_write_all(out, t.data, t.length);
}

/* ---- waiting for the process that asks ---- */

static void mounts_collect(struct mount_look *l, int from)
{
	char buffer[4096];
	ssize_t n;
	while ((n = read(from, buffer, sizeof buffer)) != 0)
		if (n > 0)
			text_add(&l->items, buffer, (size_t)n);
		else if (errno != EINTR)
			break;
	text_add(&l->items, "", 1); /* so that a state that was cut off ends, too */
	if (!l->items.failed)
		l->process = strtol(l->items.data, NULL, 10);
}

static const char *mounts_why(const struct mount_seen *m, int status)
{
	if (m->hidden)
		return "hidden by another mount";
	if (WIFSIGNALED(status))
		return "does not answer";
	switch (WEXITSTATUS(status)) {
	case 0:
		return NULL;
	case GONE:
		return "its daemon is gone";
	case UNREADABLE:
		return m->uid == getuid() ? "cannot be read" : "another user's";
	default:
		return "cannot be read";
	}
}

int mounts_look(struct mount_look *out, const struct mount_seen *m, struct err *e)
{
	int ends[2], status = 0;
	*out = (struct mount_look){0};
	if (pipe2(ends, O_CLOEXEC))
		return err_sys(e, errno, "cannot make a pipe");
	pid_t child = fork();
	if (child == 0)
		_exit(mounts_tell(m, ends[1]));
	int code = child < 0 ? errno : 0;
	close(ends[1]);
	if (!code)
		mounts_collect(out, ends[0]);
	close(ends[0]);
	if (code)
		return err_sys(e, code, "cannot start a process");
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	out->failed = mounts_why(m, status);
	if (out->items.failed) {
		mounts_look_free(out);
		return err_set(e, ENOMEM, "no memory for the models of %s", m->point);
	}
	return 0;
}

bool mounts_next_model(const struct mount_look *l, size_t *place, const char **name,
		       const char **state)
{
	const struct text *t = &l->items;
	size_t at = *place ? *place : strlen(t->data) + 1; /* after the process's number */
	if (at + 1 >= t->length)
		return false;
	*name = t->data + at;
	at += strlen(*name) + 1;
	if (at >= t->length)
		return false;
	*state = t->data + at;
	*place = at + strlen(*state) + 1;
	return true;
}

void mounts_look_free(struct mount_look *l)
{
	text_free(&l->items);
}
