/* AVX2 versions of what is done to a TQ group before it is multiplied or stored: the rotation, and
 * with it the 8-bit inputs (tq_prepare) and the quantisation of weights (tq_quantise_row).
 *
 * A group is 16 registers, element i in lane i mod 8 of register i / 8. Each lane does the very
 * operations of tq.c in the same order, so every bit agrees; for sums that order, too, was 8 lanes
 * wide.
 */
#if defined(__x86_64__)

#include "kernels/avx2_lanes.h"
#include "kernels/tq_tables.h"

enum { REGISTERS = TQ_GROUP / LANES };

/* Up to 128 of the `left` floats at x; the rest of the group is zero. */
ALWAYS_INLINE void load_group(__m256 y[REGISTERS], const float *x, size_t left)
{
	for (size_t i = 0; i < REGISTERS; i++) {
		const size_t begin = i * LANES;
		y[i] = left > begin ? lanes_load(x + begin, left - begin) : _mm256_setzero_ps();
	}
}

/* ---- rotation ---- */

/* The butterfly of two lanes: lane l gets swapped + own in the lower place, swapped - own in the
 * upper, where `upper` holds the sign bit. */
ALWAYS_INLINE __m256 butterfly(__m256 own, __m256 swapped, __m256 upper)
{
	return _mm256_add_ps(swapped, _mm256_xor_ps(own, upper));
}

/* The butterflies of two distances over four registers. */
ALWAYS_INLINE void butterflies(__m256 *y, size_t h)
{
	const __m256 a = _mm256_add_ps(y[0], y[h]), b = _mm256_sub_ps(y[0], y[h]);
	const __m256 c = _mm256_add_ps(y[2 * h], y[3 * h]), d = _mm256_sub_ps(y[2 * h], y[3 * h]);

	y[0] = _mm256_add_ps(a, c);
	y[h] = _mm256_add_ps(b, d);
	y[2 * h] = _mm256_sub_ps(a, c);
	y[3 * h] = _mm256_sub_ps(b, d);
}

/* Without the division. Two distances at a time: of 16 registers a group leaves none. */
ALWAYS_INLINE void walsh_hadamard(__m256 y[REGISTERS])
{
	const __m256 upper1 = _mm256_setr_ps(0, -0.0F, 0, -0.0F, 0, -0.0F, 0, -0.0F);
	const __m256 upper2 = _mm256_setr_ps(0, 0, -0.0F, -0.0F, 0, 0, -0.0F, -0.0F);
	const __m256 upper4 = _mm256_setr_ps(0, 0, 0, 0, -0.0F, -0.0F, -0.0F, -0.0F);

	for (size_t i = 0; i < REGISTERS; i++) {
		__m256 v = y[i];
		v = butterfly(v, _mm256_permute_ps(v, 0xb1), upper1);
		v = butterfly(v, _mm256_permute_ps(v, 0x4e), upper2);
		y[i] = butterfly(v, _mm256_permute2f128_ps(v, v, 0x01), upper4);
	}
	for (size_t i = 0; i < REGISTERS; i += 4)
		butterflies(y + i, 1);
	for (size_t i = 0; i < 4; i++)
		butterflies(y + i, 4);
}

ALWAYS_INLINE void multiply_signs(__m256 y[REGISTERS], const float signs[TQ_GROUP])
{
	for (size_t i = 0; i < REGISTERS; i++)
		y[i] = _mm256_mul_ps(y[i], _mm256_loadu_ps(signs + i * LANES));
}

ALWAYS_INLINE void divide(__m256 y[REGISTERS], float by)
{
	for (size_t i = 0; i < REGISTERS; i++)
		y[i] = _mm256_div_ps(y[i], _mm256_set1_ps(by));
}

ALWAYS_INLINE void rotate(__m256 y[REGISTERS])
{
	multiply_signs(y, tq_signs1);
	walsh_hadamard(y);
	divide(y, TQ_SQRT_GROUP);
	multiply_signs(y, tq_signs2);
}

ALWAYS_INLINE void unrotate(__m256 y[REGISTERS])
{
	multiply_signs(y, tq_signs2);
	walsh_hadamard(y);
	divide(y, TQ_SQRT_GROUP);
	multiply_signs(y, tq_signs1);
}

/* ---- inputs in 8 bits ---- */

/* Compared as integers, like the scalar version: NaN and infinity are the largest. */
ALWAYS_INLINE float largest_magnitude(const __m256 y[REGISTERS])
{
	const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
	__m256i m8 = _mm256_setzero_si256();

	for (size_t i = 0; i < REGISTERS; i++)
		m8 = _mm256_max_epi32(m8, _mm256_and_si256(_mm256_castps_si256(y[i]), magnitude));
	__m128i m = _mm_max_epi32(_mm256_castsi256_si128(m8), _mm256_extracti128_si256(m8, 1));
	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
	return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

/* 32 integers as bytes. The packs work in halves: columns 0 … 3 of a, of b, of c, of d, and then
 * 4 … 7 of each. */
ALWAYS_INLINE __m256i pack_fours(__m256i a, __m256i b, __m256i c, __m256i d)
{
	return _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

/* From pack_fours, in order. */
ALWAYS_INLINE __m256i in_order(__m256i fours)
{
	return _mm256_permutevar8x32_epi32(fours, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* From pack_fours, in tq_prepare's order: column 0 of each unit, column 1 of each … */
ALWAYS_INLINE __m256i units_side_by_side(__m256i fours)
{
	return _mm256_shuffle_epi8(
		fours, _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, //
					0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}

ALWAYS_INLINE __m256i round_to_q(__m256 y, __m256 divisor)
{
	return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_div_ps(y, divisor), _mm256_set1_ps(127)));
}

void avx2_tq_prepare(int8_t *q, float *scale, const float *x, uint32_t k)
{
	for (size_t g = 0; g < tq_groups(k); g++, q += TQ_GROUP) {
		__m256 y[REGISTERS];
		load_group(y, x + g * TQ_GROUP, k - g * TQ_GROUP);
		rotate(y);

		const float max = largest_magnitude(y);
		if (!isfinite(max)) {
			memset(q, 0, TQ_GROUP);
			scale[g] = NAN;
			continue;
		}
		const __m256 divisor = _mm256_set1_ps(max == 0 ? 1 : max);
		for (size_t i = 0; i < REGISTERS; i += 4) {
			const __m256i slab = pack_fours(
				round_to_q(y[i], divisor), round_to_q(y[i + 1], divisor),
				round_to_q(y[i + 2], divisor), round_to_q(y[i + 3], divisor));
			_mm256_storeu_si256((__m256i *)(void *)(q + i * LANES),
					    units_side_by_side(slab));
		}
		scale[g] = max / 127;
	}
}

/* ---- quantisation ---- */

ALWAYS_INLINE float dot128(const __m256 a[REGISTERS], const __m256 b[REGISTERS])
{
	__m256 sums = _mm256_setzero_ps();
	float lane[LANES], sum = 0;

	for (size_t i = 0; i < REGISTERS; i++)
		sums = _mm256_add_ps(sums, _mm256_mul_ps(a[i], b[i]));
	_mm256_storeu_ps(lane, sums);
	for (size_t l = 0; l < LANES; l++)
		sum += lane[l];
	return sum;
}

/* How many boundaries lie strictly below, a bit of it at a time: a comparison that holds is -1.
 * bits is a constant where this is inlined. */
ALWAYS_INLINE __m256i nearest_levels(const float boundary[TQ_SEARCHES][LANES], __m256 y,
				     uint32_t bits)
{
	__m256i index = _mm256_setzero_si256();

#pragma GCC unroll 4
	for (uint32_t i = 0; i < bits; i++) {
		const __m256 between =
			_mm256_permutevar8x32_ps(_mm256_loadu_ps(boundary[i]), index);
		const __m256 below = _mm256_cmp_ps(between, y, _CMP_LT_OQ);
		index = _mm256_add_epi32(index, index);
		index = _mm256_sub_epi32(index, _mm256_castps_si256(below));
	}
	return index;
}

/* level[index]; a permutation looks at the low three bits of an index. */
ALWAYS_INLINE __m256 levels_at(const struct tq_codebook *book, __m256i index, uint32_t levels)
{
	const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(book->level), index);
	if (levels <= 8)
		return low;
	const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(book->level + 8), index);
	const __m256i upper = _mm256_cmpgt_epi32(index, _mm256_set1_epi32(7));
	return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(upper));
}

/* Of all groups before the rest is done with any: a norm is a chain of additions, of which many are
 * then under way together. True if all are finite. */
ALWAYS_INLINE bool measure(float *norms, const float *x, size_t left, size_t groups)
{
	bool finite = true;

	for (size_t g = 0; g < groups; g++) {
		__m256 y[REGISTERS];
		load_group(y, x + g * TQ_GROUP, left - g * TQ_GROUP);
		norms[g] = sqrtf(dot128(y, y));
		finite &= isfinite(norms[g]) != 0;
	}
	return finite;
}

/* Divides a group by its norm, and rotates it. */
ALWAYS_INLINE void normalise(__m256 y[REGISTERS], float norm)
{
	divide(y, norm == 0 ? 1 : norm);
	rotate(y);
}

/* The indices of four units, to units one after the other in the lower bytes of halves of 128 bits:
 * pairs of indices, pairs of those, and pairs of those. */
ALWAYS_INLINE __m256i join_units(__m256i bytes, uint32_t bits)
{
	const __m256i two =
		_mm256_maddubs_epi16(bytes, _mm256_set1_epi16((int16_t)(1 | 1 << (8 + bits))));
	const __m256i four = _mm256_madd_epi16(two, _mm256_set1_epi32(1 | 1 << (16 + 2 * bits)));
	const __m256i eight = _mm256_or_si256(four, _mm256_srli_epi64(four, (int)(32 - 4 * bits)));
	int8_t byte[16];

	for (uint32_t i = 0; i < 16; i++)
		byte[i] = (int8_t)(i < 2 * bits ? i % bits + i / bits * 8 : 0x80);
	return _mm256_shuffle_epi8(eight, _mm256_broadcastsi128_si256(_mm_loadu_si128(
						  (const __m128i *)(const void *)byte)));
}

ALWAYS_INLINE void pack_indices(uint8_t *packed, const __m256i index[REGISTERS], uint32_t bits)
{
	uint8_t units[TQ_GROUP]; /* and what is behind the last */

	for (size_t i = 0; i < REGISTERS; i += 4) {
		const __m256i bytes =
			in_order(pack_fours(index[i], index[i + 1], index[i + 2], index[i + 3]));
		const __m256i joined = join_units(bytes, bits);
		uint8_t *const at = units + i * bits;
		_mm_storeu_si128((__m128i *)(void *)at, _mm256_castsi256_si128(joined));
		_mm_storeu_si128((__m128i *)(void *)(at + 2 * bits),
				 _mm256_extracti128_si256(joined, 1));
	}
	memcpy(packed, units, tq_group_bytes(bits));
}

/* The norm is the group's own, and becomes the one that is stored. */
ALWAYS_INLINE void quantise_group(uint8_t *packed, float *norm, __m256 y[REGISTERS],
				  const float boundary[TQ_SEARCHES][LANES],
				  const struct tq_codebook *book, uint32_t bits, enum tq_gain gain)
{
	__m256 c[REGISTERS];
	__m256i index[REGISTERS];

	normalise(y, *norm);
	for (size_t i = 0; i < REGISTERS; i++) {
		index[i] = nearest_levels(boundary, y[i], bits);
		c[i] = levels_at(book, index[i], 1U << bits);
	}
	pack_indices(packed, index, bits);

	if (*norm != 0 && gain == TQ_GAIN_LEAST_SQUARES) {
		*norm *= dot128(y, c) / dot128(c, c);
	} else if (*norm != 0) {
		unrotate(c);
		*norm /= sqrtf(dot128(c, c));
	}
}

/* bits is a constant where this is inlined. */
ALWAYS_INLINE bool quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
				uint32_t bits, enum tq_gain gain)
{
	const struct tq_codebook *book = tq_codebook(bits);
	float boundary[TQ_SEARCHES][LANES];
	__m256 y[REGISTERS];

	tq_searches(boundary[0], LANES, book);
	if (!measure(norms, row, cols, tq_groups(cols)))
		return false;
	for (size_t g = 0; g < tq_groups(cols); g++) {
		load_group(y, row + g * TQ_GROUP, cols - g * TQ_GROUP);
		quantise_group(packed + g * tq_group_bytes(bits), &norms[g], y, boundary, book,
			       bits, gain);
	}
	return true;
}

bool avx2_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
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

void avx2_tq_normalise(float *y, float *norm, const float *x, size_t left, size_t groups)
{
	__m256 v[REGISTERS];

	(void)measure(norm, x, left, groups);
	for (size_t g = 0; g < groups; g++, y += TQ_GROUP) {
		load_group(v, x + g * TQ_GROUP, left - g * TQ_GROUP);
		normalise(v, norm[g]);
		for (size_t i = 0; i < REGISTERS; i++)
			_mm256_storeu_ps(y + i * LANES, v[i]);
	}
}

#endif
