/* What our programs rely on, however they are started: open standard files, PATH and HOME. And what
 * its callers rely on: output that it reports as written was written. */
#ifndef MOEFS_FS_BASE_STANDARD_H
#define MOEFS_FS_BASE_STANDARD_H

#include "cache/err.h"

#include <stddef.h>

/* First thing in main. Opens /dev/null, for reading, as each closed descriptor of 0 to 2, so that
 * no other file becomes one of them. Sets PATH (confstr(3), _CS_PATH) and HOME (passwd(5)) if they
 * are missing: mount(8) and service managers remove them. */
void standard_begin(void);

/* Last thing in main: writes what stdio still holds. -errno: something that was printed on standard
 * output since the last call was lost. */
int standard_written(struct err *e);

/* Writes all of the data, however often write(2) is interrupted. 0 or an errno. */
int standard_write_all(int fd, const void *data, size_t size);

#endif
