#include "engine/session/answer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct answer {
	_Atomic uint32_t references;
	bool stream;		 /* this and the next three: constant */
	bool lines;		 /* created by answer_create_lines */
	struct answer *thoughts; /* owned; NULL: not the answer of a turn */
	struct answer *logprobs; /* owned; NULL: not the answer of a turn */
	pthread_mutex_t lock;	 /* of all fields below */
	char *text;
	size_t size, room;
	size_t held; /* newlines written but not yet readable */
	bool complete;
	int code; /* 0 or a negative errno, once complete */
};

static struct answer *answer_create_alone(bool stream)
{
	struct answer *a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	atomic_store(&a->references, 1);
	a->stream = stream;
	pthread_mutex_init(&a->lock, NULL);
	return a;
}

struct answer *answer_create_lines(bool stream)
{
	struct answer *a = answer_create_alone(stream);
	if (a)
		a->lines = true;
	return a;
}

struct answer *answer_create(bool stream)
{
	struct answer *a = answer_create_alone(stream);
	if (a && (!(a->thoughts = answer_create_alone(stream)) ||
		  !(a->logprobs = answer_create_lines(stream)))) {
		answer_unref(a);
		a = NULL;
	}
	return a;
}

struct answer *answer_logprobs(struct answer *a)
{
	return a->logprobs ? answer_ref(a->logprobs) : NULL;
}

struct answer *answer_thoughts(struct answer *a)
{
	return a->thoughts ? answer_ref(a->thoughts) : NULL;
}

struct answer *answer_ref(struct answer *a)
{
	atomic_fetch_add(&a->references, 1);
	return a;
}

void answer_unref(struct answer *a)
{
	if (!a || atomic_fetch_sub(&a->references, 1) > 1)
		return;
	answer_unref(a->thoughts);
	answer_unref(a->logprobs);
	pthread_mutex_destroy(&a->lock);
	free(a->text);
	free(a);
}

/* Makes room for n more bytes and the last newline, so that answer_finish cannot fail. */
static bool answer_reserve(struct answer *a, size_t n)
{
	size_t need = a->size + n + 1;
	if (need <= a->room)
		return true;
	size_t room = 2 * a->room > need ? 2 * a->room : need + 256;
	char *text = realloc(a->text, room);
	if (!text)
		return false;
	a->text = text;
	a->room = room;
	return true;
}

static ssize_t answer_append_locked(struct answer *a, const char *text, size_t bytes)
{
	size_t readable = bytes;
	while (!a->lines && readable && text[readable - 1] == '\n')
		readable--;
	size_t newlines = bytes - readable;
	if (!readable) {
		a->held += newlines;
		return 0;
	}
	if (!answer_reserve(a, a->held + readable))
		return -ENOMEM;
	memset(a->text + a->size, '\n', a->held);
	memcpy(a->text + a->size + a->held, text, readable);
	readable += a->held;
	a->size += readable;
	a->held = newlines;
	return (ssize_t)readable;
}

ssize_t answer_append(struct answer *a, const char *text, size_t bytes)
{
	pthread_mutex_lock(&a->lock);
	ssize_t result = a->complete ? 0 : answer_append_locked(a, text, bytes);
	pthread_mutex_unlock(&a->lock);
	return result;
}

void answer_finish(struct answer *a, int code)
{
	if (a->thoughts)
		answer_finish(a->thoughts, code);
	if (a->logprobs)
		answer_finish(a->logprobs, code);
	pthread_mutex_lock(&a->lock);
	if (!a->complete) {
		a->complete = true;
		a->code = code;
		bool newline = !code && !a->lines && (a->thoughts || a->size);
		if (newline && answer_reserve(a, 0))
			a->text[a->size++] = '\n';
	}
	pthread_mutex_unlock(&a->lock);
}

int answer_think(struct answer *a, const char *text, size_t bytes)
{
	ssize_t n = answer_append(a->thoughts, text, bytes);
	return n < 0 ? (int)n : 0;
}

void answer_thought(struct answer *a)
{
	answer_finish(a->thoughts, 0);
}

/* How many bytes can be read. */
static size_t answer_shown(const struct answer *a)
{
	return a->stream || a->complete ? a->size : 0;
}

ssize_t answer_read(struct answer *a, uint64_t offset, char *buffer, size_t bytes, bool *complete)
{
	pthread_mutex_lock(&a->lock);
	ssize_t result;
	*complete = a->complete;
	if (offset < answer_shown(a)) {
		size_t left = a->size - (size_t)offset;
		result = (ssize_t)(left < bytes ? left : bytes);
		memcpy(buffer, a->text + offset, (size_t)result);
	} else {
		result = a->complete ? a->code : 0;
	}
	pthread_mutex_unlock(&a->lock);
	return result;
}

uint64_t answer_size(struct answer *a, bool *complete)
{
	pthread_mutex_lock(&a->lock);
	uint64_t size = answer_shown(a);
	*complete = a->complete;
	pthread_mutex_unlock(&a->lock);
	return size;
}
