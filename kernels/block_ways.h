/* How the tiles of 16 rows get into memory, format by format; within kernels/ only. block_codes.h
 * has it once for all instruction sets, and a table here for each that includes it.
 */
#ifndef MOEFS_KERNELS_BLOCK_WAYS_H
#define MOEFS_KERNELS_BLOCK_WAYS_H

#include "kernels/format.h"

/* Adjacent tiles of 16 rows, in the file and in memory. */
struct block_rows {
	const uint8_t *from; /* the first row's */
	size_t stride;	     /* from row to row; all 16 can be read */
	uint32_t count;	     /* those that are there: nothing but zeros is put for the others */
	size_t tiles, from_tile, to_tile; /* how many, and bytes from one to the next */
	size_t blocks;			  /* of 32 columns in a tile */
	size_t scales;			  /* where they begin in a tile in memory */
};

/* The codes, and the scales that lie among them. */
typedef void block_way(uint8_t *to, const struct block_rows *rows);

struct block_ways {
	block_way *way[FORMAT_COUNT];
	/* Scales that lie apart: 16 rows of `tiles` elements of so many bytes (1, 2 or 4), to
	 * `to` and each to_tile bytes farther. */
	void (*apart)(uint8_t *to, size_t to_tile, const uint8_t *from, size_t stride, size_t tiles,
		      size_t bytes);
};

extern const struct block_ways block_ways_scalar;
#if defined(__x86_64__)
extern const struct block_ways block_ways_avx2, block_ways_avx512;
#elif defined(__aarch64__)
extern const struct block_ways block_ways_neon;
#endif

/* Those that this processor has, the fastest last, and NULL. */
const struct block_ways *const *block_ways_available(void);
/* block_arrange (block_arrange.h) by one of them. */
void block_arrange_by(const struct block_ways *ways, uint8_t *to, const struct shape *s,
		      uint32_t rows, const struct pieces *pieces);

#endif
