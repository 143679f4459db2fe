/* The command line: `moefs [options] MODELDIR... MOUNTPOINT`, in the manner of sshfs. */
#ifndef MOEFS_FS_OPTIONS_H
#define MOEFS_FS_OPTIONS_H

#include "engine/model.h"

#include <fuse3/fuse_opt.h>

struct options {
	struct engine_options engine;
	char **models; /* the directories, as given */
	size_t model_count;
	char *mountpoint; /* absolute; NULL with help and version */
	int foreground, debug, help, version;
	struct fuse_args fuse; /* what is libfuse's */
	/* Owned by engine's pointers and numbers: */
	char *quant, *codec, *store, *budget, *context_budget;
};

extern const char options_help[];

/* The usage in words on error. */
int options_parse(struct options *o, int argc, char **argv, struct err *e);
void options_free(struct options *o);

#endif
