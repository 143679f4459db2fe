/* The AVX2 table (x86-64 with AVX2, FMA and F16C). Its functions on vectors of floats and its delta
 * net are written in vector_lanes.h and delta_lanes.h; products, rotation, attention and the
 * encoder of TC have files of their own, avx2_*.c.
 */
#if defined(__x86_64__)

#include "kernels/avx2_lanes.h"
#include "kernels/vector_lanes.h"
#include "kernels/sums_lanes.h"

enum { DELTA_TILE_REGISTERS = 4, DELTA_ADD_TOKENS = 2 };
#include "kernels/delta_lanes.h"

/* ---- blocks into memory ---- */

/* The upper half of a register holds the rows four farther: instructions that interleave words work
 * within halves. */
typedef uint32_t arrange_words __attribute__((vector_size(32)));

ALWAYS_INLINE __m128i avx2_load_16(const uint8_t *at)
{
	return _mm_loadu_si128((const __m128i *)(const void *)at);
}
ALWAYS_INLINE __m128i avx2_load_8(const uint8_t *at)
{
	return _mm_loadl_epi64((const __m128i *)(const void *)at);
}
ALWAYS_INLINE __m256i avx2_load_rows(const uint8_t *at, size_t stride)
{
	return _mm256_inserti128_si256(_mm256_castsi128_si256(avx2_load_16(at)),
				       avx2_load_16(at + 4 * stride), 1);
}
ALWAYS_INLINE __m256i avx2_load_short_rows(const uint8_t *at, size_t stride)
{
	return _mm256_inserti128_si256(_mm256_castsi128_si256(avx2_load_8(at)),
				       avx2_load_8(at + 4 * stride), 1);
}

#define ARRANGE_X86
typedef __m256i arrange_registers;
#define ARRANGE_ZIP_LOW_WORDS _mm256_unpacklo_epi32
#define ARRANGE_ZIP_HIGH_WORDS _mm256_unpackhi_epi32
#define ARRANGE_ZIP_LOW_PAIRS _mm256_unpacklo_epi64
#define ARRANGE_ZIP_HIGH_PAIRS _mm256_unpackhi_epi64
#define ARRANGE_SHUFFLE_BYTES _mm256_shuffle_epi8
#define ARRANGE_EACH_LANE _mm256_broadcastsi128_si256

ALWAYS_INLINE void avx2_put_halves(uint8_t *to, arrange_words v)
{
	const __m256i low = (__m256i)(v & 0xffff);
	_mm_storeu_si128((__m128i *)(void *)to, _mm_packus_epi32(_mm256_castsi256_si128(low),
								 _mm256_extracti128_si256(low, 1)));
}

ALWAYS_INLINE void avx2_put_bytes(uint8_t *to, size_t step, arrange_words v)
{
	const __m256i order = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	const __m256i four = _mm256_shuffle_epi8((__m256i)v, order);
	const __m128i a = _mm256_castsi256_si128(four), b = _mm256_extracti128_si256(four, 1);
	const __m128i first = _mm_unpacklo_epi32(a, b), last = _mm_unpackhi_epi32(a, b);

	_mm_storel_epi64((__m128i *)(void *)to, first);
	_mm_storeh_pd((double *)(void *)(to + step), _mm_castsi128_pd(first));
	_mm_storel_epi64((__m128i *)(void *)(to + 2 * step), last);
	_mm_storeh_pd((double *)(void *)(to + 3 * step), _mm_castsi128_pd(last));
}

#define arrange_row_words avx2_load_rows
#define arrange_short_row_words avx2_load_short_rows
#define arrange_put_halves avx2_put_halves
#define arrange_put_bytes avx2_put_bytes
#include "kernels/arrange_lanes.h"

/* ---- the table ---- */

#define SHARED_FUNCTIONS                                                                      \
	.block_prepare = avx2_block_prepare, .tq_prepare = avx2_tq_prepare,                   \
	.tq_quantise_row = TABLE(tq_quantise_row), .tc_quantise_row = TABLE(tc_quantise_row), \
	.tc_encode = TABLE(tc_encode), .tc_choose = TABLE(tc_choose),                         \
	.tc_improve = TABLE(tc_improve), .add_products = sums_add_products,                   \
	.delta_steps = delta_steps, .arrange = &arrange_blocks, VECTOR_FUNCTIONS

const struct kernels kernels_avx2 = {
	.name = "avx2",
	.multiply = {[FORMAT_F32] = avx2_multiply_f32,
		     [FORMAT_F16] = avx2_multiply_f16,
		     [FORMAT_BF16] = avx2_multiply_bf16,
		     [FORMAT_TQ2] = avx2_multiply_tq2,
		     [FORMAT_TQ3] = avx2_multiply_tq3,
		     [FORMAT_TQ4] = avx2_multiply_tq4,
		     [FORMAT_TC2] = avx2_multiply_tc2,
		     [FORMAT_TC3] = avx2_multiply_tc3,
		     [FORMAT_TC4] = avx2_multiply_tc4,
#define ENTRY(name, format) [format] = avx2_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	SHARED_FUNCTIONS,
	ATTENTION_FUNCTIONS(avx2),
};

#endif
