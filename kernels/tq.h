/* The TQ weight format: Hadamard-rotated scalar codebooks of 2, 3 and 4 bits.
 *
 * Malinovskii et al., "Pushing the Limits of Large Language Model Quantization via the Linearity
 * Theorem" (HIGGS, scalar case), NAACL 2025. Groups of 128 weights of a row share one norm. This
 * file is the definition, in plain scalar code: sizes, rotation, quantisation, packing and the
 * inverse operations. Products over packed weights are in the kernels' table (kernels.h).
 */
#ifndef MOEFS_KERNELS_TQ_H
#define MOEFS_KERNELS_TQ_H

#include "kernels/format.h"

/* ---- sizes; TC has the same sizes ---- */

/* Groups per row: ceil(cols / 128). */
static inline size_t tq_groups(uint32_t cols)
{
	return ((size_t)cols + TQ_GROUP - 1) / TQ_GROUP;
}

/* Packed bytes of one group of one row. */
static inline size_t tq_group_bytes(size_t bits)
{
	return TQ_GROUP / 8 * bits;
}

/* Bytes of an arranged slab, of a tile's slabs, and of a tile with its norms (format.h). */
static inline size_t tq_slab_bytes(size_t bits)
{
	return bits * PLANE_BYTES;
}
static inline size_t tq_slabs_bytes(size_t bits)
{
	return SLABS * tq_slab_bytes(bits);
}
static inline size_t tq_tile_bytes(size_t bits, enum norm_type norms)
{
	return tq_slabs_bytes(bits) + (size_t)TILE_ROWS * (norms == NORM_F16 ? 2 : 4);
}

/* Where tq_prepare of all tables puts column i of a group: in each slab of 32 columns first column
 * 0 of each unit, then column 1 of each … column 7. The four codes in the same bits of a row's four
 * bytes of a plane then meet four adjacent inputs. */
static inline size_t tq_input_place(size_t i)
{
	return i / TQ_SLAB * TQ_SLAB + i % TQ_UNIT * SLAB_UNITS + i % TQ_SLAB / TQ_UNIT;
}

/* ---- codebooks and rotation ---- */

struct tq_codebook {
	uint32_t bits, levels;
	float level[16];    /* ascending; Lloyd-Max levels of N(0, 1/128) */
	float boundary[15]; /* levels - 1 boundaries, ascending */
	int8_t integer[16]; /* level ≈ integer · gain */
	float gain;
};
const struct tq_codebook *tq_codebook(uint32_t bits); /* 2, 3 or 4 */

extern const float tq_signs1[TQ_GROUP], tq_signs2[TQ_GROUP]; /* each +1 or -1 */

#define TQ_SQRT_GROUP 0x1.6a09e6p+3F /* √128 in f32; the rotation divides by it */

/* In place: y = D2 · H · D1 · y over one group, with the operations in the order given in
 * README.md. */
void tq_rotate(float y[TQ_GROUP]);
void tq_unrotate(float y[TQ_GROUP]);

/* Σ a · b, in an order that is part of the format (tq.c). */
float tq_dot(const float a[TQ_GROUP], const float b[TQ_GROUP]);

/* Loads the next group of a row: up to 128 of `left` floats, zero-padded. */
static inline void tq_load_group(float x[TQ_GROUP], const float *row, size_t left)
{
	for (size_t i = 0; i < TQ_GROUP; i++)
		x[i] = i < left ? row[i] : 0;
}

/* ---- quantising and packing ---- */

enum tq_gain {
	TQ_GAIN_NORM, /* s = ‖x‖ / ‖c[index]‖, as in native checkpoints */
	TQ_GAIN_LEAST_SQUARES, /* s = ‖x‖ · ⟨y, c⟩ / ⟨c, c⟩: the least squared error for the same
				  indices */
};
/* Quantises one row of `cols` floats. packed receives groups · 16 · bits bytes, norms groups
 * floats. The right padding of the last group is zero. Needs no scratch memory. False: the row has
 * a NaN, an infinity, or values so large that a group's squares overflow (1e18). */
bool tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols, uint32_t bits,
		     enum tq_gain gain);
void tq_pack(uint8_t *packed, const uint8_t index[TQ_GROUP], uint32_t bits);
void tq_unpack(uint8_t index[TQ_GROUP], const uint8_t *packed, uint32_t bits);

/* The boundaries for finding an index bit by bit in vector code, the highest bit first. If the
 * upper bits are i, the next bit says whether y is above boundary ((2 i + 1) << remaining bits) -
 * 1. Search s of out, [TQ_SEARCHES][count], has these boundaries for i = 0, 1 …; entries for
 * impossible i are never used. */
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
