/* NumPy's file format, as far as an array of F32 in C's order needs it: a head, and the numbers. */
#ifndef MOEFS_ENGINE_MODEL_NPY_H
#define MOEFS_ENGINE_MODEL_NPY_H

#include <stddef.h>
#include <stdint.h>

/* Eight dimensions of 64 bits fit in a head of version 1.0. */
enum { NPY_DIMS = 8, NPY_HEAD_MOST = 256 };

/* The head, a multiple of 64 bytes, so that numbers in a map are aligned. Returns its length. */
size_t npy_head(char head[NPY_HEAD_MOST], const uint64_t *shape, uint32_t dims);

#endif
