/* Nodes and rows: the files of the tree and their kinds; what was refused there, and which process
 * gets the error.
 *
 * ONE TABLE IS THE TREE: every kind of file or folder is one row of rows[] (tree/rows.c), and a new
 * file is a new row. A node is a row with a model, a session, a layer, an expert: it names one
 * file. Nodes are values. How names and inode numbers lead to nodes is tree/tree.h. */
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

/* The folders; their numbers are their rows' indices. */
enum folder {
	FOLDER_NONE,
	FOLDER_ROOT, /* FUSE_ROOT_ID: the root's inode number is its row and nothing else */
	FOLDER_CACHE,
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
	CACHING_LIVE,	/* direct I/O; true size at every look */
	CACHING_STATIC, /* page cache kept; a modification time that never changes */
};

/* When what is written takes effect. */
enum effect {
	EFFECT_NONE,	   /* cannot be written, whatever the mode */
	EFFECT_EACH_WRITE, /* so that EINVAL reaches the shell */
	EFFECT_ASSEMBLED,  /* at the FLUSH of the process that opened it, else at RELEASE */
	EFFECT_RELEASE,	   /* at RELEASE alone */
	EFFECT_READ,	   /* when the answer is read */
};

enum row_flags {
	/* An open waits, for at most 300 ms, for the RELEASE of a prompt that is being closed. */
	ROW_GATED = 1 << 0,
	/* The model's folder shows sessions/default's, too: the same inode. */
	ROW_IN_MODEL = 1 << 1,
	/* The kernel asks for the attributes at every look, also of a folder, and whatever the
	   caching. */
	ROW_FRESH = 1 << 2,
	/* An open fails, once, after a refused prompt of the same process (refusals.c). */
	ROW_TELLS = 1 << 3,
	/* The same, and the refusal is kept for the next open. */
	ROW_REPEATS = 1 << 4,
	/* A conversation of its own, whose name expires (asks.c). */
	ROW_PASSING = 1 << 5,
};

/* A row that stands for any number of files. Members are numbered from 1. */
struct row_family {
	/* The first member after this one, with its name; 0: no more. */
	uint64_t (*next)(const struct node *folder, uint64_t after, char name[NAME_SIZE]);
	uint64_t (*find)(const struct node *folder, const char *name); /* 0: no such member */
	void (*bind)(struct node *child, uint64_t member);
};

/* An extended attribute: its name after user.moefs., and its value, without a newline. */
struct xattr {
	const char *name;
	void (*render)(const struct node *n, struct text *out);
};

/* What a kind of node has beside its contents; NULL: nothing. */
struct row_hooks {
	/* Adjusts the attributes that every node has. */
	void (*attr)(const struct node *n, struct stat *st);
	/* Its owner sets a mode; `changed` are the bits that differ from what attr shows. In a
	 * worker, which sees the model alone. NULL: the mode cannot be changed. */
	int (*chmod)(const struct node *n, mode_t mode, mode_t changed, struct err *e);
	const struct xattr *xattrs; /* ends with one without a name */
	/* Whose the node is; false: it is gone. NULL: the session's or the mount's. */
	bool (*owner)(const struct node *n, uid_t *owner);
	/* Its owner sets its times, to now or to any other; and removes its name. NULL: times stay
	 * as they are, the name cannot be removed. */
	int (*touch)(const struct node *n, struct err *e);
	int (*remove)(const struct node *n, struct err *e);
};

struct tree_row {
	const char *name;     /* of a family: a pattern, such as LL or NAME */
	enum folder in;	      /* its folder */
	mode_t mode;	      /* type and permissions */
	enum caching caching; /* of files, as the next three */
	enum effect effect;
	unsigned flags;
	const struct file_ops *ops;
	const struct row_family *family;
	const struct row_hooks *hooks; /* folders may have them as well; NULL: none */
	/* For live files: appends the contents; takes a value (not terminated). */
	void (*render)(const struct node *n, struct text *out);
	int (*set)(const struct node *n, const char *value, size_t length, struct err *e);
	const struct verbs *verbs; /* that may be written (files/ctl.h); NULL: none */
	/* For files that show a list of facts, by the renderers of facts.h. */
	void (*facts)(const struct node *n, struct facts *f);
	int fact;      /* which of the model's facts (info/) or of the session's texts */
	uint64_t most; /* bytes of an assembled text at most; 0: as many as a prompt may have */
	const struct question
		*question; /* for files that are asked: their kind (files/question.c) */
	/* For outputs: the text of the session that the file shows; a new reference, or NULL. */
	struct answer *(*grows)(struct session *s);
	/* For a folder whose names take long to find: whether they are found, and finding them, in
	 * a worker. Once found they stay. */
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
	uid_t viewer;  /* who looks: some nodes show other things to other users */
};

static inline bool node_is_folder(const struct node *n)
{
	return S_ISDIR(n->row->mode);
}

/* ---- failures.c ---- */

/* The viewer's request on a node was refused: recorded for MOUNT/error and for the error beside
 * prompt, with the names of model and session. Returns -e->code. */
int failure_refused(const struct node *n, const struct err *e);
/* The tree does not allow what the viewer tried on a node, or on a name in it (EPERM): only the
 * viewer sees that, beside the reason of a failed turn or of a refused prompt. Returns -e->code. */
int failure_denied(const struct node *n, const struct err *e);
/* The node accepted a prompt: its session's earlier refusals no longer count. */
void failure_accepted(const struct node *n);
/* The node took what was written: what this very file refused before no longer counts. */
void failure_took(const struct node *n);

/* ---- refusals.c: refused prompts, whose next readers are told ---- */

enum {
	REFUSALS_PER_SESSION = 256, /* the oldest go, as in the next */
	REFUSALS_MOST = 4096,
	REFUSAL_LINEAGE = 2, /* processes that are remembered: who did it, and the parent */
};

/* A prompt of the node's session was refused: a thread's write to it, or its open (no opener), or,
 * at RELEASE, what had been written (thread 0). If memory is short nothing is remembered. */
void refusals_add(const struct node *n, pid_t thread, const struct lineage *opener,
		  const struct err *why);
/* A prompt that `opener` opened was accepted. */
void refusals_accepted(struct conversation *c, const struct lineage *opener);
/* Whether the reading thread has to be told of a refusal: then the session's error has the reason,
 * and the reader counts as told unless `again`. */
bool refusals_tell(const struct node *n, pid_t thread, bool again);
void refusals_forget(struct conversation *c);

#endif
