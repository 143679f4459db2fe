/* What of a checkpoint a model does not use: what sees and hears, and draft layers that nothing
 * computes. A family names it; everything else that no role uses is an error (sources.h). */
#ifndef MOEFS_ENGINE_FAMILY_LEFT_OUT_H
#define MOEFS_ENGINE_FAMILY_LEFT_OUT_H

#include "engine/family/sources.h"

/* Whether a tensor of that name is left out. */
bool left_out_is(const struct sources *s, const char *name);
/* Whether the family leaves anything out: else there is nothing to look for. */
bool left_out_any(const struct config *c);
/* A line for each part that is there: what its tensors' names begin with, how many there are, and
 * their bytes; "none" without any. Cut off at `size`. */
void left_out_print(const struct sources *s, char *text, size_t size);

#endif
