/* The kernels of cards against the scalar table, whoever runs them (runner.h): small shapes, with
 * rows, groups and tokens that do not fill a block of threads, and hostile numbers. This file has the
 * list. */
#include "tests/cuda/cases.h"

#include <stdio.h>
#include <stdlib.h>

void *case_alloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);
	if (!p)
		abort();
	return p;
}

bool case_launch(const struct runner *r, enum cuda_kernel k, struct cuda_grid g,
			const void *operands, size_t bytes)
{
	if (r->launch(r->ctx, k, &g, operands, bytes))
		return true;
	printf("# %s was not launched\n", cuda_kernel_name(k));
	return false;
}

const struct kernel_case kernel_cases[] = {
	{"tq_prepare", case_tq_prepare},
	{"block_prepare", case_block_prepare},
	{"norm_inputs", case_norm_inputs},
	{"gate_inputs", case_gate_inputs},
	{"join_inputs", case_join_inputs},
	{"tq_products", case_tq_products},
	{"tc2_products", case_tc2_products},
	{"tc3_products", case_tc3_products},
	{"tc4_products", case_tc4_products},
	{"products_together", case_products_together},
	{"q4_k_products", case_q4_k_products},
	{"q5_k_products", case_q5_k_products},
	{"q6_k_products", case_q6_k_products},
	{"q8_0_products", case_q8_0_products},
	{"q5_0_products", case_q5_0_products},
	{"value_products", case_value_products},
	{"small_products", case_small_products},
	{"group_products", case_group_products},
	{"float_products", case_float_products},
	{"rmsnorm", case_rmsnorm},
	{"rope", case_rope},
	{"elements", case_elements},
	{"gates", case_gates},
	{"activations", case_activations},
	{"sums_and_biases", case_sums_and_biases},
	{"gather", case_gather},
	{"largest numbers", case_search},
	{"embed", case_embed},
	{"sum_experts", case_sum_experts},
	{"choose", case_choose},
	{"group", case_group},
	{"route", case_route},
	{"kv_put", case_kv_put},
	{"place_heads", case_place_heads},
	{"attend", case_attend},
	{"attend_heads", case_attend_heads},
	{"delta", case_delta},
};
const size_t kernel_case_count = sizeof kernel_cases / sizeof *kernel_cases;

bool kernel_cases_agree(const struct runner *r)
{
	bool right = true;

	for (size_t i = 0; i < kernel_case_count; i++) {
		const bool one = kernel_cases[i].run(r);
		printf("%s: %s\n", kernel_cases[i].name, one ? "the same bits" : "WRONG");
		right &= one;
	}
	return right;
}
