/* What our programs rely on, however they are started: open standard files, PATH and HOME. And what
 * their callers rely on: output that was reported as written is written. */
#ifndef MOEFS_FS_BASE_STANDARD_H
#define MOEFS_FS_BASE_STANDARD_H

#include "cache/err.h"

#include <stddef.h>

/* The first call in main. Opens /dev/null for reading in place of each closed descriptor from 0 to
 * 2, so that no other file gets one of these numbers. Sets PATH (confstr(3), _CS_PATH) and HOME
 * (passwd(5)) if they are missing: mount(8) and service managers remove them. */
void standard_begin(void);

/* The last call in main. Writes the output that stdio has buffered. -errno: some output printed
 * since the last call was lost. */
int standard_written(struct err *e);

/* Writes all of the data, also if write(2) is interrupted. Returns 0 or an errno. */
int standard_write_all(int fd, const void *data, size_t size);

#endif
