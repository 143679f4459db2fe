/* The AVX-512 tables' part of the rotation of a TQ group and of its quantisation; the rest is in
 * rotate_lanes.h. A group is 8 registers. Inputs become 8 bits by AVX2's function.
 */
#if defined(__x86_64__)

#include "kernels/avx512_lanes.h"
#include "kernels/tq.h"

enum { ROTATE_REGISTERS = TQ_GROUP / LANES };
typedef __m512i rotate_index;

#define rotate_signs(v, signs) \
	_mm512_xor_ps(v, _mm512_and_ps(lanes_load(signs, LANES), _mm512_set1_ps(-0.0F)))

/* The rotate_butterfly of two lanes: lane l gets swapped + own in the lower place, swapped - own in
 * the upper, where `upper` holds the sign bit. */
ALWAYS_INLINE __m512 rotate_butterfly(__m512 own, __m512 swapped, __m512 upper)
{
	return _mm512_add_ps(swapped, _mm512_xor_ps(own, upper));
}

/* The sign bit in every second lane, every second pair, four, eight. */
ALWAYS_INLINE __m512 rotate_upper(__mmask16 upper)
{
	return _mm512_maskz_mov_ps(upper, _mm512_set1_ps(-0.0F));
}

/* Without the division. */
ALWAYS_INLINE void rotate_walsh_hadamard(__m512 y[ROTATE_REGISTERS])
{
	const __m512 upper1 = rotate_upper(0xaaaa), upper2 = rotate_upper(0xcccc);
	const __m512 upper4 = rotate_upper(0xf0f0), upper8 = rotate_upper(0xff00);

	for (size_t i = 0; i < ROTATE_REGISTERS; i++) {
		__m512 v = y[i];
		v = rotate_butterfly(v, _mm512_permute_ps(v, 0xb1), upper1);
		v = rotate_butterfly(v, _mm512_permute_ps(v, 0x4e), upper2);
		v = rotate_butterfly(v, _mm512_shuffle_f32x4(v, v, 0xb1), upper4);
		y[i] = rotate_butterfly(v, _mm512_shuffle_f32x4(v, v, 0x4e), upper8);
	}
#pragma GCC unroll 3
	for (size_t h = 1; h < ROTATE_REGISTERS; h *= 2) {
#pragma GCC unroll 4
		for (size_t start = 0; start < ROTATE_REGISTERS; start += 2 * h) {
#pragma GCC unroll 4
			for (size_t i = start; i < start + h; i++) {
				const __m512 a = y[i], b = y[i + h];
				y[i] = _mm512_add_ps(a, b);
				y[i + h] = _mm512_sub_ps(a, b);
			}
		}
	}
}

/* In tq.c's order of 8 lanes: a register is two steps. */
ALWAYS_INLINE float rotate_dot(const __m512 a[ROTATE_REGISTERS], const __m512 b[ROTATE_REGISTERS])
{
	__m256 sums = _mm256_setzero_ps();
	float lane[8], sum = 0;

	for (size_t i = 0; i < ROTATE_REGISTERS; i++) {
		const __m512 product = _mm512_mul_ps(a[i], b[i]);
		sums = _mm256_add_ps(sums, _mm512_castps512_ps256(product));
		sums = _mm256_add_ps(sums, _mm512_extractf32x8_ps(product, 1));
	}
	_mm256_storeu_ps(lane, sums);
	for (size_t l = 0; l < 8; l++)
		sum += lane[l];
	return sum;
}

/* ---- quantisation ---- */

/* Constants for quantising with one codebook. */
struct rotate_search {
	float boundary[TQ_SEARCHES][LANES], level[16];
};

static void rotate_search_begin(struct rotate_search *search, const struct tq_codebook *book)
{
	tq_searches(search->boundary[0], LANES, book);
	memcpy(search->level, book->level, sizeof search->level);
}

/* The number of boundaries strictly below, found bit by bit. bits is a constant where this is
 * inlined, and the tables stay in registers. */
ALWAYS_INLINE __m512i rotate_nearest(const struct rotate_search *search, __m512 y, uint32_t bits)
{
	__m512i index = _mm512_setzero_si512();

#pragma GCC unroll 4
	for (uint32_t i = 0; i < bits; i++) {
		const __m512 between =
			_mm512_permutexvar_ps(index, _mm512_loadu_ps(search->boundary[i]));
		const __mmask16 below = _mm512_cmp_ps_mask(between, y, _CMP_LT_OQ);
		index = _mm512_add_epi32(index, index);
		index = _mm512_mask_add_epi32(index, below, index, _mm512_set1_epi32(1));
	}
	return index;
}

ALWAYS_INLINE __m512i rotate_or(__m512i a, __m512i b)
{
	return _mm512_or_si512(a, b);
}

/* The dwords of four registers' lanes of 128 bits or-ed together: a lane has those of a, b, c, d.
 */
ALWAYS_INLINE __m512i rotate_join_four(const __m512i v[4])
{
	const __m512i ab =
		rotate_or(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
	const __m512i cd =
		rotate_or(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));

	return rotate_or(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* Each unit becomes the lower bytes of a dword: this replaces storing each index and looping over
 * them. */
ALWAYS_INLINE __m512i rotate_join_units(const __m512i index[ROTATE_REGISTERS], uint32_t bits)
{
	const __m512i place = _mm512_mullo_epi32(
		_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7),
		_mm512_set1_epi32((int)bits));
	__m512i placed[ROTATE_REGISTERS];

	for (size_t i = 0; i < ROTATE_REGISTERS; i++)
		placed[i] = _mm512_sllv_epi32(index[i], place);
	const __m512i low = rotate_join_four(placed), high = rotate_join_four(placed + 4);
	const __m512i mixed = rotate_or(_mm512_shuffle_i32x4(low, high, 0x88),
					_mm512_shuffle_i32x4(low, high, 0xdd));
	return _mm512_permutexvar_epi32(
		_mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), mixed);
}

ALWAYS_INLINE void rotate_store_units(uint8_t *packed, __m512i units, uint32_t bits)
{
	if (bits == 2) {
		_mm256_storeu_si256((__m256i *)(void *)packed, _mm512_cvtepi32_epi16(units));
	} else if (bits == 3) {
		const __m512i bytes = _mm512_shuffle_epi8(
			units, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12,
								    13, 14, -1, -1, -1, -1)));
		const __m512i dwords =
			_mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0, 0, 0, 0);
		_mm512_mask_storeu_epi32(packed, 0x0fff, _mm512_permutexvar_epi32(dwords, bytes));
	} else {
		_mm512_storeu_si512(packed, units);
	}
}

#define rotate_levels(search, index, bits) \
	_mm512_permutexvar_ps(index, _mm512_loadu_ps((search)->level))
#define rotate_pack(packed, index, bits) \
	rotate_store_units(packed, rotate_join_units(index, bits), bits)

#include "kernels/rotate_lanes.h"
#include "kernels/trellis_lanes.h"
#include "kernels/tc_errors_lanes.h"

/* Rarely used: norms as checkpoints made by other tools store them. */
bool avx512_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			    uint32_t bits, enum tq_gain gain)
{
	if (gain == TQ_GAIN_NORM)
		return avx2_tq_quantise_row(packed, norms, row, cols, bits, gain);
	return rotate_quantise(packed, norms, row, cols, bits, TQ_GAIN_LEAST_SQUARES);
}

#endif
