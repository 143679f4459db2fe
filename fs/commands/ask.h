/* The command line of `moefs ask` and `moefs chat`, and the params that it sets. */
#ifndef MOEFS_FS_COMMANDS_ASK_H
#define MOEFS_FS_COMMANDS_ASK_H

#include "fs/commands/talk.h"

struct ask_options { /* strings belong to the command line */
	const char *model, *session, *system, *schema;
	bool asks; /* for moefs ask, which has more options than chat */
	bool help, json, thoughts, plan;
	const char **settings; /* PARAM=VALUE, in order; owned */
	size_t setting_count;
	char **words;
	size_t word_count;
};

/* Reads a command line. model may be NULL with help. -EINVAL with e->code 0: the command line does
 * not match the usage. */
int ask_read_options(struct ask_options *a, int argc, char **argv, struct err *e);
void ask_free_options(struct ask_options *a);
/* Sets the params of the session that the options name. */
int ask_set_params(const struct ask_options *a, const struct talk *t, struct err *e);

#endif
