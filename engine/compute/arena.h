/* Places for arrays in one block of memory: one pass with memory NULL measures, and another one
 * like it hands them out. */
#ifndef MOEFS_ENGINE_COMPUTE_ARENA_H
#define MOEFS_ENGINE_COMPUTE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#define ARENA_ALIGNMENT 64 /* of the memory and of each array: a cache line, and a register */

struct arena {
	uint8_t *memory;
	size_t used;
};

/* The place of the next array; NULL while measuring. Its size in bytes must have been bounded. */
static inline void *arena_take(struct arena *a, size_t count, size_t size)
{
	void *place = a->memory ? a->memory + a->used : NULL;
	a->used += (count * size + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
	return place;
}

#endif
