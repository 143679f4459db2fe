/* The table of rows.c, for tree.c alone: others ask by tree_row. A folder's place is its number in
 * enum folder. */
#ifndef MOEFS_FS_ROWS_H
#define MOEFS_FS_ROWS_H

#include "fs/mount/node.h"

extern const struct row rows[];
extern const size_t row_count;

#endif
