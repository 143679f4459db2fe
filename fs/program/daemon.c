/* See daemon.h. */
#include "fs/program/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* The signals that end this process, except those that its caller made it ignore (nohup). */
static void daemon_ending_signals(sigset_t *set)
{
	static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction was;
	sigemptyset(set);
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
		if (!sigaction(ending[i], NULL, &was) && was.sa_handler != SIG_IGN)
			sigaddset(set, ending[i]);
}

/* Waits for the child's byte or its end, and returns the exit status. A signal takes precedence,
 * since a user who interrupts expects that nothing is mounted: it ends the child, then this
 * process. A second signal ends this process at once. */
static int daemon_wait(pid_t child, int ready, const sigset_t *ending)
{
	char byte;
	struct signalfd_siginfo first;
	int signals = signalfd(-1, ending, SFD_CLOEXEC);
	if (signals < 0)
		(void)sigprocmask(SIG_UNBLOCK, ending, NULL);
	struct pollfd of[] = {{.fd = ready, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
	while (poll(of, 2, -1) < 0 && errno == EINTR)
		;
	if (of[1].revents & POLLIN && read(signals, &first, sizeof first) == sizeof first) {
		(void)kill(child, SIGTERM);
		(void)sigprocmask(SIG_UNBLOCK, ending, NULL);
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
		(void)raise((int)first.ssi_signo);
	}
	return read(ready, &byte, 1) == 1 ? 0 : 1;
}

int daemon_begin(int *pipe_end, struct err *e)
{
	int ends[2];
	sigset_t ending;
	if (pipe2(ends, O_CLOEXEC)) {
		err_sys(e, errno, "cannot make a pipe");
		return 1;
	}
	daemon_ending_signals(&ending);
	(void)sigprocmask(SIG_BLOCK, &ending, NULL);
	pid_t child = fork();
	if (child < 0) {
		err_sys(e, errno, "cannot go into the background");
		close(ends[0]);
		close(ends[1]);
		return 1;
	}
	if (child == 0) {
		close(ends[0]);
		*pipe_end = ends[1];
		return -1;
	}
	close(ends[1]);
	return daemon_wait(child, ends[0], &ending);
}

/* Calls setsid only after mounting: until then an automounter lets only the process group of
 * mount(8) use the mountpoint and makes everybody else wait. */
void daemon_ready(int pipe_end)
{
	(void)setsid();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		(void)dup2(null, fd);
	if (null > 2)
		close(null);
	/* Any other working directory would keep its file system busy. */
	(void)!chdir("/");
	(void)!write(pipe_end, "", 1);
	close(pipe_end);
}
