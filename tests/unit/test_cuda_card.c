/* The kernels on this machine's card, if it has one, against the scalar table, bit for bit. */
#include "tests/cuda/card_runner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void kernels_on_the_card_give_the_scalar_tables_bits(void **state)
{
	static struct card_runner x;
	struct err e;

	(void)state;
	x = (struct card_runner){.images = cuda_images};
	const int failed = card_open(&x.card, 0, cuda_images, &e);
	if (failed == -ENODEV || failed == -ENOTSUP) {
		print_message("skipped: %s\n", e.text);
		skip();
	}
	if (failed)
		fail_msg("%s", e.text);
	const struct runner r = card_runner(&x);
	const bool right = kernel_cases_agree(&r);
	card_close(&x.card);
	assert_true(right);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_on_the_card_give_the_scalar_tables_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
