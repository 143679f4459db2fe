/* What a person at a terminal sees while a model is converted or loaded and nothing is said yet. */
#ifndef MOEFS_FS_COMMANDS_WAITING_H
#define MOEFS_FS_COMMANDS_WAITING_H

#include <stdbool.h>

struct waiting {
	const char *session; /* its folder */
	bool shown, over;    /* a line stands there; there is something else to show */
};

enum { WAITING_TICK_MS = 500 };

/* Writes on standard error, if that is a terminal, how far the model is, over what stood there. */
void waiting_show(struct waiting *w);
/* Takes it away, for good. */
void waiting_end(struct waiting *w);

#endif
