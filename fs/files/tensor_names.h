/* The name of a tensor's file: the tensor's name and ".npy", in a form that every file system
 * accepts.
 *
 * A slash, %, control bytes and a dot at the beginning are written %XX. If the result is longer
 * than 251 bytes, its first 234 or a few less are followed by ~ and a hash of the whole name.
 */
#ifndef MOEFS_FS_FILES_TENSOR_NAMES_H
#define MOEFS_FS_FILES_TENSOR_NAMES_H

#include <stdbool.h>

enum { TENSOR_FILE_NAME = 256 };

void tensor_file_name(const char *name, char file[TENSOR_FILE_NAME]);
/* The name of the tensor that a file of this name shows, unless the name was cut; false: none.
 * Different file names may give the same tensor: to check one, make its name again. */
bool tensor_name_read(const char *file, char name[TENSOR_FILE_NAME]);
/* Whether the name of a file has the form of a cut one. */
bool tensor_name_is_cut(const char *file);

#endif
