/* The open files of a source, numbered, all in one folder. They are read, never mapped, so a file
 * that is truncated meanwhile causes an error and not a SIGBUS.
 *
 * A file stays open until files_close; any number of threads may read.
 */
#ifndef MOEFS_ENGINE_SOURCE_FILES_H
#define MOEFS_ENGINE_SOURCE_FILES_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { FILES_MOST = 4096 };

struct files;

/* Creates an empty list for files of a folder, whose name is copied. */
int files_create(struct files **out, const char *folder, struct err *e);
void files_close(struct files *f); /* NULL is fine */

/* Opens a file, or finds that it is open already. Refuses names that lead out of the folder. */
int files_open(struct files *f, const char *name, uint32_t *number, struct err *e);

uint32_t files_count(const struct files *f);
const char *files_path(const struct files *f, uint32_t number);
const char *files_name(const struct files *f, uint32_t number); /* in the folder */
uint64_t files_bytes(const struct files *f, uint32_t number);	/* its size when it was opened */
int files_descriptor(const struct files *f, uint32_t number);
/* The file's current state, by fstat. */
int files_stat(const struct files *f, uint32_t number, struct stat *st, struct err *e);

/* Reads bytes [offset, offset + bytes) of a file. -EIO: the file no longer has them. If the note
 * function fails, the read fails with its error. */
int files_read(const struct files *f, uint32_t number, uint64_t offset, void *buffer, size_t bytes,
	       struct err *e);

/* Called for each range that was read, with its XXH3-64, from the reading thread.
 */
typedef int files_note(void *ctx, uint32_t number, uint64_t offset, uint64_t bytes, uint64_t hash,
		       struct err *e);
/* Sets the function to call for every read from now on. Call this before several threads read. */
void files_set_note(struct files *f, files_note *note, void *ctx);

#endif
