/* See mount_loop.h. */
#include "fs/requests/mount_loop.h"
#include "cache/clock.h"
#include "cache/thread_trim.h"
#include "fs/base/post.h"
#include "fs/base/workers.h"
#include "fs/files/files.h"
#include "fs/models/models.h"
#include "fs/models/model_folders.h"
#include "fs/mount/call.h"
#include "fs/mount/handle.h"
#include "fs/models/kept.h"
#include "fs/requests/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

/* ---- creation ---- */

/* Whole pages, so that loop_rest can return them to the system. NULL: no memory. */
static char *mount_map_scratch(void)
{
	void *memory = mmap(NULL, READ_MAX_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

int mount_create(struct mount **out, struct err *e)
{
	struct mount *m = calloc(1, sizeof *m);
	if (!m)
		return err_set(e, ENOMEM, "no memory for a mount");
	m->uid = getuid();
	m->gid = getgid();
	m->memory = engine_memory();
	clock_gettime(CLOCK_REALTIME, &m->began);
	list_init(&m->woken);
	list_init(&m->polled);
	list_init(&m->deadlines);
	list_init(&m->interrupted);
	list_init(&m->handles);
	list_init(&m->folders);
	list_init(&m->refusals);
	readme_make(&m->readme);
	m->scratch = mount_map_scratch();
	int code = m->scratch && !m->readme.failed ? posts_create(&m->posts, e)
						   : err_set(e, ENOMEM, "no memory for a mount");
	if (!code)
		code = workers_create(&m->workers, m->posts, e);
	if (code) {
		mount_destroy(m);
		return code;
	}
	*out = m;
	return 0;
}

void mount_changed(void *ctx, void *user)
{
	struct mount *m = ctx;
	struct conversation *c = user;
	post_send(m->posts, &c->news);
}

/* ---- returning memory when the mount rests ----
 *
 * Memory freed in the middle of a heap stays with the process. After some minutes with many
 * sessions, and with models that come and go, two thirds of the daemon's memory were free in this
 * way. So after a second without requests and tokens a worker returns the pages that are wholly
 * free: once, until something happens again.
 *
 * For this, all threads share one heap. By default the allocator has one heap per thread. Then free
 * memory at the end of any heap but the first is never returned (glibc's malloc_trim leaves it),
 * and one thread does not reuse memory that another has freed: after ten minutes that was half of
 * the daemon's memory. The threads compute in memory that is allocated already, so they seldom meet
 * at the heap's lock. The allocator's small caches per thread are emptied before (thread_trim.h): a
 * worker's half a second after its last work, the loop's when the mount rests. */

enum { REST_MS = 1000, NS_PER_MS = 1000000 };

struct trimming {
	struct job job;
	struct mount *mount;
};

void loop_share_heap(void)
{
	(void)mallopt(M_ARENA_MAX, 1);
}

static void loop_trim_work(struct job *job)
{
	struct trimming *t = LINK_OWNER(job, struct trimming, job);
	engine_rest(t->mount->engine);
	thread_trim();
	(void)malloc_trim(0);
}

/* The post that calls this woke the loop, but is not an activity. */
static void loop_trim_finish(struct job *job)
{
	struct trimming *t = LINK_OWNER(job, struct trimming, job);
	t->mount->stirred_ns = 0;
	free(t);
}

/* Milliseconds until loop_rest has work; -1: none. */
static int loop_rest_timeout(const struct mount *m)
{
	if (!m->stirred_ns)
		return -1;
	uint64_t rested = (clock_ns() - m->stirred_ns) / NS_PER_MS;
	return rested >= REST_MS ? 0 : (int)(REST_MS - rested);
}

/* If it is time, returns memory to the system: the buffers filled by the longest request (libfuse
 * allocates a new one) and the longest answer, and the heap's free pages. */
static void loop_rest(struct mount *m, struct fuse_buf *buffer)
{
	if (loop_rest_timeout(m) != 0)
		return;
	m->stirred_ns = 0;
	free(buffer->mem);
	*buffer = (struct fuse_buf){0};
	(void)madvise(m->scratch, READ_MAX_BYTES, MADV_DONTNEED);
	thread_trim();
	struct trimming *t = calloc(1, sizeof *t);
	if (!t)
		return;
	t->job = (struct job){.slow = true,
			      .keeps_nothing = true,
			      .work = loop_trim_work,
			      .finish = loop_trim_finish};
	t->mount = m;
	workers_run(m->workers, &t->job);
}

/* ---- the loop ----
 *
 * It works in slices: some requests, then some woken calls, then some polls. So neither ten
 * thousand readers of one answer nor a flood of requests delays the others for long. */

enum {
	REQUESTS_PER_SLICE = 64,
	WOKEN_PER_SLICE = 64,
	TICK_MS = 250,
};

static void loop_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

void loop_block_signals(void)
{
	sigset_t set;
	loop_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void loop_serve_requests(struct mount *m, struct fuse_buf *buffer)
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

/* Milliseconds until the loop has work of its own; -1: none. */
static int loop_timeout(const struct mount *m, bool loading)
{
	const int times[] = {calls_timeout(m), loop_rest_timeout(m), asks_timeout(m),
			     model_folders_timeout(m), loading ? TICK_MS : -1};
	int ms = -1;
	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		if (times[i] >= 0 && (ms < 0 || ms > times[i]))
			ms = times[i];
	return ms;
}

static void loop_serve(struct mount *m, int signals, const struct loop_hooks *hooks)
{
	struct fuse_buf buffer = {0};
	struct pollfd fds[] = {
		{.fd = fuse_session_fd(m->fuse), .events = POLLIN},
		{.fd = posts_fd(m->posts), .events = POLLIN},
		{.fd = signals, .events = POLLIN},
		{.fd = model_folders_fd(m), .events = POLLIN},
	};
	bool started = false, loading = true; /* a load may have begun already */

	while (!fuse_session_exited(m->fuse) && !fds[2].revents) {
		int ready = poll(fds, sizeof fds / sizeof *fds, loop_timeout(m, loading));
		if (ready < 0)
			continue; /* EINTR */
		if (fds[0].revents || fds[1].revents)
			m->stirred_ns = clock_ns();
		if (fds[0].revents)
			loop_serve_requests(m, &buffer);
		if (m->ready && !started) {
			started = true;
			hooks->started(hooks->ctx);
		}
		if (fds[1].revents)
			posts_run(m->posts);
		if (fds[3].revents)
			model_folders_changed(m);
		if (fds[1].revents || ready == 0 || m->load_asked) {
			m->load_asked = false;
			loading = models_watch(m);
			loading |= hooks->tick(hooks->ctx, m);
		}
		calls_expire(m);
		asks_expire(m);
		model_folders_expire(m);
		loop_rest(m, &buffer);
		calls_serve_woken(m, WOKEN_PER_SLICE);
		pollers_serve_woken(m, WOKEN_PER_SLICE);
		calls_end_interrupted(m);
	}
	free(buffer.mem);
}

int loop_run(struct mount *m, const struct loop_hooks *hooks, struct err *e)
{
	sigset_t set;
	loop_signals(&set);
	int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals < 0)
		return err_sys(e, errno, "cannot create a signalfd");
	int fd = fuse_session_fd(m->fuse);
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
		close(signals);
		return err_sys(e, errno, "cannot make the FUSE device nonblocking");
	}
	loop_serve(m, signals, hooks);
	close(signals);
	return 0;
}

/* ---- the end ---- */

void mount_stop(struct mount *m)
{
	model_folders_stop(m);
	for (struct mounted *x = NULL; (x = mount_next_model(m, x));) {
		for (size_t i = 0; i < x->session_count; i++)
			conversation_end(x->sessions[i]);
		for (struct link *l = x->asks.next; l != &x->asks; l = l->next)
			conversation_end(LINK_OWNER(l, struct conversation, in_asks));
	}
	/* The sessions of questions are in no folder; find them through their handles. */
	for (struct link *l = m->handles.next; l != &m->handles; l = l->next) {
		struct handle *h = LINK_OWNER(l, struct handle, all);
		h->gone = true;
		if (h->node.conversation)
			conversation_end(h->node.conversation);
		question_give_up(h);
	}
	for (struct mounted *x = NULL; (x = mount_next_model(m, x));) {
		pollers_trace_wake(x);
		model_end_background(x->model);
	}
	while (!list_empty(&m->woken))
		calls_serve_woken(m, 1);
	while (!list_empty(&m->polled))
		pollers_serve_woken(m, 1);
	calls_end_interrupted(m);
}

void mount_destroy(struct mount *m)
{
	if (!m)
		return;
	workers_destroy(m->workers);
	m->workers = NULL;
	while (!list_empty(&m->handles))
		handle_release(LINK_OWNER(m->handles.next, struct handle, all));
	folders_release(m);
	model_folders_free(m);
	models_close(m);
	kept_close(m);
	if (m->engine)
		engine_destroy(m->engine);
	posts_destroy(m->posts);
	free(m->models);
	free(m->unsubmitted.users);
	text_free(&m->skipped);
	text_free(&m->readme);
	if (m->scratch)
		(void)munmap(m->scratch, READ_MAX_BYTES);
	free(m);
}
