/* Lines from a person, with editing and history, or from a file or pipe. */
#ifndef MOEFS_FS_COMMANDS_LINE_H
#define MOEFS_FS_COMMANDS_LINE_H

#include "cache/err.h"

#include <stdbool.h>

struct lines;

/* With a terminal at both ends they are edited. NULL: out of memory. */
struct lines *lines_open(void);
/* Writes the history back, where there is one. */
void lines_close(struct lines *l);
bool lines_edited(const struct lines *l);
/* The next line without its newline, good until the next call, NULL at the end, or where Ctrl-C has
 * cleared it. */
const char *lines_next(struct lines *l, const char *prompt, bool *cleared);

#endif
