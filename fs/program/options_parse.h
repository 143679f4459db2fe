/* What the files of the command line's parsing have in common; others see options.h. */
#ifndef MOEFS_FS_OPTIONS_PARSE_H
#define MOEFS_FS_OPTIONS_PARSE_H

#include "fs/program/options.h"

/* ---- options_values.c ---- */

/* Takes NAME=VALUE of a name that is known: 0; 1: it is none; -1: out of memory. */
int options_take_value(struct options *o, const char *arg);
/* Puts value i where it is looked for. What is not given, or auto, is left at the default. */
int options_apply(struct options *o, size_t i, struct err *e);
/* In the background the working directory is /, so paths are made absolute before. */
int options_absolute(char **path, struct err *e);
/* The source of the mount, in df and mountinfo: what was asked for, else the model's folder by its
 * real path, which mount(8) makes of fstab's source before it compares them, so that `mount -a`
 * knows what is mounted; of several models there is no one folder. malloc'ed; NULL: out of memory.
 */
char *options_source(const struct options *o);

/* ---- options_mount.c ---- */

enum mount_option { MOUNT_OPTION_NONE, MOUNT_OPTION_PASSED, MOUNT_OPTION_IGNORED };
/* What becomes of an option of any mount: it is libfuse's and the kernel's; or it is for who reads
 * fstab, and nothing to us. NONE: it is not one. */
enum mount_option options_of_mount(const char *arg);

#endif
