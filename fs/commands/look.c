/* A look into a mount. See look.h. */
#include "fs/commands/look.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE = 5, UNREADABLE = 3, GONE = 4 }; /* seconds; statuses of the process that looks */

/* ---- the process that looks ---- */

static int add_model(void *ctx, const char *folder, const char *name)
{
	struct text *t = ctx;
	char state[64];
	if (mounts_value(folder, "info/state", state, sizeof state))
		state[0] = 0;
	text_add(t, name, strlen(name) + 1);
	text_add(t, state, strlen(state) + 1);
	return 0;
}

static bool write_all(int out, const struct text *t)
{
	for (size_t at = 0; at < t->length;) {
		ssize_t n = write(out, t->data + at, t->length - at);
		if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* The number of its process goes before the models. */
static int tell(const struct mount_seen *m, int out)
{
	struct text t = {0};
	char process[32];
	(void)signal(SIGALRM, SIG_DFL);
	alarm(PATIENCE);
	if (mounts_value(m->point, "pid", process, sizeof process))
		strcpy(process, "0");
	text_add(&t, process, strlen(process) + 1);
	int code = mounts_models(m, add_model, &t);
	if (code == -ENOTCONN)
		return GONE;
	if (code)
		return UNREADABLE;
	return t.failed || !write_all(out, &t);
}

/* ---- who waits for it ---- */

static void collect(struct look *l, int from)
{
	char buffer[4096];
	ssize_t n;
	while ((n = read(from, buffer, sizeof buffer)) != 0)
		if (n > 0)
			text_add(&l->items, buffer, (size_t)n);
		else if (errno != EINTR)
			break;
	text_add(&l->items, "", 1); /* whatever came, it is terminated */
	if (!l->items.failed)
		l->process = strtol(l->items.data, NULL, 10);
}

static const char *what(const struct mount_seen *m, int status)
{
	if (m->hidden)
		return "hidden by another mount";
	if (WIFSIGNALED(status))
		return "does not answer";
	switch (WEXITSTATUS(status)) {
	case 0:
		return NULL;
	case GONE:
		return "its program is gone";
	case UNREADABLE:
		return m->uid == getuid() ? "cannot be read" : "another user's";
	default:
		return "cannot be read";
	}
}

int look_at_mount(struct look *out, const struct mount_seen *m, struct err *e)
{
	int ends[2], status = 0;
	*out = (struct look){0};
	if (pipe2(ends, O_CLOEXEC))
		return err_sys(e, errno, "cannot make a pipe");
	pid_t child = fork();
	if (child == 0)
		_exit(tell(m, ends[1]));
	int code = child < 0 ? errno : 0;
	close(ends[1]);
	if (!code)
		collect(out, ends[0]);
	close(ends[0]);
	if (code)
		return err_sys(e, code, "cannot start a process");
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	out->words = what(m, status);
	if (out->items.failed) {
		look_free(out);
		return err_set(e, ENOMEM, "no memory for the models of %s", m->point);
	}
	return 0;
}

bool look_next(const struct look *l, size_t *place, const char **name, const char **state)
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

void look_free(struct look *l)
{
	text_free(&l->items);
}
