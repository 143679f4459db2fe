/* Ctrl-C as an event. See interrupt.h. */
#include "fs/commands/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int signals = -1; /* where SIGINT is read, once it is caught */

void interrupt_catch(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals >= 0) /* else Ctrl-C ends the command, as ever */
		(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

/* What could be read before Ctrl-C the terminal has dropped, so it comes first. */
int interrupt_wait(int fd, int milliseconds)
{
	struct pollfd wanted[] = {{.fd = signals, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
	struct signalfd_siginfo info;
	int ready = poll(wanted, 2, milliseconds);
	if (ready == 0)
		return -EAGAIN;
	if (ready < 0) /* of what else is wrong reading tells */
		return errno == EINTR ? -EAGAIN : 0;
	return wanted[0].revents && read(signals, &info, sizeof info) > 0 ? -EINTR : 0;
}
