/* Commands beside mounting: `moefs NAME ARGUMENT…`, each in a file of its own in this folder, and a
 * row of the table in commands.c.
 *
 * Only the first argument is looked at: a model in a folder that is called like a command is
 * mounted as `./NAME`. A command writes its output, and main.c says what went wrong. */
#ifndef MOEFS_FS_COMMANDS_COMMANDS_H
#define MOEFS_FS_COMMANDS_COMMANDS_H

#include "cache/err.h"

enum command_status {
	COMMAND_FAILED = 1,
	COMMAND_WRONG = 2, /* what was typed is no such command */
};

struct command {
	const char *name;
	const char *usage; /* what follows the name: "[--json] MOUNTPOINT" */
	const char *what;  /* in a few words, for moefs --help */
	const char *help;  /* what --help says below its usage; NULL: it says that itself */
	/* argv[0] is the command's name. Returns the exit status; with e->code set main.c says
	 * e->text, too. With COMMAND_WRONG the usage is said behind it. */
	int (*run)(int argc, char **argv, struct err *e);
};

/* The command that is called so; NULL: there is none. */
const struct command *command_find(const char *name);
/* Row after row, by their names; NULL after the last. */
const struct command *command_row(unsigned i);
/* 0, or in words that the first word of a command line is neither a command nor a path that exists
 * (-EINVAL), and which command was perhaps meant. Options, names of checkpoint files and what has a
 * slash are 0. */
int command_check_word(const char *word, struct err *e);
/* Runs it and returns the exit status; what went wrong is in e. */
int command_run(const struct command *c, int argc, char **argv, struct err *e);

int ask_run(int argc, char **argv, struct err *e);
int chat_run(int argc, char **argv, struct err *e);
int demo_run(int argc, char **argv, struct err *e);
int list_run(int argc, char **argv, struct err *e);
int stores_run(int argc, char **argv, struct err *e);
int umount_run(int argc, char **argv, struct err *e);

#endif
