/* The way of blocks into memory in plain C, for processors that have no table of their own. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WAYS block_ways_scalar
#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { LANES = 4 };
typedef uint32_t lanes __attribute__((vector_size(16)));

ALWAYS_INLINE void load_words(lanes *to, const uint8_t *at, size_t stride, size_t words)
{
	for (size_t i = 0; i < words; i++) {
		uint32_t word[LANES];
		for (size_t r = 0; r < LANES; r++)
			memcpy(&word[r], at + r * stride + 4 * i, sizeof word[r]);
		memcpy(&to[i], word, sizeof to[i]);
	}
}

ALWAYS_INLINE void load_four(lanes to[4], const uint8_t *at, size_t stride)
{
	load_words(to, at, stride, 4);
}

ALWAYS_INLINE void load_two(lanes to[2], const uint8_t *at, size_t stride)
{
	load_words(to, at, stride, 2);
}

/* Bytes 2k, 2k + 8, 2k + 1, 2k + 9. */
ALWAYS_INLINE void load_mixed(lanes to[4], const uint8_t *at, size_t stride)
{
	lanes in[4];

	load_four(in, at, stride);
	for (uint32_t k = 0; k < 4; k++) {
		const lanes c = in[k / 2] >> k % 2 * 16, d = in[k / 2 + 2] >> k % 2 * 16;
		to[k] = (c & 0xff) | (c & 0xff00) << 8 | (d & 0xff) << 8 | (d & 0xff00) << 16;
	}
}

ALWAYS_INLINE void put_halves(uint8_t *to, lanes v)
{
	for (size_t r = 0; r < LANES; r++) {
		const uint16_t half = (uint16_t)v[r];
		memcpy(to + r * sizeof half, &half, sizeof half);
	}
}

ALWAYS_INLINE void put_bytes(uint8_t *to, size_t step, lanes v)
{
	for (size_t r = 0; r < LANES; r++)
		for (size_t j = 0; j < 4; j++)
			to[j * step + r] = (uint8_t)(v[r] >> 8 * j);
}

#include "kernels/block_codes.h"
