/* The inside of a package, for the readers of containers that fill it. */
#ifndef MOEFS_ENGINE_SOURCE_PACKAGE_MAKE_H
#define MOEFS_ENGINE_SOURCE_PACKAGE_MAKE_H

#include "engine/source/package.h"

struct package {
	struct files *files;
	struct checkpoint *checkpoint; /* which owns the files, if not NULL */
	struct package_tensor *tensors;
	size_t count, room;
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

#endif
