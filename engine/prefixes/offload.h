/* Contexts on disk: what an idle session had computed when its memory was needed, until its next
 * turn.
 *
 * A model's contexts are in one file without a name (O_TMPFILE, 0600), which the system removes
 * with the process. A context is cut into pieces: its head and ids, each block of keys and values,
 * each recurrent state. Equal pieces are written once, so blocks and states that contexts share
 * are. A piece has a checksum. Nothing is compressed: a token's keys and values are read in less
 * time than it takes to unpack them, and far less than to compute them.
 *
 * Whatever fails here means that a text is computed again, never that a turn fails. Reads and
 * writes have the lowest priority among those of the disk that are not idle: experts' reads go
 * first.
 *
 * Threads: one at a time writes and reads a model's; any other may drop.
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

/* A context on disk, or the reason why it is not there. Its session's. */
struct offload_text {
	struct offload *owner;
	struct offload_text *next; /* the one that was written before it */
	struct offload_piece **pieces;
	uint32_t count;
	uint64_t bytes; /* of the saved context */
	size_t positions;
	/* How it was computed. */
	uint64_t weights_sum;
	struct losses losses;
	bool is_private;
	int failed;    /* ENOSPC: there was no room; EIO: it could not be written; 0: it was */
	bool writing;  /* its pieces are the writer's */
	bool forsaken; /* dropped while it was written */
};

enum { OFFLOAD_BUCKETS = 4096 };

struct offload {
	pthread_mutex_t lock; /* of all below and of texts; not held while pieces are written or read */
	struct offload_room *room;
	char *const *folders; /* where the file may be, in order of preference; some are NULL */
	uint32_t folder_count;
	const char *folder; /* the one that has it */
	int fd;		    /* -1: not yet */
	uint64_t end;
	struct offload_space *spaces; /* of pieces that are gone */
	struct offload_piece *pieces[OFFLOAD_BUCKETS];
	struct offload_text *texts;
};

/* folders[count] and room outlive o. No file is made before something is written. */
void offload_init(struct offload *o, struct offload_room *room, char *const *folders,
		  uint32_t count);
void offload_free(struct offload *o);

/* A text that is about to be written: offload_write comes next. -ENOMEM: NULL. */
struct offload_text *offload_begin(struct offload *o, size_t positions);
/* Writes it. If the room is used up, texts that were written longest ago give way. Without room,
 * and where the disk fails, nothing of it stays, and t->failed says so. */
void offload_write(struct offload *o, struct offload_text *t, const struct context_save *s);
/* Makes x, which holds nothing, the context that was written. -ENOSPC: the contexts' budget has no
 * room; -EIO: a checksum is wrong, or the disk failed; -ENOENT: it is not there (any more);
 * -ENOMEM; in words. */
int offload_read(struct offload *o, const struct offload_text *t, struct context *x,
		 const struct config *c, struct err *e);
/* NULL is fine. */
void offload_drop(struct offload_text *t);

#endif
