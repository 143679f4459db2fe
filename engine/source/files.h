/* The open files of a source, in one folder, numbered: read on demand and never mapped, so that a
 * file that is cut short while it is read is an error and not a SIGBUS.
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

/* No files yet, of that folder, whose name is copied. */
int files_create(struct files **out, const char *folder, struct err *e);
void files_close(struct files *f); /* NULL is fine */

/* Opens NAME, or finds it open. A name that leads out of the folder is refused. */
int files_open(struct files *f, const char *name, uint32_t *number, struct err *e);

uint32_t files_count(const struct files *f);
const char *files_path(const struct files *f, uint32_t number);
const char *files_name(const struct files *f, uint32_t number); /* in the folder */
uint64_t files_bytes(const struct files *f, uint32_t number);	/* when it was opened */
int files_descriptor(const struct files *f, uint32_t number);
/* The file's present state, by fstat. */
int files_stat(const struct files *f, uint32_t number, struct stat *st, struct err *e);

/* Reads bytes [offset, offset + bytes) of a file. -EIO if it no longer has them. The note's
 * function may refuse the bytes, and then the read fails. */
int files_read(const struct files *f, uint32_t number, uint64_t offset, void *buffer, size_t bytes,
	       struct err *e);

/* Called for bytes of a file that were read, with their XXH3-64; from any thread that reads.
 */
typedef int files_note(void *ctx, uint32_t number, uint64_t offset, uint64_t bytes, uint64_t hash,
		       struct err *e);
/* Sets the function that is called for every later read; call it before several threads read. */
void files_set_note(struct files *f, files_note *note, void *ctx);

#endif
