/* Views: which rows of a published tensor are a role's.
 *
 * Checkpoints put several matrices into one tensor: all experts of a layer, gate above up, the
 * projections of a delta net head by head. A view names a role's rows without copying: up to three
 * parts, one after the other in the role, each taken from the tensor in blocks of rows at even
 * distances. All but the last of the tensor's dimensions count as rows. A role's rows may also lie
 * across the tensor's, or be every n-th number of them.
 */
#ifndef MOEFS_ENGINE_FAMILY_VIEW_H
#define MOEFS_ENGINE_FAMILY_VIEW_H

#include "engine/family/config.h"

enum { VIEW_PARTS = 3, VIEW_DIMS = 4 };

/* Rows [0, rows) of the part: row i is the tensor's row first + i / block · stride + i % block. */
struct view_part {
	uint64_t rows, first, block, stride;
};

/* Where a role's numbers lie in a tensor's rows. */
enum view_way {
	VIEW_ALONG,  /* they are the first of the row that view_row names */
	VIEW_PICKED, /* number k is in column `column + k · step` of that row */
	/* Of the one part, row i's number k is in column `column + i % block · step` of the row
	 * first + i / block · stride + k. */
	VIEW_ACROSS,
};
/* A converter's change to published numbers; changed tensors are F32. */
enum view_change { VIEW_AS_IS, VIEW_PLUS_ONE, VIEW_NEGATED_EXPONENTIAL };

struct view {
	uint32_t dims;
	uint64_t shape[VIEW_DIMS]; /* that the tensor must have */
	uint32_t count;
	struct view_part part[VIEW_PARTS];
	enum view_way way;
	uint32_t column, step;
	/* Not 0: rows i and i + paired / 2 of every `paired`, which a rotation turns together, are
	 * rows 2 · i and 2 · i + 1 of the tensor. With one part alone. */
	uint32_t paired;
	enum view_change change;
	uint32_t upright; /* not 0: a row is `upright` rows of the tensor, of equal length */
};

typedef void view_fn(struct view *v, const struct config *c, uint32_t expert);

/* A whole tensor, with the role's own shape. */
void view_whole(struct view *v, const struct config *c, enum tensor_role role, uint32_t layer);

/* Experts one after the other, gate above up: [experts, 2 · size, hidden], [experts, hidden, size].
 */
view_fn view_stacked_gate, view_stacked_up, view_stacked_down;
/* Rows of gate and up in turn: [experts, 2 · size, hidden]; their biases: [experts, 2 · size]. */
view_fn view_turn_gate, view_turn_up, view_turn_gate_bias, view_turn_up_bias;
/* The same with the rows of each expert across: [experts, hidden, 2 · size]; [experts, size,
 * hidden]. */
view_fn view_across_gate, view_across_up, view_across_down;
/* The same with a tensor for each of the three: [experts, size, hidden]; down is as above. */
view_fn view_stacked_one;
/* The keys' and the values' projections of latent attention, head by head [nope + value, rank], the
 * keys' rows across. */
view_fn view_latent_keys, view_latent_values;
/* The same with a tensor for each: [heads, rank, nope], [heads, value, rank]. */
view_fn view_latent_keys_apart, view_latent_values_apart;
/* A depthwise convolution as published: [channels, 1, width]. */
view_fn view_convolution;
/* The one over n-grams. */
view_fn view_ngram_convolution;
/* The rows of queries and of keys in an index' fused projection. */
view_fn view_index_queries, view_index_keys;
/* The same as MLX has it, [channels, width, 1]; by that its converter is known. */
view_fn view_convolution_upright;
/* Of Kimi's delta attention: three convolutions, and A_log as published: [1, 1, heads, 1]. */
view_fn view_kimi_q_convolution, view_kimi_k_convolution, view_kimi_v_convolution, view_kimi_a_log;
/* The projections of Mamba2, one above the other: z, then x, B and C, then dt; its convolution. */
view_fn view_mamba_z, view_mamba_xbc, view_mamba_dt, view_mamba_convolution;
/* The same of a short convolution. */
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
/* -exp(A_log) in place of A_log: of a delta net; of Mamba and of Kimi's delta attention, a number a
 * row; of the latter, all in one row. */
view_fn view_negated_exponential, view_mamba_negated, view_kimi_negated, view_kimi_negated_row;
/* Mamba's D a number a row, and its norm a group a row. */
view_fn view_mamba_d_rows, view_mamba_norm_groups;

/* For a view that does not lie across: the tensor's row of a role's row, and how many of the role's
 * rows follow each other there (at least 1). Ignores pairs. */
uint64_t view_row(const struct view *v, uint64_t row, uint64_t *run);

/* The reverse direction. The tensor's rows [first, end) that contain all rows of a role, each of
 * `cols` numbers. */
void view_rows_between(const struct view *v, uint32_t cols, uint64_t *first, uint64_t *end);
/* For a view along rows, pairs included: the role's row that lies in the tensor's row `at`; false:
 * none does. */
bool view_find_row(const struct view *v, uint64_t at, uint64_t *row);

#endif
