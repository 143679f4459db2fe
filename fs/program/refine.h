/* `moefs --refine MODEL [--text FILE]`: a better store of the same bits, for the next mount. */
#ifndef MOEFS_FS_REFINE_H
#define MOEFS_FS_REFINE_H

#include "fs/program/options.h"

/* Refines the models that the options name, one after the other, with a line of progress on a
 * terminal; told(ctx, sentence) hears what came of each. Blocks. 0, or an error in words. */
int refine_models(const struct options *o, void (*told)(void *ctx, const char *sentence), void *ctx,
		  struct err *e);

#endif
