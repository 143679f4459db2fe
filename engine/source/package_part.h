/* What encodings and readers of containers say of a tensor's parts. */
#ifndef MOEFS_ENGINE_SOURCE_PACKAGE_PART_H
#define MOEFS_ENGINE_SOURCE_PACKAGE_PART_H

#include "engine/source/package.h"

/* All of a checkpoint's tensor as a part: its last dimension is a row. */
struct package_part package_part_of(const struct checkpoint_tensor *from);

/* Gives a tensor the numbers of one as they are; of a type that cannot be read it gets none. */
void package_as_is(struct package_tensor *t, const struct checkpoint_tensor *from);

/* For encodings: -EINVAL, in words that show both tensors. */
int package_misfit(const struct checkpoint_tensor *companion, const struct checkpoint_tensor *codes,
		   struct err *e);
/* For encodings of MLX: the bits and the group that config.json says for a tensor, which must be of
 * that mode. */
int package_mlx_codes(const struct encoded *in, struct package_tensor *t, bool mxfp4,
		      struct err *e);
/* Number i of a part of floats, whose bytes need not be aligned. */
float package_float(const struct package_part *part, const uint8_t *bytes, size_t i);

#endif
