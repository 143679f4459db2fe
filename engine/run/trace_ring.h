/* Lines of a trace: one thread adds them, and each reader reads them at its own pace.
 *
 * The ring has memory only while somebody reads. The adding thread never waits for a reader: the
 * oldest lines are overwritten, and a reader that has not read them gets a line `lost N` instead.
 * Lines belong to an owner, and a reader sees all lines or one owner's; N counts only those.
 *
 * Threads: the lock is held for a copy of at most TRACE_READ_BYTES. `told` is called under it, and
 * must not block; no other lock of the engine is taken under it. trace_ring_is_read needs no lock.
 */
#ifndef MOEFS_ENGINE_RUN_TRACE_RING_H
#define MOEFS_ENGINE_RUN_TRACE_RING_H

#include "cache/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TRACE_RING_BYTES = 1 << 20,
	TRACE_ADD_BYTES = 32 << 10, /* that may be added at once */
};

struct trace_reader;

/* An owner whose lines somebody reads. */
struct trace_group {
	struct trace_group *next;
	uint32_t owner, readers;
	uint64_t lines; /* added since this entry exists */
};

struct trace_ring {
	size_t size;
	_Atomic uint32_t readers;
	pthread_mutex_t lock; /* of all below, but of what is a reader's own */
	char *bytes;	      /* [size]; NULL: there is no reader */
	uint64_t head, tail;  /* bytes that were ever added, and taken away */
	uint64_t lines;	      /* that were ever added */
	struct trace_group *groups;
	void (*told)(void *ctx);
	void *told_ctx;
};

void trace_ring_init(struct trace_ring *r, size_t size); /* several times TRACE_ADD_BYTES */
void trace_ring_free(struct trace_ring *r);		 /* nobody reads any more */
/* Whether there is a reader. Takes no lock, so the result may be a moment old. */
bool trace_ring_is_read(const struct trace_ring *r);
/* Adds whole lines of an owner and calls `told`. text NULL: there was no memory for the lines,
 * which all readers have lost. */
void trace_ring_add(struct trace_ring *r, uint32_t owner, const char *text, size_t bytes,
		    uint64_t lines);
void trace_ring_tell(struct trace_ring *r); /* wakes the readers */

/* From now on; owner NULL: all lines. All who read one ring give the same `told`, which is called
 * from any thread whenever there is news, and not any more once the last of them is closed. */
int trace_reader_open(struct trace_reader **out, struct trace_ring *r, const uint32_t *owner,
		      void (*told)(void *ctx), void *ctx, struct err *e);
void trace_reader_close(struct trace_reader *t);
/* Whole lines, the oldest first, as many as there are and fit: how many bytes. */
size_t trace_reader_read(struct trace_reader *t, char *buffer, size_t size); /* TRACE_READ_BYTES */
bool trace_reader_has_lines(const struct trace_reader *t);

#endif
