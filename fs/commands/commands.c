/* The table of commands. See commands.h. */
#include "fs/commands/commands.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char demo_help[] =
	"Mounts the small model that is installed with moefs, asks it three questions with\n"
	"echo and cat, shows each command, and unmounts.\n"
	"\n"
	"    --path             only prints where that model is, as for moefs chat\n"
	"    -h, --help         this text\n";
static const char list_help[] =
	"A line for each: mountpoint, source, process, and its models with their states,\n"
	"with tabs between; of one that tells nothing, why.\n"
	"\n"
	"    --json             the same as a list of objects\n"
	"    -h, --help         this text\n";
static const char stores_help[] =
	"Without a PATH those in ~/.cache/moefs (of XDG_CACHE_HOME, if that is set); with\n"
	"one those in it, and that of the model which it is.\n"
	"\n"
	"    --delete STORE...  deletes these, but no checkpoint: its next mount makes its\n"
	"                       store anew. What is mounted stays\n"
	"    --anywhere         also those that are neither in a MODEL.moefs folder nor in\n"
	"                       the cache folder\n"
	"    -n                 only says which files --delete would delete\n"
	"    -h, --help         this text\n";
static const char umount_help[] =
	"By a MODEL that only one mount has, too. Returns when all is written and the\n"
	"daemon has ended. What is in use stays, and by whom is said.\n"
	"\n"
	"    -z, --lazy         also what is in use, which goes with its last user\n"
	"    -h, --help         this text\n";

static const struct command commands[] = {
	{"ask", "[options] MODEL [WORDS...]", "asks once; what comes on stdin is joined", NULL,
	 ask_run},
	{"chat", "[options] MODEL", "a conversation, line by line", NULL, chat_run},
	{"demo", "[--path]", "a first answer, from a small model that is installed with moefs",
	 demo_help, demo_run},
	{"list", "[--json]", "the mounts of moefs that can be seen here", list_help, list_run},
	{"stores", "[PATH...] | --delete [-n] [--anywhere] STORE...",
	 "the stores that mounts have made of checkpoints; deletes them", stores_help, stores_run},
	{"umount", "[-z] MOUNTPOINT|MODEL", "unmounts; -z also what is in use", umount_help,
	 umount_run},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

const struct command *command_row(unsigned i)
{
	return i < COMMANDS ? &commands[i] : NULL;
}

const struct command *command_find(const char *name)
{
	for (unsigned i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static bool asks_for_help(int argc, char **argv)
{
	return argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"));
}

int command_run(const struct command *c, int argc, char **argv, struct err *e)
{
	if (c->help && asks_for_help(argc, argv)) {
		(void)printf("usage: moefs %s %s\n\n%s\nSee moefs-%s(1).\n", c->name, c->usage,
			     c->help, c->name);
		return 0;
	}
	int status = c->run(argc, argv, e);
	if (status == COMMAND_WRONG) {
		struct err wrong = *e;
		err_set(e, EINVAL, "%s%susage: moefs %s %s", wrong.code ? wrong.text : "",
			wrong.code ? "; " : "", c->name, c->usage);
	}
	return status;
}
