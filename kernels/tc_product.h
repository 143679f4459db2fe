/* The nibbles of TC as all vector tables lay them bare; within kernels/ only.
 *
 * Position i of a unit ends with bit (i + 1) · bits - 1 of it. Where its nibble begins in the byte
 * before, older bits are brought to where they follow the newer ones, which stay in place: the
 * nibble is turned, and tables that are turned alike make good for it. That takes one shift less
 * than to set it right, and none where the position before ended that byte, whose nibble has the
 * older bits in place.
 */
#ifndef MOEFS_KERNELS_TC_PRODUCT_H
#define MOEFS_KERNELS_TC_PRODUCT_H

#include "kernels/tc.h"
#include "kernels/tq_product.h"

/* Added to codes, so that they are unsigned. */
enum { TC_OFFSET = 64 };
/* Positions that a code looks back to, at most. */
enum { TC_MOST_BACK = 2 };
/* By so many bits a nibble may be turned: 0 … 3. */
enum { TC_TURNS = 4 };

/* The bits of position i up to its newest in that one's byte: 1 … 8. */
static inline size_t tc_bits_here(size_t i, size_t bits)
{
	return ((i + 1) * bits - 1) % 8 + 1;
}

/* The lowest bits of the nibble of position i that are its newest ones; 0: it is as it should be.
 */
static inline size_t tc_turn(size_t i, size_t bits)
{
	const size_t here = tc_bits_here(i, bits);
	return here < 4 ? here : 0;
}

/* Whether the nibble of the position before i ends a byte. */
static inline bool tc_follows_byte(size_t i, size_t bits)
{
	return i * bits % 8 == 0;
}

/* The turn of the nibble that position i looks back to. */
static inline size_t tc_turn_back(size_t i, size_t bits)
{
	return tc_turn((i + TQ_UNIT - tc_back((uint32_t)bits)) % TQ_UNIT, bits);
}

/* A table for nibbles with so many of the newest bits below. */
static inline void tc_turn_table(int8_t to[16], const int8_t from[16], size_t turn, int8_t offset)
{
	for (size_t i = 0; i < 16; i++)
		to[i] = (int8_t)(from[(i << (4 - turn) | i >> turn) & 15] + offset);
}

#endif
