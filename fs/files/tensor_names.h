/* What a tensor's file is called: its name with ".npy" behind it, which every file system can have.
 *
 * What a name cannot have, or should not, is written %XX: a slash, %, control bytes, a dot at the
 * beginning. Of a name that is longer than 251 bytes then, the first 234 or a few less are followed
 * by ~ and a sum of the whole.
 */
#ifndef MOEFS_FS_TENSOR_NAMES_H
#define MOEFS_FS_TENSOR_NAMES_H

#include <stdbool.h>

enum { TENSOR_FILE_NAME = 256 };

void tensor_file_name(const char *name, char file[TENSOR_FILE_NAME]);
/* The tensor that a file of that name would be of, unless its name was cut; false: none. Others may
 * come to the same: print it again. */
bool tensor_name_read(const char *file, char name[TENSOR_FILE_NAME]);
/* Whether the name of a file looks as if it was cut. */
bool tensor_name_is_cut(const char *file);

#endif
