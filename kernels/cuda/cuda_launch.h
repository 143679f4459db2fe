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

/* Products have a kernel for items of one token, for items of up to 8 and, but those of floats and of most of
 * MLX's groups, for items of up to 32; those of TC and TQ also for items of up to 16. */
#define CUDA_PRODUCTS_FEW(DO, name)                         \
	DO(cuda_##name##_product_1, struct cuda_product)    \
	DO(cuda_##name##_product_8, struct cuda_product)
#define CUDA_PRODUCTS_ALL(DO, name)                         \
	CUDA_PRODUCTS_FEW(DO, name)                         \
	DO(cuda_##name##_product_32, struct cuda_product)

#define CUDA_PRODUCTS_TC(DO, name)                          \
	CUDA_PRODUCTS_ALL(DO, name)                         \
	DO(cuda_##name##_product_16, struct cuda_product)

/* DO(kernel, operands). */
#define CUDA_KERNELS(DO)                                     \
	DO(cuda_tq_prepare, struct cuda_prepare)             \
	DO(cuda_block_prepare, struct cuda_prepare)          \
	DO(cuda_norm_inputs, struct cuda_norm_inputs)        \
	DO(cuda_norm_few, struct cuda_norm_inputs)           \
	DO(cuda_gate_inputs, struct cuda_gate_inputs)        \
	DO(cuda_gate_few, struct cuda_gate_inputs)           \
	DO(cuda_join_inputs, struct cuda_join_inputs)        \
	DO(cuda_join_few, struct cuda_join_inputs)           \
	DO(cuda_place_heads, struct cuda_heads)              \
	DO(cuda_route, struct cuda_route)                    \
	DO(cuda_route_any, struct cuda_route)                \
	CUDA_PRODUCTS_TC(DO, tq)                             \
	CUDA_PRODUCTS_TC(DO, tc2)                            \
	CUDA_PRODUCTS_TC(DO, tc3)                            \
	CUDA_PRODUCTS_TC(DO, tc4)                            \
	CUDA_PRODUCTS_ALL(DO, q8_0)                          \
	CUDA_PRODUCTS_ALL(DO, q5_0)                          \
	CUDA_PRODUCTS_ALL(DO, q4_k)                          \
	CUDA_PRODUCTS_ALL(DO, q5_k)                          \
	CUDA_PRODUCTS_ALL(DO, q6_k)                          \
	CUDA_PRODUCTS_ALL(DO, fp4)                           \
	CUDA_PRODUCTS_ALL(DO, iq4_nl)                        \
	CUDA_PRODUCTS_ALL(DO, iq4_xs)                        \
	CUDA_PRODUCTS_ALL(DO, q3_k)                          \
	CUDA_PRODUCTS_ALL(DO, q2_k)                          \
	CUDA_PRODUCTS_ALL(DO, affine4)                       \
	CUDA_PRODUCTS_ALL(DO, affine8)                       \
	CUDA_PRODUCTS_FEW(DO, affine)                        \
	CUDA_PRODUCTS_FEW(DO, f32)                           \
	CUDA_PRODUCTS_FEW(DO, f16)                           \
	CUDA_PRODUCTS_FEW(DO, bf16)                          \
	DO(cuda_tc3_tiles_8, struct cuda_product)            \
	DO(cuda_tc3_tiles_32, struct cuda_product)           \
	DO(cuda_tc4_tiles_8, struct cuda_product)            \
	DO(cuda_tc4_tiles_32, struct cuda_product)           \
	DO(cuda_tc_products_1, struct cuda_products)         \
	DO(cuda_tc_products_8, struct cuda_products)         \
	DO(cuda_tc_products_16, struct cuda_products)        \
	DO(cuda_tc_products_32, struct cuda_products)        \
	DO(cuda_block_products_1, struct cuda_products)      \
	DO(cuda_block_products_8, struct cuda_products)      \
	DO(cuda_rmsnorm, struct cuda_norms)                  \
	DO(cuda_l2norm, struct cuda_lengths)                 \
	DO(cuda_rope, struct cuda_positions)                 \
	DO(cuda_silu_mul, struct cuda_vectors)               \
	DO(cuda_add, struct cuda_vectors)                    \
	DO(cuda_add_bias, struct cuda_bias)                  \
	DO(cuda_open_gates, struct cuda_gates)               \
	DO(cuda_activate, struct cuda_activation)            \
	DO(cuda_add_scaled, struct cuda_scaled)              \
	DO(cuda_scale, struct cuda_vectors)                  \
	DO(cuda_add_expert_bias, struct cuda_expert_bias)    \
	DO(cuda_gather, struct cuda_gather)                  \
	DO(cuda_embed, struct cuda_embedding)                \
	DO(cuda_find_largest, struct cuda_search)            \
	DO(cuda_sum_experts, struct cuda_sums)               \
	DO(cuda_choose, struct cuda_choice)                  \
	DO(cuda_choose_any, struct cuda_choice)              \
	DO(cuda_group, struct cuda_groups)                   \
	DO(cuda_kv_put, struct cuda_keys)                    \
	DO(cuda_attend_spans, struct cuda_attention)         \
	DO(cuda_attend_heads, struct cuda_attend_heads)      \
	DO(cuda_attend_rows, struct cuda_attention)          \
	DO(cuda_attend_join, struct cuda_attention)          \
	DO(cuda_delta_mix, struct cuda_delta)                \
	DO(cuda_delta_steps, struct cuda_delta)              \
	DO(cuda_delta_steps_any, struct cuda_delta)          \
	DO(cuda_delta_outputs, struct cuda_delta)

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

/* Codes of TC. The pairs of TC3 by ten bits of a ring (cuda_tables.h); the tables of TC2 and TC4, 64
 * added to each number. Of TQ the table of indices, in `newest`. */
enum { CUDA_PAIRS = 1024 };
struct cuda_trellis {
	const uint16_t *pairs;
	uint32_t newest[4], before[4];
	float gain;
	uint32_t bits; /* 2, 3 or 4 */
};

/* The tokens of one record that a product computes at once: n of them, from `first` on. */
struct cuda_item {
	const uint8_t *record;
	uint32_t first, n;
};

/* How blocks of threads share tiles of 16 rows. A piece is a group of a tile; of formats with blocks, eight
 * parts with scales of their own (cuda_blocks.h). */
struct cuda_sharing {
	uint32_t tiles;			 /* of a matrix */
	uint32_t pieces, at_once;	 /* pieces and tiles that a block of threads has at once */
	uint32_t step_tiles, step_groups; /* from a piece of a warp to its next one */
	uint32_t part;			 /* of a block of threads of all, of 2^32 */
	uint32_t all;			 /* tiles, where the host knows the items */
	uint32_t first, end;		 /* pieces, where there are several products */
	uint32_t copies; /* of the pairs of TC3: 32, or 16 where shared memory is little, or where none are needed */
};
enum { CUDA_COPIES_LEAST = 16, CUDA_COPIES_MOST = 32 };
/* Groups that a warp with a tile of its own has in shared memory, and bytes between its slabs. */
enum { CUDA_TILE_GROUPS = 2, CUDA_TILE_GAP = 32 };

/* Numbers of a matrix of floats; or also of a table, which may have blocks as in GGUF files. */
enum cuda_number {
	CUDA_F32,
	CUDA_F16,
	CUDA_BF16,
	CUDA_TABLE_Q8_0,
	CUDA_TABLE_Q4_0,
	CUDA_TABLE_Q4_1,
	CUDA_TABLE_Q5_0,
	CUDA_TABLE_Q5_1,
	CUDA_TABLE_IQ4_NL,
	CUDA_TABLE_Q2_K,
	CUDA_TABLE_Q3_K,
	CUDA_TABLE_Q4_K,
	CUDA_TABLE_Q5_K,
	CUDA_TABLE_Q6_K,
	CUDA_TABLE_IQ4_XS,
	CUDA_TABLE_AFFINE
};

/* Kernels of formats with blocks. */
enum cuda_block_format {
	CUDA_Q8_0,
	CUDA_Q5_0,
	CUDA_Q4_K,
	CUDA_Q5_K,
	CUDA_Q6_K,
	CUDA_FP4,
	CUDA_IQ4_NL,
	CUDA_IQ4_XS,
	CUDA_Q3_K,
	CUDA_Q2_K,
	CUDA_AFFINE4,
	CUDA_AFFINE8,
	CUDA_AFFINE
};

/* What formats of one kernel differ in: the values of codes, four in a word; and where scales and offsets are
 * those of groups, 2^together blocks of 32 columns, the type of both, and the bits of a code. */
struct cuda_block_kind {
	enum cuda_block_format format;
	uint32_t values[4];
	uint32_t together, bits;
	enum cuda_number norms;
};

/* Products of arranged matrices (format.h) of one shape and inputs of 8 bits, or of floats. A record has `parts`
 * matrices, part p at record + offset + p · part_bytes. An assignment is an input for one record: assignment a
 * multiplies input a / divide, and
 *     y[p · y_part + a · ldy + r] = row r of part p · input a / divide.
 * Token t of an item is assignment order[first + t]. Without items there is only record slots[0]: item i has
 * the assignments from i · most on, at most `most` of them, of n in all. Where the host knows that each of n
 * assignments is an item, item_count is NULL. Kernels that share tiles among blocks of threads also prefetch what
 * the next product reads of a record: for each tile of 16 rows next_bytes, a multiple of 16, from record + next
 * on. */
struct cuda_product {
	const uint8_t *const *slots; /* without items */
	uint64_t offset, part_bytes, next;
	uint32_t next_bytes;
	const struct cuda_item *items; /* or NULL */
	const uint32_t *item_count;    /* with items, or NULL */
	const uint32_t *order;	       /* with items */
	uint32_t divide, n, most, parts;
	const float *x; /* for floats */
	const int8_t *q;
	const float *scale;
	const int16_t *sum; /* of blocks */
	float *y;
	uint64_t y_part, ldy;
	uint32_t rows, groups; /* groups of 128 columns; or blocks of 32; or columns of floats */
	struct cuda_sharing sharing; /* of the grid */
	uint32_t norm_bytes;   /* of a group's norm, 2 or 4 */
	struct cuda_block_kind kind;
	struct cuda_trellis trellis;
};

/* Products in one launch: of TC3 and TC4, where the pairs of product with_pairs are for all, if that is of TC3; or of
 * formats with blocks. If one of them has items, whose number the host knows, it is the first. */
enum { CUDA_PRODUCTS_MOST = 4 };
struct cuda_products {
	struct cuda_product p[CUDA_PRODUCTS_MOST];
	uint32_t count, with_pairs;
};

/* x[rows][n], and y likewise, which may be x. */
struct cuda_norms {
	const float *x, *w;
	float *y;
	uint32_t rows, n;
	float eps;
};

/* The same without weights, by l2norm. */
struct cuda_lengths {
	const float *x;
	float *y;
	uint32_t rows, n;
	float eps, scale;
};

/* x[rows][heads][head_dim]; cos and sin [rows][half]. */
struct cuda_positions {
	float *x;
	const float *cos, *sin;
	uint32_t rows, heads, head_dim, half;
};

/* y[n], the gate of silu_mul, and x[n]; of cuda_scale x[1], by which all of y is multiplied. */
struct cuda_vectors {
	float *y;
	const float *x;
	uint64_t n;
};

/* y[n][width] += bias[width]. */
struct cuda_bias {
	float *y;
	const float *bias;
	uint32_t n, width;
};

/* gate[n] = a function of gate and up: gelu_mul, swiglu_clamped, or silu_mul of gate, at most `limit`, and of
 * up, -limit to limit; or of gate alone: relu_squared. */
enum cuda_glu { CUDA_GELU, CUDA_CLAMPED, CUDA_LIMITED, CUDA_RELU_SQUARED };
struct cuda_activation {
	float *gate;
	const float *up;
	uint64_t n;
	enum cuda_glu kind;
	float alpha, limit;
};

/* y[n] = fma(a, x, y) */
struct cuda_scaled {
	float *y;
	const float *x;
	uint64_t n;
	float a;
};

/* y[n][width] += bias[expert][width] of the expert chosen[n]. Numbers that are no expert's are left out. */
struct cuda_expert_bias {
	float *y;
	const float *bias;
	const uint32_t *chosen;
	uint32_t n, width, experts;
};

/* y[n][dim] is multiplied by the sigmoids of gate, whose rows are `step` numbers apart. */
struct cuda_gates {
	float *y;
	const float *gate;
	uint32_t n, dim, step;
};

/* Row i of to[n][width] is row rows[i] of from. */
struct cuda_gather {
	float *to;
	const float *from;
	const uint32_t *rows;
	uint32_t n, width;
};

/* found[rows][parts]: the largest number of each part of x[rows][n]. Numbers are divided by `divisor` first; of equal
 * quotients the one with the lowest index is found. NaN is never the largest; where there is nothing else it is
 * -infinity, at 0. The grid has the parts and the rows; the numbers of a part lie apart. */
struct cuda_peak {
	float number;
	uint32_t at;
};
struct cuda_search {
	const float *x;
	struct cuda_peak *found;
	uint32_t n;
	float divisor;
};
enum { CUDA_LARGEST_PARTS = 64 };

/* How a table in affine codes lies in memory: chunks of chunk_rows rows, of `rows` in all, whose codes of `bits` bits
 * come first, then the scales of their groups, then the biases. */
struct cuda_table_groups {
	uint32_t rows, chunk_rows, bits, group;
	enum cuda_number norms;
};
/* Row i of x[n][width] is row tokens[i] of a table as stored, times `multiplier` if that is not 1. */
struct cuda_embedding {
	float *x;
	const void *table;
	const uint32_t *tokens;
	uint32_t n, width;
	enum cuda_number type;
	float multiplier;
	struct cuda_table_groups groups; /* CUDA_TABLE_AFFINE */
};

/* y[rows][width] of the outputs x[rows][top_k][width] of the experts chosen[rows][top_k], which are
 * different ones. Numbers that are no expert's are left out. The output of an expert whose slot is
 * NULL is in `other`, which has the same places; without slots all are in x. shared[rows][width], if it is
 * not NULL, is added after the experts, times the sigmoid of gate[rows], if that is not NULL. add: y = fma(factor,
 * sum, y). */
struct cuda_sums {
	float *y;
	const float *x, *other, *weight, *shared, *gate;
	const uint32_t *chosen;
	const uint8_t *const *slots;
	uint32_t rows, top_k, width, experts, add;
	float factor;
};

/* What becomes of logits: a softmax over all experts; a softmax over the chosen ones; or each by itself its
 * sigmoid, or the root of its softplus. */
enum cuda_router_order { CUDA_SOFTMAX_FIRST, CUDA_SOFTMAX_LAST, CUDA_SIGMOIDS, CUDA_SOFTPLUS_ROOTS };
/* logits[rows][experts] to chosen, weight and rank[rows][top_k], ascending by the numbers of the experts; rank:
 * how many of the row were chosen before. A logit is multiplied by `multiplier`, and bias is added, before
 * anything else; correction is added to what the choice is by, never to weights; a weight is multiplied by its
 * expert's scale. All three are [experts], or NULL. Experts form `groups` of one size, and the choice is among
 * the top_groups best of these. cuda_choose, and cuda_route below, are for plain routers: a softmax over all
 * and nothing else, as cuda_choice_kernel (cuda_tables.h) finds. */
struct cuda_choice {
	const float *logits, *bias, *correction, *scale;
	uint32_t *chosen;
	float *weight;
	uint32_t *rank;
	uint32_t rows, experts, top_k; /* at most CUDA_CHOICE_MOST experts, top_k CUDA_ROUTE_MOST */
	uint32_t groups, top_groups;   /* groups <= 1: there are none */
	enum cuda_router_order order;
	uint32_t normalise;
	float multiplier, eps, scaling;
};
enum {
	CUDA_CHOICE_MOST = 992, /* and a warp for the softmax */
	CUDA_ROUTE_MOST = 32	/* a warp weighs them */
};

/* Assignment row · top_k + i is for the expert chosen[rows][top_k]. Sorts the assignments by expert,
 * those of an expert ascending, and makes items of at most `most` assignments of one expert. Experts
 * whose slot is NULL are left out. order has room for rows · top_k numbers, items for
 * min(experts, rows · top_k) + rows · top_k / most. */
struct cuda_groups {
	const uint32_t *chosen;
	const uint8_t *const *slots;
	uint32_t rows, top_k, experts, most; /* experts: at most CUDA_CHOICE_MOST */
	uint32_t parts; /* that the assignments are divided into: of the grid */
	uint32_t *order;
	struct cuda_item *items;
	uint32_t *item_count;
};

/* A row of a step: the position of its token, and the memory of its context. Block b has the keys and
 * values of 64 positions from 64 b on. context: its place in a list of struct cuda_states. first: the
 * first position of the context that the step computes; the step has rows for all from there on, one after
 * the other. */
struct cuda_row {
	const uint8_t *const *blocks;
	uint32_t position, context, first, unused;
};

/* key and value[n][heads][head_dim] of the rows. In a block, in elements, the keys of head h begin at
 * key_offset + h · key_step, its values likewise. Elements are F32, or F16 where half is not 0. */
struct cuda_keys {
	const float *key, *value;
	const struct cuda_row *rows;
	uint64_t key_offset, key_step, value_offset, value_step;
	uint32_t n, heads, head_dim, half;
};

/* Row t sees its positions from 0 to rows[t].position, or the last `window` of them. q and
 * out[n][heads][head_dim]; `group` query heads share a key-value head. spans: the most that a row sees;
 * a row's spans count from the first that it sees. parts[spans][n][heads], each of attention_part
 * floats. */
enum { CUDA_ROWS_TOGETHER = 16 }; /* that cuda_attend_rows computes at once */
struct cuda_attention {
	const float *q, *sinks; /* sinks [heads], or NULL */
	float *parts, *out;
	const struct cuda_row *rows;
	uint64_t key_offset, key_step, value_offset, value_step;
	uint32_t n, heads, group, head_dim, window, spans, half;
	float scale;
	uint32_t copy_keys; /* where blocks of threads may have 163 KiB of shared memory: this is faster */
};

/* ---- gated delta nets ----
 *
 * cuda_delta_mix computes a row's queries, keys and values by the convolution (conv_silu) and l2norm, and
 * its gates (delta_gates of delta.h). cuda_delta_steps moves the states on (delta_steps); cuda_delta_steps_any
 * is for heads that have not 128 keys and values. cuda_delta_outputs normalises the heads' outputs, multiplies
 * them by silu of their gate, and makes y, or q and scale = tq_prepare of it, of each row. Where few rows are
 * computed, cuda_delta_steps does this, too: its blocks count those of a head that have ended, and the last one
 * has the head's outputs. */

/* What a context's recurrent layers keep, as in engine/compute/recurrent.h, and its rows of a step, n from
 * row `first` on. The state moves on by the `behind` rows that are kept with it and by the first `certain`
 * rows of the step; the others are kept. n 0: there is no such context. */
struct cuda_states {
	float *state;
	uint32_t first, n, certain, behind;
};

/* Of n rows, channels = 2 · key_heads · key_dim + value_heads · value_dim. A layer's floats of a state begin
 * at `at`: matrices[value_heads][key_dim][value_dim], before[width - 1][channels], kept[][row], where a row
 * has in and mixed [channels], decay and beta [value_heads]. */
struct cuda_delta {
	const struct cuda_row *rows;
	const struct cuda_states *contexts; /* [most] */
	uint64_t at;
	uint32_t n, most;
	uint32_t key_heads, value_heads, key_dim, value_dim, width; /* of the convolution, at most 8 */
	uint32_t tiled;	   /* value head h has the key head h % key_heads */
	uint32_t together; /* rows that cuda_delta_steps has at once */
	uint32_t share;	   /* threads that share a column there: 2, 4 or 8 */
	float query_scale, length_eps; /* of the lengths of queries and keys */
	float eps;		       /* of the outputs' norm */
	const float *conv;		     /* [width][channels] */
	const float *a_log, *dt_bias, *norm; /* [value_heads], [value_heads], [value_dim] */
	const float *in;		     /* [n][channels] */
	const float *gate;		     /* [n][value_heads][value_dim] */
	const float *a, *b;		     /* [n][value_heads] */
	float *mixed, *decay, *beta, *out;   /* as in, a, b and gate */
	uint32_t *counts;		     /* as a, or NULL: outputs have a launch of their own */
	float *y;			     /* as gate, or NULL: q and scale, where value_dim is 128 */
	int8_t *q;
	float *scale;
	struct cuda_signs signs;
};
enum {
	CUDA_DELTA_DIM = 256,	  /* most of key_dim */
	CUDA_CONV_WIDTH = 8,	  /* most of width */
	CUDA_DELTA_THREADS = 128, /* of a block */
	CUDA_DELTA_KEYS = 32	  /* of a column that a thread of cuda_delta_steps has */
};

/* ---- kernels that do the work of several ----
 *
 * Inputs in 8 bits are those of block_prepare; or, where sum is NULL, of tq_prepare. */

/* The weighted outputs of experts, and of the shared one, as of cuda_sums. chosen NULL: they are in ascending
 * order of their experts. top_k 0: there are none. */
struct cuda_expert_sum {
	const float *outputs, *weight, *shared, *gate;
	const uint32_t *chosen;
	uint32_t top_k, unused;
};

/* to = x[rows][n] + added, where that is not NULL, or + the sum of experts; y = rmsnorm(to), where y is not
 * NULL; q, scale and sum = rmsnorm(to) in 8 bits, where q is not NULL. top_k is at most CUDA_TOP_K_MOST. `to` may
 * be x. If it is not, cuda_norm_few is the kernel for few rows: many blocks of threads share a row. */
struct cuda_norm_inputs {
	const float *x;
	float *to;
	const float *added;
	struct cuda_expert_sum experts;
	const float *w;
	float *y;
	int8_t *q;
	float *scale;
	int16_t *sum;
	uint32_t rows, n;
	float eps;
	struct cuda_signs signs;
};
enum { CUDA_TOP_K_MOST = 64, CUDA_NORM_FEW = 8 /* rows */ };

/* q, scale and sum = silu_mul(gate, up) in 8 bits, of gate and up[rows][k]. */
struct cuda_gate_inputs {
	const float *gate, *up;
	int8_t *q;
	float *scale;
	int16_t *sum;
	uint32_t k, n;
	struct cuda_signs signs;
};

/* q, scale and sum = the output of cuda_attend_join in 8 bits, times the sigmoids of gate, if that is not NULL: those
 * of query i are at gate + i · gate_step. Shared memory of cuda_join_few has CUDA_SPAN_NUMBERS numbers and a
 * maximum for each of 128 spans. */
enum { CUDA_SPAN_NUMBERS = 4 };
struct cuda_join_inputs {
	struct cuda_attention attention; /* out is not written */
	const float *gate;
	uint32_t gate_step;
	int8_t *q;
	float *scale;
	int16_t *sum;
	struct cuda_signs signs;
};

/* Per head: rmsnorm of q[n][heads][head_dim] and of key[n][kv_heads][head_dim], where their weights are not
 * NULL; positions (rope) with cos and sin[n][turned], `turned` pairs of a head. Queries come from q_from, where
 * heads are q_step numbers apart, which may be q, and keys from keys.key, which may be key; key and value also
 * go to their blocks as by cuda_kv_put. keys.key and keys.heads are those of key-value heads. */
struct cuda_heads {
	struct cuda_keys keys;
	float *q, *key;
	const float *q_from;
	uint32_t q_step;
	const float *q_norm, *key_norm;
	const float *cos, *sin;
	uint32_t heads, turned;
	float eps;
};

/* What main memory gets of a choice: chosen, weight and rank[top_k], one after the other, and a copy of
 * input[width]; when all of it is there, 1 in `flag`. flag NULL: nothing. */
struct cuda_told {
	uint32_t *choice;
	const float *input;
	float *copy;
	uint32_t width;
	uint32_t *flag;
};

/* cuda_place_heads, but for heads.q, which is not written, then cuda_attend_spans. q_from is not q, and keys.key
 * not key: many read them. For rows and operands that cuda_attends_heads (cuda_tables.h) finds. */
struct cuda_attend_heads {
	struct cuda_attention attention; /* of all rows; q is not read */
	struct cuda_heads heads;
	/* Of the grid: heads of a block of threads; 2^31 by the heads of a row, and by those of a group, rounded
	 * up. */
	uint32_t together, heads_inverse, group_inverse;
};
enum {
	CUDA_NEAR_INVERSE = 31,
	CUDA_NEAR_STEP = 72, /* elements of shared memory from 64 keys' element to the next */
	CUDA_NEAR_ROWS = 16  /* most rows */
};

/* cuda_choose, then cuda_group, of one row: choice.rows and groups.rows are 1. */
struct cuda_route {
	struct cuda_choice choice;
	struct cuda_groups groups;
	struct cuda_told told;
};

/* The shape of a launch. */
struct cuda_grid {
	uint32_t x, y, threads, shared; /* bytes of shared memory */
};

#endif
