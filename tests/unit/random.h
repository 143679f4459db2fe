/* Random numbers for tests: the same in every run and on every machine. */
#ifndef MOEFS_TESTS_UNIT_RANDOM_H
#define MOEFS_TESTS_UNIT_RANDOM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

struct random { /* SplitMix64 (Steele, Lea and Flood 2014); any seed will do */
	uint64_t state;
};

static inline uint32_t random_u32(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ z >> 31) >> 32);
}

/* Uniform, strictly between 0 and 1. */
static inline double random_uniform(struct random *r)
{
	return (random_u32(r) + .5) * 0x1p-32;
}

/* Normal, mean 0 and variance 1 (Box and Muller 1958). */
static inline void random_normal(struct random *r, float *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const double radius = sqrt(-2 * log(random_uniform(r)));
		x[i] = (float)(radius * cos(2 * M_PI * random_uniform(r)));
	}
}

#endif
