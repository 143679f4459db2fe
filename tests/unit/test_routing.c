/* The choice of experts: the largest scores first, and NaN last. */
#include "engine/compute/routing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { EXPERTS = 6 };

static void assert_chosen(const float scores[EXPERTS], const uint32_t expected[EXPERTS])
{
	uint32_t chosen[EXPERTS];
	for (uint32_t top_k = 1; top_k <= EXPERTS; top_k++) {
		routing_top_k(scores, EXPERTS, chosen, top_k);
		for (uint32_t i = 0; i < top_k; i++)
			assert_int_equal(chosen[i], expected[i]);
	}
}

static void the_largest_scores_come_first_and_ties_by_index(void **state)
{
	(void)state;
	assert_chosen((const float[]){1, 3, -2, 3, 0, -INFINITY},
		      (const uint32_t[]){1, 3, 0, 4, 2, 5});
	assert_chosen((const float[]){0.0F, -0.0F, 0, -0.0F, INFINITY, 0},
		      (const uint32_t[]){4, 0, 1, 2, 3, 5});
}

static void nan_comes_after_all_numbers(void **state)
{
	(void)state;
	assert_chosen((const float[]){NAN, -INFINITY, 2, NAN, 5, 2},
		      (const uint32_t[]){4, 2, 5, 1, 0, 3});
	assert_chosen((const float[]){NAN, NAN, NAN, NAN, NAN, NAN},
		      (const uint32_t[]){0, 1, 2, 3, 4, 5});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_largest_scores_come_first_and_ties_by_index),
		cmocka_unit_test(nan_comes_after_all_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
