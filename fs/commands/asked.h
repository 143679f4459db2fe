/* What `moefs ask` and `moefs chat` are given on their command line. */
#ifndef MOEFS_FS_COMMANDS_ASKED_H
#define MOEFS_FS_COMMANDS_ASKED_H

#include "fs/commands/talk.h"

struct asked { /* strings are the command line's */
	const char *model, *session, *system, *schema;
	bool asks; /* it is ask, which has options that chat has not */
	bool help, json, thoughts;
	const char **settings; /* PARAM=VALUE, in their order; owned */
	size_t setting_count;
	char **words;
	size_t word_count;
};

/* With help there need be no model. -EINVAL: with e->code 0 it is not what the command's usage says. */
int asked_read(struct asked *a, int argc, char **argv, struct err *e);
void asked_free(struct asked *a);
/* Sets the session's params as they say. */
int asked_apply(const struct asked *a, const struct talk *t, struct err *e);

#endif
