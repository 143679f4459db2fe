/* NumPy's file format, for arrays of F32 in C order: a header, then the numbers. */
#ifndef MOEFS_ENGINE_MODEL_NPY_H
#define MOEFS_ENGINE_MODEL_NPY_H

#include <stddef.h>
#include <stdint.h>

/* Eight dimensions of 64 bits fit into a header of version 1.0. */
enum { NPY_DIMS = 8, NPY_HEAD_MOST = 256 };

/* Writes the header, whose length is a multiple of 64 bytes, so that the numbers of a mapped file
 * are aligned. Returns its length. */
size_t npy_head(char head[NPY_HEAD_MOST], const uint64_t *shape, uint32_t dims);

#endif
