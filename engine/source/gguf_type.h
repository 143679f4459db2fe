/* GGUF's tensor types: how many numbers a block has and how many bytes. */
#ifndef MOEFS_ENGINE_SOURCE_GGUF_TYPE_H
#define MOEFS_ENGINE_SOURCE_GGUF_TYPE_H

#include "kernels/format.h"

#include <stdint.h>

struct gguf_type {
	const char *name; /* "Q4_K" */
	uint32_t number;  /* in files */
	uint32_t block, bytes;
	enum format format; /* FORMAT_COUNT: it cannot be computed with */
};

/* NULL: it is not known. */
const struct gguf_type *gguf_type_find(uint64_t number);

#endif
