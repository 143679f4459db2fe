/* Where in the tree a path of a request leads, and who may use it there.
 *
 * A path is names with a slash between them, each looked up in the folder before it without
 * following a link, so that it leads nowhere but into the tree. What is written is a session's, and
 * sessions are all that is made or removed; what belongs to the whole mount is for those who are at
 * its machine. */
#ifndef MOEFS_FS_GATEWAY_PLACE_H
#define MOEFS_FS_GATEWAY_PLACE_H

#include "fs/gateway/request.h"
#include "fs/gateway/turn/tree.h"

#include <limits.h>

enum place_use {
	PLACE_READ,
	PLACE_WRITE,  /* a file of a session */
	PLACE_FOLDER, /* a session, to be made or removed */
};

struct place {
	enum place_use use;
	char path[TREE_PATH]; /* as asked for; the rest points into its other copy */
	char parts[TREE_PATH];
	const char *model;	/* NULL: of none */
	const char *session;	/* as the tree calls it; NULL: of none */
	char own[NAME_MAX + 1]; /* its name, where it is not the one asked for */
	const char *name;	/* the last part; "." for the tree itself */
	int folder;		/* that it is in, opened as a path; -1: not opened */
	bool sessions;		/* it is the folder of a model's sessions */
};

/* Zero-initialise; place_close on every way. */
int place_open(struct place *at, const struct request *r, enum place_use use, struct problem *p);
void place_close(struct place *at);
/* Why what was tried there failed: in the session's words, if it has any. */
int place_refused(const struct place *at, const struct request *r, int code, struct problem *p);

/* The name in the tree of a session that who asks knows as `session`. False: it is too long. */
bool place_tree_name(const struct request *r, const char *session, char name[NAME_MAX + 1]);
/* The name by which who asks knows a session of the tree; NULL: it is not theirs. With keys the
 * names in the tree have the key's mark before them, which nobody has to know. */
const char *place_known_as(const struct request *r, const char *session);

#endif
