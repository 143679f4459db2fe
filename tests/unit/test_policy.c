/* Replacement policies: what uses are worth, in numbers computed by hand. How the pool acts on them
 * is test_pager.c's. */
#include "cache/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* An expert's uses at a run of visits to its layer: at visit i with credit[i], 0 for none. */
static double value_after(const struct policy *p, const float *credit, int visits)
{
	struct use_counts u = {0};
	double value = 0;
	for (int i = 0; i < visits; i++) {
		value = policy_fade(p, &u, value);
		if (credit[i] > 0)
			value = policy_use(p, &u, credit[i], (uint64_t)i + 1);
	}
	return value;
}

static void scales_fades_by_three_half_lives(void **state)
{
	(void)state;
	const struct policy *p = policy_find("scales");
	float once[257] = {1};
	assert_float_equal(value_after(p, once, 1), 1.24, 1e-6); /* 1 + 1/5 + 1/25 */
	assert_float_equal(value_after(p, once, 2), 0.5 + 0.957603 / 5 + 0.997296 / 25, 1e-6);
	assert_float_equal(value_after(p, once, 17), 0x1p-16 + 0.1 + 0.957603 / 25, 1e-6);
	assert_float_equal(value_after(p, once, 257), 0x1p-16 / 5 + 0.02, 1e-6);
}

static void a_credited_use_counts_as_much_as_it_is_credited(void **state)
{
	(void)state;
	assert_float_equal(value_after(policy_find("scales"), (float[]){.1F}, 1), 0.124, 1e-6);
	assert_float_equal(value_after(policy_find("lrfu"), (float[]){.1F}, 1), 1, 1e-6);
}

static void lrfu_halves_a_use_in_eight_visits(void **state)
{
	(void)state;
	const struct policy *p = policy_find("lrfu");
	assert_float_equal(value_after(p, (float[9]){1}, 9), 0.5, 1e-6);
	assert_float_equal(value_after(p, (float[9]){[0] = 1, [8] = 1}, 9), 1.5, 1e-6);
}

static void lfu_ranks_by_number_of_uses_and_equals_by_how_long_ago_they_were(void **state)
{
	(void)state;
	const struct policy *p = policy_find("lfu");
	float twice_long_ago[1000] = {1, 1}, once_now[1000] = {[999] = 1},
	      once_before[1000] = {[998] = 1};
	double two = value_after(p, twice_long_ago, 1000), now = value_after(p, once_now, 1000),
	       before = value_after(p, once_before, 1000);
	assert_true(two > now);
	assert_true(now > before);
}

static void lru_ranks_by_the_last_use_alone(void **state)
{
	(void)state;
	const struct policy *p = policy_find("lru");
	assert_true(value_after(p, (float[]){1, 1, 1, 0}, 4) <
		    value_after(p, (float[]){0, 0, 0, 1}, 4));
	assert_float_equal(policy_discount(p, 7, 8, 3), 1, 0);
}

static void an_expert_whose_layer_has_just_passed_is_worth_half(void **state)
{
	(void)state;
	const struct policy *p = policy_find("scales");
	assert_float_equal(policy_discount(p, 48, 48, 0), 0.5, 1e-12);
	assert_true(policy_discount(p, 1, 48, 0) > 0.98);
	assert_float_equal(policy_discount(policy_find("lrfu"), 48, 48, 0), 1, 1e-12);
}

static void an_idle_models_experts_lose_half_in_sixteen_passes_of_others(void **state)
{
	(void)state;
	assert_float_equal(policy_discount(policy_find("lrfu"), 1, 48, 16), 0.5, 1e-12);
}

static void only_known_names_are_policies(void **state)
{
	(void)state;
	assert_null(policy_find("best"));
	assert_ptr_equal(policy_default(), policy_find("scales"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scales_fades_by_three_half_lives),
		cmocka_unit_test(a_credited_use_counts_as_much_as_it_is_credited),
		cmocka_unit_test(lrfu_halves_a_use_in_eight_visits),
		cmocka_unit_test(lfu_ranks_by_number_of_uses_and_equals_by_how_long_ago_they_were),
		cmocka_unit_test(lru_ranks_by_the_last_use_alone),
		cmocka_unit_test(an_expert_whose_layer_has_just_passed_is_worth_half),
		cmocka_unit_test(an_idle_models_experts_lose_half_in_sixteen_passes_of_others),
		cmocka_unit_test(only_known_names_are_policies),
	};
	return cmocka_run_group_tests_name("policies", tests, NULL, NULL);
}
