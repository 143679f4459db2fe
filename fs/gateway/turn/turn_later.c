/* Files of a turn that are closed once nobody waits for that. */
#include "fs/gateway/turn/turn_inside.h"

#include <unistd.h>

void turn_close_later(struct turn *t, int fd)
{
	if (t->later_count == TURN_LATER)
		turn_close_now(t);
	t->later[t->later_count++] = fd;
}

void turn_close_now(struct turn *t)
{
	while (t->later_count)
		close(t->later[--t->later_count]);
}
