/* The kernels of cards as C, without a card (tests/cuda/crew.h). Their
 * results are those of the scalar table, bit for bit. */
#include "kernels/cuda/cuda_vectors.h"
#include "kernels/scalar.h"
#include "tests/cuda/runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void kernels_give_the_scalar_tables_bits(void **state)
{
	const struct runner r = threads_runner();

	(void)state;
	assert_true(kernel_cases_agree(&r));
}

/* The one exponential, for floats of every sign and size: the kernels' elements are too few for that. */
static void the_exponential_is_the_scalar_tables(void **state)
{
	(void)state;
	for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 997) {
		const float x = cuda_float((uint32_t)bits), got = cuda_exp(x),
			    expected = scalar_exp(x);
		if (cuda_bits(got) != cuda_bits(expected) && !(isnan(got) && isnan(expected)))
			fail_msg("exp(%a) is %a, not %a", (double)x, (double)got,
				 (double)expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_exponential_is_the_scalar_tables),
		cmocka_unit_test(kernels_give_the_scalar_tables_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
