/* Memory that was freed, and that the allocator keeps. See rest.h.
 *
 * What is freed in the middle of a heap stays the process's: after some minutes of many sessions,
 * of models that come and go, two thirds of what the daemon held were that. So when nobody has
 * asked for anything for a second, and no token has come, a worker gives back the pages that are
 * wholly free: once, until something is done again.
 *
 * All threads share one heap for it. With heaps of their own, the allocator's default, what lies
 * free at the end of any but the first is never given back (glibc's malloc_trim leaves it), and
 * what one thread has freed no other takes: after ten minutes that was half of what the daemon
 * held. What threads compute they do in memory that is there; so they seldom meet at its lock.
 * Small pieces that threads keep go back before it (thread_trim.h), half a second after their last work,
 * and those of the loop when it rests. */
#include "fs/requests/rest.h"
#include "cache/clock.h"
#include "cache/thread_trim.h"
#include "fs/base/workers.h"
#include "fs/mount/mount.h"

#include <fuse3/fuse_lowlevel.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { REST_MS = 1000, NS_OF_MS = 1000000 };

struct trimming {
	struct job job;
	struct mount *mount;
};

static void work(struct job *job)
{
	struct trimming *t = LINK_OWNER(job, struct trimming, job);
	engine_rest(t->mount->engine);
	thread_trim();
	(void)malloc_trim(0);
}

/* That it comes is nothing that was done. */
static void finish(struct job *job)
{
	struct trimming *t = LINK_OWNER(job, struct trimming, job);
	t->mount->stirred_ns = 0;
	free(t);
}

void rest_begin(void)
{
	(void)mallopt(M_ARENA_MAX, 1);
}

void rest_stir(struct mount *m)
{
	m->stirred_ns = clock_ns();
}

int rest_timeout(const struct mount *m)
{
	if (!m->stirred_ns)
		return -1;
	uint64_t rested = (clock_ns() - m->stirred_ns) / NS_OF_MS;
	return rested >= REST_MS ? 0 : (int)(REST_MS - rested);
}

/* The longest request and the longest answer have filled these. libfuse makes another buffer. */
static void give_back(struct mount *m, struct fuse_buf *buffer)
{
	free(buffer->mem);
	*buffer = (struct fuse_buf){0};
	(void)madvise(m->scratch, READ_MAX_BYTES, MADV_DONTNEED);
}

void rest_look(struct mount *m, struct fuse_buf *buffer)
{
	if (rest_timeout(m) != 0)
		return;
	m->stirred_ns = 0;
	give_back(m, buffer);
	thread_trim();
	struct trimming *t = calloc(1, sizeof *t);
	if (!t)
		return;
	t->mount = m;
	t->job.slow = true;
	t->job.keeps_nothing = true;
	t->job.work = work;
	t->job.finish = finish;
	workers_run(m->workers, &t->job);
}
