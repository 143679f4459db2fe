/* The TQ weight format: Hadamard-rotated scalar codebooks of 2, 3 and 4 bits.
 *
 * Malinovskii et al., "Pushing the Limits of Large Language Model Quantization via the Linearity
 * Theorem" (HIGGS, scalar case), NAACL 2025. Groups of 128 weights of a row share one norm.
 * This file is the definition, in plain scalar code: rotation, quantisation, packing and their
 * inverses. The products over packed weights are in the kernels' table (kernels.h).
 */
#ifndef MOEFS_KERNELS_TQ_H
#define MOEFS_KERNELS_TQ_H

#include "kernels/format.h"

struct tq_codebook {
	uint32_t bits, levels;
	float level[16];    /* ascending; Lloyd-Max levels of N(0, 1/128) */
	float boundary[15]; /* levels - 1 boundaries, ascending */
	int8_t integer[16]; /* level ≈ integer · gain */
	float gain;
};
const struct tq_codebook *tq_codebook(uint32_t bits); /* 2, 3 or 4 */

/* In place: y = D2 · H · D1 · y over one group, as README.md here orders the operations. */
void tq_rotate(float y[TQ_GROUP]);
void tq_unrotate(float y[TQ_GROUP]);

enum tq_gain {
	TQ_GAIN_NORM, /* s = ‖x‖ / ‖c[index]‖, as native checkpoints store it */
	TQ_GAIN_LEAST_SQUARES, /* s = ‖x‖ · ⟨y, c⟩ / ⟨c, c⟩: the least squared error for the same
				  indices */
};
/* Quantises one row of `cols` floats: packed receives groups · 16 · bits bytes, norms groups
 * floats. Scratch-free; the right padding of the last group is zero. Rows with NaN, infinity or
 * values so large that a group's squares overflow (1e18): false. */
bool tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols, uint32_t bits,
		     enum tq_gain gain);
void tq_pack(uint8_t *packed, const uint8_t index[TQ_GROUP], uint32_t bits);
void tq_unpack(uint8_t index[TQ_GROUP], const uint8_t *packed, uint32_t bits);

/* format_arrange (tq_arrange.c) of whole blocks of rows, to where the first of them begins. */
void tq_arrange(uint8_t *out, const struct shape *s, uint32_t rows, const struct pieces *pieces);

#endif
