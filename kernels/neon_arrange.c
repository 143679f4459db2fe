/* The way of blocks into memory for NEON. */
#if defined(__aarch64__)

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WAYS block_ways_neon
#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { LANES = 4 };
typedef uint32_t lanes __attribute__((vector_size(16)));

ALWAYS_INLINE uint64x2_t pairs(uint32x4_t words)
{
	return vreinterpretq_u64_u32(words);
}
ALWAYS_INLINE void first_two_words(lanes to[2], const uint32x4_t row[4])
{
	const uint64x2_t a = pairs(vzip1q_u32(row[0], row[1])),
			 b = pairs(vzip1q_u32(row[2], row[3]));
	to[0] = (lanes)vzip1q_u64(a, b);
	to[1] = (lanes)vzip2q_u64(a, b);
}
ALWAYS_INLINE void last_two_words(lanes to[2], const uint32x4_t row[4])
{
	const uint64x2_t a = pairs(vzip2q_u32(row[0], row[1])),
			 b = pairs(vzip2q_u32(row[2], row[3]));
	to[0] = (lanes)vzip1q_u64(a, b);
	to[1] = (lanes)vzip2q_u64(a, b);
}

ALWAYS_INLINE void load_four(lanes to[4], const uint8_t *at, size_t stride)
{
	uint32x4_t row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = vreinterpretq_u32_u8(vld1q_u8(at + r * stride));
	first_two_words(to, row);
	last_two_words(to + 2, row);
}

ALWAYS_INLINE void load_two(lanes to[2], const uint8_t *at, size_t stride)
{
	uint32x4_t row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = vreinterpretq_u32_u8(vcombine_u8(vld1_u8(at + r * stride), vdup_n_u8(0)));
	first_two_words(to, row);
}

ALWAYS_INLINE void load_mixed(lanes to[4], const uint8_t *at, size_t stride)
{
	uint32x4_t row[4];
	for (size_t r = 0; r < 4; r++) {
		const uint8x16_t in = vld1q_u8(at + r * stride);
		row[r] = vreinterpretq_u32_u8(vzip1q_u8(in, vextq_u8(in, in, 8)));
	}
	first_two_words(to, row);
	last_two_words(to + 2, row);
}

ALWAYS_INLINE void put_halves(uint8_t *to, lanes v)
{
	vst1_u8(to, vreinterpret_u8_u16(vmovn_u32((uint32x4_t)v)));
}

ALWAYS_INLINE void put_bytes(uint8_t *to, size_t step, lanes v)
{
	static const uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
	const uint8x16_t four = vqtbl1q_u8((uint8x16_t)v, vld1q_u8(order));
	uint8_t bytes[16];

	vst1q_u8(bytes, four);
	for (size_t j = 0; j < 4; j++)
		memcpy(to + j * step, bytes + j * LANES, LANES);
}

#include "kernels/block_codes.h"

#endif
