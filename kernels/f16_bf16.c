/* Conversions between 32-bit floats and those of 16 bits. */
#include "kernels/format.h"

#include <string.h>

static uint32_t f16_float_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static float f16_float_of_bits(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

/* A signalling NaN becomes quiet, as with the F16C instructions. Without a branch, so that rows
 * are vectorised: the results for subnormal and for normal numbers are both computed. From ?: gcc
 * would make a branch, since the product of a NaN might trap. */
float f16_to_f32(uint16_t h)
{
	const uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
	const uint32_t bias = magnitude < 0x7c00 ? 127 - 15 : 2 * (127 - 15);
	const uint32_t quiet = magnitude > 0x7c00 ? 0x400000 : 0;
	const uint32_t normal = (magnitude << 13) + (bias << 23);
	/* magnitude · 2^-24, exact in f32 */
	const uint32_t subnormal = f16_float_bits((float)(int32_t)magnitude * 0x1p-24f);
	const uint32_t is_subnormal = 0 - (uint32_t)(magnitude < 0x400);

	return f16_float_of_bits(sign | (subnormal & is_subnormal) |
				 ((normal | quiet) & ~is_subnormal));
}

uint16_t f16_from_f32(float f)
{
	const uint32_t u = f16_float_bits(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;

	if (magnitude > 0x7f800000) /* NaN: quiet, the upper payload kept */
		return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
	if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude < 0x38800000) {
		/* Below 2^-14 the result is a multiple of 2^-24. Adding 0.5, whose last bit is
		 * worth 2^-24, makes the addition round; the sum's low bits are the result, also
		 * if they carry into the smallest normal number. */
		return (uint16_t)(sign | (f16_float_bits(f16_float_of_bits(magnitude) + 0.5F) -
					  0x3f000000));
	}
	/* To nearest even: adds half a unit less one, plus the last bit that is kept. */
	const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
	return (uint16_t)(sign | (rounded - ((127U - 15) << 23)) >> 13);
}

float bf16_to_f32(uint16_t b)
{
	return f16_float_of_bits((uint32_t)b << 16);
}

uint16_t bf16_from_f32(float f)
{
	const uint32_t u = f16_float_bits(f);

	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* This many are read before any of them is written: the output may begin before the input. */
enum { F16_AT_ONCE = 16 };
typedef float f16_widen_fn(uint16_t h);

/* Where this is inlined, to_f32 and all n but the last are constants. */
static inline __attribute__((always_inline)) void f16_widen_some(float *out, const uint8_t *row,
								 size_t n, f16_widen_fn *to_f32)
{
	uint16_t h[F16_AT_ONCE] = {0};
	float f[F16_AT_ONCE];

	memcpy(h, row, n * sizeof *h);
	for (size_t i = 0; i < F16_AT_ONCE; i++)
		f[i] = to_f32(h[i]);
	memcpy(out, f, n * sizeof *f);
}

static inline __attribute__((always_inline)) void f16_widen(float *out, const uint8_t *row,
							    size_t n, f16_widen_fn *to_f32)
{
	size_t i = 0;

	for (; i + F16_AT_ONCE <= n; i += F16_AT_ONCE)
		f16_widen_some(out + i, row + i * sizeof(uint16_t), F16_AT_ONCE, to_f32);
	f16_widen_some(out + i, row + i * sizeof(uint16_t), n - i, to_f32);
}

void f16_row_to_f32(float *out, const void *row, size_t n)
{
	f16_widen(out, row, n, f16_to_f32);
}

typedef uint16_t halves __attribute__((vector_size(16)));
enum { HALVES = sizeof(halves) / sizeof(uint16_t) };

/* A BF16 is the upper half of its float: interleaves zeros with eight BF16. Spelled out, since gcc
 * compiles a loop, whose memory may overlap, by way of the stack, which takes five times as long.
 */
static inline __attribute__((always_inline)) void bf16_widen_eight(float out[HALVES], halves h)
{
	const halves none = {0};
	const halves low = __builtin_shufflevector(none, h, 0, 8, 1, 9, 2, 10, 3, 11);
	const halves high = __builtin_shufflevector(none, h, 4, 12, 5, 13, 6, 14, 7, 15);

	memcpy(out, &low, sizeof low);
	memcpy(out + HALVES / 2, &high, sizeof high);
}

void bf16_row_to_f32(float *out, const void *row, size_t n)
{
	const uint8_t *from = row;
	size_t i = 0;

	for (; i + F16_AT_ONCE <= n; i += F16_AT_ONCE) {
		halves h[F16_AT_ONCE / HALVES];
		memcpy(h, from + i * sizeof(uint16_t), sizeof h);
		bf16_widen_eight(out + i, h[0]);
		bf16_widen_eight(out + i + HALVES, h[1]);
	}
	f16_widen_some(out + i, from + i * sizeof(uint16_t), n - i, bf16_to_f32);
}
