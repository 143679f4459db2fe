/* A ring buffer of trace lines. One thread adds lines; each reader reads at its own pace.
 *
 * The ring has memory only while it has a reader. The adding thread never waits for a reader: it
 * overwrites the oldest lines, and a reader that has not read them gets a line `lost N` instead.
 * Each line belongs to an owner. A reader sees all lines, or the lines of one owner; N counts only
 * lines that it would have seen.
 *
 * Threads: the lock is held while at most TRACE_READ_BYTES are copied. `told` is called under the
 * lock and must not block. No other lock of the engine is taken under this lock. trace_ring_is_read
 * needs no lock.
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
	TRACE_ADD_BYTES = 32 << 10, /* most bytes per call of trace_ring_add */
};

struct trace_reader;

/* An owner whose lines a reader wants. */
struct trace_group {
	struct trace_group *next;
	uint32_t owner, readers;
	uint64_t lines; /* lines added since this entry was made */
};

struct trace_ring {
	size_t size;
	_Atomic uint32_t readers;
	pthread_mutex_t lock; /* of all fields below, and of the readers' positions */
	char *bytes;	      /* [size]; NULL: there is no reader */
	uint64_t head, tail;  /* bytes added, and bytes removed, since the start */
	uint64_t lines;	      /* lines added since the start */
	struct trace_group *groups;
	void (*told)(void *ctx);
	void *told_ctx;
};

void trace_ring_init(struct trace_ring *r, size_t size); /* size: several times TRACE_ADD_BYTES */
void trace_ring_free(struct trace_ring *r);		 /* after the last reader is closed */
/* Whether there is a reader. Takes no lock, so the result may be a moment old. */
bool trace_ring_is_read(const struct trace_ring *r);
/* Adds whole lines of an owner and calls `told`. text NULL: memory ran out, and the readers lose
 * these lines. */
void trace_ring_add(struct trace_ring *r, uint32_t owner, const char *text, size_t bytes,
		    uint64_t lines);
void trace_ring_tell(struct trace_ring *r); /* calls `told` */

/* Opens a reader for lines that are added from now on; owner NULL: lines of all owners. All readers
 * of a ring must give the same `told`. It is called from any thread when there are new lines, and
 * no longer after the last reader is closed. */
int trace_reader_open(struct trace_reader **out, struct trace_ring *r, const uint32_t *owner,
		      void (*told)(void *ctx), void *ctx, struct err *e);
void trace_reader_close(struct trace_reader *t);
/* Reads whole lines, oldest first, as many as fit. Returns the number of bytes. size: at least
 * TRACE_READ_BYTES. */
size_t trace_reader_read(struct trace_reader *t, char *buffer, size_t size);
bool trace_reader_has_lines(const struct trace_reader *t);

#endif
