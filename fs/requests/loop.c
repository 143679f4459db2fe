/* The loop. See loop.h.
 *
 * Work is taken in slices (so many requests, so many woken calls and polls), so that neither ten
 * thousand readers of one answer nor a flood of requests keeps the other waiting for long. */
#include "fs/requests/loop.h"
#include "fs/base/post.h"
#include "fs/models/models.h"
#include "fs/models/rescan.h"
#include "fs/mount/call.h"
#include "fs/mount/pollers.h"
#include "fs/requests/rest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
	REQUESTS_PER_SLICE = 64,
	WOKEN_PER_SLICE = 64,
	TICK_MS = 250,
};

static void our_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

void loop_block_signals(void)
{
	sigset_t set;
	our_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void serve_requests(struct mount *m, struct fuse_buf *buffer)
{
	for (unsigned i = 0; i < REQUESTS_PER_SLICE && !fuse_session_exited(m->fuse); i++) {
		int n = fuse_session_receive_buf(m->fuse, buffer);
		if (n == -EINTR)
			continue;
		if (n <= 0) {
			if (n < 0 && n != -EAGAIN)
				fuse_session_exit(m->fuse);
			return;
		}
		fuse_session_process_buf(m->fuse, buffer);
	}
}

static int timeout(const struct mount *m, bool loading)
{
	int ms = calls_timeout(m);
	int rest = rest_timeout(m);
	if (rest >= 0 && (ms < 0 || ms > rest))
		ms = rest;
	int asks = asks_timeout(m);
	if (asks >= 0 && (ms < 0 || ms > asks))
		ms = asks;
	int folders = rescan_timeout(m);
	if (folders >= 0 && (ms < 0 || ms > folders))
		ms = folders;
	return loading && (ms < 0 || ms > TICK_MS) ? TICK_MS : ms;
}

static void loop(struct mount *m, int signals, const struct loop_hooks *hooks)
{
	struct fuse_buf buffer = {0};
	struct pollfd fds[] = {
		{.fd = fuse_session_fd(m->fuse), .events = POLLIN},
		{.fd = posts_fd(m->posts), .events = POLLIN},
		{.fd = signals, .events = POLLIN},
		{.fd = rescan_fd(m), .events = POLLIN},
	};
	bool started = false, loading = true; /* perhaps: a load begins behind */

	while (!fuse_session_exited(m->fuse) && !fds[2].revents) {
		int ready = poll(fds, sizeof fds / sizeof *fds, timeout(m, loading));
		if (ready < 0)
			continue; /* EINTR */
		if (fds[0].revents || fds[1].revents)
			rest_stir(m);
		if (fds[0].revents)
			serve_requests(m, &buffer);
		if (m->ready && !started) {
			started = true;
			hooks->started(hooks->ctx);
		}
		if (fds[1].revents)
			posts_run(m->posts);
		if (fds[3].revents)
			rescan_noticed(m);
		if (fds[1].revents || ready == 0 || m->load_asked) {
			m->load_asked = false;
			loading = models_watch(m);
			loading |= hooks->tick(hooks->ctx, m);
		}
		calls_expire(m);
		asks_expire(m);
		rescan_expire(m);
		rest_look(m, &buffer);
		calls_serve_woken(m, WOKEN_PER_SLICE);
		pollers_serve_woken(m, WOKEN_PER_SLICE);
		calls_end_interrupted(m);
	}
	free(buffer.mem);
}

int loop_run(struct mount *m, const struct loop_hooks *hooks, struct err *e)
{
	sigset_t set;
	our_signals(&set);
	int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals < 0)
		return err_sys(e, errno, "cannot make a signalfd");
	int fd = fuse_session_fd(m->fuse);
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
		close(signals);
		return err_sys(e, errno, "cannot make the FUSE device nonblocking");
	}
	loop(m, signals, hooks);
	close(signals);
	return 0;
}
