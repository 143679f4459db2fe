/* Arrays of a pass in one block of memory. The same calls run twice: with memory NULL they measure,
 * then, with memory of that size, they hand out the places. */
#ifndef MOEFS_ENGINE_COMPUTE_ARENA_H
#define MOEFS_ENGINE_COMPUTE_ARENA_H

#include "cache/err.h"

#include <stddef.h>
#include <stdint.h>

#define ARENA_ALIGNMENT 64 /* of the memory and of each array: a cache line, and a register */

struct arena {
	uint8_t *memory; /* NULL: measuring */
	size_t used;	 /* bytes */
};

/* The place of the next array; NULL while measuring. The caller has bounded count · size. */
static inline void *arena_take(struct arena *a, size_t count, size_t size)
{
	void *place = a->memory ? a->memory + a->used : NULL;
	a->used += (count * size + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
	return place;
}

/* Memory for arrays of activations: zeros, all taken from the system when the call returns. NULL:
 * out of memory, in words. */
void *arena_map(size_t bytes, struct err *e);
void arena_unmap(void *memory, size_t bytes); /* NULL is fine */

#endif
