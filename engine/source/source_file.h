/* Opening and reading single files of a source. A read gives all bytes or fails. Does not interpret
 * the contents. */
#ifndef MOEFS_ENGINE_SOURCE_SOURCE_FILE_H
#define MOEFS_ENGINE_SOURCE_SOURCE_FILE_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens a file for reading. Returns a descriptor and sets *size; or a negative errno: missing, or
 * not a regular file. */
int source_file_open(const char *path, uint64_t *size, struct err *e);
/* Reads all of [offset, offset + bytes), or returns a negative errno; -EIO: the file is too short.
 */
int source_file_read(int fd, void *buffer, size_t bytes, uint64_t offset, const char *path,
		     struct err *e);
/* DIRECTORY/FILE, malloc'ed; NULL: out of memory, with an error in e. */
char *source_file_path(const char *directory, const char *file, struct err *e);

/* The length of a name without this ending; 0: the name has another ending, or consists only of it.
 */
size_t source_stem(const char *name, const char *ending);
/* Whether there is a file that begins with these n bytes (64 at most). */
bool source_file_begins_with(const char *path, const char *bytes, size_t n);
/* Whether the file is a git-lfs pointer: a few lines in place of a large file, in a clone without
 * git-lfs. */
bool source_is_pointer(const char *path);

/* A source is a folder, or one file in a folder. */
bool source_is_file(const char *path);
/* The folder of a source, malloc'ed; NULL: out of memory. */
char *source_folder(const char *path);

#endif
