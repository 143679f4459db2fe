/* The inside of a package, for the readers of containers that fill it. */
#ifndef MOEFS_ENGINE_SOURCE_PACKAGE_INSIDE_H
#define MOEFS_ENGINE_SOURCE_PACKAGE_INSIDE_H

#include "engine/source/package.h"

struct package {
	struct files *files;
	struct checkpoint *checkpoint; /* which owns the files, if not NULL */
	struct package_tensor *tensors;
	size_t count, room;
	struct gguf **first; /* where package_open_gguf wants the first part's header; else NULL */
};

/* Another tensor of that name, which is copied, with all else zero; NULL without memory. Good until
 * the next. */
struct package_tensor *package_add(struct package *p, const char *name);

/* Puts the tensors in the order of their names; -EINVAL: two have the same. */
int package_sort(struct package *p, struct err *e);

/* Each fills a package that is all zero but for what it may need; package_open sorts the tensors
 * and refuses a name that is there twice. */
int package_of_safetensors(struct package *p, const char *directory, struct err *e);
/* The path is that of the file, or of its first part. */
int package_of_gguf(struct package *p, const char *path, struct err *e);

/* ---- encodings.c ---- */

/* A whole tensor of a checkpoint as one part: its last dimension is a row. */
struct package_part encoding_part_of(const struct checkpoint_tensor *from);

/* Gives a tensor the numbers of one as they are; of a type that cannot be read it gets none. */
void encoding_take_as_is(struct package_tensor *t, const struct checkpoint_tensor *from);

/* The same of whole numbers, which plain numbers' decode reads; false: it holds others. */
bool encoding_take_whole(struct package_tensor *t, const struct checkpoint_tensor *from);

/* For encodings: -EINVAL, in words that show both tensors. */
int encoding_misfit(const struct checkpoint_tensor *companion,
		    const struct checkpoint_tensor *codes, struct err *e);
/* For encodings of MLX: the bits and the group that config.json says for a tensor, which must be of
 * that mode. */
int encoding_mlx_codes(const struct encoded_tensor *in, struct package_tensor *t, bool mxfp4,
		       struct err *e);
/* Number i of a part of floats, whose bytes need not be aligned. */
float encoding_float(const struct package_part *part, const uint8_t *bytes, size_t i);

#endif
