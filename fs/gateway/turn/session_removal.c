/* See session_removal.h. */
#include "fs/gateway/turn/session_removal.h"
#include "fs/gateway/turn/tree_client.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CLOSES_SECONDS = 2 };

struct removed_session {
	char name[2 * NAME_MAX + 16]; /* MODEL/sessions/NAME */
	time_t since;
};

static time_t session_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

void session_removal_begin(struct removal *r, const char *tree, bool later)
{
	*r = (struct removal){.tree = tree, .later = later};
	pthread_mutex_init(&r->lock, NULL);
}

static void session_remove_now(const struct removal *r, const char *name)
{
	char path[TREE_PATH];
	if (tree_path(path, r->tree, "%s", name))
		(void)rmdir(path);
}

/* Call with the lock. False: out of memory. */
static bool session_queue(struct removal *r, const struct removed_session *one)
{
	if (r->count == r->capacity) {
		size_t capacity = r->capacity ? 2 * r->capacity : 16;
		struct removed_session *grown = reallocarray(r->waiting, capacity, sizeof *grown);
		if (!grown)
			return false;
		r->waiting = grown;
		r->capacity = capacity;
	}
	r->waiting[r->count++] = *one;
	return true;
}

void session_remove(struct removal *r, const char *model, const char *session)
{
	struct removed_session one = {.since = session_clock()};
	(void)snprintf(one.name, sizeof one.name, "%.*s/sessions/%.*s", NAME_MAX, model, NAME_MAX,
		       session);
	pthread_mutex_lock(&r->lock);
	bool waits = r->later && session_queue(r, &one);
	pthread_mutex_unlock(&r->lock);
	if (!waits)
		session_remove_now(r, one.name);
}

void session_removal_tick(struct removal *r)
{
	for (;;) {
		struct removed_session one;
		pthread_mutex_lock(&r->lock);
		bool due = r->count && session_clock() - r->waiting->since > CLOSES_SECONDS;
		if (due) {
			one = *r->waiting;
			memmove(r->waiting, r->waiting + 1, --r->count * sizeof *r->waiting);
		}
		pthread_mutex_unlock(&r->lock);
		if (!due)
			return;
		session_remove_now(r, one.name);
	}
}

void session_removal_end(struct removal *r)
{
	const struct timespec step = {.tv_nsec = 100 * 1000 * 1000};
	for (session_removal_tick(r); r->count; session_removal_tick(r))
		nanosleep(&step, NULL);
	free(r->waiting);
	pthread_mutex_destroy(&r->lock);
}
