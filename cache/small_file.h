/* Small files in a store's folder that are read and replaced as a whole: heat, sums. A crash leaves
 * the old one, the new one, or one that its own checksum refuses; who reads it must do without. */
#ifndef MOEFS_CACHE_SMALL_FILE_H
#define MOEFS_CACHE_SMALL_FILE_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>

/* The file's first bytes, `most` at most, in a buffer that the caller frees. -ENOENT: there is no
 * folder, or no such file; also the other codes of opening one (store_files.h). */
int small_file_read(uint8_t **out, size_t *bytes, size_t most, const char *folder, const char *name,
		    struct err *e);
/* Replaces the file, by way of the name `partial`. After a failure the old one is still there. */
int small_file_write(const void *data, size_t bytes, const char *folder, const char *name,
		     const char *partial, struct err *e);

#endif
