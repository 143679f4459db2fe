/* `moefs --refine MODEL [--text FILE]`: a better store of the same bits, for the next mount. */
#ifndef MOEFS_FS_REFINE_H
#define MOEFS_FS_REFINE_H

#include "fs/program/options.h"

/* Hears what came of a model, or why nothing did. */
typedef void refine_told(const char *sentence, bool failed);

/* Refines the models that the options name, one after the other, with a line of progress on a
 * terminal. Blocks. 0; or one of them failed, as `told` has heard, or something before them did, as
 * *e says. */
int refine_models(const struct options *o, refine_told *told, struct err *e);

#endif
