/* Conversions between 32-bit floats and those of 16 bits. */
#include "kernels/format.h"

#include <string.h>

static uint32_t bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static float float_of(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

/* A signalling NaN becomes quiet, as the F16C instructions have it. */
float f16_to_f32(uint16_t h)
{
	const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31;
	const uint32_t mantissa = h & 0x3ff;

	if (exponent == 31)
		return float_of(sign | 0x7f800000 | (mantissa ? 0x400000 | mantissa << 13 : 0));
	if (exponent == 0) { /* zero and subnormals: mantissa · 2^-24, exact in f32 */
		float magnitude = (float)mantissa * 0x1p-24f;
		return sign ? -magnitude : magnitude;
	}
	return float_of(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

uint16_t f32_to_f16(float f)
{
	const uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;

	if (magnitude > 0x7f800000) /* NaN: quiet, the upper payload kept */
		return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
	if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude < 0x38800000) {
		/* Below 2^-14: the result is a multiple of 2^-24. Adding 0.5, whose last bit is
		 * worth 2^-24, lets the addition do the rounding; the sum's low bits are the
		 * result, and a carry into the smallest normal number comes out right. */
		return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5F) - 0x3f000000));
	}
	/* Nearest even: half a unit less one, plus the bit that will be last. */
	const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
	return (uint16_t)(sign | (rounded - ((127U - 15) << 23)) >> 13);
}

float bf16_to_f32(uint16_t b)
{
	return float_of((uint32_t)b << 16);
}

uint16_t f32_to_bf16(float f)
{
	const uint32_t u = bits_of(f);

	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float norm_at(const void *norms, size_t i, enum norm_type type)
{
	uint16_t half;
	float f;

	if (type == NORM_F32) {
		memcpy(&f, (const uint8_t *)norms + sizeof f * i, sizeof f);
		return f;
	}
	memcpy(&half, (const uint8_t *)norms + sizeof half * i, sizeof half);
	return type == NORM_F16 ? f16_to_f32(half) : bf16_to_f32(half);
}
