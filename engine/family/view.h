/* Views: which rows of a published tensor belong to a role.
 *
 * Checkpoints put several matrices into one tensor: all experts of a layer, gate above up, the
 * projections of a delta net head by head. A view describes a role's rows without copying. It has
 * up to three parts, which follow each other in the role; each part takes blocks of rows at equal
 * distances from the tensor. All dimensions of the tensor but the last count as rows. A role's rows
 * may also be columns of the tensor, or consist of every n-th number of a row.
 */
#ifndef MOEFS_ENGINE_FAMILY_VIEW_H
#define MOEFS_ENGINE_FAMILY_VIEW_H

#include "engine/family/config.h"

enum { VIEW_PARTS = 3, VIEW_DIMS = 4 };

/* Rows [0, rows) of the part: row i is the tensor's row first + i / block · stride + i % block. */
struct view_part {
	uint64_t rows, first, block, stride;
};

/* Where the numbers of a role's row are in the tensor. */
enum view_way {
	VIEW_ALONG,  /* at the beginning of the row given by view_row */
	VIEW_PICKED, /* number k is in column `column + k · step` of that row */
	/* For a single part: number k of row i is in column `column + i % block · step` of row
	 * first + i / block · stride + k. */
	VIEW_ACROSS,
};
/* How a converter changed the published numbers; changed tensors are F32. */
enum view_change { VIEW_AS_IS, VIEW_PLUS_ONE, VIEW_NEGATED_EXPONENTIAL };

struct view {
	uint32_t dims;
	uint64_t shape[VIEW_DIMS]; /* required shape of the tensor */
	uint32_t count;
	struct view_part part[VIEW_PARTS];
	enum view_way way;
	uint32_t column, step;
	/* Not 0: of every `paired` rows, rows i and i + paired / 2, which are rotated together, are
	 * rows 2 · i and 2 · i + 1 of the tensor. Only with a single part. */
	uint32_t paired;
	enum view_change change;
	uint32_t upright; /* not 0: a row consists of `upright` rows of the tensor, of equal length
			   */
};

typedef void view_fn(struct view *v, const struct config *c, uint32_t expert);

/* A whole tensor, with the role's own shape. */
void view_whole(struct view *v, const struct config *c, enum tensor_role role, uint32_t layer);

/* Experts one after the other, gate above up: [experts, 2 · size, hidden], [experts, hidden, size].
 */
view_fn view_stacked_gate, view_stacked_up, view_stacked_down;
/* Alternating rows of gate and up: [experts, 2 · size, hidden]; their biases: [experts, 2 · size].
 */
view_fn view_turn_gate, view_turn_up, view_turn_gate_bias, view_turn_up_bias;
/* The same with transposed experts: [experts, hidden, 2 · size]; [experts, size, hidden]. */
view_fn view_across_gate, view_across_up, view_across_down;
/* One of the three tensors gate, up, down: [experts, size, hidden]; down as above. */
view_fn view_stacked_one;
/* The keys' and the values' projections of latent attention, head by head [nope + value, rank]; the
 * keys are transposed. */
view_fn view_latent_keys, view_latent_values;
/* The same in separate tensors: [heads, rank, nope], [heads, value, rank]. */
view_fn view_latent_keys_apart, view_latent_values_apart;
/* A depthwise convolution as published: [channels, 1, width]. */
view_fn view_convolution;
/* The convolution over n-grams. */
view_fn view_ngram_convolution;
/* The rows of queries and of keys in an index' fused projection. */
view_fn view_index_queries, view_index_keys;
/* The same in MLX's shape, [channels, width, 1], which reveals MLX's converter. */
view_fn view_convolution_upright;
/* Of Kimi's delta attention: three convolutions, and A_log as published: [1, 1, heads, 1]. */
view_fn view_kimi_q_convolution, view_kimi_k_convolution, view_kimi_v_convolution, view_kimi_a_log;
/* The projections of Mamba2, one above the other: z, then x, B and C, then dt; its convolution. */
view_fn view_mamba_z, view_mamba_xbc, view_mamba_dt, view_mamba_convolution;
/* The projection of a short convolution, in three parts. */
view_fn view_short_convolution;
/* The projections of a delta net, for each key head its q, k, and the v and z of the value heads
 * that belong to it; likewise b and a. */
view_fn view_qkvz_qkv, view_qkvz_z, view_ba_b, view_ba_a;

/* The tensor's row and column of number k of a role's row. */
struct view_place {
	uint64_t row, column;
};
struct view_place view_place(const struct view *v, uint64_t row, uint64_t k);

/* Queries, keys and values of attention one after the other in one tensor; gate above up. */
view_fn view_fused_q, view_fused_k, view_fused_v, view_fused_gate, view_fused_up;
view_fn view_fused_shared_gate, view_fused_shared_up;

/* Queries and keys whose pairs of rows are neighbours. */
view_fn view_paired_q, view_paired_k;
/* -exp(A_log) instead of A_log: of a delta net; of Mamba and of Kimi's delta attention, one number
 * per row; of the latter, all numbers in one row. */
view_fn view_negated_exponential, view_mamba_negated, view_kimi_negated, view_kimi_negated_row;
/* Mamba's D with one number per row; its norm with one group per row. */
view_fn view_mamba_d_rows, view_mamba_norm_groups;

/* For views other than VIEW_ACROSS: the tensor's row of a role's row; *run: how many of the role's
 * rows are contiguous from there (at least 1). Ignores `paired`. */
uint64_t view_row(const struct view *v, uint64_t row, uint64_t *run);

/* The rows [first, end) of the tensor that contain all rows of a role, each of `cols` numbers. */
void view_rows_between(const struct view *v, uint32_t cols, uint64_t *first, uint64_t *end);
/* For VIEW_ALONG, also with `paired`: the role's row in the tensor's row `at`; false: there is
 * none. */
bool view_find_row(const struct view *v, uint64_t at, uint64_t *row);

#endif
