/* The AVX-512 tables. Their functions on vectors of floats and their delta net are written in
 * vector_lanes.h and delta_lanes.h; products, rotation, attention and the encoder of TC have files
 * of their own, avx512_*.c.
 *
 * The tables differ in the products of TQ, TC and blocks: avx512_*.c use F, BW, VL and DQ;
 * avx512vnni_*.c also need VNNI and VBMI, avx512amx_*.c also AMX. Inputs become 8 bits by AVX2's functions: most of their
 * time is divisions, which wider registers do not speed up. */
#if defined(__x86_64__)

#include "kernels/avx512_lanes.h"
#include "kernels/vector_lanes.h"
#include "kernels/sums_lanes.h"

enum { DELTA_TILE_REGISTERS = 2, DELTA_ADD_TOKENS = 4 };
#include "kernels/delta_lanes.h"

/* ---- blocks into memory ---- */

/* Each quarter of a register holds the rows four farther: instructions that interleave words work
 * within quarters. */
typedef uint32_t arrange_words __attribute__((vector_size(64)));

ALWAYS_INLINE __m128i avx512_load_16(const uint8_t *at)
{
	return _mm_loadu_si128((const __m128i *)(const void *)at);
}
ALWAYS_INLINE __m128i avx512_load_8(const uint8_t *at)
{
	return _mm_loadl_epi64((const __m128i *)(const void *)at);
}
ALWAYS_INLINE __m512i avx512_join(__m128i a, __m128i b, __m128i c, __m128i d)
{
	const __m512i first = _mm512_inserti32x4(_mm512_castsi128_si512(a), b, 1);
	return _mm512_inserti32x4(_mm512_inserti32x4(first, c, 2), d, 3);
}
ALWAYS_INLINE __m512i avx512_load_rows(const uint8_t *at, size_t stride)
{
	return avx512_join(avx512_load_16(at), avx512_load_16(at + 4 * stride),
			   avx512_load_16(at + 8 * stride), avx512_load_16(at + 12 * stride));
}
ALWAYS_INLINE __m512i avx512_load_short_rows(const uint8_t *at, size_t stride)
{
	return avx512_join(avx512_load_8(at), avx512_load_8(at + 4 * stride),
			   avx512_load_8(at + 8 * stride), avx512_load_8(at + 12 * stride));
}

#define ARRANGE_X86
typedef __m512i arrange_registers;
#define ARRANGE_ZIP_LOW_WORDS _mm512_unpacklo_epi32
#define ARRANGE_ZIP_HIGH_WORDS _mm512_unpackhi_epi32
#define ARRANGE_ZIP_LOW_PAIRS _mm512_unpacklo_epi64
#define ARRANGE_ZIP_HIGH_PAIRS _mm512_unpackhi_epi64
#define ARRANGE_SHUFFLE_BYTES _mm512_shuffle_epi8
#define ARRANGE_EACH_LANE _mm512_broadcast_i32x4

ALWAYS_INLINE void avx512_put_halves(uint8_t *to, arrange_words v)
{
	_mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16((__m512i)v));
}

ALWAYS_INLINE void avx512_put_bytes(uint8_t *to, size_t step, arrange_words v)
{
	const __m512i order = _mm512_broadcast_i32x4(
		_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	const __m512i quarters =
		_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	const __m512i four =
		_mm512_permutexvar_epi32(quarters, _mm512_shuffle_epi8((__m512i)v, order));

	_mm_storeu_si128((__m128i *)(void *)to, _mm512_castsi512_si128(four));
	_mm_storeu_si128((__m128i *)(void *)(to + step), _mm512_extracti32x4_epi32(four, 1));
	_mm_storeu_si128((__m128i *)(void *)(to + 2 * step), _mm512_extracti32x4_epi32(four, 2));
	_mm_storeu_si128((__m128i *)(void *)(to + 3 * step), _mm512_extracti32x4_epi32(four, 3));
}

#define arrange_row_words avx512_load_rows
#define arrange_short_row_words avx512_load_short_rows
#define arrange_put_halves avx512_put_halves
#define arrange_put_bytes avx512_put_bytes
#include "kernels/arrange_lanes.h"

/* ---- the table ---- */

/* Of all tables. */
#define SHARED_FUNCTIONS                                                                      \
	.block_prepare = avx2_block_prepare, .tq_prepare = avx2_tq_prepare,                   \
	.tq_quantise_row = TABLE(tq_quantise_row), .tc_quantise_row = TABLE(tc_quantise_row), \
	.tc_encode = TABLE(tc_encode), .tc_choose = TABLE(tc_choose),                         \
	.tc_improve = TABLE(tc_improve), .add_products = sums_add_products,                   \
	.delta_steps = delta_steps, .arrange = &arrange_blocks, VECTOR_FUNCTIONS

const struct kernels kernels_avx512 = {
	.name = "avx512",
	.multiply = {[FORMAT_F32] = avx512_multiply_f32,
		     [FORMAT_F16] = avx512_multiply_f16,
		     [FORMAT_BF16] = avx512_multiply_bf16,
		     [FORMAT_TQ2] = avx512_multiply_tq2,
		     [FORMAT_TQ3] = avx512_multiply_tq3,
		     [FORMAT_TQ4] = avx512_multiply_tq4,
		     [FORMAT_TC2] = avx512_multiply_tc2,
		     [FORMAT_TC3] = avx512_multiply_tc3,
		     [FORMAT_TC4] = avx512_multiply_tc4,
#define ENTRY(name, format) [format] = avx512_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	SHARED_FUNCTIONS,
	ATTENTION_FUNCTIONS(avx512),
};

const struct kernels kernels_avx512vnni = {
	.name = "avx512vnni",
	.multiply = {[FORMAT_F32] = avx512_multiply_f32,
		     [FORMAT_F16] = avx512_multiply_f16,
		     [FORMAT_BF16] = avx512_multiply_bf16,
		     [FORMAT_TQ2] = avx512vnni_multiply_tq2,
		     [FORMAT_TQ3] = avx512vnni_multiply_tq3,
		     [FORMAT_TQ4] = avx512vnni_multiply_tq4,
		     [FORMAT_TC2] = avx512vnni_multiply_tc2,
		     [FORMAT_TC3] = avx512vnni_multiply_tc3,
		     [FORMAT_TC4] = avx512vnni_multiply_tc4,
#define ENTRY(name, format) [format] = avx512vnni_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	SHARED_FUNCTIONS,
	ATTENTION_FUNCTIONS(avx512vnni),
};

const struct kernels kernels_avx512amx = {
	.name = "avx512amx",
	.multiply = {[FORMAT_F32] = avx512_multiply_f32,
		     [FORMAT_F16] = avx512_multiply_f16,
		     [FORMAT_BF16] = avx512_multiply_bf16,
		     [FORMAT_TQ2] = avx512amx_multiply_tq2,
		     [FORMAT_TQ3] = avx512amx_multiply_tq3,
		     [FORMAT_TQ4] = avx512amx_multiply_tq4,
		     [FORMAT_TC2] = avx512amx_multiply_tc2,
		     [FORMAT_TC3] = avx512amx_multiply_tc3,
		     [FORMAT_TC4] = avx512amx_multiply_tc4,
#define ENTRY(name, format) [format] = avx512amx_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	SHARED_FUNCTIONS,
	ATTENTION_FUNCTIONS(avx512vnni),
};

#endif
