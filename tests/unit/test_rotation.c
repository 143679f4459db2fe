/* Rotary positions: the frequencies of each scaling as its definition has them, and angles of any
 * step. */
#include "engine/compute/step.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct config config; /* zero: no layers, and only what a test sets */
static struct rotation rotations[CONFIG_ROPES];
static void *memory;

static void make(struct rope rope, uint32_t rows)
{
	struct arena a = {0};
	config.rope[0] = rope;
	rotation_take(rotations, &a, &config, rows);
	memory = aligned_alloc(ARENA_ALIGNMENT, a.used);
	assert_non_null(memory);
	a = (struct arena){.memory = memory};
	rotation_take(rotations, &a, &config, rows);
	rotation_init(rotations, &config);
}

static int release(void **state)
{
	(void)state;
	free(memory);
	memory = NULL;
	return 0;
}

static void assert_frequency(uint32_t i, double want)
{
	double is = rotations[0].frequency[i];
	if (!(fabs(is - want) <= 1e-6 * fabs(want)))
		fail_msg("frequency %u is %.9g, not %.9g", i, is, want);
}

static double plain(double theta, double i, double dim)
{
	return pow(theta, -2 * i / dim);
}

/* Llama 3.2: waves of more than 8192 positions turn 32 times slower, those of less than 2048 as
 * they did; pairs 15 and 17 of 32 (theta 500000) are such, 16 lies between. */
static void llama3_slows_long_waves_and_keeps_short_ones(void **state)
{
	(void)state;
	make((struct rope){ROPE_LLAMA3, 64, 32, 5e5, 32, 8192, 1, 4, false, 1, 1, {0}}, 1);
	assert_int_equal(rotations[0].half, 32);
	for (uint32_t i = 0; i < 32; i++) {
		double f = plain(5e5, i, 64), wave = 6.283185307179586 / f;
		double kept = (8192 / wave - 1) / (4 - 1);
		assert_frequency(i, wave < 2048	  ? f
				    : wave > 8192 ? f / 32
						  : (1 - kept) * f / 32 + kept * f);
	}
	assert_true(plain(5e5, 0, 64) == rotations[0].frequency[0]);
	assert_frequency(31, plain(5e5, 31, 64) / 32);
}

/* gpt-oss: of its 32 pairs those before 8.092779 (32 turns in 4096 positions) are kept, those from
 * 17.397967 on (one turn) 32 times slower. */
static void yarn_slows_pairs_along_a_ramp(void **state)
{
	(void)state;
	struct rope p = {ROPE_YARN, 64, 32, 150000, 32, 4096, 1, 32, false, 1.25F, 1, {0}};
	const double low = 8.0927786, high = 17.3980200;
	make(p, 1);
	assert_frequency(8, plain(150000, 8, 64));
	assert_frequency(18, plain(150000, 18, 64) / 32);
	double f = plain(150000, 12, 64), slowed = (12 - low) / (high - low);
	assert_frequency(12, f / 32 * slowed + f * (1 - slowed));
	rotation_set(rotations, &config, 0, 0, 1, false);
	assert_true(rotations[0].cos[0] == 1.25F && rotations[0].sin[0] == 0);
	free(memory);
	p.truncate = true; /* from 8 to 18 */
	make(p, 1);
	assert_frequency(12, f / 32 * .4 + f * .6);
}

static void proportional_turns_the_first_pairs_of_a_whole_head(void **state)
{
	(void)state;
	make((struct rope){ROPE_PROPORTIONAL, 64, 8, 1e6, 1, 0, 0, 0, false, 1, 1, {0}}, 1);
	assert_frequency(7, plain(1e6, 7, 64));
	assert_true(rotations[0].frequency[8] == 0 && rotations[0].frequency[31] == 0);
}

static void linear_slows_all(void **state)
{
	(void)state;
	make((struct rope){ROPE_LINEAR, 8, 4, 1e4, 4, 0, 0, 0, false, 1, 1, {0}}, 1);
	assert_frequency(0, .25);
	assert_frequency(3, plain(1e4, 3, 8) / 4);
}

static void a_row_has_the_angles_of_its_position(void **state)
{
	(void)state;
	make((struct rope){ROPE_DEFAULT, 8, 4, 1e4, 1, 0, 0, 0, false, 1, 1, {0}}, 3);
	rotation_set(rotations, &config, 0, 70000, 1, false);
	rotation_set(rotations, &config, 1, 70001, 2, false);
	for (size_t t = 0; t < 3; t++)
		for (size_t i = 0; i < 4; i++) {
			double angle = (double)(70000 + t) * plain(1e4, (double)i, 8);
			assert_true(fabs(rotations[0].cos[t * 4 + i] - cos(angle)) < 1e-7);
			assert_true(fabs(rotations[0].sin[t * 4 + i] - sin(angle)) < 1e-7);
		}
}

static void pairs_are_turned_by_the_angles_and_back(void **state)
{
	(void)state;
	float x[] = {1, 0, 0, 2, 3, 4}, turned[6];
	float cosine[] = {0, .6F, 1}, sine[] = {1, .8F, 0};
	memcpy(turned, x, sizeof x);
	rotation_turn_pairs(turned, cosine, sine, 3, false);
	static const float want[] = {0, 1, -1.6F, 1.2F, 3, 4};
	for (int i = 0; i < 6; i++)
		assert_true(fabsf(turned[i] - want[i]) < 1e-6F);
	rotation_turn_pairs(turned, cosine, sine, 3, true);
	for (int i = 0; i < 6; i++)
		assert_true(fabsf(turned[i] - x[i]) < 1e-6F);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(llama3_slows_long_waves_and_keeps_short_ones, release),
		cmocka_unit_test_teardown(yarn_slows_pairs_along_a_ramp, release),
		cmocka_unit_test_teardown(proportional_turns_the_first_pairs_of_a_whole_head,
					  release),
		cmocka_unit_test_teardown(linear_slows_all, release),
		cmocka_unit_test_teardown(a_row_has_the_angles_of_its_position, release),
		cmocka_unit_test(pairs_are_turned_by_the_angles_and_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
