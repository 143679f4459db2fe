/* AVX-512 versions of what is done to a TQ group of weights before it is stored: its norm, the
 * rotation, and for TQ itself the quantisation.
 *
 * A group is 8 registers, element i in lane i mod 16 of register i / 16, from its first load to its
 * last store. Each lane does the very operations of tq.c in the same order, so every bit agrees.
 */
#if defined(__x86_64__)

#include "kernels/avx512_lanes.h"
#include "kernels/tq_tables.h"

enum { REGISTERS = TQ_GROUP / LANES };

/* Up to 128 of the `left` floats at x; the rest of the group is zero. */
ALWAYS_INLINE void load_group(__m512 y[REGISTERS], const float *x, size_t left)
{
	for (size_t i = 0; i < REGISTERS; i++) {
		const size_t begin = i * LANES;
		y[i] = left > begin ? lanes_load(x + begin, left - begin) : _mm512_setzero_ps();
	}
}

/* In tq.c's order of 8 lanes: a register is two steps. */
ALWAYS_INLINE float dot128(const __m512 a[REGISTERS], const __m512 b[REGISTERS])
{
	__m256 sums = _mm256_setzero_ps();
	float lane[8], sum = 0;

	for (size_t i = 0; i < REGISTERS; i++) {
		const __m512 product = _mm512_mul_ps(a[i], b[i]);
		sums = _mm256_add_ps(sums, _mm512_castps512_ps256(product));
		sums = _mm256_add_ps(sums, _mm512_extractf32x8_ps(product, 1));
	}
	_mm256_storeu_ps(lane, sums);
	for (size_t l = 0; l < 8; l++)
		sum += lane[l];
	return sum;
}

/* ---- rotation ---- */

/* The butterfly of two lanes: lane l gets swapped + own in the lower place, swapped - own in the
 * upper, where `upper` holds the sign bit. */
ALWAYS_INLINE __m512 butterfly(__m512 own, __m512 swapped, __m512 upper)
{
	return _mm512_add_ps(swapped, _mm512_xor_ps(own, upper));
}

/* The sign bit in every second lane, every second pair, four, eight. */
ALWAYS_INLINE __m512 upper_lanes(__mmask16 upper)
{
	return _mm512_maskz_mov_ps(upper, _mm512_set1_ps(-0.0F));
}

/* Without the division. */
ALWAYS_INLINE void walsh_hadamard(__m512 y[REGISTERS])
{
	const __m512 upper1 = upper_lanes(0xaaaa), upper2 = upper_lanes(0xcccc);
	const __m512 upper4 = upper_lanes(0xf0f0), upper8 = upper_lanes(0xff00);

	for (size_t i = 0; i < REGISTERS; i++) {
		__m512 v = y[i];
		v = butterfly(v, _mm512_permute_ps(v, 0xb1), upper1);
		v = butterfly(v, _mm512_permute_ps(v, 0x4e), upper2);
		v = butterfly(v, _mm512_shuffle_f32x4(v, v, 0xb1), upper4);
		y[i] = butterfly(v, _mm512_shuffle_f32x4(v, v, 0x4e), upper8);
	}
#pragma GCC unroll 3
	for (size_t h = 1; h < REGISTERS; h *= 2) {
#pragma GCC unroll 4
		for (size_t start = 0; start < REGISTERS; start += 2 * h) {
#pragma GCC unroll 4
			for (size_t i = start; i < start + h; i++) {
				const __m512 a = y[i], b = y[i + h];
				y[i] = _mm512_add_ps(a, b);
				y[i + h] = _mm512_sub_ps(a, b);
			}
		}
	}
}

ALWAYS_INLINE void multiply_signs(__m512 y[REGISTERS], const float signs[TQ_GROUP])
{
	const __m512 sign = _mm512_set1_ps(-0.0F);

	for (size_t i = 0; i < REGISTERS; i++)
		y[i] = _mm512_xor_ps(
			y[i], _mm512_and_ps(_mm512_loadu_ps(signs + i * LANES), sign));
}

ALWAYS_INLINE void divide(__m512 y[REGISTERS], float by)
{
	for (size_t i = 0; i < REGISTERS; i++)
		y[i] = _mm512_div_ps(y[i], _mm512_set1_ps(by));
}

/* Of all groups before the rest is done with any: a norm is a chain of additions, of which many are
 * then under way together. True if all are finite. */
ALWAYS_INLINE bool measure(float *norms, const float *x, size_t left, size_t groups)
{
	bool finite = true;

	for (size_t g = 0; g < groups; g++) {
		__m512 y[REGISTERS];
		load_group(y, x + g * TQ_GROUP, left - g * TQ_GROUP);
		norms[g] = sqrtf(dot128(y, y));
		finite &= isfinite(norms[g]) != 0;
	}
	return finite;
}

/* Divides a group by its norm, and rotates it. */
ALWAYS_INLINE void normalise(__m512 y[REGISTERS], float norm)
{
	divide(y, norm == 0 ? 1 : norm);
	multiply_signs(y, tq_signs1);
	walsh_hadamard(y);
	divide(y, TQ_SQRT_GROUP);
	multiply_signs(y, tq_signs2);
}

void avx512_tq_normalise(float *y, float *norm, const float *x, size_t left, size_t groups)
{
	__m512 v[REGISTERS];

	(void)measure(norm, x, left, groups);
	for (size_t g = 0; g < groups; g++, y += TQ_GROUP) {
		load_group(v, x + g * TQ_GROUP, left - g * TQ_GROUP);
		normalise(v, norm[g]);
		for (size_t i = 0; i < REGISTERS; i++)
			_mm512_storeu_ps(y + i * LANES, v[i]);
	}
}

/* ---- TQ ---- */

/* How many boundaries lie strictly below, a bit of it at a time. bits is a constant where this is
 * inlined, and the tables stay in registers. */
ALWAYS_INLINE __m512i nearest_levels(const float boundary[TQ_SEARCHES][LANES], __m512 y,
				     uint32_t bits)
{
	__m512i index = _mm512_setzero_si512();

#pragma GCC unroll 4
	for (uint32_t i = 0; i < bits; i++) {
		const __m512 between = _mm512_permutexvar_ps(index, _mm512_loadu_ps(boundary[i]));
		const __mmask16 below = _mm512_cmp_ps_mask(between, y, _CMP_LT_OQ);
		index = _mm512_add_epi32(index, index);
		index = _mm512_mask_add_epi32(index, below, index, _mm512_set1_epi32(1));
	}
	return index;
}

ALWAYS_INLINE __m512i or512(__m512i a, __m512i b)
{
	return _mm512_or_si512(a, b);
}

/* The dwords of four registers' lanes of 128 bits or-ed together: a lane has those of a, b, c, d.
 */
ALWAYS_INLINE __m512i join_four(const __m512i v[4])
{
	const __m512i ab =
		or512(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
	const __m512i cd =
		or512(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));

	return or512(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* Units one after the other as dwords, whose lower bytes they are; in place of a store of each
 * index and a loop over them. */
ALWAYS_INLINE __m512i join_units(const __m512i index[REGISTERS], uint32_t bits)
{
	const __m512i place = _mm512_mullo_epi32(
		_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7),
		_mm512_set1_epi32((int)bits));
	__m512i placed[REGISTERS];

	for (size_t i = 0; i < REGISTERS; i++)
		placed[i] = _mm512_sllv_epi32(index[i], place);
	const __m512i low = join_four(placed), high = join_four(placed + 4);
	const __m512i mixed =
		or512(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xdd));
	return _mm512_permutexvar_epi32(
		_mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), mixed);
}

ALWAYS_INLINE void store_units(uint8_t *packed, __m512i units, uint32_t bits)
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

/* The norms are those that are stored, of the groups' own. */
ALWAYS_INLINE void quantise_group(uint8_t *packed, float *norm, __m512 y[REGISTERS],
				  const float boundary[TQ_SEARCHES][LANES], __m512 levels,
				  uint32_t bits)
{
	__m512i index[REGISTERS];
	__m512 c[REGISTERS];

	normalise(y, *norm);
	for (size_t i = 0; i < REGISTERS; i++) {
		index[i] = nearest_levels(boundary, y[i], bits);
		c[i] = _mm512_permutexvar_ps(index[i], levels);
	}
	store_units(packed, join_units(index, bits), bits);
	*norm = *norm == 0 ? 0 : *norm * (dot128(y, c) / dot128(c, c));
}

ALWAYS_INLINE bool quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
				uint32_t bits)
{
	const struct tq_codebook *book = tq_codebook(bits);
	const __m512 levels = _mm512_loadu_ps(book->level);
	float boundary[TQ_SEARCHES][LANES];
	__m512 y[REGISTERS];

	tq_searches(boundary[0], LANES, book);
	if (!measure(norms, row, cols, tq_groups(cols)))
		return false;
	for (size_t g = 0; g < tq_groups(cols); g++) {
		load_group(y, row + g * TQ_GROUP, cols - g * TQ_GROUP);
		quantise_group(packed + g * tq_group_bytes(bits), &norms[g], y, boundary, levels,
			       bits);
	}
	return true;
}

/* Checkpoints that others have made have their own norms, which few ask for. */
bool avx512_tq_quantise_row(uint8_t *packed, float *norms, const float *row, uint32_t cols,
			    uint32_t bits, enum tq_gain gain)
{
	if (gain == TQ_GAIN_NORM)
		return avx2_tq_quantise_row(packed, norms, row, cols, bits, gain);
	switch (bits) {
	case 2:
		return quantise_row(packed, norms, row, cols, 2);
	case 3:
		return quantise_row(packed, norms, row, cols, 3);
	default:
		return quantise_row(packed, norms, row, cols, 4);
	}
}

#endif
