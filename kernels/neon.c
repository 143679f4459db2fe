/* The NEON tables (AArch64, without and with the dot product instructions of ARMv8.2). Their
 * functions on vectors of floats and their delta net are written in vector_lanes.h and
 * delta_lanes.h; products, rotation, attention and the encoder of TC have files of their own,
 * neon_*.c. The tables differ in the products of TQ, TC and blocks (neondot_*.c).
 */
#if defined(__aarch64__)

#include "kernels/neon_lanes.h"
#include "kernels/vector_lanes.h"

enum { DELTA_TILE_REGISTERS = 4 };
#include "kernels/delta_lanes.h"

/* Of both tables. */
#define SHARED_FUNCTIONS                                                                      \
	.block_prepare = neon_block_prepare, .tq_prepare = neon_tq_prepare,                   \
	.tq_quantise_row = TABLE(tq_quantise_row), .tc_quantise_row = TABLE(tc_quantise_row), \
	.tc_encode = TABLE(tc_encode), .delta_steps = delta_steps, VECTOR_FUNCTIONS

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
};

#endif
