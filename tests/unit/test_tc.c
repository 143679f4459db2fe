/* The TC format: what its bytes mean, that its encoder finds good ones, and the same on all tables.
 */
#include "kernels/kernels.h"
#include "tests/unit/random.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The codes of a group as kernels/README.md has them, without a line of tc.c: bits are taken one by
 * one out of a ring of bytes. */
static int32_t bit_of_ring(const uint8_t *packed, uint32_t bits, size_t at)
{
	static const uint8_t unit_order[16] = {0, 4, 8,	 12, 1, 5, 9,  13,
					       2, 6, 10, 14, 3, 7, 11, 15};
	at %= (size_t)TQ_GROUP * bits;
	const size_t unit = unit_order[at / (TQ_UNIT * bits)], bit = at % (TQ_UNIT * bits);
	return packed[unit * bits + bit / 8] >> bit % 8 & 1;
}

static uint32_t nibble_of_ring(const uint8_t *packed, uint32_t bits, size_t position)
{
	uint32_t nibble = 0;

	for (size_t i = 0; i < 4; i++)
		nibble |= (uint32_t)bit_of_ring(packed, bits,
						(TQ_GROUP + position + 1) * bits - 4 + i)
			  << i;
	return nibble;
}

static void random_bytes(struct random *r, uint8_t packed[64])
{
	for (size_t i = 0; i < 64; i++)
		packed[i] = (uint8_t)random_u32(r);
}

static void codes_are_those_that_the_page_says(void **state)
{
	(void)state;
	struct random r = {1};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const struct tc_codebook *book = tc_codebook(bits);
		const size_t back = bits == 2 ? 2 : 1;
		uint8_t packed[64];
		int8_t code[TQ_GROUP];

		assert_int_equal(book->bits, bits);
		random_bytes(&r, packed);
		tc_codes(code, packed, bits);
		for (size_t t = 0; t < TQ_GROUP; t++) {
			const size_t unit = t / 8 % 4 * 4 + t / 32, column = unit * 8 + t % 8;
			const int32_t expected =
				book->newest[nibble_of_ring(packed, bits, t)] +
				book->before[nibble_of_ring(packed, bits, TQ_GROUP + t - back)];
			assert_int_equal(code[column], expected);
		}
	}
}

static enum format format_of(uint32_t bits)
{
	return (enum format)(FORMAT_TC2 + bits - 2);
}

/* Σ (x - x̂)² / Σ x² over some groups of normally distributed weights. */
static double relative_error(uint32_t bits, size_t groups)
{
	const struct shape s = {format_of(bits), NORM_F32, 1, TQ_GROUP, 0};
	struct random r = {bits};
	double error = 0, power = 0;

	for (size_t g = 0; g < groups; g++) {
		float x[TQ_GROUP], back[TQ_GROUP], norm;
		uint8_t packed[64];
		random_normal(&r, x, TQ_GROUP);
		assert_true(kernels_best()->tc_quantise_row(packed, &norm, x, TQ_GROUP, bits));
		const struct pieces from = {packed, &norm, NULL};
		format_dequantise_row(back, &s, &from);
		for (size_t i = 0; i < TQ_GROUP; i++) {
			error += ((double)x[i] - back[i]) * ((double)x[i] - back[i]);
			power += (double)x[i] * x[i];
		}
	}
	return error / power;
}

static void errors_on_normal_weights_are_the_trellis_own(void **state)
{
	(void)state;
	static const double expected[] = {.0799, .0224, .00596};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const double error = relative_error(bits, 4000);
		if (fabs(error / expected[bits - 2] - 1) > .01)
			fail_msg("%u bits: %.5f, not %.5f", bits, error, expected[bits - 2]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_are_those_that_the_page_says),
		cmocka_unit_test(errors_on_normal_weights_are_the_trellis_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
