/* The NEON tables' part of the rotation of a TQ group, its 8-bit inputs and its quantisation; the
 * rest is in rotate_lanes.h. A group is 32 registers.
 */
#if defined(__aarch64__)

#include "kernels/neon_lanes.h"
#include "kernels/tq.h"

enum { ROTATE_REGISTERS = TQ_GROUP / LANES };
typedef uint32x4_t rotate_index;

#define rotate_signs(v, signs) lanes_mul(v, lanes_load(signs, LANES))

/* The rotate_butterfly of two lanes: lane l gets swapped + own in the lower place, swapped - own in
 * the upper, where `upper` holds the sign bit. */
ALWAYS_INLINE float32x4_t rotate_butterfly(float32x4_t own, float32x4_t swapped, uint32x4_t upper)
{
	const uint32x4_t turned = veorq_u32(vreinterpretq_u32_f32(own), upper);
	return vaddq_f32(swapped, vreinterpretq_f32_u32(turned));
}

static void rotate_walsh_hadamard(float32x4_t y[ROTATE_REGISTERS])
{
	static const uint32_t signs[2][LANES] = {
		{0, 0x80000000, 0, 0x80000000},
		{0, 0, 0x80000000, 0x80000000},
	};
	const uint32x4_t upper1 = vld1q_u32(signs[0]), upper2 = vld1q_u32(signs[1]);

	for (size_t i = 0; i < ROTATE_REGISTERS; i++) {
		const float32x4_t v = rotate_butterfly(y[i], vrev64q_f32(y[i]), upper1);
		y[i] = rotate_butterfly(v, vextq_f32(v, v, 2), upper2);
	}
	for (size_t h = 1; h < ROTATE_REGISTERS; h *= 2) {
		for (size_t start = 0; start < ROTATE_REGISTERS; start += 2 * h) {
			for (size_t i = start; i < start + h; i++) {
				const float32x4_t a = y[i], b = y[i + h];
				y[i] = vaddq_f32(a, b);
				y[i + h] = vsubq_f32(a, b);
			}
		}
	}
}

/* ---- inputs in 8 bits ---- */

ALWAYS_INLINE float rotate_largest(const float32x4_t y[ROTATE_REGISTERS])
{
	const uint32x4_t magnitude = vdupq_n_u32(0x7fffffff);
	uint32x4_t largest = vdupq_n_u32(0);

	for (size_t i = 0; i < ROTATE_REGISTERS; i++)
		largest = vmaxq_u32(largest, vandq_u32(vreinterpretq_u32_f32(y[i]), magnitude));
	const uint32_t bits = vmaxvq_u32(largest);
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

ALWAYS_INLINE int32x4_t rotate_round(float32x4_t y, float32x4_t divisor)
{
	return vcvtnq_s32_f32(vmulq_f32(vdivq_f32(y, divisor), vdupq_n_f32(127)));
}

/* A unit's 8 columns as bytes. */
ALWAYS_INLINE int8x8_t rotate_round_unit(float32x4_t low, float32x4_t high, float32x4_t divisor)
{
	return vmovn_s16(vcombine_s16(vmovn_s32(rotate_round(low, divisor)),
				      vmovn_s32(rotate_round(high, divisor))));
}

#define rotate_store_slab rotate_store_slab
ALWAYS_INLINE void rotate_store_slab(int8_t *q, const float32x4_t y[2 * SLAB_UNITS],
				     float32x4_t divisor)
{
	int8x8x4_t units;

	for (size_t u = 0; u < SLAB_UNITS; u++)
		units.val[u] = rotate_round_unit(y[2 * u], y[2 * u + 1], divisor);
	vst4_s8(q, units); /* column 0 of each unit, column 1 … */
}

/* ---- quantisation ---- */

enum { ROTATE_DOT_LANES = 2 * LANES };

/* In tq.c's order of 8 lanes, which are two registers here. */
ALWAYS_INLINE float rotate_dot(const float32x4_t a[ROTATE_REGISTERS],
			       const float32x4_t b[ROTATE_REGISTERS])
{
	float32x4_t low = vdupq_n_f32(0), high = vdupq_n_f32(0);
	float lane[ROTATE_DOT_LANES], sum = 0;

	for (size_t i = 0; i < ROTATE_REGISTERS; i += 2) {
		low = vaddq_f32(low, vmulq_f32(a[i], b[i]));
		high = vaddq_f32(high, vmulq_f32(a[i + 1], b[i + 1]));
	}
	vst1q_f32(lane, low);
	vst1q_f32(lane + LANES, high);
	for (size_t l = 0; l < ROTATE_DOT_LANES; l++)
		sum += lane[l];
	return sum;
}

/* Constants for quantising with one codebook. */
struct rotate_search {
	const struct tq_codebook *book;
};

static void rotate_search_begin(struct rotate_search *search, const struct tq_codebook *book)
{
	search->book = book;
}

/* The number of boundaries strictly below: a true comparison is -1. */
ALWAYS_INLINE uint32x4_t rotate_nearest(const struct rotate_search *search, float32x4_t y,
					uint32_t bits)
{
	uint32x4_t index = vdupq_n_u32(0);

	for (uint32_t i = 0; i + 1 < 1U << bits; i++)
		index = vsubq_u32(index, vcltq_f32(vdupq_n_f32(search->book->boundary[i]), y));
	return index;
}

ALWAYS_INLINE float32x4_t rotate_levels(const struct rotate_search *search, uint32x4_t index,
					uint32_t bits)
{
	uint32_t four[LANES];
	float level[LANES];

	(void)bits;
	vst1q_u32(four, index);
	for (size_t l = 0; l < LANES; l++)
		level[l] = search->book->level[four[l]];
	return vld1q_f32(level);
}

ALWAYS_INLINE void rotate_pack(uint8_t *packed, const uint32x4_t index[ROTATE_REGISTERS],
			       uint32_t bits)
{
	uint8_t byte[TQ_GROUP];

	for (size_t i = 0; i < ROTATE_REGISTERS; i++)
		for (size_t l = 0; l < LANES; l++)
			byte[i * LANES + l] = (uint8_t)index[i][l];
	tq_pack(packed, byte, bits);
}

#include "kernels/rotate_lanes.h"
#include "kernels/trellis_lanes.h"
#include "kernels/tc_errors_lanes.h"

bool neon_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits, enum tq_gain gain)
{
	return rotate_quantise(packed, norms, row, cols, bits, gain);
}

#endif
