/* A published checkpoint's tensors: safetensors, in one file or in shards with an index.
 *
 * Opening reads the headers and checks them completely (the format: an 8-byte length, JSON, data):
 * types, shapes, sizes, that the tensors cover their file's data without overlap or gap, and that
 * index and shards agree. Any part of a tensor's data can be read on demand (files.h).
 *
 * Constant once opened; any number of threads may read.
 */
#ifndef MOEFS_ENGINE_SOURCE_CHECKPOINT_H
#define MOEFS_ENGINE_SOURCE_CHECKPOINT_H

#include "cache/err.h"
#include "engine/source/files.h"
#include "kernels/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHECKPOINT_MAX_DIMS = 8 };

struct checkpoint_tensor {
	char *name;
	enum format format; /* FORMAT_F32, FORMAT_F16 or FORMAT_BF16 */
	char type[16];	    /* as written in the file */
	bool known_type;    /* false: format is not set */
	uint32_t dims;
	uint64_t shape[CHECKPOINT_MAX_DIMS];
	uint32_t file;
	uint64_t offset, bytes; /* in the file's data */
	uint64_t place;		/* in the file itself */
};

struct checkpoint;

int checkpoint_open(struct checkpoint **out, const char *directory, struct err *e);
void checkpoint_close(struct checkpoint *c);

size_t checkpoint_count(const struct checkpoint *c);
/* The i-th tensor in the order of names. */
const struct checkpoint_tensor *checkpoint_tensor(const struct checkpoint *c, size_t i);
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *c, const char *name);
/* Bytes [offset, offset + bytes) of a tensor. -EIO if the file no longer has them. */
int checkpoint_read(const struct checkpoint *c, const struct checkpoint_tensor *t, uint64_t offset,
		    void *buffer, size_t bytes, struct err *e);
/* The files that hold the tensors. The checkpoint owns them. */
struct files *checkpoint_files(const struct checkpoint *c);

#endif
