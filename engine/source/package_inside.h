/* A package's fields, for the readers of container formats that fill them. */
#ifndef MOEFS_ENGINE_SOURCE_PACKAGE_INSIDE_H
#define MOEFS_ENGINE_SOURCE_PACKAGE_INSIDE_H

#include "engine/source/package.h"

struct package {
	struct files *files;
	struct checkpoint *checkpoint; /* if not NULL, it owns the files */
	struct package_tensor *tensors;
	size_t count, room;
	struct gguf **first; /* where to put the first part's header; NULL: not wanted */
};

/* Adds a tensor and copies its name; other fields are zero. The pointer is valid until the next
 * call. NULL: out of memory. */
struct package_tensor *package_add(struct package *p, const char *name);

/* Sorts the tensors by name. -EINVAL: two have the same name. */
int package_sort(struct package *p, struct err *e);

/* Each fills a zero-initialised package (with `first` set if wanted). package_open then sorts the
 * tensors and refuses duplicate names. */
int package_of_safetensors(struct package *p, const char *directory, struct err *e);
/* path: the file, or its first part. */
int package_of_gguf(struct package *p, const char *path, struct err *e);

/* ---- encodings.c ---- */

/* A whole tensor of a checkpoint as one part; a row is its last dimension. */
struct package_part encoding_part_of(const struct checkpoint_tensor *from);

/* Makes a stored tensor the only part of t, without an encoding. If the type cannot be read, t gets
 * no parts. */
void encoding_take_as_is(struct package_tensor *t, const struct checkpoint_tensor *from);

/* The same for integers, which encoding_plain decodes. False: not a supported integer type. */
bool encoding_take_whole(struct package_tensor *t, const struct checkpoint_tensor *from);

/* For encodings: returns -EINVAL, with a sentence that shows both tensors. */
int encoding_misfit(const struct checkpoint_tensor *companion,
		    const struct checkpoint_tensor *codes, struct err *e);
/* For MLX encodings: sets bits and group of a tensor from config.json, which must give it this
 * mode. */
int encoding_mlx_codes(const struct encoded_tensor *in, struct package_tensor *t, bool mxfp4,
		       struct err *e);
/* Number i of a part of floats. The bytes need not be aligned. */
float encoding_float(const struct package_part *part, const uint8_t *bytes, size_t i);

#endif
