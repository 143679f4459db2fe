/* All that is not there of what a model needs, where opening it names the first alone. */
#ifndef MOEFS_ENGINE_SERVE_MISSING_H
#define MOEFS_ENGINE_SERVE_MISSING_H

/* Files of the folder by their names, and, where all of the weights' are there, tensors. Reads
 * names and headers. What cannot be made out is not told. */
void missing_tell(const char *path, void (*each)(void *ctx, const char *name), void *ctx);

#endif
