/* Asking for memory before it is used. Within kernels/ only. */
#ifndef MOEFS_KERNELS_LOOK_AHEAD_H
#define MOEFS_KERNELS_LOOK_AHEAD_H

#include <stddef.h>
#include <stdint.h>

enum { CACHE_LINE = 64, AHEAD_IN_SLOT = 4096 };

/* Asks for bytes that are needed soon, over the end of what there is too: the processor's own guess
 * ends at each page. */
static inline __attribute__((always_inline)) void look_ahead(uintptr_t at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += CACHE_LINE)
		__builtin_prefetch((const void *)(at + i));
}

/* Asks for where so many bytes are written soon, if `at` is where they are written now. An expert's
 * slot was filled long ago, and stores into lines that are not there wait for each other. */
static inline __attribute__((always_inline)) void look_ahead_in_slot(uintptr_t at, size_t bytes)
{
	look_ahead(at + AHEAD_IN_SLOT, bytes);
}

#endif
