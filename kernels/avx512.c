/* The AVX-512 tables. Their functions on vectors of floats and their delta net are written in
 * vector_lanes.h and delta_lanes.h; products, rotation, attention and the encoder of TC have files
 * of their own, avx512_*.c.
 *
 * Two tables, which differ in the products of TQ, TC and blocks: avx512_*.c do with F, BW, VL and
 * DQ, avx512vnni_*.c need VNNI and VBMI. Inputs become 8 bits by AVX2's functions: most of their
 * time is divisions, which wider registers do not speed up.
 */
#if defined(__x86_64__)

#include "kernels/avx512_lanes.h"
#include "kernels/vector_lanes.h"

enum { DELTA_TILE_REGISTERS = 2 };
#include "kernels/delta_lanes.h"

/* Of both tables. */
#define SHARED_FUNCTIONS                                                                      \
	.block_prepare = avx2_block_prepare, .tq_prepare = avx2_tq_prepare,                   \
	.tq_quantise_row = TABLE(tq_quantise_row), .tc_quantise_row = TABLE(tc_quantise_row), \
	.tc_encode = TABLE(tc_encode), .delta_steps = delta_steps, VECTOR_FUNCTIONS

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
};

#endif
