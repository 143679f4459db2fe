/* Open files, the processes that poll them, and the bound on unsubmitted text.
 *
 * OPEN makes a handle and RELEASE frees it. In between the handle holds the state of the open file.
 * The kind of the file is a struct file_ops, one per behaviour, shared by many rows of the tree
 * (files/files.h).
 *
 * A handle keeps its conversation's struct alive, not the engine's session. After rmdir `session`
 * is NULL: waiting reads fail with EIO, and later reads with ESTALE. */
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
	struct node node; /* its viewer is the user who opened the file */
	int flags;	  /* as given to open */
	/* The process that opened the file to write, and its parent, if the kind needs them. */
	struct lineage opener;
	pid_t opener_thread;
	pid_t caller;	       /* the thread whose open or write is being served */
	struct text written;   /* prompt, questions, assembled: text from the writes */
	size_t counted;	       /* bytes of this handle in unsubmitted.c's count */
	struct text shown;     /* live files: the contents rendered by the last read of offset 0;
				  trace: the piece that is being read, from offset `first` on */
	bool looked;	       /* live files: the file has been read */
	int poison;	       /* errno of a failed write: the written text must not take effect */
	bool dirty;	       /* prompt, assembled: `written` has yet to take effect */
	bool completes;	       /* tool_result: RELEASE submits the results */
	bool flushed;	       /* prompt: the opener has flushed since the last write */
	bool relayed;	       /* counted in conversation.relayed */
	bool passed_on;	       /* counted in conversation.passed_on */
	struct answer *answer; /* output, questions: the answer to read; a reference */
	unsigned deferred;     /* writes that workers are still applying (files/values.h) */
	bool ended;	       /* output: a read has reached the answer's end */
	uint64_t rest; /* streams: end of the last read's range, if that read got less */
	/* output: furthest byte read; questions: next byte of the answer; tool_calls.json: its size
	 * when it was read; log, trace: end of the last read */
	uint64_t cursor;
	struct saved *saved;	   /* state: contents for reads, */
	struct restored *restored; /* and contents from writes; NULL: none */
	/* questions: file offsets of this answer's beginning and of the next read */
	uint64_t first, next;
	struct task *task;	      /* questions: the work of a worker; NULL: none */
	struct link readers;	      /* calls that wait for the task */
	int failed;		      /* errno of a task without an answer, for the next read */
	bool gone;		      /* the mount has ended */
	struct fuse_pollhandle *poll; /* for notifying pollers; NULL: nobody polls */
	struct link polling;	      /* on a list of pollers */
	struct trace_reader *trace;   /* trace: its reader; NULL: opening it failed */
};

typedef void size_fn(fuse_req_t req, const struct node *n, uint64_t size);

/* The behaviour of a kind of file. NULL: nothing, or the default. Sentences in *e go to
 * MOUNT/error. */
struct file_ops {
	int (*open)(struct handle *h, struct err *e);
	bool refuses; /* a write may be refused later, so remember the opener and its parent */
	/* Reads at most c->size bytes at c->offset into buffer. Returns their number, -errno, or
	 * CALL_KEPT. */
	ssize_t (*read)(struct handle *h, struct file_call *c, char *buffer);
	/* In place of read, for reads that block. Called in a worker, which may use only the handle
	 * and not the mount. Reads at most `bytes` at offset; returns their number, or -errno. */
	int64_t (*read_in_worker)(const struct handle *h, uint64_t offset, void *buffer,
				  size_t bytes, struct err *e);
	/* Takes all of the data or none. Returns 0 or -errno. */
	int (*write)(struct handle *h, const char *data, size_t size, uint64_t offset,
		     struct err *e);
	/* In place of write. Returns 0 and answers the request itself, before RELEASE. */
	int (*write_later)(struct handle *h, fuse_req_t req, const char *data, size_t size,
			   uint64_t offset, struct err *e);
	int (*truncate)(struct handle *h, uint64_t size,
			struct err *e); /* ftruncate, not O_TRUNC */
	int (*flush)(struct handle *h, bool by_opener, struct err *e);
	/* In place of flush, if that takes long. True: the request is answered later. */
	bool (*flush_later)(struct handle *h, bool by_opener, fuse_req_t req);
	void (*release)(struct handle *h);
	uint64_t (*size)(const struct node *n); /* default: the size of what render makes */
	unsigned (*poll)(struct handle *h);	/* default: always ready */
	/* The list of pollers that news of this file wakes. Default: the conversation's, or
	 * none. */
	struct link *(*pollers)(const struct handle *h);
	/* For a size that takes long to compute: answers a GETATTR later, or returns -errno. `size`
	 * is then only what a lookup shows. */
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

/* Whether the session was removed while the file was open, or the mount is ending. */
static inline bool handle_ended(const struct handle *h)
{
	return h->gone || (h->node.conversation && !h->node.conversation->session);
}

/* Opens a file for the thread `caller`. */
int handle_open(struct handle **out, const struct node *n, int flags, pid_t caller, struct err *e);
void handle_release(struct handle *h);

/* Records that a relay has written: the text may take effect only at RELEASE. */
void handle_relayed(struct handle *h);
/* Undoes handle_relayed: RELEASE has come, or the text took effect before. */
void handle_relayed_no_more(struct handle *h);
/* Records that a process has closed the file. If the opener closed it before and another process
 * has written since, the text takes effect at RELEASE, which will follow. */
void handle_flushed(struct handle *h, bool by_opener);
/* Records that the opener's text has begun a turn: earlier refusals no longer count. */
void handle_began_turn(struct handle *h);
/* handle_began_turn at RELEASE, when the opener may have ended. If code is not 0, no turn began,
 * for the reason in e. */
void handle_submitted(struct handle *h, int code, const struct err *e);

/* Copies the range of a whole text that a read asks for. */
ssize_t handle_read_slice(const struct file_call *c, char *buffer, const void *data, size_t length);
/* Lets a read wait on a list, or returns -EAGAIN if the file was opened with O_NONBLOCK. */
ssize_t handle_read_waits(struct file_call *c, struct link *list);
/* How long an open waits at most for the RELEASE of a prompt that is being closed. RELAY: across a
 * network. */
enum { RELEASE_WAIT_MS = 300, RELAY_WAIT_MS = 1000 };

/* ---- pollers.c: processes that poll an open file ----
 *
 * Each source of news (a conversation, a model's trace) has a list of pollers. With each poll the
 * kernel asks to be notified once; a process that polls again asks again. Code that has news calls
 * pollers_wake. The loop then checks these handles, a bounded number at a time: it notifies the
 * pollers of files that can be read, and returns the others to their list. */

/* What can be done with the file now without waiting: POLLIN and so on. */
unsigned poller_ready(struct handle *h);
/* Records that the kernel wants to be notified once, through `poll`. */
void poller_add(struct handle *h, struct fuse_pollhandle *poll);
/* Moves the file's pollers to the list that now has its news. */
void poller_moved(struct handle *h);
/* Notifies the pollers of this file, whether or not there is something to read. */
void poller_tell(struct handle *h);
void pollers_wake(struct mount *m, struct link *pollers);
void pollers_serve_woken(struct mount *m, unsigned most); /* for the loop */

/* News of a model's trace. pollers_trace_init: initialises its lists. pollers_trace_wake: wakes
 * waiting reads and pollers, after new lines or when nothing computes any more.
 * pollers_trace_changed: the engine's callback, from any thread; ctx: the struct mounted.
 */
void pollers_trace_init(struct mounted *model);
void pollers_trace_wake(struct mounted *model);
void pollers_trace_changed(void *ctx);

/* ---- unsubmitted.c: the bound on text that is written and not submitted yet ---- */

/* unsubmitted_add appends to h->written. unsubmitted_put writes at offset (zeros fill a gap).
 * -ENOSPC (beyond the bound) and -ENOMEM drop the whole text. */
int unsubmitted_add(struct handle *h, const void *data, size_t size, struct err *e);
int unsubmitted_put(struct handle *h, size_t offset, const void *data, size_t size, struct err *e);
/* Drops the handle's text and counts `bytes` in its place: a result of the text that waits to be
 * read. -ENOSPC and -ENOMEM: nothing is counted. */
int unsubmitted_count(struct handle *h, uint64_t bytes, struct err *e);
/* Frees h->written, after the text was submitted or if it never will be. */
void unsubmitted_drop(struct handle *h);

#endif
