/* The name of a tensor's file: the tensor's name and ".npy", in a form that every file system
 * accepts.
 *
 * A slash, %, control bytes and a dot at the beginning are written as %XX. If the result is longer
 * than 251 bytes, it is cut to 234 bytes or a few less, followed by ~ and a hash of the whole name.
 */
#ifndef MOEFS_FS_FILES_TENSOR_NAMES_H
#define MOEFS_FS_FILES_TENSOR_NAMES_H

#include <stdbool.h>

enum { TENSOR_FILE_NAME = 256 };

void tensor_file_name(const char *name, char file[TENSOR_FILE_NAME]);
/* Reads the tensor's name from a file's name, unless that was cut; false: there is none. Several
 * file names may give the same tensor: to check a file name, make it again from the tensor's
 * name. */
bool tensor_name_read(const char *file, char name[TENSOR_FILE_NAME]);
/* Whether a file's name has the form of a cut name. */
bool tensor_name_is_cut(const char *file);

#endif
