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

bool case_tq_prepare(const struct runner *r);
bool case_block_prepare(const struct runner *r);
bool case_tc3_products(const struct runner *r);
bool case_tc4_products(const struct runner *r);
bool case_q4_k_products(const struct runner *r);
bool case_rmsnorm(const struct runner *r);
bool case_rope(const struct runner *r);
bool case_elements(const struct runner *r);
bool case_sum_experts(const struct runner *r);
bool case_choose(const struct runner *r);
bool case_kv_put(const struct runner *r);
bool case_attend(const struct runner *r);

#endif
