/* The tree: from rows, inode numbers, names and paths to nodes and back, and the attributes of
 * nodes.
 *
 * mount/node.h defines rows and nodes. This folder does not know what a file contains: the file's
 * row names the functions in files/.
 *
 * An inode number is a node packed into 64 bits. So there is no table of inodes, lookups are not
 * counted and FORGET has nothing to do. A session's number is never reused, so an old inode number
 * gives ESTALE and never another session.
 */
#ifndef MOEFS_FS_TREE_TREE_H
#define MOEFS_FS_TREE_TREE_H

#include "fs/mount/node.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* The table (rows.c). A folder's index is its number in enum folder. Use tree_row() outside of this
 * folder. */
extern const struct tree_row rows[];
extern const size_t row_count;

size_t tree_rows(void);
const struct tree_row *tree_row(size_t index); /* NULL: there is no such row */
/* Appends one line for people: the verbs that the file takes, and row.about. */
void tree_about(const struct tree_row *row, struct text *out);
/* The row's path as the manual writes it: "MODEL/sessions/NAME/prompt"; empty for the root. */
void tree_path(const struct tree_row *row, char *buffer, size_t size);

/* ---- nodes, inode numbers and names ---- */

uint64_t tree_inode(const struct node *n);
/* The node of an inode number; -ESTALE: its model or session is gone. */
int tree_node(struct mount *m, uint64_t inode, uid_t viewer, struct node *out);
/* The node called `name` in a folder, or -ENOENT. */
int tree_child(const struct node *folder, const char *name, struct node *out);
void tree_parent(const struct node *n, struct node *out);
/* Walks a folder. *place starts at 0 and stays valid when files are added or removed between
 * calls. False: there are no more. */
bool tree_next(const struct node *folder, uint64_t *place, struct node *child,
	       char name[NAME_SIZE]);

/* ---- attributes ---- */

enum { STAT_BLOCK = 512 }; /* bytes, the unit of st_blocks */

void tree_attr(const struct node *n, struct stat *st);
/* How many seconds the kernel may cache the result of tree_attr. */
double tree_attr_seconds(const struct node *n);
/* Whether mode and owner allow uid the access `wanted` (R_OK, W_OK, X_OK). Root has no privileges
 * here. */
bool tree_allows(const struct node *n, uid_t uid, int wanted);

/* ---- readme.c ---- */

/* Appends MOUNT/README, made from the table. */
void readme_make(struct text *out);

#endif
