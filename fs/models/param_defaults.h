/* What params begin with by the command line (-o PARAM=VALUE), over what the checkpoint says. */
#ifndef MOEFS_FS_PARAM_DEFAULTS_H
#define MOEFS_FS_PARAM_DEFAULTS_H

#include "fs/mount/mount.h"

/* What a param of every session begins with, as it would be written into its file. */
struct param_given {
	size_t param; /* by params_name */
	char *value;
};

/* Sets them in sessions/default, whose params all others begin with. What is wrong is told in the
 * param's own words. */
int param_defaults_set(struct mounted *model, struct err *e);
/* A line for each, as info/defaults has it. */
void param_defaults_words(const struct mount *m, struct text *out);

#endif
