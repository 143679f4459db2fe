/* The command line: `moefs [options] MODELDIR... MOUNTPOINT`, in the manner of sshfs, or
 * `moefs --check [options] MODELDIR...`, or `moefs --refine [options] MODELDIR...`. */
#ifndef MOEFS_FS_OPTIONS_H
#define MOEFS_FS_OPTIONS_H

#include "engine/model.h"
#include "fs/models/models.h"
#include "fs/program/privilege.h"

#include <fuse3/fuse_opt.h>
#include <stdbool.h>
#include <sys/types.h>

enum { OPTION_VALUES = 19 };

struct options {
	struct engine_options engine; /* its strings are among the values */
	char **models;		      /* the directories and GGUF files, as given */
	size_t model_count;
	const char *name; /* of the only model; NULL: its own */
	char *mountpoint; /* absolute; NULL with help, version and check */
	int foreground, debug, verbose, help, version, check, refine;
	char *text; /* the file that --refine reads, absolute; NULL: what the model writes */
	bool allow_other, allow_root, auto_unmount, nonempty;
	const char *http;	    /* an address, "": the usual one; NULL: none is served */
	const char *key_file;	    /* of http's clients, absolute; NULL: no keys */
	const char *log;	    /* a file's absolute name, or journal; NULL: none is kept */
	struct privilege whose;	    /* uid= and gid= */
	mode_t umask;		    /* bits that no file has */
	struct param_given *params; /* in the order in which they are given */
	size_t param_count;
	struct fuse_args fuse;	     /* what is libfuse's */
	char *values[OPTION_VALUES]; /* of NAME=VALUE, by the table in options_values.c; NULL: not
					given */
	bool lenient;
	struct err refused; /* the first argument that is no option of ours or libfuse's */
};

extern const char options_help[];

/* What is wrong in words on error, with what was typed; lenient: an unknown option is not. Blocks
 * for a few files of the kernel's. */
int options_parse(struct options *o, int argc, char **argv, bool lenient, struct err *e);
void options_free(struct options *o);

/* Refuses (-EINVAL) the first of some words that looks like an option: one or two hyphens, a
 * letter, and no blank, such as "-n", "--json" or "-p=1"; not "-", "-5" or "- is that a list?".
 * before: what options must precede, as "the question". */
int options_refuse_words(char **words, size_t count, const char *before, struct err *e);

#endif
