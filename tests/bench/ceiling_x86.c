/* Ceilings with AVX2 and AVX-512.
 *
 * The loops of arithmetic have enough independent accumulators to cover an instruction's latency
 * times the number of units (two units of five cycles at most), and operands that the compiler
 * cannot know.
 */
#if defined(__x86_64__)

#include "tests/bench/ceiling.h"

#include <immintrin.h>

enum { ACCUMULATORS = 12 };

/* The value stays in a register and is unknown from here on. */
#define HIDE(x) __asm__ volatile("" : "+v"(x))
#define EACH _Pragma("GCC unroll 12") for (int i_ = 0; i_ < ACCUMULATORS; i_++)
/* One body for every unit: `step` is one multiply-accumulate on the vector a. Accumulators are
 * hidden from the first: equal ones would be computed once for all. */
#define RUN(type, zero, operations, step)           \
	type a_[ACCUMULATORS];                      \
	EACH                                        \
	{                                           \
		a_[i_] = (zero);                    \
		HIDE(a_[i_]);                       \
	}                                           \
	for (uint32_t n_ = 0; n_ < repeats; n_++) { \
		EACH                                \
		{                                   \
			type a = a_[i_];            \
			a_[i_] = (step);            \
		}                                   \
	}                                           \
	EACH HIDE(a_[i_]);                          \
	return (double)repeats * ACCUMULATORS * (operations)

/* ---- AVX2 ---- */

__attribute__((target("avx2,fma"))) static double fp32_avx2(uint32_t repeats)
{
	__m256 x = _mm256_set1_ps(.5F), y = x;
	HIDE(x);
	HIDE(y);
	RUN(__m256, _mm256_setzero_ps(), 16, _mm256_fmadd_ps(x, y, a));
}

/* Without VNNI a sum of int8 products is three instructions. */
__attribute__((target("avx2"))) static double int8_avx2(uint32_t repeats)
{
	__m256i x = _mm256_set1_epi8(3), y = x, ones = _mm256_set1_epi16(1);
	HIDE(x);
	HIDE(ones);
	/* y is hidden each time, or the product would be computed once for all */
	RUN(__m256i, _mm256_setzero_si256(), 64, (__extension__({
		    HIDE(y);
		    _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), ones));
	    })));
}

__attribute__((target("avx2"))) static uint64_t read_avx2(const uint8_t *from, size_t bytes)
{
	__m256i sum[4] = {{0}};
	for (size_t i = 0; i < bytes; i += 256)
		for (size_t j = 0; j < 8; j++)
			sum[j % 4] = _mm256_xor_si256(
				sum[j % 4], _mm256_load_si256((const void *)(from + i + 32 * j)));
	sum[0] = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]),
				  _mm256_xor_si256(sum[2], sum[3]));
	return (uint64_t)(_mm256_extract_epi64(sum[0], 0) ^ _mm256_extract_epi64(sum[0], 1) ^
			  _mm256_extract_epi64(sum[0], 2) ^ _mm256_extract_epi64(sum[0], 3));
}

/* ---- AVX-512 ---- */

__attribute__((target("avx512f"))) static double fp32_avx512(uint32_t repeats)
{
	__m512 x = _mm512_set1_ps(.5F), y = x;
	HIDE(x);
	HIDE(y);
	RUN(__m512, _mm512_setzero_ps(), 32, _mm512_fmadd_ps(x, y, a));
}

__attribute__((target("avx512f,avx512vnni"))) static double int8_vnni(uint32_t repeats)
{
	__m512i x = _mm512_set1_epi8(3), y = x;
	HIDE(x);
	HIDE(y);
	RUN(__m512i, _mm512_setzero_si512(), 128, _mm512_dpbusd_epi32(a, x, y));
}

__attribute__((target("avx512f,avx512bf16"))) static double bf16_avx512(uint32_t repeats)
{
	__m512 half = _mm512_set1_ps(.5F);
	HIDE(half);
	__m512bh x = _mm512_cvtne2ps_pbh(half, half);
	RUN(__m512, _mm512_setzero_ps(), 64, _mm512_dpbf16_ps(a, x, x));
}

__attribute__((target("avx512f"))) static uint64_t read_avx512(const uint8_t *from, size_t bytes)
{
	__m512i sum[4] = {{0}};
	for (size_t i = 0; i < bytes; i += 512)
		for (size_t j = 0; j < 8; j++)
			sum[j % 4] = _mm512_xor_si512(
				sum[j % 4], _mm512_load_si512((const void *)(from + i + 64 * j)));
	return (uint64_t)_mm512_reduce_add_epi64(_mm512_xor_si512(
		_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3])));
}

/* ---- which of them there are ---- */

static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f");
}
static bool has_vnni(void)
{
	return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
static bool has_bf16(void)
{
	return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

const struct ceiling_reader ceiling_x86_readers[] = {
	{"64-byte loads", has_avx512, read_avx512},
	{"32-byte loads", has_avx2, read_avx2},
	{NULL, NULL, NULL},
};
const struct ceiling_unit ceiling_x86_units[] = {
	{PEAK_INT8, "vpdpbusd, 64 bytes", has_vnni, int8_vnni},
	{PEAK_INT8, "vpmaddubsw, 32 bytes", has_avx2, int8_avx2},
	{PEAK_BF16, "vdpbf16ps, 64 bytes", has_bf16, bf16_avx512},
	{PEAK_FP32, "vfmadd, 64 bytes", has_avx512, fp32_avx512},
	{PEAK_FP32, "vfmadd, 32 bytes", has_avx2, fp32_avx2},
	{PEAK_COUNT, NULL, NULL, NULL},
};

#else
typedef int ceiling_has_no_x86; /* ISO C wants something in every file */
#endif
