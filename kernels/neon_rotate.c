/* NEON versions of what is done to a TQ group before it is multiplied or stored: the rotation, and
 * with it the 8-bit inputs (tq_prepare) and the quantisation of weights (tq_quantise_row).
 *
 * A group is 32 registers, element i in lane i mod 4 of register i / 4. Each lane does the very
 * operations of tq.c in the same order, so every bit agrees.
 */
#if defined(__aarch64__)

#include "kernels/neon_lanes.h"
#include "kernels/tq_tables.h"

enum { REGISTERS = TQ_GROUP / LANES };

/* Up to 128 of the `left` floats at x; the rest of the group is zero. */
ALWAYS_INLINE void load_group(float32x4_t y[REGISTERS], const float *x, size_t left)
{
	for (size_t i = 0; i < REGISTERS; i++) {
		const size_t begin = i * LANES;
		y[i] = left > begin ? lanes_load(x + begin, left - begin) : vdupq_n_f32(0);
	}
}

/* ---- rotation ---- */

/* The butterfly of two lanes: lane l gets swapped + own in the lower place, swapped - own in the
 * upper, where `upper` holds the sign bit. */
ALWAYS_INLINE float32x4_t butterfly(float32x4_t own, float32x4_t swapped, uint32x4_t upper)
{
	const uint32x4_t turned = veorq_u32(vreinterpretq_u32_f32(own), upper);
	return vaddq_f32(swapped, vreinterpretq_f32_u32(turned));
}

static void walsh_hadamard(float32x4_t y[REGISTERS])
{
	static const uint32_t signs[2][LANES] = {
		{0, 0x80000000, 0, 0x80000000},
		{0, 0, 0x80000000, 0x80000000},
	};
	const uint32x4_t upper1 = vld1q_u32(signs[0]), upper2 = vld1q_u32(signs[1]);
	const float32x4_t divisor = vdupq_n_f32(TQ_SQRT_GROUP);

	for (size_t i = 0; i < REGISTERS; i++) {
		const float32x4_t v = butterfly(y[i], vrev64q_f32(y[i]), upper1);
		y[i] = butterfly(v, vextq_f32(v, v, 2), upper2);
	}
	for (size_t h = 1; h < REGISTERS; h *= 2) {
		for (size_t start = 0; start < REGISTERS; start += 2 * h) {
			for (size_t i = start; i < start + h; i++) {
				const float32x4_t a = y[i], b = y[i + h];
				y[i] = vaddq_f32(a, b);
				y[i + h] = vsubq_f32(a, b);
			}
		}
	}
	for (size_t i = 0; i < REGISTERS; i++)
		y[i] = vdivq_f32(y[i], divisor);
}

ALWAYS_INLINE void multiply_signs(float32x4_t y[REGISTERS], const float signs[TQ_GROUP])
{
	for (size_t i = 0; i < REGISTERS; i++)
		y[i] = vmulq_f32(y[i], vld1q_f32(signs + i * LANES));
}

ALWAYS_INLINE void rotate(float32x4_t y[REGISTERS])
{
	multiply_signs(y, tq_signs1);
	walsh_hadamard(y);
	multiply_signs(y, tq_signs2);
}

ALWAYS_INLINE void unrotate(float32x4_t y[REGISTERS])
{
	multiply_signs(y, tq_signs2);
	walsh_hadamard(y);
	multiply_signs(y, tq_signs1);
}

/* ---- inputs in 8 bits ---- */

/* Compared as integers, like the scalar version: NaN and infinity are the largest. */
ALWAYS_INLINE float largest_magnitude(const float32x4_t y[REGISTERS])
{
	const uint32x4_t magnitude = vdupq_n_u32(0x7fffffff);
	uint32x4_t largest = vdupq_n_u32(0);

	for (size_t i = 0; i < REGISTERS; i++)
		largest = vmaxq_u32(largest, vandq_u32(vreinterpretq_u32_f32(y[i]), magnitude));
	const uint32_t bits = vmaxvq_u32(largest);
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

ALWAYS_INLINE int32x4_t round_to_q(float32x4_t y, float32x4_t divisor)
{
	return vcvtnq_s32_f32(vmulq_f32(vdivq_f32(y, divisor), vdupq_n_f32(127)));
}

/* A unit's 8 columns as bytes. */
ALWAYS_INLINE int8x8_t round_unit(float32x4_t low, float32x4_t high, float32x4_t divisor)
{
	return vmovn_s16(vcombine_s16(vmovn_s32(round_to_q(low, divisor)),
				      vmovn_s32(round_to_q(high, divisor))));
}

void neon_tq_prepare(int8_t *q, float *scale, const float *x, uint32_t k)
{
	for (size_t g = 0; g < tq_groups(k); g++, q += TQ_GROUP) {
		float32x4_t y[REGISTERS];
		load_group(y, x + g * TQ_GROUP, k - g * TQ_GROUP);
		rotate(y);

		const float max = largest_magnitude(y);
		if (!isfinite(max)) {
			memset(q, 0, TQ_GROUP);
			scale[g] = NAN;
			continue;
		}
		const float32x4_t divisor = vdupq_n_f32(max == 0 ? 1 : max);
		for (size_t i = 0; i < REGISTERS; i += 2 * SLAB_UNITS) {
			int8x8x4_t units;
			for (size_t u = 0; u < SLAB_UNITS; u++)
				units.val[u] = round_unit(y[i + 2 * u], y[i + 2 * u + 1], divisor);
			vst4_s8(q + i * LANES, units); /* column 0 of each unit, column 1 … */
		}
		scale[g] = max / 127;
	}
}

/* ---- quantisation ---- */

enum { DOT128_LANES = 2 * LANES };

/* In tq.c's order of 8 lanes, which are two registers here. */
ALWAYS_INLINE float dot128(const float32x4_t a[REGISTERS], const float32x4_t b[REGISTERS])
{
	float32x4_t low = vdupq_n_f32(0), high = vdupq_n_f32(0);
	float lane[DOT128_LANES], sum = 0;

	for (size_t i = 0; i < REGISTERS; i += 2) {
		low = vaddq_f32(low, vmulq_f32(a[i], b[i]));
		high = vaddq_f32(high, vmulq_f32(a[i + 1], b[i + 1]));
	}
	vst1q_f32(lane, low);
	vst1q_f32(lane + LANES, high);
	for (size_t l = 0; l < DOT128_LANES; l++)
		sum += lane[l];
	return sum;
}

/* Boundaries strictly below: a comparison that holds is -1. */
ALWAYS_INLINE uint32x4_t nearest_levels(const struct tq_codebook *book, float32x4_t y,
					uint32_t levels)
{
	uint32x4_t index = vdupq_n_u32(0);

	for (uint32_t i = 0; i + 1 < levels; i++)
		index = vsubq_u32(index, vcltq_f32(vdupq_n_f32(book->boundary[i]), y));
	return index;
}

/* Divides a group by its norm, which it returns, and rotates it. */
ALWAYS_INLINE float normalise(float32x4_t y[REGISTERS])
{
	const float norm = sqrtf(dot128(y, y));
	const float32x4_t divisor = vdupq_n_f32(norm == 0 ? 1 : norm);

	for (size_t i = 0; i < REGISTERS; i++)
		y[i] = vdivq_f32(y[i], divisor);
	rotate(y);
	return norm;
}

ALWAYS_INLINE bool quantise_group(uint8_t *packed, float *stored, float32x4_t y[REGISTERS],
				  const struct tq_codebook *book, uint32_t bits, enum tq_gain gain)
{
	float32x4_t c[REGISTERS];
	uint8_t index[TQ_GROUP];
	float level[LANES];
	const float norm = normalise(y);

	if (!isfinite(norm))
		return false;
	for (size_t i = 0; i < REGISTERS; i++) {
		uint32_t four[LANES];
		vst1q_u32(four, nearest_levels(book, y[i], 1U << bits));
		for (size_t l = 0; l < LANES; l++) {
			index[i * LANES + l] = (uint8_t)four[l];
			level[l] = book->level[four[l]];
		}
		c[i] = vld1q_f32(level);
	}
	tq_pack(packed, index, bits);

	if (norm == 0) {
		*stored = 0;
	} else if (gain == TQ_GAIN_LEAST_SQUARES) {
		*stored = norm * (dot128(y, c) / dot128(c, c));
	} else {
		unrotate(c);
		*stored = norm / sqrtf(dot128(c, c));
	}
	return true;
}

/* bits is a constant where this is inlined. */
ALWAYS_INLINE bool quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
				uint32_t bits, enum tq_gain gain)
{
	const struct tq_codebook *book = tq_codebook(bits);
	const size_t bytes = (size_t)TQ_GROUP / 8 * bits;

	for (size_t g = 0; g < tq_groups(cols); g++) {
		float32x4_t y[REGISTERS];
		load_group(y, row + g * TQ_GROUP, cols - g * TQ_GROUP);
		if (!quantise_group(packed + g * bytes, &norms[g], y, book, bits, gain))
			return false;
	}
	return true;
}

bool neon_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits, enum tq_gain gain)
{
	switch (bits) {
	case 2:
		return quantise_row(packed, norms, row, cols, 2, gain);
	case 3:
		return quantise_row(packed, norms, row, cols, 3, gain);
	default:
		return quantise_row(packed, norms, row, cols, 4, gain);
	}
}

void neon_tq_normalise(float *y, float *norm, const float *x, size_t left, size_t groups)
{
	for (size_t g = 0; g < groups; g++, y += TQ_GROUP) {
		float32x4_t v[REGISTERS];
		load_group(v, x + g * TQ_GROUP, left - g * TQ_GROUP);
		norm[g] = normalise(v);
		for (size_t i = 0; i < REGISTERS; i++)
			vst1q_f32(y + i * LANES, v[i]);
	}
}

#endif
