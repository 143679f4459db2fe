/* The NEON tables (AArch64, without and with the dot product instructions of ARMv8.2). Their
 * functions on vectors of floats and their delta net are written in vector_lanes.h and
 * delta_lanes.h; products, rotation, attention and the encoder of TC have files of their own,
 * neon_*.c. The tables differ in the products of TQ, TC and blocks (neondot_*.c).
 */
#if defined(__aarch64__)

#include "kernels/neon_lanes.h"
#include "kernels/vector_lanes.h"
#include "kernels/sums_lanes.h"

enum { DELTA_TILE_REGISTERS = 4, DELTA_ADD_TOKENS = 4 };
#include "kernels/delta_lanes.h"

/* ---- blocks into memory ---- */

typedef uint32_t arrange_words __attribute__((vector_size(16)));

ALWAYS_INLINE uint64x2_t neon_pairs(uint32x4_t words)
{
	return vreinterpretq_u64_u32(words);
}
ALWAYS_INLINE void neon_first_two_words(arrange_words to[2], const uint32x4_t row[4])
{
	const uint64x2_t a = neon_pairs(vzip1q_u32(row[0], row[1])),
			 b = neon_pairs(vzip1q_u32(row[2], row[3]));
	to[0] = (arrange_words)vzip1q_u64(a, b);
	to[1] = (arrange_words)vzip2q_u64(a, b);
}
ALWAYS_INLINE void neon_last_two_words(arrange_words to[2], const uint32x4_t row[4])
{
	const uint64x2_t a = neon_pairs(vzip2q_u32(row[0], row[1])),
			 b = neon_pairs(vzip2q_u32(row[2], row[3]));
	to[0] = (arrange_words)vzip1q_u64(a, b);
	to[1] = (arrange_words)vzip2q_u64(a, b);
}

ALWAYS_INLINE void neon_load_four(arrange_words to[4], const uint8_t *at, size_t stride)
{
	uint32x4_t row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = vreinterpretq_u32_u8(vld1q_u8(at + r * stride));
	neon_first_two_words(to, row);
	neon_last_two_words(to + 2, row);
}

ALWAYS_INLINE void neon_load_two(arrange_words to[2], const uint8_t *at, size_t stride)
{
	uint32x4_t row[4];
	for (size_t r = 0; r < 4; r++)
		row[r] = vreinterpretq_u32_u8(vcombine_u8(vld1_u8(at + r * stride), vdup_n_u8(0)));
	neon_first_two_words(to, row);
}

ALWAYS_INLINE void neon_load_mixed(arrange_words to[4], const uint8_t *at, size_t stride)
{
	uint32x4_t row[4];
	for (size_t r = 0; r < 4; r++) {
		const uint8x16_t in = vld1q_u8(at + r * stride);
		row[r] = vreinterpretq_u32_u8(vzip1q_u8(in, vextq_u8(in, in, 8)));
	}
	neon_first_two_words(to, row);
	neon_last_two_words(to + 2, row);
}

ALWAYS_INLINE void neon_put_halves(uint8_t *to, arrange_words v)
{
	vst1_u8(to, vreinterpret_u8_u16(vmovn_u32((uint32x4_t)v)));
}

ALWAYS_INLINE void neon_put_bytes(uint8_t *to, size_t step, arrange_words v)
{
	static const uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
	const uint8x16_t four = vqtbl1q_u8((uint8x16_t)v, vld1q_u8(order));
	uint8_t bytes[16];

	vst1q_u8(bytes, four);
	for (size_t j = 0; j < 4; j++)
		memcpy(to + j * step, bytes + j * LANES, LANES);
}

#define arrange_load_four neon_load_four
#define arrange_load_two neon_load_two
#define arrange_load_mixed neon_load_mixed
#define arrange_put_halves neon_put_halves
#define arrange_put_bytes neon_put_bytes
#include "kernels/arrange_lanes.h"

/* ---- the table ---- */

/* Of both tables. */
#define SHARED_FUNCTIONS                                                                      \
	.block_prepare = neon_block_prepare, .tq_prepare = neon_tq_prepare,                   \
	.tq_quantise_row = TABLE(tq_quantise_row), .tc_quantise_row = TABLE(tc_quantise_row), \
	.tc_encode = TABLE(tc_encode), .tc_choose = TABLE(tc_choose),                         \
	.tc_improve = TABLE(tc_improve), .add_products = sums_add_products,                   \
	.delta_steps = delta_steps, .arrange = &arrange_blocks, VECTOR_FUNCTIONS

const struct kernels kernels_neon = {
	.name = "neon",
	.multiply = {[FORMAT_F32] = neon_multiply_f32,
		     [FORMAT_F16] = neon_multiply_f16,
		     [FORMAT_BF16] = neon_multiply_bf16,
		     [FORMAT_TQ2] = neon_multiply_tq2,
		     [FORMAT_TQ3] = neon_multiply_tq3,
		     [FORMAT_TQ4] = neon_multiply_tq4,
		     [FORMAT_TC2] = neon_multiply_tc2,
		     [FORMAT_TC3] = neon_multiply_tc3,
		     [FORMAT_TC4] = neon_multiply_tc4,
#define ENTRY(name, format) [format] = neon_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	SHARED_FUNCTIONS,
	ATTENTION_FUNCTIONS(neon),
};

const struct kernels kernels_neondot = {
	.name = "neondot",
	.multiply = {[FORMAT_F32] = neon_multiply_f32,
		     [FORMAT_F16] = neon_multiply_f16,
		     [FORMAT_BF16] = neon_multiply_bf16,
		     [FORMAT_TQ2] = neondot_multiply_tq2,
		     [FORMAT_TQ3] = neondot_multiply_tq3,
		     [FORMAT_TQ4] = neondot_multiply_tq4,
		     [FORMAT_TC2] = neondot_multiply_tc2,
		     [FORMAT_TC3] = neondot_multiply_tc3,
		     [FORMAT_TC4] = neondot_multiply_tc4,
#define ENTRY(name, format) [format] = neondot_multiply_##name,
		     BLOCK_FORMATS(ENTRY)
#undef ENTRY
	},
	SHARED_FUNCTIONS,
	ATTENTION_FUNCTIONS(neondot),
};

#endif
