/* What the files of cases share. */
#ifndef MOEFS_TESTS_CUDA_CASES_H
#define MOEFS_TESTS_CUDA_CASES_H

#include "kernels/cuda/cuda_tables.h"
#include "tests/cuda/compare.h"
#include "tests/cuda/runner.h"

/* Zeros; ends the program where there is no memory. */
void *case_alloc(size_t n, size_t size);
/* Tells of a failure. */
bool case_launch(const struct runner *r, enum cuda_kernel k, struct cuda_grid g,
		 const void *operands, size_t bytes);

/* Inputs in 8 bits, where a kernel puts them. Without sums they are those of tq_prepare. */
struct case_inputs {
	int8_t *q;
	float *scale;
	int16_t *sum;
};
struct case_inputs case_inputs_room(const struct runner *r, uint32_t rows, uint32_t k, bool blocks);
/* Whether they are kernels_scalar.tq_prepare or block_prepare of y[rows][k]. */
bool case_inputs_agree(const struct runner *r, const char *what, const struct case_inputs *in,
		       const float *y, uint32_t rows, uint32_t k);

bool case_tq_prepare(const struct runner *r);
bool case_block_prepare(const struct runner *r);
bool case_norm_inputs(const struct runner *r);
bool case_gate_inputs(const struct runner *r);
bool case_join_inputs(const struct runner *r);
bool case_tq_products(const struct runner *r);
bool case_tc2_products(const struct runner *r);
bool case_tc3_products(const struct runner *r);
bool case_tc4_products(const struct runner *r);
bool case_products_together(const struct runner *r);
bool case_q4_k_products(const struct runner *r);
bool case_q5_k_products(const struct runner *r);
bool case_q6_k_products(const struct runner *r);
bool case_q8_0_products(const struct runner *r);
bool case_q5_0_products(const struct runner *r);
bool case_value_products(const struct runner *r);
bool case_small_products(const struct runner *r);
bool case_group_products(const struct runner *r);
bool case_float_products(const struct runner *r);
bool case_rmsnorm(const struct runner *r);
bool case_rope(const struct runner *r);
bool case_elements(const struct runner *r);
bool case_gates(const struct runner *r);
bool case_activations(const struct runner *r);
bool case_sums_and_biases(const struct runner *r);
bool case_gather(const struct runner *r);
bool case_search(const struct runner *r);
bool case_embed(const struct runner *r);
bool case_sum_experts(const struct runner *r);
bool case_choose(const struct runner *r);
bool case_group(const struct runner *r);
bool case_route(const struct runner *r);
bool case_kv_put(const struct runner *r);
bool case_place_heads(const struct runner *r);
bool case_attend(const struct runner *r);
bool case_attend_heads(const struct runner *r);
bool case_delta(const struct runner *r);

#endif
