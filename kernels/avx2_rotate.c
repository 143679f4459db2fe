/* The AVX2 table's part of the rotation of a TQ group, its 8-bit inputs and its quantisation; the
 * rest is in rotate_lanes.h. A group is 16 registers.
 */
#if defined(__x86_64__)

#include "kernels/avx2_lanes.h"
#include "kernels/tq.h"

enum { ROTATE_REGISTERS = TQ_GROUP / LANES };
typedef __m256i rotate_index;

#define rotate_signs(v, signs) lanes_mul(v, lanes_load(signs, LANES))

/* The rotate_butterfly of two lanes: lane l gets swapped + own in the lower place, swapped - own in
 * the upper, where `upper` holds the sign bit. */
ALWAYS_INLINE __m256 rotate_butterfly(__m256 own, __m256 swapped, __m256 upper)
{
	return _mm256_add_ps(swapped, _mm256_xor_ps(own, upper));
}

/* The rotate_butterflies of two distances over four registers. */
ALWAYS_INLINE void rotate_butterflies(__m256 *y, size_t h)
{
	const __m256 a = _mm256_add_ps(y[0], y[h]), b = _mm256_sub_ps(y[0], y[h]);
	const __m256 c = _mm256_add_ps(y[2 * h], y[3 * h]), d = _mm256_sub_ps(y[2 * h], y[3 * h]);

	y[0] = _mm256_add_ps(a, c);
	y[h] = _mm256_add_ps(b, d);
	y[2 * h] = _mm256_sub_ps(a, c);
	y[3 * h] = _mm256_sub_ps(b, d);
}

/* Without the division. Two distances at a time: a group fills all 16 registers. */
ALWAYS_INLINE void rotate_walsh_hadamard(__m256 y[ROTATE_REGISTERS])
{
	const __m256 upper1 = _mm256_setr_ps(0, -0.0F, 0, -0.0F, 0, -0.0F, 0, -0.0F);
	const __m256 upper2 = _mm256_setr_ps(0, 0, -0.0F, -0.0F, 0, 0, -0.0F, -0.0F);
	const __m256 upper4 = _mm256_setr_ps(0, 0, 0, 0, -0.0F, -0.0F, -0.0F, -0.0F);

	for (size_t i = 0; i < ROTATE_REGISTERS; i++) {
		__m256 v = y[i];
		v = rotate_butterfly(v, _mm256_permute_ps(v, 0xb1), upper1);
		v = rotate_butterfly(v, _mm256_permute_ps(v, 0x4e), upper2);
		y[i] = rotate_butterfly(v, _mm256_permute2f128_ps(v, v, 0x01), upper4);
	}
	for (size_t i = 0; i < ROTATE_REGISTERS; i += 4)
		rotate_butterflies(y + i, 1);
	for (size_t i = 0; i < 4; i++)
		rotate_butterflies(y + i, 4);
}

/* ---- inputs in 8 bits ---- */

ALWAYS_INLINE float rotate_largest(const __m256 y[ROTATE_REGISTERS])
{
	const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
	__m256i m8 = _mm256_setzero_si256();

	for (size_t i = 0; i < ROTATE_REGISTERS; i++)
		m8 = _mm256_max_epi32(m8, _mm256_and_si256(_mm256_castps_si256(y[i]), magnitude));
	__m128i m = _mm_max_epi32(_mm256_castsi256_si128(m8), _mm256_extracti128_si256(m8, 1));
	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
	return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

/* 32 integers as bytes. The pack instructions work within halves, so the order is columns 0 … 3 of
 * a, b, c and d, then 4 … 7 of each. */
ALWAYS_INLINE __m256i rotate_pack_fours(__m256i a, __m256i b, __m256i c, __m256i d)
{
	return _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

/* From rotate_pack_fours, in order. */
ALWAYS_INLINE __m256i rotate_in_order(__m256i fours)
{
	return _mm256_permutevar8x32_epi32(fours, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* From rotate_pack_fours, in tq_prepare's order: column 0 of each unit, column 1 of each … */
ALWAYS_INLINE __m256i rotate_units_side_by_side(__m256i fours)
{
	return _mm256_shuffle_epi8(
		fours, _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, //
					0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}

ALWAYS_INLINE __m256i rotate_round(__m256 y, __m256 divisor)
{
	return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_div_ps(y, divisor), _mm256_set1_ps(127)));
}

#define rotate_store_slab rotate_store_slab
ALWAYS_INLINE void rotate_store_slab(int8_t *q, const __m256 y[4], __m256 divisor)
{
	const __m256i slab =
		rotate_pack_fours(rotate_round(y[0], divisor), rotate_round(y[1], divisor),
				  rotate_round(y[2], divisor), rotate_round(y[3], divisor));
	_mm256_storeu_si256((__m256i *)(void *)q, rotate_units_side_by_side(slab));
}

/* ---- quantisation ---- */

ALWAYS_INLINE float rotate_dot(const __m256 a[ROTATE_REGISTERS], const __m256 b[ROTATE_REGISTERS])
{
	__m256 sums = _mm256_setzero_ps();
	float lane[LANES], sum = 0;

	for (size_t i = 0; i < ROTATE_REGISTERS; i++)
		sums = _mm256_add_ps(sums, _mm256_mul_ps(a[i], b[i]));
	_mm256_storeu_ps(lane, sums);
	for (size_t l = 0; l < LANES; l++)
		sum += lane[l];
	return sum;
}

/* Constants for quantising with one codebook. */
struct rotate_search {
	float boundary[TQ_SEARCHES][LANES];
	const float *level;
};

static void rotate_search_begin(struct rotate_search *search, const struct tq_codebook *book)
{
	tq_searches(search->boundary[0], LANES, book);
	search->level = book->level;
}

/* The number of boundaries strictly below, found bit by bit: a true comparison is -1. bits is a
 * constant where this is inlined. */
ALWAYS_INLINE __m256i rotate_nearest(const struct rotate_search *search, __m256 y, uint32_t bits)
{
	__m256i index = _mm256_setzero_si256();

#pragma GCC unroll 4
	for (uint32_t i = 0; i < bits; i++) {
		const __m256 between =
			_mm256_permutevar8x32_ps(_mm256_loadu_ps(search->boundary[i]), index);
		const __m256 below = _mm256_cmp_ps(between, y, _CMP_LT_OQ);
		index = _mm256_add_epi32(index, index);
		index = _mm256_sub_epi32(index, _mm256_castps_si256(below));
	}
	return index;
}

/* level[index]; a permutation looks at the low three bits of an index. */
ALWAYS_INLINE __m256 rotate_levels(const struct rotate_search *search, __m256i index, uint32_t bits)
{
	const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(search->level), index);
	if (bits < 4)
		return low;
	const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(search->level + 8), index);
	const __m256i upper = _mm256_cmpgt_epi32(index, _mm256_set1_epi32(7));
	return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(upper));
}

/* The indices of four units, to units one after the other in the lower bytes of halves of 128 bits:
 * pairs of indices, pairs of those, and pairs of those. */
ALWAYS_INLINE __m256i rotate_join_units(__m256i bytes, uint32_t bits)
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

ALWAYS_INLINE void rotate_pack(uint8_t *packed, const __m256i index[ROTATE_REGISTERS],
			       uint32_t bits)
{
	uint8_t units[TQ_GROUP]; /* and room behind the last */

	for (size_t i = 0; i < ROTATE_REGISTERS; i += 4) {
		const __m256i bytes = rotate_in_order(
			rotate_pack_fours(index[i], index[i + 1], index[i + 2], index[i + 3]));
		const __m256i joined = rotate_join_units(bytes, bits);
		uint8_t *const at = units + i * bits;
		_mm_storeu_si128((__m128i *)(void *)at, _mm256_castsi256_si128(joined));
		_mm_storeu_si128((__m128i *)(void *)(at + 2 * bits),
				 _mm256_extracti128_si256(joined, 1));
	}
	memcpy(packed, units, tq_group_bytes(bits));
}

#include "kernels/rotate_lanes.h"
#include "kernels/trellis_lanes.h"
#include "kernels/tc_errors_lanes.h"

bool avx2_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			  uint32_t bits, enum tq_gain gain)
{
	return rotate_quantise(packed, norms, row, cols, bits, gain);
}

#endif
