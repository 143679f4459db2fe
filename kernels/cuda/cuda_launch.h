/* The kernels of cards as the program sees them: their names, their operands, and in what shape they
 * are launched. Both sides include this header. All pointers of operands are addresses on the card.
 *
 * What a kernel computes is what the function of the same name in kernels.h computes, to the bit,
 * unless it says otherwise. Inputs of 8 bits lie in the order of columns (kernels.h has them in
 * tq_input_place's): this order stays on the card. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_LAUNCH_H
#define MOEFS_KERNELS_CUDA_CUDA_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

/* DO(kernel, operands). Products have one kernel for each number of tokens that is computed at
 * once. */
#define CUDA_KERNELS(DO)                                     \
	DO(cuda_tq_prepare, struct cuda_prepare)             \
	DO(cuda_block_prepare, struct cuda_prepare)          \
	DO(cuda_tc3_product_1, struct cuda_product)          \
	DO(cuda_tc3_product_2, struct cuda_product)          \
	DO(cuda_tc3_product_4, struct cuda_product)          \
	DO(cuda_tc3_product_8, struct cuda_product)          \
	DO(cuda_tc4_product_1, struct cuda_product)          \
	DO(cuda_tc4_product_2, struct cuda_product)          \
	DO(cuda_tc4_product_4, struct cuda_product)          \
	DO(cuda_tc4_product_8, struct cuda_product)          \
	DO(cuda_q4_k_product_1, struct cuda_product)         \
	DO(cuda_q4_k_product_2, struct cuda_product)         \
	DO(cuda_q4_k_product_4, struct cuda_product)         \
	DO(cuda_q4_k_product_8, struct cuda_product)

enum cuda_kernel {
#define CUDA_KERNEL_NUMBER(name, operands) name##_number,
	CUDA_KERNELS(CUDA_KERNEL_NUMBER)
#undef CUDA_KERNEL_NUMBER
		CUDA_KERNEL_COUNT
};

/* Signs of the rotation (tq.h): element i is multiplied by -1 where bit i % 32 of word i / 32 is
 * 0. */
struct cuda_signs {
	uint32_t first[4], second[4];
};

/* n rows x[n][k] in 8 bits: q[n][k], and scale and sum for each row's blocks of 32 and 16; or for
 * tq_prepare q[n][groups · 128], scale[n][groups] and no sums. */
struct cuda_prepare {
	const float *x;
	int8_t *q;
	float *scale;
	int16_t *sum;
	uint32_t k, n;
	struct cuda_signs signs;
};

/* Codes of TC. The pairs of TC3 by ten bits of a ring (cuda_tables.h); the tables of TC4, 64 added
 * to each number. */
enum { CUDA_PAIRS = 1024, CUDA_COPIES = 32 };
struct cuda_trellis {
	const uint16_t *pairs;
	uint32_t newest[4], before[4];
	float gain;
};

/* Products of arranged matrices (format.h) of one shape and inputs of 8 bits: matrix i = 0, 1 …
 * begins at slots[chosen[i]] + offset, or slots[i] + offset where chosen is NULL. Its inputs are n
 * from input i · step on, and
 *     y[i · y_step + t · ldy + r] = row r · input t. */
struct cuda_product {
	const uint8_t *const *slots;
	const uint32_t *chosen;
	uint64_t offset;
	const int8_t *q;
	const float *scale;
	const int16_t *sum; /* of blocks */
	uint32_t step, n;
	float *y;
	uint64_t y_step, ldy;
	uint32_t rows, groups; /* groups of 128 columns; of 256 in Q4_K */
	uint32_t norm_bytes;   /* of a group's norm, 2 or 4 */
	struct cuda_trellis trellis;
};

/* The shape of a launch. */
struct cuda_grid {
	uint32_t x, y, threads, shared; /* bytes of shared memory */
};

#endif
