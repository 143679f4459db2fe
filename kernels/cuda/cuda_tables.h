/* What the program prepares for the kernels of cards: tables, and the shapes of launches. */
#ifndef MOEFS_KERNELS_CUDA_CUDA_TABLES_H
#define MOEFS_KERNELS_CUDA_CUDA_TABLES_H

#include "kernels/cuda/cuda_launch.h"
#include "kernels/format.h"

/* The name under which a module has a kernel. */
const char *cuda_kernel_name(enum cuda_kernel k);

void cuda_fill_signs(struct cuda_signs *signs);

/* Two codes of TC3 that follow each other in a ring, by the ten bits of it that end with the second
 * one's: the first in the lower byte. */
void cuda_fill_pairs(uint16_t pairs[CUDA_PAIRS]);
/* All of a format of TC or TQ but the address of its pairs. */
void cuda_fill_trellis(struct cuda_trellis *t, enum format format);

/* The kernel for items of at most 1, 8 or 32 tokens, of floats 1 or 8, of TC and TQ also 16, or CUDA_KERNEL_COUNT. */
enum cuda_kernel cuda_product_kernel(enum format format, uint32_t most);
/* Groups of a row, as struct cuda_product counts them. */
uint32_t cuda_product_groups(enum format format, uint32_t cols);

/* A card's processors, and the bytes of shared memory that a block of threads may ask for. */
struct cuda_room {
	uint32_t processors, shared;
};

/* The kernel where a launch has some number of tiles of 16 rows: of many tiles of TC each warp has one. */
enum cuda_kernel cuda_kernel_for(enum format format, uint32_t most, size_t tiles,
				 const struct cuda_room *room);

/* Shapes of launches. */
struct cuda_grid cuda_prepare_grid(enum cuda_kernel k, const struct cuda_prepare *p);
/* For at most so many items: items · p->parts <= 65535. Also sets p->sharing. */
struct cuda_grid cuda_product_grid(enum cuda_kernel k, struct cuda_product *p, uint32_t items,
				   const struct cuda_room *room);
/* The kernel for `count` products of these formats in one launch, with items of at most `most` tokens, or
 * CUDA_KERNEL_COUNT. */
enum cuda_kernel cuda_products_kernel(const enum format *formats, uint32_t count, uint32_t most);
/* The type of a table of this format for cuda_embed. False: it has none. */
bool cuda_table_type(enum cuda_number *type, enum format format);
/* The groups of a table in an affine format, which is stored in chunks of chunk_rows rows. */
struct cuda_table_groups cuda_table_groups_of(const struct shape *s, uint32_t chunk_rows);
/* What a product needs to know of a format that cuda_product_kernel has and that has blocks. */
struct cuda_block_kind cuda_block_kind_of(const struct shape *s);
/* Of all products together, by their kernel. Sets their sharing. */
struct cuda_grid cuda_products_grid(enum cuda_kernel k, struct cuda_products *p,
				    const struct cuda_room *room);
/* The kernels for few or for many rows, and their grids. */
enum cuda_kernel cuda_norm_kernel(const struct cuda_norm_inputs *p);
enum cuda_kernel cuda_gate_kernel(const struct cuda_gate_inputs *p);
enum cuda_kernel cuda_join_kernel(const struct cuda_join_inputs *p);
struct cuda_grid cuda_norm_inputs_grid(const struct cuda_norm_inputs *p);
struct cuda_grid cuda_gate_inputs_grid(const struct cuda_gate_inputs *p);
struct cuda_grid cuda_join_inputs_grid(const struct cuda_join_inputs *p);
struct cuda_grid cuda_heads_grid(const struct cuda_heads *p);
struct cuda_grid cuda_norms_grid(const struct cuda_norms *p);
struct cuda_grid cuda_lengths_grid(const struct cuda_lengths *p);
/* Kernels of which each thread has an element. */
struct cuda_grid cuda_items_grid(size_t n);
/* Of cuda_find_largest, in CUDA_LARGEST_PARTS of each row. */
struct cuda_grid cuda_search_grid(uint32_t rows);
/* The largest of what it found in the parts of a row, of equals the first. */
struct cuda_peak cuda_best_part(const struct cuda_peak *parts);
/* The kernel for a router of this kind; and the one that also groups the row. */
enum cuda_kernel cuda_choice_kernel(const struct cuda_choice *p);
enum cuda_kernel cuda_route_kernel(const struct cuda_choice *p);
/* Also of cuda_route, by its choice. */
struct cuda_grid cuda_choice_grid(const struct cuda_choice *p);
/* Also sets p->parts. */
struct cuda_grid cuda_groups_grid(struct cuda_groups *p);
struct cuda_grid cuda_spans_grid(const struct cuda_attention *p);
/* Whether cuda_attend_heads computes these rows. */
bool cuda_attends_heads(const struct cuda_attend_heads *p, const struct cuda_room *room);
/* Also sets p->together. */
struct cuda_grid cuda_attend_heads_grid(struct cuda_attend_heads *p);
struct cuda_grid cuda_rows_grid(const struct cuda_attention *p);
struct cuda_grid cuda_join_grid(const struct cuda_attention *p);
struct cuda_grid cuda_delta_mix_grid(const struct cuda_delta *p);
/* Whether cuda_delta_steps should make the outputs, too. */
bool cuda_delta_is_short(const struct cuda_delta *p);
/* cuda_delta_steps, or cuda_delta_steps_any. */
enum cuda_kernel cuda_delta_steps_kernel(const struct cuda_delta *p);
/* Also sets p->together and p->share. */
struct cuda_grid cuda_delta_steps_grid(struct cuda_delta *p);
struct cuda_grid cuda_delta_outputs_grid(const struct cuda_delta *p);

#endif
