/* Nodes and rows: the files of the tree and their kinds; refused requests, and which process gets
 * the error.
 *
 * ONE TABLE IS THE TREE: every kind of file or folder is one row of rows[] (tree/rows.c), and a new
 * file is a new row. A node is a row with a model, a session, a layer, an expert: it identifies one
 * file. Nodes are values. tree/tree.h turns names and inode numbers into nodes. */
#ifndef MOEFS_FS_MOUNT_NODE_H
#define MOEFS_FS_MOUNT_NODE_H

#include "fs/base/text.h"
#include "fs/mount/mount.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct facts;
struct file_ops;
struct node;
struct question;
struct verbs;

/* The folders. Each number is the index of the folder's row. */
enum folder {
	FOLDER_NONE,
	FOLDER_ROOT, /* FUSE_ROOT_ID: the root's inode number is just its row */
	FOLDER_CACHE,
	FOLDER_GPU,
	FOLDER_MODEL,
	FOLDER_SESSIONS,
	FOLDER_ASKS,
	FOLDER_EMBEDS,
	FOLDER_SESSION,
	FOLDER_PARAMS,
	FOLDER_INFO,
	FOLDER_EXPERTS,
	FOLDER_LAYER,
	FOLDER_TOKENIZER,
	FOLDER_TENSORS,
	FOLDER_PREFIXES,
	FOLDER_COUNT,
};

/* How the kernel may cache a file. */
enum caching {
	CACHING_STREAM, /* direct I/O; size 0 while more can come, true once complete */
	CACHING_LIVE,	/* direct I/O; true size at each stat */
	CACHING_STATIC, /* page cache; a modification time that never changes */
};

/* When written data takes effect. */
enum effect {
	EFFECT_NONE,	   /* never: not writable, whatever the mode */
	EFFECT_EACH_WRITE, /* at each write, so that EINVAL reaches the shell */
	EFFECT_ASSEMBLED,  /* at the FLUSH of the process that opened the file, else at RELEASE */
	EFFECT_RELEASE,	   /* only at RELEASE */
	EFFECT_READ,	   /* when the answer is read */
};

enum row_flags {
	/* An open waits up to 300 ms for the RELEASE of a prompt that is being closed. */
	ROW_GATED = 1 << 0,
	/* The model's folder also shows this file of sessions/default, with the same inode. */
	ROW_IN_MODEL = 1 << 1,
	/* The kernel asks for the attributes each time, also for a folder, whatever the caching. */
	ROW_FRESH = 1 << 2,
	/* After a refused prompt of the same process, an open fails once (refusals.c). */
	ROW_TELLS = 1 << 3,
	/* Like ROW_TELLS, but the next open fails again. */
	ROW_REPEATS = 1 << 4,
	/* A conversation of its own, whose name expires (asks.c). */
	ROW_PASSING = 1 << 5,
};

/* A row that represents any number of files. Members are numbered from 1. */
struct row_family {
	/* Returns the first member after `after`, and sets its name; 0: no more. */
	uint64_t (*next)(const struct node *folder, uint64_t after, char name[NAME_SIZE]);
	uint64_t (*find)(const struct node *folder, const char *name); /* 0: no such member */
	void (*bind)(struct node *child, uint64_t member);
};

/* An extended attribute: the name after user.moefs., and the value without a newline. */
struct xattr {
	const char *name;
	void (*render)(const struct node *n, struct text *out);
};

/* Properties of a kind of node in addition to its contents; NULL: none. */
struct row_hooks {
	/* Changes the standard attributes of the node. */
	void (*attr)(const struct node *n, struct stat *st);
	/* The owner sets a mode; `changed` has the bits that differ from those that attr shows.
	 * Called in a worker, which may use only the model. NULL: the mode cannot be changed. */
	int (*chmod)(const struct node *n, mode_t mode, mode_t changed, struct err *e);
	const struct xattr *xattrs; /* ends with an entry without a name */
	/* The node's owner. False: the node no longer exists. NULL: the session's or mount's
	 * owner. */
	bool (*owner)(const struct node *n, uid_t *owner);
	/* touch: the owner sets the times, to now or any other time. remove: the owner removes the
	 * name. NULL: not possible. */
	int (*touch)(const struct node *n, struct err *e);
	int (*remove)(const struct node *n, struct err *e);
};

struct tree_row {
	const char *name;     /* of a family: a pattern, such as LL or NAME */
	enum folder in;	      /* its folder */
	mode_t mode;	      /* type and permissions */
	enum caching caching; /* for files, like the next three */
	enum effect effect;
	unsigned flags;
	const struct file_ops *ops;
	const struct row_family *family;
	const struct row_hooks *hooks; /* folders may have hooks, too; NULL: none */
	/* For live files. render appends the contents; set takes a value (not terminated). */
	void (*render)(const struct node *n, struct text *out);
	int (*set)(const struct node *n, const char *value, size_t length, struct err *e);
	const struct verbs *verbs; /* verbs that the file accepts (files/ctl.h); NULL: none */
	/* For files that show a list of facts, with the renderers of facts.h. */
	void (*facts)(const struct node *n, struct facts *f);
	int fact;      /* a fact of the model (info/), or a text of the session */
	uint64_t most; /* most bytes of an assembled text; 0: as for a prompt */
	const struct question *question; /* for files that answer questions (files/question.c) */
	/* For outputs: the text of the session that the file shows; a new reference, or NULL. */
	struct answer *(*grows)(struct session *s);
	/* For a folder whose names take long to find. is_prepared: the names are known, for good.
	 * prepare: finds the names, in a worker. */
	bool (*is_prepared)(const struct node *folder);
	int (*prepare)(const struct node *folder, struct err *e);
	const char *about; /* one line for people */
};

struct node {
	const struct tree_row *row;
	struct mount *mount;
	struct mounted *model;		   /* NULL above the models */
	struct conversation *conversation; /* NULL outside sessions */
	uint32_t layer;
	uint32_t item; /* an expert of the layer, a param, or a tensor */
	uid_t viewer;  /* the user who looks: some nodes differ between users */
};

static inline bool node_is_folder(const struct node *n)
{
	return S_ISDIR(n->row->mode);
}

/* ---- failures.c ---- */

/* Records for MOUNT/error, and for the error beside prompt, that a request of the viewer on a node
 * was refused. The sentence gets the names of model and session. Returns -e->code. */
int failure_refused(const struct node *n, const struct err *e);
/* Records that the tree does not allow what the viewer tried on a node, or on a name in it (EPERM).
 * Only the viewer sees this denial, beside the reason of a failed turn or a refused prompt. Returns
 * -e->code. */
int failure_denied(const struct node *n, const struct err *e);
/* The node accepted a prompt: earlier refusals of its session no longer count. */
void failure_accepted(const struct node *n);
/* The node accepted a write: earlier refusals of this very file no longer count. */
void failure_took(const struct node *n);

/* ---- refusals.c: refused prompts, which the next readers must learn of ---- */

enum {
	REFUSALS_PER_SESSION = 256, /* the oldest are dropped, also in the next */
	REFUSALS_MOST = 4096,
	REFUSAL_LINEAGE = 2, /* processes remembered: the one that was refused, and its parent */
};

/* Records that a prompt of the node's session was refused: either a thread's write to it or open of
 * it (no opener), or, at RELEASE, the text written before (thread 0). Without memory nothing is
 * recorded. */
void refusals_add(const struct node *n, pid_t thread, const struct lineage *opener,
		  const struct err *why);
/* Records that a prompt opened by `opener` was accepted. */
void refusals_accepted(struct conversation *c, const struct lineage *opener);
/* Whether the reading thread must be told of a refusal. If so, the session's error has the reason,
 * and the reader counts as told unless `again`. */
bool refusals_tell(const struct node *n, pid_t thread, bool again);
void refusals_forget(struct conversation *c);

#endif
