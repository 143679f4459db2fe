/* The constants of TQ that its fast variants need beside the codebooks; within kernels/ only. */
#ifndef MOEFS_KERNELS_TQ_TABLES_H
#define MOEFS_KERNELS_TQ_TABLES_H

#include "kernels/tq.h"

extern const float tq_signs1[TQ_GROUP], tq_signs2[TQ_GROUP]; /* each +1 or -1 */

#define TQ_SQRT_GROUP 0x1.6a09e6p+3F /* √128 in f32; the rotation divides by it */

/* Σ a · b in the order that is part of the format (tq.c). */
float tq_dot(const float a[TQ_GROUP], const float b[TQ_GROUP]);

/* The next group of a row: up to 128 of `left` floats, zero-padded. */
static inline void tq_load_group(float x[TQ_GROUP], const float *row, size_t left)
{
	for (size_t i = 0; i < TQ_GROUP; i++)
		x[i] = i < left ? row[i] : 0;
}

/* An index is searched bit by bit, the highest first: with the bits that are known, i, the next
 * one is whether y is above boundary ((2 i + 1) << bits to come) - 1. Of each search those, `count`
 * apart; the others are not looked at. */
enum { TQ_SEARCHES = 4 };
static inline void tq_searches(float *out, size_t count, const struct tq_codebook *book)
{
	for (uint32_t s = 0; s < TQ_SEARCHES; s++)
		for (uint32_t i = 0; i < count; i++) {
			const uint32_t to_come = s < book->bits ? book->bits - 1 - s : 0;
			const uint32_t at = ((2 * i + 1) << to_come) - 1;
			out[s * count + i] = at < book->levels - 1 ? book->boundary[at] : 0;
		}
}

#endif
