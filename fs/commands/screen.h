/* What a model says, as it goes to a file, a pipe or a terminal. A terminal is given no control
 * character but newline and tab, whatever the model says: ^[ stands for escape, and U+FFFD for
 * those beyond ASCII and for what is no UTF-8. */
#ifndef MOEFS_FS_COMMANDS_SCREEN_H
#define MOEFS_FS_COMMANDS_SCREEN_H

#include "fs/base/text.h"
#include "cache/err.h"

struct screen {
	int fd;
	bool terminal;	  /* of fd; else all goes there as it is */
	bool dim;	  /* on a terminal */
	bool begun;	  /* something was shown */
	char last;	  /* of what was shown */
	struct text held; /* the beginning of a character whose end did not come yet */
};

void screen_begin(struct screen *s, int fd, bool dim);
int screen_show(struct screen *s, const char *data, size_t size, struct err *e);
/* What is still held, and on a terminal the end of the line and of what is dim. */
int screen_end(struct screen *s, struct err *e);

#endif
