/* Single files of a source: opened with care, read whole or not at all. What is in them is their
 * readers' business. */
#ifndef MOEFS_ENGINE_SOURCE_SOURCE_FILE_H
#define MOEFS_ENGINE_SOURCE_SOURCE_FILE_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A descriptor for reading and the file's size; a negative errno if it is not there, or no regular
 * file. */
int source_file_open(const char *path, uint64_t *size, struct err *e);
/* All of [offset, offset + bytes), or a negative errno; -EIO: the file ends before. */
int source_file_read(int fd, void *buffer, size_t bytes, uint64_t offset, const char *path,
		     struct err *e);
/* DIRECTORY/FILE, malloc'ed; NULL without memory, with an error in e. */
char *source_file_path(const char *directory, const char *file, struct err *e);

/* The length of a name without this ending; 0: the name does not end so, or is nothing else. */
size_t source_stem(const char *name, const char *ending);
/* Whether it is a file whose first n bytes (64 at most) are these. */
bool source_file_begins_with(const char *path, const char *bytes, size_t n);
/* Whether the file is a git-lfs pointer: a few lines in place of a large file, in a clone without
 * git-lfs. */
bool source_is_pointer(const char *path);

/* A source is a folder, or one file in a folder. */
bool source_is_file(const char *path);
/* The folder, malloc'ed; NULL without memory. */
char *source_folder(const char *path);

#endif
