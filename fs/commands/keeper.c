/* What must not outlive a command. See keeper.h. */
#include "fs/commands/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char orderly = '.'; /* what the command writes before it ends by itself */

/* ---- in the keeper ---- */

static void nothing(int signal)
{
	(void)signal;
}

/* Signals that are meant for the command end the keeper after it. They are caught and not ignored,
 * since a program that is started inherits the latter. Nothing of the command's is held open: who
 * reads what it prints waits for its end. */
static void stand_aside(void)
{
	static const int meant[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
	struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
	for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
		(void)sigaction(meant[i], &action, NULL);
	(void)setsid();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd < 2; fd++)
		(void)dup2(null, fd);
	if (null > 2)
		close(null);
}

static void let_go_of_stderr(void)
{
	(void)dup2(STDOUT_FILENO, STDERR_FILENO);
	int ignored = chdir("/");
	(void)ignored;
}

static bool wait_for_end(int pipe)
{
	char byte = 0;
	ssize_t n;
	do
		n = read(pipe, &byte, 1);
	while (n < 0 && errno == EINTR);
	return n == 1 && byte == orderly;
}

static int wait_for(pid_t child)
{
	int status = -1;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static int run(const char *program, const char *const arguments[])
{
	pid_t child = fork();
	if (child == 0) {
		execvp(program, (char *const *)arguments);
		_exit(127);
	}
	return child < 0 ? -1 : wait_for(child);
}

static void unmount(const char *mountpoint)
{
	const char *const helper[] = {"fusermount3", "-u", "-q", "-z", mountpoint, NULL};
	if (umount2(mountpoint, MNT_DETACH))
		(void)run(*helper, helper);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) /* the daemon, a subreaper's child */
		;
	(void)rmdir(mountpoint);
}

static void keep_mount(int alive, int ready, const char *path, const char *mountpoint)
{
	const char *const moefs[] = {"moefs", path, mountpoint, NULL};
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	bool mounted = run("/proc/self/exe", moefs) == 0;
	let_go_of_stderr();
	if (mounted && write(ready, &orderly, 1) == 1)
		(void)wait_for_end(alive);
	close(ready);
	unmount(mountpoint);
}

static void keep_session(int alive, const char *folder, bool stays)
{
	char ctl[4096];
	let_go_of_stderr();
	bool died = !wait_for_end(alive);
	if (!stays)
		(void)rmdir(folder);
	if (!stays || !died || snprintf(ctl, sizeof ctl, "%s/ctl", folder) >= (int)sizeof ctl)
		return;
	int fd = open(ctl, O_WRONLY | O_CLOEXEC);
	ssize_t ignored = fd < 0 ? 0 : write(fd, "stop", 4);
	(void)ignored;
}

/* ---- in the command ---- */

/* In the keeper *alive is its end of the pipe, else -1. */
static int begin(struct keeper *k, int *alive, struct err *e)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC))
		return err_sys(e, errno, "cannot make a pipe");
	pid_t process = fork();
	if (process < 0) {
		int code = err_sys(e, errno, "cannot start a process");
		close(ends[0]);
		close(ends[1]);
		return code;
	}
	*alive = process ? -1 : ends[0];
	close(ends[process ? 0 : 1]);
	*k = (struct keeper){.process = process, .pipe = ends[1]};
	if (!process)
		stand_aside();
	return 0;
}

int keeper_of_session(struct keeper *k, const char *folder, int stays, struct err *e)
{
	int alive, code = begin(k, &alive, e);
	if (code || k->process)
		return code;
	keep_session(alive, folder, stays);
	_exit(0);
}

static char *make_folder(struct err *e)
{
	const char *const parents[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
	for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
		char *folder = NULL;
		if (!parents[i] || *parents[i] != '/' ||
		    asprintf(&folder, "%s/moefs.XXXXXX", parents[i]) < 0)
			continue;
		if (mkdtemp(folder)) /* 0700 */
			return folder;
		free(folder);
	}
	err_sys(e, errno, "cannot make a folder to mount on in XDG_RUNTIME_DIR, TMPDIR or /tmp");
	return NULL;
}

static int wait_for_mount(struct keeper *k, int ready, struct err *e)
{
	char byte;
	ssize_t n;
	do
		n = read(ready, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		return 0;
	keeper_end(k);
	return err_set(e, ECANCELED, "the model could not be mounted");
}

int keeper_of_mount(struct keeper *k, const char *path, char **mountpoint, struct err *e)
{
	int ready[2], alive;
	*mountpoint = make_folder(e);
	if (!*mountpoint)
		return -e->code;
	if (pipe2(ready, O_CLOEXEC)) {
		(void)rmdir(*mountpoint);
		return err_sys(e, errno, "cannot make a pipe");
	}
	int code = begin(k, &alive, e);
	if (!code && !k->process) {
		close(ready[0]);
		keep_mount(alive, ready[1], path, *mountpoint);
		_exit(0);
	}
	close(ready[1]);
	if (code)
		(void)rmdir(*mountpoint);
	else
		code = wait_for_mount(k, ready[0], e);
	close(ready[0]);
	return code;
}

void keeper_end(struct keeper *k)
{
	if (!k->process)
		return;
	ssize_t ignored = write(k->pipe, &orderly, 1);
	(void)ignored;
	close(k->pipe);
	(void)wait_for(k->process);
	k->process = 0;
}
