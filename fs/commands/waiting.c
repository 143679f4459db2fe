/* How far a model is, while nothing is said. See waiting.h. */
#include "fs/commands/waiting.h"
#include "fs/commands/mounts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void waiting_show(struct waiting *w)
{
	char state[64], progress[256];
	if (!isatty(STDERR_FILENO) ||
	    mounts_value(w->session, "../../info/state", state, sizeof state) ||
	    mounts_value(w->session, "../../info/progress", progress, sizeof progress))
		return;
	bool idle = strcmp(progress, "idle") == 0;
	if (!idle || strcmp(state, "loading") == 0) {
		(void)dprintf(STDERR_FILENO, "\r\033[Kmoefs: %s", idle ? state : progress);
		w->shown = true;
	}
}

void waiting_end(struct waiting *w)
{
	if (w->shown)
		(void)dprintf(STDERR_FILENO, "\r\033[K");
	w->shown = false;
	w->over = true;
}
