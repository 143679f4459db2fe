/* Contexts on disk: if the memory of an idle session's context is needed, the context is written to
 * disk and read back for the session's next turn.
 *
 * All contexts of a model are in one unnamed file (O_TMPFILE, 0600), which the system removes when
 * the process ends. A context is divided into pieces: its head and ids, each block of keys and
 * values, each recurrent state. Equal pieces are written once, so contexts share blocks and states
 * on disk, too. Each piece has a checksum. Nothing is compressed, since reading keys and values
 * takes less time than decompressing them, and much less than computing them.
 *
 * A failure here never fails a turn: the text is computed again. Reads and writes have the lowest
 * I/O priority above idle, so reads of experts go first.
 *
 * Threads: one thread at a time may write and read a model's contexts; any thread may call
 * offload_drop.
 */
#ifndef MOEFS_ENGINE_PREFIXES_OFFLOAD_H
#define MOEFS_ENGINE_PREFIXES_OFFLOAD_H

#include "engine/compute/context_save.h"
#include "engine/compute/step.h"

/* Bytes that the contexts of all models of an engine may take on disk. */
struct offload_room {
	uint64_t most; /* 0: nothing is written */
	_Atomic uint64_t used;
};

struct offload_piece;

/* A context on disk, or the reason why it is not there. Owned by its session. */
struct offload_text {
	struct offload *owner;
	struct offload_text *next; /* the text that was written before this one */
	struct offload_piece **pieces;
	uint32_t count;
	uint64_t bytes; /* of the saved context */
	size_t positions;
	/* How the context was computed: */
	uint64_t weights_sum;
	struct losses losses;
	bool is_private;
	int failed;    /* ENOSPC: no room; EIO: it could not be written; 0: it was written */
	bool writing;  /* the writer owns the pieces */
	bool forsaken; /* dropped while it was being written */
};

enum { OFFLOAD_BUCKETS = 4096 };

struct offload {
	pthread_mutex_t lock; /* of all fields below and of texts; not held while pieces are written
				 or read */
	struct offload_room *room;
	char *const *folders; /* where to make the file, in order of preference; some are NULL */
	uint32_t folder_count;
	const char *folder; /* the folder that has the file */
	int fd;		    /* -1: no file yet */
	uint64_t end;
	struct offload_space *spaces; /* free space from dropped pieces */
	struct offload_piece *pieces[OFFLOAD_BUCKETS];
	struct offload_text *texts;
};

/* folders[count] and room must outlive o. The file is made at the first write. */
void offload_init(struct offload *o, struct offload_room *room, char *const *folders,
		  uint32_t count);
void offload_free(struct offload *o);

/* Creates a text; call offload_write next. NULL: out of memory. */
struct offload_text *offload_begin(struct offload *o, size_t positions);
/* Writes the context. If the room is used up, the oldest texts are dropped. If there is still no
 * room, or the disk fails, nothing stays on disk and t->failed is set. */
void offload_write(struct offload *o, struct offload_text *t, const struct context_save *s);
/* Reads the context into x, which must be empty. -ENOSPC: the context budget has no room; -EIO: a
 * checksum is wrong, or the disk failed; -ENOENT: the context is not on disk; -ENOMEM. */
int offload_read(struct offload *o, const struct offload_text *t, struct context *x,
		 const struct config *c, struct err *e);
/* NULL is fine. */
void offload_drop(struct offload_text *t);

#endif
