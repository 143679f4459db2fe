/* The ring holds entries, each a head and its lines; an entry may wrap around the end. Positions
 * count all bytes ever added, so a position alone tells whether its bytes are overwritten. Each
 * entry has the number of lines before it, of all owners and of its own. The difference to the
 * lines that a reader has seen is the number of lines that it lost. */
#include "engine/run/trace_ring.h"

#include "engine/model.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	uint32_t owner, bytes;
	uint64_t lines;
	uint64_t before, before_own; /* lines added before: of all owners, and of this owner */
};

struct trace_reader {
	struct trace_ring *ring;
	struct trace_group *group; /* NULL: reads all lines */
	uint64_t at;		   /* position of the next entry, which may be overwritten */
	uint64_t seen;		   /* its lines before that, including lost ones */
};

enum { LOST_BYTES = sizeof "lost 18446744073709551615\n" };
_Static_assert((int)TRACE_READ_BYTES >= (int)TRACE_ADD_BYTES + (int)LOST_BYTES,
	       "a read takes at least one entry and what was lost before it");

void trace_ring_init(struct trace_ring *r, size_t size)
{
	*r = (struct trace_ring){.size = size};
	pthread_mutex_init(&r->lock, NULL);
}

void trace_ring_free(struct trace_ring *r)
{
	pthread_mutex_destroy(&r->lock);
	free(r->bytes);
}

bool trace_ring_is_read(const struct trace_ring *r)
{
	return atomic_load_explicit(&r->readers, memory_order_relaxed) != 0;
}

/* ---- bytes; the lock is held ---- */

static void trace_put(struct trace_ring *r, const void *data, size_t n)
{
	size_t place = r->head % r->size, first = r->size - place < n ? r->size - place : n;
	memcpy(r->bytes + place, data, first);
	if (first < n)
		memcpy(r->bytes, (const char *)data + first, n - first);
	r->head += n;
}

static void trace_get(const struct trace_ring *r, uint64_t at, void *data, size_t n)
{
	size_t place = at % r->size, first = r->size - place < n ? r->size - place : n;
	memcpy(data, r->bytes + place, first);
	if (first < n)
		memcpy((char *)data + first, r->bytes, n - first);
}

static struct entry trace_entry_at(const struct trace_ring *r, uint64_t at)
{
	struct entry e;
	trace_get(r, at, &e, sizeof e);
	return e;
}

static void trace_make_room(struct trace_ring *r, size_t n)
{
	while (r->head - r->tail + n > r->size)
		r->tail += sizeof(struct entry) + trace_entry_at(r, r->tail).bytes;
}

static struct trace_group *trace_group_of(const struct trace_ring *r, uint32_t owner)
{
	struct trace_group *g = r->groups;
	while (g && g->owner != owner)
		g = g->next;
	return g;
}

/* ---- adding ---- */

static void trace_tell(const struct trace_ring *r)
{
	if (r->told)
		r->told(r->told_ctx);
}

void trace_ring_add(struct trace_ring *r, uint32_t owner, const char *text, size_t bytes,
		    uint64_t lines)
{
	pthread_mutex_lock(&r->lock);
	struct trace_group *g = trace_group_of(r, owner);
	struct entry e = {owner, (uint32_t)bytes, lines, r->lines, g ? g->lines : 0};
	r->lines += lines;
	if (g)
		g->lines += lines;
	if (r->bytes && text) {
		trace_make_room(r, sizeof e + bytes);
		trace_put(r, &e, sizeof e);
		trace_put(r, text, bytes);
	}
	trace_tell(r);
	pthread_mutex_unlock(&r->lock);
}

void trace_ring_tell(struct trace_ring *r)
{
	if (!trace_ring_is_read(r))
		return;
	pthread_mutex_lock(&r->lock);
	trace_tell(r);
	pthread_mutex_unlock(&r->lock);
}

/* ---- readers ---- */

/* Takes the memory that it needs of the two; the caller frees the rest. */
static void trace_join(struct trace_ring *r, struct trace_reader *t, const uint32_t *owner,
		       char **bytes, struct trace_group **group)
{
	if (!r->bytes) {
		r->bytes = *bytes;
		*bytes = NULL;
	}
	if (owner && !(t->group = trace_group_of(r, *owner))) {
		t->group = *group;
		*group = NULL;
		t->group->owner = *owner;
		t->group->next = r->groups;
		r->groups = t->group;
	}
	if (t->group)
		t->group->readers++;
	t->at = r->head;
	t->seen = t->group ? t->group->lines : r->lines;
}

int trace_reader_open(struct trace_reader **out, struct trace_ring *r, const uint32_t *owner,
		      void (*told)(void *ctx), void *ctx, struct err *e)
{
	struct trace_reader *t = calloc(1, sizeof *t);
	struct trace_group *group = calloc(1, sizeof *group);
	char *bytes = malloc(r->size);
	int failed = 0;
	if (t && group && bytes) {
		t->ring = r;
		pthread_mutex_lock(&r->lock);
		trace_join(r, t, owner, &bytes, &group);
		r->told = told;
		r->told_ctx = ctx;
		atomic_fetch_add_explicit(&r->readers, 1, memory_order_relaxed);
		pthread_mutex_unlock(&r->lock);
		*out = t;
		t = NULL;
	} else {
		failed = err_set(e, ENOMEM, "out of memory for tracing");
	}
	free(t);
	free(group);
	free(bytes);
	return failed;
}

static void trace_leave_group(struct trace_ring *r, struct trace_group *g)
{
	if (!g || --g->readers)
		return;
	struct trace_group **link = &r->groups;
	while (*link != g)
		link = &(*link)->next;
	*link = g->next;
	free(g);
}

void trace_reader_close(struct trace_reader *t)
{
	struct trace_ring *r = t->ring;
	pthread_mutex_lock(&r->lock);
	trace_leave_group(r, t->group);
	if (atomic_fetch_sub_explicit(&r->readers, 1, memory_order_relaxed) == 1) {
		free(r->bytes);
		r->bytes = NULL;
		r->told = NULL;
		r->tail = r->head;
	}
	pthread_mutex_unlock(&r->lock);
	free(t);
}

static uint64_t trace_lines(const struct trace_reader *t)
{
	return t->group ? t->group->lines : t->ring->lines;
}

/* Writes `lost N` for the lines between the last ones that the reader has seen and the next ones.
 */
static size_t trace_put_lost(struct trace_reader *t, uint64_t next, char *buffer)
{
	uint64_t lost = next - t->seen;
	t->seen = next;
	return lost ? (size_t)snprintf(buffer, LOST_BYTES, "lost %llu\n", (unsigned long long)lost)
		    : 0;
}

static size_t trace_take_lines(struct trace_reader *t, char *buffer, size_t size)
{
	const struct trace_ring *r = t->ring;
	size_t n = 0;
	if (t->at < r->tail)
		t->at = r->tail;
	while (t->at < r->head) {
		struct entry x = trace_entry_at(r, t->at);
		bool his = !t->group || x.owner == t->group->owner;
		if (his && size - n < LOST_BYTES + x.bytes)
			return n;
		if (his) {
			n += trace_put_lost(t, t->group ? x.before_own : x.before, buffer + n);
			trace_get(r, t->at + sizeof x, buffer + n, x.bytes);
			n += x.bytes;
			t->seen += x.lines;
		}
		t->at += sizeof x + x.bytes;
	}
	return size - n < LOST_BYTES ? n : n + trace_put_lost(t, trace_lines(t), buffer + n);
}

size_t trace_reader_read(struct trace_reader *t, char *buffer, size_t size)
{
	pthread_mutex_lock(&t->ring->lock);
	size_t n = trace_take_lines(t, buffer, size);
	pthread_mutex_unlock(&t->ring->lock);
	return n;
}

bool trace_reader_has_lines(const struct trace_reader *t)
{
	pthread_mutex_lock(&t->ring->lock);
	bool has = t->seen != trace_lines(t);
	pthread_mutex_unlock(&t->ring->lock);
	return has;
}
