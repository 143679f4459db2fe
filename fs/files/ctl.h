/* Verbs: the words that a ctl file accepts, one per write. Each ctl file declares its verbs in a
 * table. Each row begins with a struct verb and may have more members. The file itself,
 * MOUNT/README, the manual and refusals list the verbs from the table.
 *
 * The tables: the session's in ctl.c, MOUNT/ctl's in mount_files.c, experts/ctl's in expert_ctl.c.
 */
#ifndef MOEFS_FS_FILES_CTL_H
#define MOEFS_FS_FILES_CTL_H

#include "cache/err.h"
#include "fs/base/text.h"

#include <stddef.h>

struct node;

struct verb {
	const char *name;
	const char *takes; /* its arguments, as shown in lists; NULL: none */
	const char *about; /* one line for people */
};

struct verbs {
	const char *file; /* the file's name in refusals */
	const void *rows; /* [count], each `bytes` long and beginning with a struct verb */
	size_t bytes, count;
};
#define VERBS(path, table)                                                        \
	{                                                                         \
		(path), (table), sizeof *(table), sizeof(table) / sizeof *(table) \
	}

extern const struct verbs session_verbs, mount_verbs, expert_verbs;

const struct verb *ctl_verb_at(const struct verbs *v, size_t index); /* NULL: there are no more */
/* The row of the verb word[n]. NULL: there is none; then e lists the verbs. */
const void *ctl_verb_find(const struct verbs *v, const char *word, size_t n, struct err *e);
/* Appends the verbs' names, separated by commas. */
void ctl_verb_names(const struct verbs *v, struct text *out);
/* For row.render: a line for each verb of row.verbs. */
void ctl_verbs_render(const struct node *n, struct text *out);

#endif
