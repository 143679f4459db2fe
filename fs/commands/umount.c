/* moefs umount: takes a mount away. */
#include "fs/commands/commands.h"

int umount_run(int argc, char **argv, struct err *e)
{
	(void)argc;
	(void)argv;
	(void)e;
	return COMMAND_WRONG;
}
