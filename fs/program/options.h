/* The command line: `moefs [options] MODELDIR... MOUNTPOINT`, in the style of sshfs; `moefs --check
 * [options] MODELDIR...`, and likewise --refine and --loss; and the command line of mount.moefs,
 * with which mount(8) calls the program. */
#ifndef MOEFS_FS_PROGRAM_OPTIONS_H
#define MOEFS_FS_PROGRAM_OPTIONS_H

#include "engine/model.h"
#include "fs/models/models.h"
#include "fs/program/privilege.h"

#include <fuse3/fuse_opt.h>
#include <stdbool.h>
#include <sys/types.h>

enum { OPTION_VALUES = 28 };

struct options {
	struct engine_options engine; /* its strings are in `values` */
	char **models;		      /* folders and GGUF files, absolute */
	size_t model_count;
	const char *name; /* for the only model's folder; NULL: its own name */
	char *mountpoint; /* absolute; NULL with help, version, check, refine and loss, and where
			     `all` lists */
	int foreground, debug, verbose, help, version, check, refine, loss;
	int all;    /* also models of other programs; without a mountpoint, list them */
	char *text; /* the file for --refine, absolute; NULL: the model writes a text */
	bool allow_other, allow_root, auto_unmount, nonempty;
	const char *http;	    /* an address; "": the default one; NULL: no HTTP */
	const char *key_file;	    /* keys of http clients, absolute; NULL: no keys */
	const char *sessions;	    /* folder for kept sessions, absolute; NULL: none are kept */
	const char *log;	    /* a file, absolute, or journal; NULL: no log */
	struct privilege whose;	    /* uid= and gid= */
	mode_t umask;		    /* permission bits that no file has */
	struct param_given *params; /* in the order given */
	size_t param_count;
	struct fuse_args fuse;	     /* for libfuse */
	char *values[OPTION_VALUES]; /* of NAME=VALUE, in the order of options_values.c's rows;
					NULL: not given */
	bool lenient;		     /* drop unknown options instead of refusing them */
	struct err refused;	     /* the first unknown option; code 0: none */
};

extern const char options_help[]; /* the text of --help up to the list of commands */

/* Parses a command line. lenient: unknown options are dropped. Reads a few files of the kernel. */
int options_parse(struct options *o, int argc, char **argv, bool lenient, struct err *e);
void options_free(struct options *o);

/* For commands: refuses (-EINVAL) the first of these words that looks like an option: one or two
 * hyphens, a letter, and no blank, such as "-n", "--json" or "-p=1"; not "-", "-5" or "- is that a
 * list?". before: the words that options must precede, such as "the question". */
int options_refuse_words(char **words, size_t count, const char *before, struct err *e);

/* ---- mount.moefs: mount(8)'s helper for file systems of type moefs ----
 *
 *     mount.moefs SOURCE MOUNTPOINT [-sfnv] [-N namespace] [-o options] [-t type] */

struct options_helper {
	bool lenient; /* -s: unknown options are dropped */
	bool fake;    /* -f: nothing is mounted */
	char *arguments[8];
	int count; /* length of arguments, which are in moefs' form; NULL follows */
};

/* Whether the program was called with this name. */
bool options_is_helper(const char *program);
/* h->arguments point into argv. */
int options_read_helper(struct options_helper *h, int argc, char **argv, struct err *e);

/* ---- options_values.c: for options.c ---- */

/* Applies NAME=VALUE. Returns 0; 1: the name is unknown; -1: out of memory. */
int options_take_value(struct options *o, const char *arg);
/* Checks and applies value i. If it is not given, or is auto, the default stays. */
int options_apply(struct options *o, size_t i, struct err *e);
/* Makes a path absolute: in the background the working directory is /. */
int options_absolute(char **path, struct err *e);
/* The source of the mount in df and mountinfo: fsname=, else the real path of the only model, else
 * "moefs". mount(8) turns fstab's source into a real path before it compares, so `mount -a` sees
 * that the model is mounted. malloc'ed; NULL: out of memory. */
char *options_source(const struct options *o);

#endif
