/* What a program of ours counts on, whoever started it: standard files that are open, PATH and HOME.
 * And what others count on: that its output was written when it says so. */
#ifndef MOEFS_FS_BASE_STANDARD_H
#define MOEFS_FS_BASE_STANDARD_H

#include "cache/err.h"

/* First thing in main. Opens /dev/null as each of the descriptors 0 to 2 that is closed, so that no
 * file of ours becomes one of them; writing to it fails. Sets PATH and HOME where they are missing:
 * mount(8) and service managers remove them (confstr(3)'s _CS_PATH, the user's entry in passwd(5)). */
void standard_begin(void);

/* Last thing in main: writes what stdio still holds. The errno, negative, and a sentence, if
 * anything that was printed on standard output since the last call was lost. */
int standard_written(struct err *e);

#endif
