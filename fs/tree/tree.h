/* The ways between rows, inode numbers and names, and what attributes a node has.
 *
 * An inode number is a node packed into 64 bits, so there is no table of inodes, lookups are not
 * counted and FORGET has nothing to do; session numbers are never used again, so an old inode
 * number is ESTALE and never another session.
 */
#ifndef MOEFS_FS_TREE_H
#define MOEFS_FS_TREE_H

#include "fs/mount/node.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

size_t tree_rows(void);
const struct row *tree_row(size_t index); /* NULL where there is none */
/* One line for people: its verbs, and what else there is to say. */
void tree_about(const struct row *row, struct text *out);
/* "MODEL/sessions/NAME/prompt"; empty for the root. */
void tree_path(const struct row *row, char *buffer, size_t size);

uint64_t tree_inode(const struct node *n);
int tree_node(struct mount *m, uint64_t inode, uid_t viewer, struct node *out); /* -ESTALE */
int tree_child(const struct node *folder, const char *name, struct node *out);	/* -ENOENT */
void tree_parent(const struct node *n, struct node *out);
/* Walks a folder: *place starts at 0 and may be kept across additions and removals. */
bool tree_next(const struct node *folder, uint64_t *place, struct node *child,
	       char name[NAME_SIZE]);

/* ---- attr.c ---- */

enum { STAT_BLOCK = 512 }; /* st_blocks' unit */

void node_attr(const struct node *n, struct stat *st);
/* Whether modes and owners let uid do this (R_OK, W_OK, X_OK); root is nobody special. */
bool node_may(const struct node *n, uid_t uid, int what);
double node_attr_seconds(const struct node *n); /* for how long the kernel may believe node_attr */

#endif
