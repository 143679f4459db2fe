/* The AVX2 table's products of float matrices (the shape of a block of sums, for multiply_lanes.h)
 * and of matrices of blocks (dots, for block_lanes.h), and the 8-bit form of the inputs of blocks.
 *
 * vpmaddubsw sums two products in 16 bits. With small codes several such sums fit in 16 bits, so
 * they are widened once. Signed codes are multiplied by their magnitudes, by inputs that have taken
 * their signs: two products are then at most 2 · 128 · 127, which fits. With one token the signs go
 * the other way, since several codes meet the same inputs. */
#if defined(__x86_64__)

#include "kernels/avx2_lanes.h"

/* 12 registers for sums, 2 for weights, 1 for inputs. 6144 bytes are 96 cache lines. */
enum { MULTIPLY_ROWS = 2, MULTIPLY_TOKENS = 3, MULTIPLY_AHEAD = 6144 };
#define multiply_rows(tokens) MULTIPLY_ROWS
#define MULTIPLY_CASES(CASE) CASES_TO_3(CASE)

#include "kernels/multiply_lanes.h"

/* ---- blocks ---- */

enum { BLOCK_WIDE_OFFSET = 0, AVX2_SIGNED_CODES = 128 };

/* Four bytes of an input, in all lanes. */
ALWAYS_INLINE __m256i avx2_load_four(const int8_t *q)
{
	int32_t four;
	memcpy(&four, q, sizeof four);
	return _mm256_set1_epi32(four);
}

ALWAYS_INLINE __m256i avx2_products(__m256i code, __m256i x, int most)
{
	if (most < INT8_MAX)
		return _mm256_maddubs_epi16(code, x);
	if (most < AVX2_SIGNED_CODES)
		return _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(code, x));
	return _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(x, code));
}

ALWAYS_INLINE void avx2_block_dot(__m256i sum[], __m256i code[][WORDS], size_t from,
				  const int8_t *q, size_t count, int most, size_t joint)
{
	const size_t fit = (size_t)(INT16_MAX / (2 * most * INT8_MAX));

	for (size_t j = 0; j < joint; j++)
		for (size_t k = 0; k < count; k += fit) {
			const __m256i *c = code[j] + from + k;
			__m256i pairs = avx2_products(c[0], avx2_load_four(q + 4 * k), most);
			for (size_t i = 1; i < fit && k + i < count; i++)
				pairs = _mm256_add_epi16(
					pairs,
					avx2_products(c[i], avx2_load_four(q + 4 * (k + i)), most));
			sum[j] = _mm256_add_epi32(sum[j],
						  _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
		}
}

#define block_dot avx2_block_dot
#include "kernels/block_lanes.h"

/* ---- inputs ---- */

/* The largest magnitude as an integer: in this order infinities and NaNs come last. */
ALWAYS_INLINE int32_t avx2_largest_bits(const __m256 v[4])
{
	const __m256i magnitude = _mm256_set1_epi32(INT32_MAX);
	__m256i most = _mm256_setzero_si256();

	for (size_t i = 0; i < 4; i++)
		most = _mm256_max_epi32(most,
					_mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
	__m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
	m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
	return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

/* 32 whole numbers, in order, as bytes. */
ALWAYS_INLINE __m256i avx2_to_bytes(const __m256i v[4])
{
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	const __m256i all =
		_mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
	return _mm256_permutevar8x32_epi32(all, order);
}

/* The sums of each 16 bytes. */
ALWAYS_INLINE void avx2_sum_halves(int16_t sum[HALVES], __m256i bytes)
{
	const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
	__m256i s = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));

	s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
	s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1));
	sum[0] = (int16_t)_mm256_extract_epi32(s, 0);
	sum[1] = (int16_t)_mm256_extract_epi32(s, 4);
}

void avx2_block_prepare(int8_t *q, float *scale, int16_t *sum, const float *x, uint32_t k)
{
	enum { INFINITE = 0x7f800000 };

	for (size_t b = 0; b < k / BLOCK; b++, x += BLOCK, q += BLOCK, sum += HALVES) {
		__m256 v[4];
		__m256i rounded[4];
		for (size_t i = 0; i < 4; i++)
			v[i] = _mm256_loadu_ps(x + i * LANES);
		const int32_t bits = avx2_largest_bits(v);
		const bool finite = bits < INFINITE;
		float max;
		memcpy(&max, &bits, sizeof max);
		const __m256 divisor = _mm256_set1_ps(max == 0 ? 1 : max);
		for (size_t i = 0; i < 4; i++) {
			const __m256 part =
				_mm256_mul_ps(_mm256_div_ps(v[i], divisor), _mm256_set1_ps(127));
			rounded[i] = finite ? _mm256_cvtps_epi32(part) : _mm256_setzero_si256();
		}
		const __m256i bytes = avx2_to_bytes(rounded);
		_mm256_storeu_si256((__m256i *)(void *)q, bytes);
		avx2_sum_halves(sum, bytes);
		scale[b] = finite ? max / 127 : NAN;
	}
}

#endif
