/* The table of commands. See commands.h. */
#include "fs/commands/commands.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct command commands[] = {
	{"ask", "[options] MODEL [WORDS...]", "asks once; what comes on stdin is joined", ask_run},
	{"chat", "[options] MODEL", "a conversation, line by line", chat_run},
	{"list", "[--json]", "the mounts of moefs that can be seen here", list_run},
	{"stores", "[PATH...] | --delete [-n] STORE...",
	 "the stores that mounts have made of checkpoints; deletes them", stores_run},
	{"umount", "[-z] MOUNTPOINT|MODEL", "unmounts; -z also what is in use", umount_run},
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

int command_run(const struct command *c, int argc, char **argv, struct err *e)
{
	int status = c->run(argc, argv, e);
	if (status == COMMAND_WRONG && !e->code)
		err_set(e, EINVAL, "usage: moefs %s %s", c->name, c->usage);
	return status;
}
