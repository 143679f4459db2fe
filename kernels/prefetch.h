/* Prefetching memory; and ALWAYS_INLINE, for functions in which numbers of bits, rows and registers
 * become constants by inlining. Within kernels/ only. */
#ifndef MOEFS_KERNELS_PREFETCH_H
#define MOEFS_KERNELS_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { CACHE_LINE = 64, PREFETCH_SLOT = 4096 };

/* Prefetches `bytes` bytes from `at` on, which may lie past the end of a matrix. (The processor's
 * own prefetcher stops at the end of each page.) */
ALWAYS_INLINE void prefetch_lines(uintptr_t at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += CACHE_LINE)
		__builtin_prefetch((const void *)(at + i));
}

/* Prefetches the lines of an expert's slot that will be written soon, while `bytes` bytes at `at`
 * are written now. The slot was last filled long ago, and stores into lines outside the cache wait
 * for each other. */
ALWAYS_INLINE void prefetch_slot(uintptr_t at, size_t bytes)
{
	prefetch_lines(at + PREFETCH_SLOT, bytes);
}

#endif
