/* See removal.h. */
#include "fs/gateway/turn/removal.h"
#include "fs/gateway/turn/tree.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CLOSES_SECONDS = 2 };

struct removed {
	char name[2 * NAME_MAX + 16]; /* MODEL/sessions/NAME */
	time_t since;
};

static time_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

void removal_begin(struct removal *r, const char *tree, bool later)
{
	*r = (struct removal){.tree = tree, .later = later};
	pthread_mutex_init(&r->lock, NULL);
}

static void remove_one(const struct removal *r, const char *name)
{
	char path[TREE_PATH];
	if (tree_path(path, r->tree, "%s", name))
		(void)rmdir(path);
}

/* False: out of memory. */
static bool wait_with(struct removal *r, const struct removed *one)
{
	if (r->count == r->capacity) {
		size_t capacity = r->capacity ? 2 * r->capacity : 16;
		struct removed *grown = reallocarray(r->waiting, capacity, sizeof *grown);
		if (!grown)
			return false;
		r->waiting = grown;
		r->capacity = capacity;
	}
	r->waiting[r->count++] = *one;
	return true;
}

void removal_put(struct removal *r, const char *model, const char *session)
{
	struct removed one = {.since = now()};
	(void)snprintf(one.name, sizeof one.name, "%.*s/sessions/%.*s", NAME_MAX, model, NAME_MAX,
		       session);
	pthread_mutex_lock(&r->lock);
	bool waits = r->later && wait_with(r, &one);
	pthread_mutex_unlock(&r->lock);
	if (!waits)
		remove_one(r, one.name);
}

/* The oldest, if its time has come. */
static bool take(struct removal *r, struct removed *out)
{
	pthread_mutex_lock(&r->lock);
	bool due = r->count && now() - r->waiting->since > CLOSES_SECONDS;
	if (due) {
		*out = *r->waiting;
		memmove(r->waiting, r->waiting + 1, --r->count * sizeof *r->waiting);
	}
	pthread_mutex_unlock(&r->lock);
	return due;
}

void removal_look(struct removal *r)
{
	struct removed one;
	while (take(r, &one))
		remove_one(r, one.name);
}

void removal_end(struct removal *r)
{
	const struct timespec step = {.tv_nsec = 100 * 1000 * 1000};
	for (removal_look(r); r->count; removal_look(r))
		nanosleep(&step, NULL);
	free(r->waiting);
	pthread_mutex_destroy(&r->lock);
}
