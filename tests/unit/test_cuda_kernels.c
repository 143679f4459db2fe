/* The kernels of cards as C, without a card: each thread of a block is a thread of the system. Their
 * results are those of the scalar table, bit for bit. */
#include "tests/cuda/runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void kernels_give_the_scalar_tables_bits(void **state)
{
	const struct runner r = threads_runner();
	bool right = true;

	(void)state;
	for (size_t i = 0; i < kernel_case_count; i++) {
		const bool one = kernel_cases[i].run(&r);
		print_message("%s: %s\n", kernel_cases[i].name, one ? "the same bits" : "WRONG");
		right &= one;
	}
	assert_true(right);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_give_the_scalar_tables_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
