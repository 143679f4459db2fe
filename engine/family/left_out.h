/* Tensors of a checkpoint that moefs does not use: vision and audio parts, and draft layers that it
 * does not compute. The family lists them; any other unused tensor is an error (sources.h). */
#ifndef MOEFS_ENGINE_FAMILY_LEFT_OUT_H
#define MOEFS_ENGINE_FAMILY_LEFT_OUT_H

#include "engine/family/sources.h"

/* Whether the tensor with this name is left out. */
bool left_out_is(const struct sources *s, const char *name);
/* Whether the family leaves out any tensors. */
bool left_out_any(const struct config *c);
/* Prints a line for each part that is left out: the beginning of its tensors' names, their number
 * and their bytes; "none" if there are none. Truncated to `size`. */
void left_out_print(const struct sources *s, char *text, size_t size);

#endif
