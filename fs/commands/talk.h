/* A conversation through the files of its session, as a script would hold it. `moefs ask` and
 * `moefs chat` share this. After a failure e has the text of the session's error. */
#ifndef MOEFS_FS_COMMANDS_TALK_H
#define MOEFS_FS_COMMANDS_TALK_H

#include "fs/commands/keeper.h"
#include "fs/commands/terminal.h"

struct talk {
	char *folder; /* of the session */
	char *own; /* the mountpoint if this command mounted the model, else NULL */
	struct keeper keeper;
};

/* Finds the model (mounts.h) or mounts it, and makes the session: `session`, or if that is NULL a
 * session of the command's own, named KIND-PROCESS. t may be passed to talk_end also after an
 * error. */
int talk_begin(struct talk *t, const char *model, const char *session, const char *kind,
	       struct err *e);
/* Ends the mount or session that talk_begin made. */
void talk_end(struct talk *t);

int talk_set(const struct talk *t, const char *param, const char *value, size_t size,
	     struct err *e);
/* Writes a verb, such as "undo", to ctl. */
int talk_verb(const struct talk *t, const char *verb, struct err *e);
int talk_ask(const struct talk *t, const char *prompt, size_t size, struct err *e);
/* Prints what answering a prompt would cost. */
int talk_plan(const struct talk *t, const char *prompt, size_t size, struct err *e);
/* The size of the longest possible prompt. */
size_t talk_longest(const struct talk *t);
/* Copies a growing file, output or thoughts, to fd until its end; dim: in faint letters on a
 * terminal. Ctrl-C, if it is caught, stops the turn. */
int talk_show(const struct talk *t, const char *file, int fd, bool dim, struct err *e);
/* Copy the session's state to a file, and from a file. */
int talk_save(const struct talk *t, const char *path, struct err *e);
int talk_load(const struct talk *t, const char *path, struct err *e);

#endif
