/* Ctrl-C as an event. See interrupt.h. */
#include "fs/commands/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>

static volatile sig_atomic_t came;

static void note(int signal)
{
	(void)signal;
	came = 1;
}

void interrupt_catch(void)
{
	struct sigaction action = {.sa_handler = note};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigaction(SIGINT, &action, NULL);
}

int interrupt_wait(int fd)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	sigset_t mask;
	(void)sigprocmask(SIG_BLOCK, NULL, &mask);
	struct sigaction now;
	if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == note)
		sigdelset(&mask, SIGINT);
	came = 0;
	while (ppoll(&wanted, 1, NULL, &mask) < 0)
		if (came)
			return -EINTR;
		else if (errno != EINTR)
			return 0; /* reading says what is wrong */
	return 0;
}
