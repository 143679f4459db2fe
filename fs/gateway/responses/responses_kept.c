/* Keeps the newest responses. See responses.h.
 *
 * A ring: the newest response replaces the oldest. Responses are kept as texts, whose sizes are
 * known and which threads do not share. */
#include "fs/gateway/responses/responses.h"
#include "fs/gateway/body/document.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct responses_kept_one {
	char id[40]; /* "": the place is empty */
	size_t key, bytes;
	char *texts[KEPT_TEXTS];
};

struct responses_kept {
	pthread_mutex_t lock;
	size_t most, bytes_most, bytes;
	size_t next, oldest; /* responses so far; an entry's index is its number modulo most */
	struct responses_kept_one ones[];
};

struct responses_kept *responses_kept_create(size_t most, size_t bytes)
{
	struct responses_kept *k = calloc(1, sizeof *k + most * sizeof *k->ones);
	if (!k)
		return NULL;
	k->most = most;
	k->bytes_most = bytes;
	pthread_mutex_init(&k->lock, NULL);
	return k;
}

static void responses_kept_drop(struct responses_kept *k, struct responses_kept_one *one)
{
	k->bytes -= one->bytes;
	for (int i = 0; i < KEPT_TEXTS; i++)
		free(one->texts[i]);
	*one = (struct responses_kept_one){0};
}

void responses_kept_free(struct responses_kept *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->most; i++)
		responses_kept_drop(k, &k->ones[i]);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

static bool responses_kept_write(struct responses_kept_one *one,
				 json_object *const texts[KEPT_TEXTS])
{
	for (int i = 0; i < KEPT_TEXTS; i++) {
		size_t n = 0;
		const char *text = json_object_to_json_string_length(
			texts[i], JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &n);
		one->texts[i] = text ? strdup(text) : NULL;
		if (!one->texts[i])
			return false;
		one->bytes += n + 1;
	}
	return true;
}

void responses_kept_put(struct responses_kept *k, size_t key, const char *id,
			json_object *const texts[KEPT_TEXTS])
{
	struct responses_kept_one one = {.key = key};
	bool fits = strlen(id) < sizeof one.id && responses_kept_write(&one, texts) &&
		    one.bytes <= k->bytes_most;
	if (!fits) {
		for (int i = 0; i < KEPT_TEXTS; i++)
			free(one.texts[i]);
		return;
	}
	strcpy(one.id, id);
	pthread_mutex_lock(&k->lock);
	while (k->oldest < k->next &&
	       (k->next - k->oldest == k->most || k->bytes + one.bytes > k->bytes_most))
		responses_kept_drop(k, &k->ones[k->oldest++ % k->most]);
	k->ones[k->next++ % k->most] = one;
	k->bytes += one.bytes;
	pthread_mutex_unlock(&k->lock);
}

static struct responses_kept_one *responses_kept_find(struct responses_kept *k, size_t key,
						      const char *id)
{
	for (size_t i = k->oldest; i < k->next && *id; i++) {
		struct responses_kept_one *one = &k->ones[i % k->most];
		if (one->key == key && strcmp(one->id, id) == 0)
			return one;
	}
	return NULL;
}

/* A response nests a little deeper than a body may, and json-c's default limit is lower. */
static json_object *responses_kept_parse(const char *text)
{
	enum { DEPTH = 256 };
	struct document_error why;
	size_t size = strlen(text) + 1;
	const struct text kept = {.data = (char *)(uintptr_t)text, .length = size};
	return document_parse(&kept, DEPTH, &why);
}

json_object *responses_kept_get(struct responses_kept *k, size_t key, const char *id,
				enum kept_text which)
{
	pthread_mutex_lock(&k->lock);
	const struct responses_kept_one *one = responses_kept_find(k, key, id);
	char *text = one ? strdup(one->texts[which]) : NULL;
	pthread_mutex_unlock(&k->lock);
	json_object *o = text ? responses_kept_parse(text) : NULL;
	free(text);
	return o;
}

bool responses_kept_remove(struct responses_kept *k, size_t key, const char *id)
{
	pthread_mutex_lock(&k->lock);
	struct responses_kept_one *one = responses_kept_find(k, key, id);
	if (one)
		responses_kept_drop(k, one);
	pthread_mutex_unlock(&k->lock);
	return one != NULL;
}
