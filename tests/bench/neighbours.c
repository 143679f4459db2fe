#include "tests/bench/neighbours.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

_Noreturn static void be_busy(void)
{
	volatile uint64_t work = 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* not to outlive the measurement */
	(void)raise(SIGSTOP);
	for (;;)
		work++;
}

int neighbours_create(struct neighbours *n, uint32_t count, struct err *e)
{
	*n = (struct neighbours){.process = calloc(count + 1u, sizeof *n->process)};
	if (!n->process)
		return err_set(e, ENOMEM, "out of memory for %u processes", count);
	for (; n->count < count; n->count++) {
		pid_t child = fork();
		if (!child)
			be_busy();
		if (child < 0) {
			int code = errno;
			neighbours_end(n);
			return err_sys(e, code, "cannot start a busy process");
		}
		n->process[n->count] = child;
		waitpid(child, NULL, WUNTRACED); /* until it sleeps */
	}
	return 0;
}

static void send_all(const struct neighbours *n, int number)
{
	for (uint32_t i = 0; i < n->count; i++)
		kill(n->process[i], number);
}

void neighbours_wake(const struct neighbours *n)
{
	send_all(n, SIGCONT);
}

void neighbours_rest(const struct neighbours *n)
{
	send_all(n, SIGSTOP);
}

void neighbours_end(struct neighbours *n)
{
	send_all(n, SIGKILL);
	for (uint32_t i = 0; i < n->count; i++)
		waitpid(n->process[i], NULL, 0);
	free(n->process);
	*n = (struct neighbours){0};
}
