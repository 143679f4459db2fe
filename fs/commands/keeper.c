/* See keeper.h. */
#include "fs/commands/keeper.h"
#include "fs/program/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char orderly = '.'; /* written by the command before it ends by itself */

/* ---- in the keeper ---- */

static void keeper_ignore(int signal)
{
	(void)signal;
}

/* Signals meant for the command must not end the keeper before the command. They are caught, not
 * ignored, since a program started by the keeper would inherit that. The command's standard output
 * is closed, since its reader waits for its end. */
static void keeper_detach(void)
{
	static const int meant[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
	struct sigaction action = {.sa_handler = keeper_ignore, .sa_flags = SA_RESTART};
	for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
		(void)sigaction(meant[i], &action, NULL);
	(void)setsid();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd < 2; fd++)
		(void)dup2(null, fd);
	if (null > 2)
		close(null);
}

static void keeper_release_stderr(void)
{
	(void)dup2(STDOUT_FILENO, STDERR_FILENO);
	(void)!chdir("/");
}

/* Whether the command ended by itself. */
static bool keeper_wait_for_end(int socket)
{
	char byte = 0;
	ssize_t n;
	do
		n = read(socket, &byte, 1);
	while (n < 0 && errno == EINTR);
	return n == 1 && byte == orderly;
}

static int keeper_wait_for(pid_t child)
{
	int status = -1;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static void keeper_keep_mount(int socket, const char *path, const char *mountpoint)
{
	const char *const moefs[] = {"moefs", path, mountpoint, NULL};
	struct err ignored;
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* the daemon becomes this process's child */
	pid_t child = fork();
	if (child == 0) {
		execv("/proc/self/exe", (char *const *)moefs);
		_exit(127);
	}
	int code = child > 0 && keeper_wait_for(child) == 0 ? 0 : ECANCELED;
	keeper_release_stderr();
	if (write(socket, &code, sizeof code) == sizeof code && !code)
		(void)keeper_wait_for_end(socket);
	(void)mountpoint_unmount(mountpoint, true, &ignored); /* a failure cannot be reported */
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	(void)rmdir(mountpoint);
}

/* The keeper makes the session, so that the command never has a session without a keeper. */
static void keeper_keep_session(int socket, const char *folder, bool stays)
{
	char ctl[4096];
	keeper_release_stderr();
	int code = mkdir(folder, 0700) == 0 || (stays && errno == EEXIST) ? 0 : errno;
	bool told = write(socket, &code, sizeof code) == sizeof code;
	bool died = !code && (!told || !keeper_wait_for_end(socket));
	if (!code && !stays)
		(void)rmdir(folder);
	if (!stays || !died || snprintf(ctl, sizeof ctl, "%s/ctl", folder) >= (int)sizeof ctl)
		return;
	int fd = open(ctl, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, "stop", 4);
}

/* ---- in the command ---- */

/* Returns in both processes, like fork: k->process is 0 in the keeper. *socket is this process's
 * end of the connection. The keeper sends 0 or an errno once, and notices when the command's end is
 * closed. */
static int keeper_begin(struct keeper *k, int *socket, struct err *e)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return err_sys(e, errno, "cannot make a socket");
	pid_t process = fork();
	int failed = errno;
	*k = (struct keeper){.process = process > 0 ? process : 0, .socket = ends[1]};
	*socket = ends[process == 0 ? 0 : 1];
	close(ends[process == 0 ? 1 : 0]);
	if (process == 0)
		keeper_detach();
	if (process >= 0)
		return 0;
	close(*socket);
	return err_sys(e, failed, "cannot start a process");
}

/* Waits for the keeper's report: 0, or the errno of the failure. */
static int keeper_hear(struct keeper *k)
{
	int code = ECANCELED;
	ssize_t n;
	do
		n = read(k->socket, &code, sizeof code);
	while (n < 0 && errno == EINTR);
	if (n == sizeof code && !code)
		return 0;
	keeper_end(k);
	return n == sizeof code ? code : ECANCELED;
}

int keeper_of_session(struct keeper *k, const char *folder, bool stays, struct err *e)
{
	int socket;
	int code = keeper_begin(k, &socket, e);
	if (!code && !k->process) {
		keeper_keep_session(socket, folder, stays);
		_exit(0);
	}
	if (!code && (code = keeper_hear(k)))
		return err_sys(e, code, "cannot make the session %s", folder);
	return code;
}

static char *keeper_make_folder(struct err *e)
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

int keeper_of_mount(struct keeper *k, const char *path, char **mountpoint, struct err *e)
{
	int socket;
	*mountpoint = keeper_make_folder(e);
	if (!*mountpoint)
		return -e->code;
	int code = keeper_begin(k, &socket, e);
	if (!code && !k->process) {
		keeper_keep_mount(socket, path, *mountpoint);
		_exit(0);
	}
	if (code)
		(void)rmdir(*mountpoint);
	else if (keeper_hear(k))
		code = err_set(e, ECANCELED, "%s could not be mounted", path);
	return code;
}

void keeper_end(struct keeper *k)
{
	if (!k->process)
		return;
	(void)!send(k->socket, &orderly, 1, MSG_NOSIGNAL);
	close(k->socket);
	(void)keeper_wait_for(k->process);
	k->process = 0;
}
