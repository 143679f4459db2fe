/* `moefs --check`: what is said of each path that is given, and of each model in a folder of
 * models. */
#ifndef MOEFS_FS_CHECK_H
#define MOEFS_FS_CHECK_H

#include "fs/base/text.h"
#include "fs/program/options.h"

/* Fills `tables`, one table for each model with an empty line between, and `wrong`, a line for each
 * that cannot be mounted. 0, or an error of the options in words. The caller frees both. */
int check_models(const struct options *o, struct text *tables, struct text *wrong, struct err *e);

#endif
