/* Open files, who polls them, and how much unsubmitted text they may hold.
 *
 * OPEN makes a handle and RELEASE frees it. The handle holds what its kind of file has to remember
 * in between; a kind is a struct file_ops, one per behaviour, shared by many rows of the tree
 * (files/files.h).
 *
 * A handle keeps its conversation's struct alive, not the engine's session: after rmdir `session`
 * is NULL, reads that were waiting fail with EIO, and later ones with ESTALE. */
#ifndef MOEFS_FS_MOUNT_HANDLE_H
#define MOEFS_FS_MOUNT_HANDLE_H

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
	/* The process that opened the file to write, and its parent; as far as its kind needs them.
	 */
	struct lineage opener;
	pid_t opener_thread;
	pid_t caller;	       /* the thread whose open or write is being served */
	struct text written;   /* prompt, questions, assembled: what the writes have put together */
	size_t counted;	       /* bytes that count against its user (unsubmitted.c) */
	struct text shown;     /* live files: what was rendered when offset 0 was last read;
				* trace: the piece that is being read, from offset `first` on */
	bool looked;	       /* live files: the file has been read */
	int poison;	       /* errno of a failed write: what was written must not take effect */
	bool dirty;	       /* prompt, assembled: `written` has not taken effect yet */
	bool completes;	       /* tool_result: RELEASE submits the results */
	bool flushed;	       /* prompt: the opener has flushed since the last write */
	bool relayed;	       /* counted in conversation.relayed */
	bool passed_on;	       /* counted in conversation.passed_on */
	struct answer *answer; /* output, questions: the answer that reads return; a reference */
	unsigned deferred;     /* writes that workers are taking (files/values.h) */
	bool ended;	       /* output: a read has reached the answer's end */
	uint64_t rest; /* streams: the end of what the last read asked for, if it got less */
	/* output: furthest byte read; questions: next byte of the answer; tool_calls.json: bytes of
	 * it when it was read; log, trace: where the last read ended */
	uint64_t cursor;
	struct saved *saved;	   /* state: what is read, */
	struct restored *restored; /* and what is being written; NULL: nothing */
	/* questions: file offsets where this answer began and where reading stands */
	uint64_t first, next;
	struct task *task;	      /* questions: what a worker computes; NULL: nothing */
	struct link readers;	      /* calls that wait for the task */
	int failed;		      /* errno of a task that gave no answer, for the next read */
	bool gone;		      /* the mount has ended */
	struct fuse_pollhandle *poll; /* to notify who polls; NULL: nobody */
	struct link polling;	      /* on a list of pollers */
	struct trace_reader *trace;   /* trace: its reader; NULL: opening it failed */
};

typedef void size_fn(fuse_req_t req, const struct node *n, uint64_t size);

/* What a kind of file does; NULL: nothing, or the default. Sentences go to MOUNT/error. */
struct file_ops {
	int (*open)(struct handle *h, struct err *e);
	bool refuses; /* a write may be refused later, so the opener and its parent are remembered
		       */
	/* Reads at most c->size bytes at c->offset into buffer: their number, -errno, or CALL_KEPT.
	 */
	ssize_t (*read)(struct handle *h, struct file_call *c, char *buffer);
	/* Instead of read, for what blocks: in a worker, which sees nothing of the mount but what
	 * the handle holds. Reads at most `bytes` at offset: their number, or -errno. */
	int64_t (*read_in_worker)(const struct handle *h, uint64_t offset, void *buffer,
				  size_t bytes, struct err *e);
	/* Takes all of the data or nothing: 0 or -errno. */
	int (*write)(struct handle *h, const char *data, size_t size, uint64_t offset,
		     struct err *e);
	/* Instead of write: returns 0 and answers the request itself, before RELEASE. */
	int (*write_later)(struct handle *h, fuse_req_t req, const char *data, size_t size,
			   uint64_t offset, struct err *e);
	int (*truncate)(struct handle *h, uint64_t size,
			struct err *e); /* ftruncate, not O_TRUNC */
	int (*flush)(struct handle *h, bool by_opener, struct err *e);
	/* The same for what takes long: true if the request is answered later. */
	bool (*flush_later)(struct handle *h, bool by_opener, fuse_req_t req);
	void (*release)(struct handle *h);
	uint64_t (*size)(const struct node *n); /* default: what render makes */
	unsigned (*poll)(struct handle *h);	/* default: always ready */
	/* The list of pollers that its news wakes; default: the conversation's, or none. */
	struct link *(*pollers)(const struct handle *h);
	/* If the size takes long to compute and `size` returned 0: answers a GETATTR later, or
	 * returns -errno. */
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

/* The process that opened the file to write. */
static inline pid_t handle_opener(const struct handle *h)
{
	return h->opener.count ? h->opener.of[0].id : proc_of_thread(h->opener_thread);
}

/* The session was removed while the file was open, or the mount is ending. */
static inline bool handle_ended(const struct handle *h)
{
	return h->gone || (h->node.conversation && !h->node.conversation->session);
}

/* Opens a file for the thread `caller`. */
int handle_open(struct handle **out, const struct node *n, int flags, pid_t caller, struct err *e);
void handle_release(struct handle *h);

/* A relay has written: the text may take effect at RELEASE only. */
void handle_relayed(struct handle *h);
/* RELEASE has come, or the text took effect before. */
void handle_relayed_no_more(struct handle *h);
/* A process has closed the file. If the opener closed it before and another process has written
 * since, the text takes effect at RELEASE, which is on its way. */
void handle_flushed(struct handle *h, bool by_opener);
/* What the opener wrote has begun a turn: earlier refusals no longer count. */
void handle_began_turn(struct handle *h);
/* The same at RELEASE, when the opener may be gone. With a code other than 0 no turn began, for the
 * reason in e. */
void handle_submitted(struct handle *h, int code, const struct err *e);

/* Copies what a read asks for out of a whole text. */
ssize_t handle_read_slice(const struct file_call *c, char *buffer, const void *data, size_t length);
/* Lets a read wait on a list, or returns -EAGAIN if the file was opened with O_NONBLOCK. */
ssize_t handle_read_waits(struct file_call *c, struct link *list);
/* How long an open may wait for the RELEASE of a prompt that is being closed; RELAY: across a
 * network. */
enum { RELEASE_WAIT_MS = 300, RELAY_WAIT_MS = 1000 };

/* ---- pollers.c: who polls an open file and is told of news ----
 *
 * Whatever has news (a conversation, a model's trace) has a list of pollers. The kernel asks with
 * each poll to be told once; a poller that was told asks again. So code that has news calls
 * pollers_wake, and the loop looks at these handles, a bounded number at a time: it tells the
 * pollers of each file that has something to read and returns the others to their list. */

/* What can be done with the file now without waiting: POLLIN and the like. */
unsigned poller_ready(struct handle *h);
/* The kernel wants to be told once, through `poll`. */
void poller_add(struct handle *h, struct fuse_pollhandle *poll);
/* The file gets its news from another list now: its pollers move there. */
void poller_moved(struct handle *h);
/* Tells the pollers of this file, whatever it has to read. */
void poller_tell(struct handle *h);
void pollers_wake(struct mount *m, struct link *pollers);
void pollers_serve_woken(struct mount *m, unsigned most); /* the loop's */

/* News of a model's trace: inits its lists; wakes who waits for or polls it, after new lines or
 * when nothing computes any more; the engine's callback, from any thread (ctx: the struct mounted).
 */
void pollers_trace_init(struct mounted *model);
void pollers_trace_wake(struct mounted *model);
void pollers_trace_changed(void *ctx);

/* ---- unsubmitted.c: the bound on text that is written and not submitted yet ---- */

/* Appends to h->written, or writes at offset (zeros fill the gap if the text was shorter). -ENOSPC
 * beyond the bound and -ENOMEM: the whole text is dropped. */
int unsubmitted_add(struct handle *h, const void *data, size_t size, struct err *e);
int unsubmitted_put(struct handle *h, size_t offset, const void *data, size_t size, struct err *e);
/* Drops the handle's text and counts `bytes` instead: what was made of the text waits to be read.
 * -ENOSPC and -ENOMEM: nothing is counted. */
int unsubmitted_count(struct handle *h, uint64_t bytes, struct err *e);
/* Frees h->written: the text has been submitted, or never will be. */
void unsubmitted_drop(struct handle *h);

#endif
