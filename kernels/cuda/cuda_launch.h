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
	DO(cuda_q4_k_product_8, struct cuda_product)         \
	DO(cuda_rmsnorm, struct cuda_norms)                  \
	DO(cuda_rope, struct cuda_positions)                 \
	DO(cuda_silu_mul, struct cuda_vectors)               \
	DO(cuda_add, struct cuda_vectors)                    \
	DO(cuda_sum_experts, struct cuda_sums)               \
	DO(cuda_choose, struct cuda_choice)                  \
	DO(cuda_kv_put, struct cuda_keys)                    \
	DO(cuda_attend_spans, struct cuda_attention)         \
	DO(cuda_attend_join, struct cuda_attention)

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
	uint32_t tiles;	       /* of 16 rows, that a block of threads computes at once: of the grid */
	uint32_t norm_bytes;   /* of a group's norm, 2 or 4 */
	struct cuda_trellis trellis;
};

/* x[rows][n], and y likewise, which may be x. */
struct cuda_norms {
	const float *x, *w;
	float *y;
	uint32_t rows, n;
	float eps;
};

/* x[rows][heads][head_dim]; cos and sin [rows][half]. */
struct cuda_positions {
	float *x;
	const float *cos, *sin;
	uint32_t rows, heads, head_dim, half;
};

/* y[n], the gate of silu_mul, and x[n]. */
struct cuda_vectors {
	float *y;
	const float *x;
	uint64_t n;
};

/* y[rows][width] of the outputs x[rows][top_k][width] of the experts chosen[rows][top_k], which are
 * different ones. */
struct cuda_sums {
	float *y;
	const float *x, *weight;
	const uint32_t *chosen;
	uint32_t rows, top_k, width;
};

/* logits[rows][experts] to chosen and weight[rows][top_k]. A softmax over all comes first. */
struct cuda_choice {
	const float *logits;
	uint32_t *chosen;
	float *weight;
	uint32_t rows, experts, top_k; /* experts: at most CUDA_CHOICE_MOST */
	uint32_t normalise;
	float eps, scaling;
};
enum { CUDA_CHOICE_MOST = 1024 };

/* Rows of keys and values[rows][heads][head_dim] for the positions from `position` on. Block b of
 * positions is at blocks[b]; in it, in elements, the keys of head h begin at key_offset + h ·
 * key_step, its values likewise. Elements are F32, or F16 where half is not 0. */
struct cuda_keys {
	const float *key, *value;
	uint8_t *const *blocks;
	uint64_t key_offset, key_step, value_offset, value_step;
	uint32_t position, rows, heads, head_dim, half;
};

/* n tokens that follow each other, the first of which sees `length` positions, or the last `window`
 * of them. q and out[n][heads][head_dim]; `group` query heads share a key-value head. parts[spans][n][heads],
 * each of attention_part floats, from span `span` on. */
struct cuda_attention {
	const float *q, *sinks; /* sinks [heads], or NULL */
	float *parts, *out;
	const uint8_t *const *blocks;
	uint64_t key_offset, key_step, value_offset, value_step;
	uint32_t n, heads, group, head_dim, length, window, span, half;
	float scale;
};

/* The shape of a launch. */
struct cuda_grid {
	uint32_t x, y, threads, shared; /* bytes of shared memory */
};

#endif
