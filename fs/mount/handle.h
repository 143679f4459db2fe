/* Open files. A handle is made by OPEN and freed by RELEASE, and it holds whatever its kind of file
 * has to remember in between; a kind is a struct file_ops, one per behaviour, shared by many rows
 * of the tree (files/files.h).
 *
 * A handle keeps its session's struct alive, not the session: after rmdir the struct's session is
 * NULL, and reads fail with EIO (those that were waiting) or ESTALE (later ones).
 */
#ifndef MOEFS_FS_HANDLE_H
#define MOEFS_FS_HANDLE_H

#include "fs/base/process.h"
#include "fs/mount/call.h"
#include "fs/mount/node.h"

struct answer;
struct restored;
struct saved;
struct task;
struct trace_reader;

struct handle {
	struct link all;  /* on mount.handles */
	struct node node; /* its viewer: who opened it */
	int flags;	  /* as given to open */
	/* The process that opened it to write, and its parent; as much as its kind asks for. */
	struct line opener;
	pid_t opener_thread;
	pid_t caller;	       /* the thread whose open or write is being served */
	struct text written;   /* prompt, questions, assembled: what the writes have put together */
	size_t counted;	       /* of that, with its user (unsubmitted.h) */
	struct text shown;     /* live files: what was rendered when offset 0 was last read;
				* trace: the piece that is being read, from offset `first` on */
	bool looked;	       /* live files: it has been read */
	int poison;	       /* errno of a failed write: what was written must not take effect */
	bool dirty;	       /* prompt, assembled: written has not taken effect yet */
	bool completes;	       /* tool_result: its release submits the results */
	bool flushed;	       /* prompt: the opener has flushed since the last write */
	bool relayed;	       /* counted among its conversation's */
	bool passed_on;	       /* likewise */
	struct answer *answer; /* output, questions: what reads are bound to; a reference */
	unsigned late;	       /* writes that workers are at (files/late.h) */
	bool ended;	       /* output: a read has reached the answer's end */
	uint64_t rest; /* streams: where what the last read asked for ends, if it got less */
	/* output: furthest byte read; questions: next byte of the answer; tool_calls.json: bytes of
	 * it when it was read; log, trace: where the last read ended */
	uint64_t cursor;
	struct saved *saved;	   /* state: what is read, */
	struct restored *restored; /* and what is being written; NULL: nothing */
	/* questions: file offsets where this answer began and where reading stands */
	uint64_t first, next;
	struct task *task;	      /* questions: what a worker does for it; NULL: nothing */
	struct link readers;	      /* calls that wait for that */
	int failed;		      /* what it came to, if not to an answer: for the next read */
	bool gone;		      /* the mount has ended under it */
	struct fuse_pollhandle *poll; /* someone polls; to be notified */
	struct link polling;	      /* on the pollers of what it has news of (pollers.h) */
	struct trace_reader *trace;   /* trace: where it reads; NULL: opening it failed */
};

typedef void size_fn(fuse_req_t req, const struct node *n, uint64_t size);

/* What a kind of file does; NULL: nothing, or the plain default. Sentences go to MOUNT/error. */
struct file_ops {
	int (*open)(struct handle *h, struct err *e);
	bool refuses; /* what is written may be refused later: who opened it is known, with parents
		       */
	/* At most c->size bytes from c->offset into buffer: how many, a negative errno, or
	 * CALL_KEPT. */
	ssize_t (*read)(struct handle *h, struct call *c, char *buffer);
	/* Instead of read, where it blocks: in a worker, which sees nothing of the mount but
	 * what the handle holds to its end. At most `bytes` from offset: how many, or a negative
	 * errno. */
	int64_t (*read_in_worker)(const struct handle *h, uint64_t offset, void *buffer,
				  size_t bytes, struct err *e);
	/* All of it or nothing: 0 or a negative errno. */
	int (*write)(struct handle *h, const char *data, size_t size, uint64_t offset,
		     struct err *e);
	/* Instead of write: 0, and it answers the request itself, before RELEASE. */
	int (*write_later)(struct handle *h, fuse_req_t req, const char *data, size_t size,
			   uint64_t offset, struct err *e);
	int (*truncate)(struct handle *h, uint64_t size,
			struct err *e); /* ftruncate, not O_TRUNC */
	int (*flush)(struct handle *h, bool by_opener, struct err *e);
	/* The same for what takes long: true if it has the request answered later. */
	bool (*flush_later)(struct handle *h, bool by_opener, fuse_req_t req);
	void (*release)(struct handle *h);
	uint64_t (*size)(const struct node *n); /* default: what render makes */
	unsigned (*poll)(struct handle *h);	/* default: always ready */
	/* Where news of it comes; default: its conversation's, or none. */
	struct link *(*pollers)(const struct handle *h);
	/* Where the size takes long to find, and `size` is 0: has a GETATTR answered with it later,
	 * or returns a negative errno. */
	int (*size_later)(const struct node *n, fuse_req_t req, size_fn *tell);
};

static inline bool handle_reads(const struct handle *h)
{
	return (h->flags & O_ACCMODE) != O_WRONLY;
}

static inline bool handle_writes(const struct handle *h)
{
	return (h->flags & O_ACCMODE) != O_RDONLY;
}

/* The process that opened it to write. */
static inline pid_t handle_opener(const struct handle *h)
{
	return h->opener.count ? h->opener.of[0].id : process_of(h->opener_thread);
}

/* Its session was removed while the file was open, or the mount is coming to its end. */
static inline bool handle_ended(const struct handle *h)
{
	return h->gone || (h->node.conversation && !h->node.conversation->session);
}

/* writers.c: it has been written to; it is being released. */
void handle_relayed(struct handle *h);
void handle_relayed_no_more(struct handle *h);
/* A process has closed an assembled file. If the opener closed it before, and another process has
 * written since, the text takes effect at RELEASE, which is on its way. */
void handle_flushed(struct handle *h, bool by_opener);
int handle_open(struct handle **out, const struct node *n, int flags, pid_t caller, struct err *e);
void handle_release(struct handle *h);
/* What its opener wrote has begun a turn: refusals before it are no news any more. */
void handle_began_turn(struct handle *h);
/* The same at RELEASE, when the opener may be gone; with a code it began none, for what e says. */
void handle_submitted(struct handle *h, int code, const struct err *e);
/* Copies from a whole text what a read at offset asks for. */
ssize_t read_slice(const struct call *c, char *buffer, const void *data, size_t length);
/* Lets a read wait, or says -EAGAIN if it must not. */
ssize_t read_waits(struct call *c, struct link *list);
/* How long an open may wait for the RELEASE of a prompt that is closing; where a network is
 * between.
 */
enum { RELEASE_WAIT_MS = 300, RELAY_WAIT_MS = 1000 };

#endif
