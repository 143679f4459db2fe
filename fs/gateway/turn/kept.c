/* Kept sessions. See kept.h. */
#include "fs/gateway/turn/kept.h"
#include "fs/gateway/turn/removal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of messages that are worth copying a state for, rather than to be computed again. */
enum { WORTH_BYTES = 1024 };

struct kept {
	pthread_mutex_t lock; /* of all below */
	struct removal *removal;
	unsigned most, count;
	struct kept_session *sessions; /* the oldest first */
};

static uint64_t hash(const char *text, size_t n)
{
	uint64_t h = 14695981039346656037u;
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)text[i]) * 1099511628211u;
	return h;
}

static void add(struct kept_session *s, struct json_object *json)
{
	size_t n = 0;
	const char *text =
		json_object_to_json_string_length(json, JSON_C_TO_STRING_NOSLASHESCAPE, &n);
	s->messages[s->count++] = (struct kept_message){hash(text ? text : "", n), n};
}

bool kept_hash(struct kept_session *s, struct json_object *tools, struct json_object *messages)
{
	size_t count = json_object_array_length(messages);
	s->messages = calloc(count + 1, sizeof *s->messages);
	s->count = 0;
	if (!s->messages)
		return false;
	add(s, tools);
	for (size_t i = 0; i < count; i++)
		add(s, json_object_array_get_idx(messages, i));
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

static void forget(struct kept *k, size_t i)
{
	k->count--;
	memmove(&k->sessions[i], &k->sessions[i + 1], (k->count - i) * sizeof *k->sessions);
}

static void discard(const struct kept *k, struct kept_session *s)
{
	removal_put(k->removal, s->model, s->name);
	free(s->messages);
}

bool kept_drop(struct kept *k)
{
	struct kept_session oldest;
	pthread_mutex_lock(&k->lock);
	bool any = k->count > 0;
	if (any) {
		oldest = k->sessions[0];
		forget(k, 0);
	}
	pthread_mutex_unlock(&k->lock);
	if (any)
		discard(k, &oldest);
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

static size_t common(const struct kept_session *a, const struct kept_session *b)
{
	size_t n = 0;
	while (n < a->count && n < b->count && a->messages[n].hash == b->messages[n].hash)
		n++;
	return n;
}

/* Tools alone are no beginning. */
static size_t best_of(const struct kept *k, const struct kept_session *like, size_t *most)
{
	size_t best = k->count;
	*most = 1;
	for (size_t i = 0; i < k->count; i++) {
		const struct kept_session *s = &k->sessions[i];
		if (s->key != like->key || strcmp(s->model, like->model) != 0)
			continue;
		size_t n = common(s, like);
		bool whole = n == s->count;
		if (n > *most || (n == *most && n > 1 && whole)) {
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
	size_t best = best_of(k, like, &n);
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
			forget(k, best);
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
		forget(k, 0);
	}
	if (k->most)
		k->sessions[k->count++] = *s;
	pthread_mutex_unlock(&k->lock);
	if (full)
		discard(k, &gone);
}

unsigned kept_count(struct kept *k)
{
	pthread_mutex_lock(&k->lock);
	unsigned count = k->count;
	pthread_mutex_unlock(&k->lock);
	return count;
}
