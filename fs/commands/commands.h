/* The commands beside mounting: `moefs NAME ARGUMENT…`. Each is a file in this folder and a row of
 * the table in commands.c.
 *
 * Only the first argument is checked: to mount a folder that has the name of a command, write
 * `./NAME`. A command prints its output; main.c prints errors. */
#ifndef MOEFS_FS_COMMANDS_COMMANDS_H
#define MOEFS_FS_COMMANDS_COMMANDS_H

#include "cache/err.h"

enum command_status {
	COMMAND_FAILED = 1,
	COMMAND_WRONG = 2, /* the command line is wrong */
};

struct command {
	const char *name;
	const char *usage; /* the usage after the name: "[--json] MOUNTPOINT" */
	const char *what;  /* a few words for moefs --help */
	const char *help;  /* printed by --help below the usage; NULL: run prints the help */
	/* argv[0] is the command's name. Returns the exit status. If e->code is set, main.c prints
	 * e->text; after COMMAND_WRONG the usage follows. */
	int (*run)(int argc, char **argv, struct err *e);
};

/* The command of this name; NULL: none. */
const struct command *command_find(const char *name);
/* Row i of the table, which is sorted by name; NULL after the last. */
const struct command *command_row(unsigned i);
/* -EINVAL: the first word of a command line is neither a command nor an existing path; e suggests
 * the command that was probably meant. Options, names of checkpoint files and words with a slash
 * are never refused here. */
int command_check_word(const char *word, struct err *e);
/* Runs the command and returns its exit status, with any error in e. */
int command_run(const struct command *c, int argc, char **argv, struct err *e);

int ask_run(int argc, char **argv, struct err *e);
int chat_run(int argc, char **argv, struct err *e);
int demo_run(int argc, char **argv, struct err *e);
int list_run(int argc, char **argv, struct err *e);
int stores_run(int argc, char **argv, struct err *e);
int top_run(int argc, char **argv, struct err *e);
int umount_run(int argc, char **argv, struct err *e);

#endif
