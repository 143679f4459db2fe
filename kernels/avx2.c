/* The AVX2 table (x86-64 with AVX2, FMA and F16C). Its functions on vectors of floats and its delta
 * net are written in vector_lanes.h and delta_lanes.h; products, rotation, attention and the
 * encoder of TC have files of their own, avx2_*.c.
 */
#if defined(__x86_64__)

#include "kernels/avx2_lanes.h"
#include "kernels/vector_lanes.h"

enum { DELTA_TILE_REGISTERS = 4 };
#include "kernels/delta_lanes.h"

#define SHARED_FUNCTIONS                                                                      \
	.block_prepare = avx2_block_prepare, .tq_prepare = avx2_tq_prepare,                   \
	.tq_quantise_row = TABLE(tq_quantise_row), .tc_quantise_row = TABLE(tc_quantise_row), \
	.tc_encode = TABLE(tc_encode), .delta_steps = delta_steps, VECTOR_FUNCTIONS

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
};

#endif
