/* moefs list: the mounts that can be seen from here. */
#include "fs/commands/commands.h"

#include <stddef.h>

int list_run(int argc, char **argv, struct err *e)
{
	(void)argv;
	(void)e;
	return argc > 1 ? COMMAND_WRONG : 0;
}
