/* A conversation by the files of its session, as a script would hold it: what `moefs ask` and
 * `moefs chat` have in common. If something fails, e has what the session's error says. */
#ifndef MOEFS_FS_COMMANDS_TALK_H
#define MOEFS_FS_COMMANDS_TALK_H

#include "fs/commands/keeper.h"
#include "fs/commands/terminal.h"

struct talk {
	char *folder; /* of the session */
	char *own; /* the mountpoint, if this command has mounted the model; NULL: it was mounted */
	struct keeper keeper;
};

/* Finds the model (mounts.h), or mounts it, and makes the session: this one, or with NULL one of
 * the command's own, called KIND-PROCESS. t may be passed to talk_end after an error, too. */
int talk_begin(struct talk *t, const char *model, const char *session, const char *kind,
	       struct err *e);
/* Ends what talk_begin made. */
void talk_end(struct talk *t);

int talk_set(const struct talk *t, const char *param, const char *value, size_t size,
	     struct err *e);
/* Writes a verb, such as "undo", to ctl. */
int talk_verb(const struct talk *t, const char *verb, struct err *e);
int talk_ask(const struct talk *t, const char *prompt, size_t size, struct err *e);
/* Shows what answering a prompt would cost, on standard output. */
int talk_plan(const struct talk *t, const char *prompt, size_t size, struct err *e);
/* The bytes of the longest prompt. */
size_t talk_longest(const struct talk *t);
/* Shows a file that grows, output or thoughts, to its end on fd; dim: in faint letters on a
 * terminal. Ctrl-C, if it is caught, stops the turn. */
int talk_show(const struct talk *t, const char *file, int fd, bool dim, struct err *e);
/* The session's state, into a file and from one. */
int talk_save(const struct talk *t, const char *path, struct err *e);
int talk_load(const struct talk *t, const char *path, struct err *e);

#endif
