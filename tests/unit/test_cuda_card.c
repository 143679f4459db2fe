/* The kernels on this machine's card, if it has one, against the scalar table, bit for bit. */
#include "engine/gpu/card_find.h"
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

/* Another process opens the driver, and it is gone afterwards. */
static void looking_leaves_no_driver_in_this_process(void **state)
{
	struct card_find look;
	struct card_found found, again;
	char text[1024], maps[256];
	bool mapped = false;

	(void)state;
	card_find_begin(&look, true);
	card_find_answer(&look, true, &found);
	assert_true(card_print_found(&found, text, sizeof text) < (int)sizeof text);
	print_message("%s\n", text);
	assert_true(found.there || found.why[0]);
	assert_non_null(strstr(text, found.there ? found.facts.name : found.why));
	card_find_answer(&look, false, &again);
	assert_int_equal(again.there, found.there);
	assert_string_equal(again.why, found.why);
	card_find_close(&look);
	FILE *f = fopen("/proc/self/maps", "r");
	assert_non_null(f);
	while (fgets(maps, sizeof maps, f))
		mapped |= strstr(maps, "libcuda.so") != NULL;
	fclose(f);
	assert_false(mapped);
}

static void who_does_not_look_says_so(void **state)
{
	struct card_find look;
	struct card_found found;

	(void)state;
	card_find_begin(&look, false);
	card_find_answer(&look, true, &found);
	assert_false(found.there);
	assert_string_equal(found.why, "not looked for");
	card_find_close(&look);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_does_not_look_says_so),
		cmocka_unit_test(looking_leaves_no_driver_in_this_process),
		cmocka_unit_test(kernels_on_the_card_give_the_scalar_tables_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
