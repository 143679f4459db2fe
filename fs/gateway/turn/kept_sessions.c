/* See kept_sessions.h. */
#include "fs/gateway/turn/kept_sessions.h"
#include "fs/gateway/turn/tree_client.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* From so many bytes of messages on, copying a state is quicker than computing it again. */
enum { WORTH_BYTES = 1024 };

struct kept {
	pthread_mutex_t lock; /* of all below */
	struct removal *removal;
	unsigned most, count;
	struct kept_session *sessions; /* the oldest first */
};

static void kept_add_message(struct kept_session *s, json_object *json)
{
	size_t n = 0;
	uint64_t h = 14695981039346656037u; /* FNV-1a */
	const char *text =
		json_object_to_json_string_length(json, JSON_C_TO_STRING_NOSLASHESCAPE, &n);
	for (size_t i = 0; text && i < n; i++)
		h = (h ^ (unsigned char)text[i]) * 1099511628211u;
	s->messages[s->count++] = (struct kept_message){h, n};
}

bool kept_hash(struct kept_session *s, json_object *tools, json_object *messages)
{
	size_t count = json_object_array_length(messages);
	s->messages = calloc(count + 1, sizeof *s->messages);
	s->count = 0;
	if (!s->messages)
		return false;
	kept_add_message(s, tools);
	for (size_t i = 0; i < count; i++)
		kept_add_message(s, json_object_array_get_idx(messages, i));
	return true;
}

struct kept *kept_create(struct removal *removal, unsigned most)
{
	struct kept *k = calloc(1, sizeof *k);
	if (k)
		k->sessions = calloc(most + 1, sizeof *k->sessions);
	if (!k || !k->sessions) {
		free(k);
		return NULL;
	}
	k->removal = removal;
	k->most = most;
	pthread_mutex_init(&k->lock, NULL);
	return k;
}

static void kept_forget(struct kept *k, size_t i)
{
	k->count--;
	memmove(&k->sessions[i], &k->sessions[i + 1], (k->count - i) * sizeof *k->sessions);
}

static void kept_discard(const struct kept *k, struct kept_session *s)
{
	session_remove(k->removal, s->model, s->name);
	free(s->messages);
}

bool kept_drop(struct kept *k)
{
	struct kept_session oldest;
	pthread_mutex_lock(&k->lock);
	bool any = k->count > 0;
	if (any) {
		oldest = k->sessions[0];
		kept_forget(k, 0);
	}
	pthread_mutex_unlock(&k->lock);
	if (any)
		kept_discard(k, &oldest);
	return any;
}

void kept_free(struct kept *k)
{
	if (!k)
		return;
	while (kept_drop(k))
		;
	pthread_mutex_destroy(&k->lock);
	free(k->sessions);
	free(k);
}

/* The place of the session that shares the longest beginning with `like`; k->count: there is none.
 * Sharing only the tools is not enough. *most: how many hashes are shared. */
static size_t kept_best(const struct kept *k, const struct kept_session *like, size_t *most)
{
	size_t best = k->count;
	*most = 1;
	for (size_t i = 0; i < k->count; i++) {
		const struct kept_session *s = &k->sessions[i];
		size_t n = 0;
		if (s->key != like->key || strcmp(s->model, like->model) != 0)
			continue;
		while (n < s->count && n < like->count &&
		       s->messages[n].hash == like->messages[n].hash)
			n++;
		if (n > *most || (n == *most && n > 1 && n == s->count)) {
			*most = n;
			best = i;
		}
	}
	return best;
}

enum kept_found kept_take(struct kept *k, const struct kept_session *like, struct kept_session *out)
{
	size_t n;
	enum kept_found found = KEPT_NONE;
	pthread_mutex_lock(&k->lock);
	size_t best = kept_best(k, like, &n);
	if (best < k->count) {
		const struct kept_session *s = &k->sessions[best];
		size_t bytes = 0;
		for (size_t i = 0; i < n; i++)
			bytes += s->messages[i].bytes;
		found = n == s->count	       ? KEPT_WHOLE
			: bytes >= WORTH_BYTES ? KEPT_BEGINNING
					       : KEPT_NONE;
		if (found) {
			*out = *s;
			kept_forget(k, best);
		}
	}
	pthread_mutex_unlock(&k->lock);
	return found;
}

void kept_put(struct kept *k, struct kept_session *s)
{
	struct kept_session gone = *s;
	pthread_mutex_lock(&k->lock);
	bool full = k->count == k->most;
	if (full && k->most) {
		gone = k->sessions[0];
		kept_forget(k, 0);
	}
	if (k->most)
		k->sessions[k->count++] = *s;
	pthread_mutex_unlock(&k->lock);
	if (full)
		kept_discard(k, &gone);
}

unsigned kept_count(struct kept *k)
{
	pthread_mutex_lock(&k->lock);
	unsigned count = k->count;
	pthread_mutex_unlock(&k->lock);
	return count;
}

/* ---- removal ---- */

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

/* With the lock. False: out of memory. */
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
