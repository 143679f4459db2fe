/* Nodes and rows: what a file of the tree is of, and what its kind is.
 *
 * ONE TABLE IS THE TREE: every kind of file or folder is one row of rows[] (tree/rows.c), and a new
 * file is a new row; this header says what a row holds. A node is a row together with what it is
 * of: which model, which session, which layer, which expert. Nodes are values. How names and inode
 * numbers lead to nodes is tree/tree.h.
 */
#ifndef MOEFS_FS_NODE_H
#define MOEFS_FS_NODE_H

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
	FOLDER_SESSION,
	FOLDER_PARAMS,
	FOLDER_INFO,
	FOLDER_EXPERTS,
	FOLDER_LAYER,
	FOLDER_TOKENIZER,
	FOLDER_TENSORS,
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
	EFFECT_READ,	   /* when the answer is asked for */
};

enum row_flags {
	/* Opening it waits, for at most 300 ms, for the RELEASE of a prompt that is closing. */
	ROW_GATED = 1 << 0,
	/* The model's folder shows sessions/default's, too: the same inode. */
	ROW_IN_MODEL = 1 << 1,
	/* Its attributes are asked for at every look, be it a folder, and whatever its caching. */
	ROW_FRESH = 1 << 2,
	/* Opening it fails, once, for who must not take another's answer for his (refusals.h). */
	ROW_TELLS = 1 << 3,
	/* The same, and who was to be told still is. */
	ROW_REPEATS = 1 << 4,
	/* Of a conversation of its own, whose name may go by itself (asks.c). */
	ROW_PASSING = 1 << 5,
};

/* A row that stands for any number of files. Members are numbered from 1. */
struct family {
	/* The first member after this one, with its name; 0: no more. */
	uint64_t (*next)(const struct node *folder, uint64_t after, char name[NAME_SIZE]);
	uint64_t (*find)(const struct node *folder, const char *name); /* 0: no such member */
	void (*bind)(struct node *child, uint64_t member);
};

/* An extended attribute: its name behind user.moefs., and what it says, without a newline. */
struct xattr {
	const char *name;
	void (*render)(const struct node *n, struct text *out);
};

/* What a kind of node has of its own beside its contents; NULL: nothing. */
struct row_hooks {
	/* Changes the attributes that every node has. */
	void (*attr)(const struct node *n, struct stat *st);
	/* The owner sets a mode in which these bits are others than attr shows: 0, or a negative
	 * errno in words. In a worker: it sees the model alone. NULL: none may be. */
	int (*chmod)(const struct node *n, mode_t mode, mode_t changed, struct err *e);
	const struct xattr *xattrs; /* the last has no name */
};

struct row {
	const char *name;     /* a family's: a pattern, such as LL or NAME */
	enum folder in;	      /* the folder that it is in */
	mode_t mode;	      /* type and permissions */
	enum caching caching; /* of files, as the next three */
	enum effect effect;
	unsigned flags;
	const struct file_ops *ops;
	const struct family *family;
	const struct row_hooks *hooks; /* of folders as well; NULL: none */
	/* For live files: appends the contents; takes a value (not terminated). */
	void (*render)(const struct node *n, struct text *out);
	int (*set)(const struct node *n, const char *value, size_t length, struct err *e);
	const struct verbs *verbs; /* that writing takes (files/verbs.h); NULL: none */
	/* Of files that show a list of facts, by facts.h's renderers. */
	void (*facts)(const struct node *n, struct facts *f);
	int fact;      /* which of the model's facts, for info/; of the session's texts */
	uint64_t most; /* bytes of an assembled text; 0: as long as a prompt */
	const struct question *question; /* of files that are asked: what kind (question.h) */
	/* Of an output, which of a session's texts it is: a new reference, or NULL. */
	struct answer *(*grows)(struct session *s);
	/* Of a folder whose names take long to find out: whether that is done, and doing it, in a
	 * worker; 0, or an error in words. It stays done. */
	bool (*is_prepared)(const struct node *folder);
	int (*prepare)(const struct node *folder, struct err *e);
	const char *about; /* one line for people */
};

struct node {
	const struct row *row;
	struct mount *mount;
	struct mounted *model;		   /* NULL above the models */
	struct conversation *conversation; /* NULL outside sessions */
	uint32_t layer;
	uint32_t item; /* an expert of the layer; one of the params, or of the tensors */
	uid_t viewer;  /* who looks: what a node shows is not the same for everybody */
};

static inline bool node_is_folder(const struct node *n)
{
	return S_ISDIR(n->row->mode);
}

/* ---- failures.c ---- */

/* What its viewer asked of a node was refused: for MOUNT/error and, where he has one there, the
 * error beside prompt, naming model and session. Returns -e->code. */
int node_failure(const struct node *n, const struct err *e);
/* The viewer wanted of a node, or of a name in it, what the tree does not allow (EPERM): for him
 * alone, and beside the reason of a failed turn or of a refused prompt. Returns -e->code. */
int node_denied(const struct node *n, const struct err *e);
/* A prompt was accepted there: the refusals before it are no news any more. */
void node_accepted(const struct node *n);
/* What was written there was taken: what this very file refused before is no news any more. */
void node_took(const struct node *n);

#endif
