/* What must not outlive a command. See keeper.h. */
#include "fs/commands/keeper.h"
#include "fs/program/unmount.h"

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

static const char orderly = '.'; /* what the command writes before it ends by itself */

/* One process's ends of two pipes: the one that the command's end closes, and what the keeper
 * reports once, 0 or an errno. */
struct ends {
	int alive, report;
};

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

static void unmake(const char *mountpoint)
{
	struct err ignored; /* nobody is there to hear it */
	(void)unmount(mountpoint, true, &ignored);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) /* the daemon, a subreaper's child */
		;
	(void)rmdir(mountpoint);
}

static bool report(int to, int code)
{
	bool told = write(to, &code, sizeof code) == sizeof code;
	close(to);
	return told;
}

static void keep_mount(const struct ends *in, const char *path, const char *mountpoint)
{
	const char *const moefs[] = {"moefs", path, mountpoint, NULL};
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	int code = run("/proc/self/exe", moefs) == 0 ? 0 : ECANCELED;
	let_go_of_stderr();
	if (report(in->report, code) && !code)
		(void)wait_for_end(in->alive);
	unmake(mountpoint);
}

/* Made here, so that at no moment a command can die that has made one and is not watched. */
static void keep_session(const struct ends *in, const char *folder, bool stays)
{
	char ctl[4096];
	let_go_of_stderr();
	int code = mkdir(folder, 0700) == 0 || (stays && errno == EEXIST) ? 0 : errno;
	bool told = report(in->report, code);
	bool died = !code && (!told || !wait_for_end(in->alive));
	if (!code && !stays)
		(void)rmdir(folder);
	if (!stays || !died || snprintf(ctl, sizeof ctl, "%s/ctl", folder) >= (int)sizeof ctl)
		return;
	int fd = open(ctl, O_WRONLY | O_CLOEXEC);
	ssize_t ignored = fd < 0 ? 0 : write(fd, "stop", 4);
	(void)ignored;
}

/* ---- in the command ---- */

static int pipes(struct ends *command, struct ends *keeper, struct err *e)
{
	int alive[2], told[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
		       alive)) /* which MSG_NOSIGNAL needs */
		return err_sys(e, errno, "cannot make a pipe");
	if (pipe2(told, O_CLOEXEC)) {
		int code = err_sys(e, errno, "cannot make a pipe");
		close(alive[0]);
		close(alive[1]);
		return code;
	}
	*command = (struct ends){alive[1], told[0]};
	*keeper = (struct ends){alive[0], told[1]};
	return 0;
}

static void close_ends(const struct ends *ends)
{
	close(ends->alive);
	close(ends->report);
}

/* Returns in both processes, as fork does: k->process is 0 in the keeper. */
static int begin(struct keeper *k, struct ends *ends, struct err *e)
{
	struct ends other;
	int code = pipes(ends, &other, e);
	if (code)
		return code;
	pid_t process = fork();
	if (process < 0) {
		code = err_sys(e, errno, "cannot start a process");
		close_ends(ends);
	} else if (!process) {
		struct ends commands = *ends;
		*ends = other;
		other = commands;
		stand_aside();
	}
	close_ends(&other);
	*k = (struct keeper){.process = process > 0 ? process : 0, .pipe = ends->alive};
	return code;
}

/* 0, or the errno for which it did not come to what was to be kept. */
static int hear(struct keeper *k, int from)
{
	int code = ECANCELED;
	ssize_t n;
	do
		n = read(from, &code, sizeof code);
	while (n < 0 && errno == EINTR);
	close(from);
	if (n == sizeof code && !code)
		return 0;
	keeper_end(k);
	return n == sizeof code ? code : ECANCELED;
}

int keeper_of_session(struct keeper *k, const char *folder, bool stays, struct err *e)
{
	struct ends ends;
	int code = begin(k, &ends, e);
	if (!code && !k->process) {
		keep_session(&ends, folder, stays);
		_exit(0);
	}
	if (!code && (code = hear(k, ends.report)))
		return err_sys(e, code, "cannot make the session %s", folder);
	return code;
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

int keeper_of_mount(struct keeper *k, const char *path, char **mountpoint, struct err *e)
{
	struct ends ends;
	*mountpoint = make_folder(e);
	if (!*mountpoint)
		return -e->code;
	int code = begin(k, &ends, e);
	if (!code && !k->process) {
		keep_mount(&ends, path, *mountpoint);
		_exit(0);
	}
	if (code)
		(void)rmdir(*mountpoint);
	else if (hear(k, ends.report))
		code = err_set(e, ECANCELED, "%s could not be mounted", path);
	return code;
}

void keeper_end(struct keeper *k)
{
	if (!k->process)
		return;
	ssize_t ignored = send(k->pipe, &orderly, 1, MSG_NOSIGNAL);
	(void)ignored;
	close(k->pipe);
	(void)wait_for(k->process);
	k->process = 0;
}
