/* A conversation with a model, by nothing but the files of its session. */
#ifndef MOEFS_FS_COMMANDS_TALK_H
#define MOEFS_FS_COMMANDS_TALK_H

#include "fs/commands/keeper.h"
#include "fs/commands/screen.h"

struct talk {
	char *folder; /* of its session; as far as it came to that */
	char *own;    /* a mount that was made for this; NULL: it was there */
	struct keeper keeper;
};

/* Begins one in a session of its own, called KIND-PROCESS, or in a named one (NULL: none), which is
 * made if it is not there, and stays. Mounts the model if no mount has it. talk_end in any case. */
int talk_begin(struct talk *t, const char *model, const char *session, const char *kind,
	       struct err *e);
void talk_end(struct talk *t);

/* What is refused is in e in the tree's own words. */
int talk_set(const struct talk *t, const char *param, const char *value, size_t size,
	     struct err *e);
int talk_verb(const struct talk *t, const char *verb, struct err *e);
int talk_ask(const struct talk *t, const char *prompt, size_t size, struct err *e);
/* A file of the session, as it grows, to its end. Ctrl-C, where it is caught, stops the answer. */
int talk_show(const struct talk *t, const char *file, struct screen *to, struct err *e);
/* The session's state, to a file that is made or written over, or from one. */
int talk_save(const struct talk *t, const char *path, struct err *e);
int talk_load(const struct talk *t, const char *path, struct err *e);
/* Bytes of the longest prompt. */
size_t talk_most(const struct talk *t);

#endif
