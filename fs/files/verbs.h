/* Verbs: the words that a file such as ctl takes, one a write. Each such file declares its own in a
 * table, whose rows begin with a struct verb; what they do is the file's. Found, refused, listed in
 * the file itself, in MOUNT/README and in the manual they all are from there. */
#ifndef MOEFS_FS_VERBS_H
#define MOEFS_FS_VERBS_H

#include "cache/err.h"
#include "fs/base/text.h"

#include <stddef.h>

struct node;

struct verb {
	const char *name;
	const char *takes; /* what stands behind it in a list; NULL: nothing */
	const char *about; /* one line for people */
};

struct verbs {
	const char *file; /* as refusals call it */
	const void *rows; /* [count], each of so many bytes and with a struct verb first */
	size_t bytes, count;
};
#define VERBS(path, table)                                                        \
	{                                                                         \
		(path), (table), sizeof *(table), sizeof(table) / sizeof *(table) \
	}

const struct verb *verbs_at(const struct verbs *v, size_t index); /* NULL: there are no more */
/* The row of this word, [n]; NULL: none, and e names those that there are. */
const void *verbs_find(const struct verbs *v, const char *word, size_t n, struct err *e);
/* Their names, with commas between them. */
void verbs_names(const struct verbs *v, struct text *out);
/* A line for each, of a file whose row has them: row.render. */
void verbs_render(const struct node *n, struct text *out);

/* Of the rows of the tree. */
extern const struct verbs session_verbs, mount_verbs, expert_verbs;

#endif
