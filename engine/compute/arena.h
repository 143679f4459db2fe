/* Arrays of a pass in one block of memory. The same calls run twice: with memory NULL they measure,
 * then, with memory of that size, they hand out the places. A file of its own because every scratch
 * of the room is made of an arena, and an arena needs nothing else. */
#ifndef MOEFS_ENGINE_COMPUTE_ARENA_H
#define MOEFS_ENGINE_COMPUTE_ARENA_H

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

#endif
