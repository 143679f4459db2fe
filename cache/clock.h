/* The clock by which the engine measures: nanoseconds that only go forward (CLOCK_MONOTONIC). */
#ifndef MOEFS_CACHE_CLOCK_H
#define MOEFS_CACHE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double clock_seconds_since(uint64_t ns)
{
	return (double)(clock_ns() - ns) * 1e-9;
}

#endif
