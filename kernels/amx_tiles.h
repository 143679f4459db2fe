/* The tile registers of AMX and their dots of bytes; within kernels/ only.
 *
 * A tile has up to 16 rows of up to 64 bytes. sums[m][n] += Σ x[m][4 · k + i] · codes[k][n][i] over
 * k and i: 16 tokens are the rows of x; each row of codes has the words of 16 rows of weights, as
 * in the kernels' registers; sums are exact in 32 bits. The numbers of tiles are constants.
 *
 * Assembly, since gcc's functions for loads do not tell the compiler that they read memory. A
 * thread calls amx_begin before it uses tiles and amx_end afterwards: unused tiles cost nothing
 * when the system switches threads. */
#ifndef MOEFS_KERNELS_AMX_TILES_H
#define MOEFS_KERNELS_AMX_TILES_H

#include "kernels/prefetch.h"

enum { AMX_ROWS = 16, AMX_ROW_BYTES = 64 };

/* The operand of ldtilecfg. */
struct amx_shapes {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
};

ALWAYS_INLINE void amx_begin(const struct amx_shapes *shapes)
{
	__asm__ volatile("ldtilecfg %0" ::"m"(*shapes));
}

ALWAYS_INLINE void amx_end(void)
{
	__asm__ volatile("tilerelease");
}

/* Loads rows that are `stride` bytes apart. */
#define amx_load(tile, from, stride)                                   \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), \
			 "r"((size_t)(stride))                          \
			 : "memory")
#define amx_store(to, stride, tile)                                              \
	__asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), \
			 "r"((size_t)(stride))                              \
			 : "memory")
#define amx_zero(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
/* Bytes of x are signed; bytes of codes are signed or unsigned. */
#define amx_dot_signed(sums, x, codes) \
	__asm__ volatile("tdpbssd %%tmm" #codes ", %%tmm" #x ", %%tmm" #sums ::)
#define amx_dot_unsigned(sums, x, codes) \
	__asm__ volatile("tdpbsud %%tmm" #codes ", %%tmm" #x ", %%tmm" #sums ::)

#endif
