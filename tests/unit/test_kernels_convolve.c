/* The parts around recurrent mixers: gates and decays on vectors, norms of queries and keys, the
 * convolutions. Near double precision, the same bits from every table at every length; NaN and
 * infinity show in the result. The recurrence is tested in test_kernels_delta.c. */
#include "kernels/kernels.h"
#include "tests/unit/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { LONGEST = 67, GUARD = 9 }; /* lengths tried; elements behind that must stay untouched */

static bool same_bits(const float *a, const float *b, size_t n)
{
	return memcmp(a, b, n * sizeof *a) == 0;
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

/* ---- gates and norms ---- */

static void sigmoid_mul_agrees_with_double_precision(void **state)
{
	(void)state;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (int i = 0; i < 12000; i++) {
			const float x = -78 + (float)i * 0.013F;
			float y = -1.25F;
			(*k)->sigmoid_mul(&y, &x, 1);
			const double expected = -1.25 * sigmoid((double)x);
			assert_true(fabs(y - expected) <= 4e-7 * fabs(expected));
		}
	}
}

static void a_gate_that_is_far_out_is_shut_or_open(void **state)
{
	(void)state;
	const float x[] = {-INFINITY, -1e30F, -200, 200, 1e30F, INFINITY};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		float y[] = {3, 3, 3, 3, 3, 3};
		(*k)->sigmoid_mul(y, x, COUNT(x));
		for (size_t i = 0; i < COUNT(x); i++)
			assert_true(y[i] == (i < 3 ? 0 : 3));
	}
}

static void l2norm_agrees_with_double_precision(void **state)
{
	(void)state;
	struct random random = {1};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (uint32_t n = 1; n <= 300; n++) {
			float x[300], y[300];
			double squares = 0;
			random_normal(&random, x, n);
			for (uint32_t i = 0; i < n; i++)
				squares += (double)x[i] * x[i];
			(*k)->l2norm(y, x, n, 1e-6F, .0884F);
			const double factor = (double).0884F / sqrt(squares + (double)1e-6F);
			for (uint32_t i = 0; i < n; i++)
				assert_true(fabs(y[i] - x[i] * factor) <= 6e-7 * fabs(y[i]));
		}
	}
}

static void l2norm_of_zeros_is_zeros(void **state)
{
	(void)state;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		float x[20] = {0};
		(*k)->l2norm(x, x, 20, 1e-6F, 1);
		for (size_t i = 0; i < 20; i++)
			assert_true(x[i] == 0);
	}
}

/* Also where all elements are numbers, and only their squares are too large. */
static void l2norm_shows_nan_and_infinity(void **state)
{
	(void)state;
	const float bad[] = {NAN, INFINITY, -INFINITY, 1e25F};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (size_t b = 0; b < COUNT(bad); b++) {
			for (uint32_t n = 1; n <= LONGEST; n++) {
				float x[LONGEST], y[LONGEST];
				for (uint32_t i = 0; i < n; i++)
					x[i] = 1;
				x[n / 2] = bad[b];
				(*k)->l2norm(y, x, n, 1e-6F, 1);
				for (uint32_t i = 0; i < n; i++)
					assert_true(isnan(y[i]));
			}
		}
	}
}

/* Large and small magnitudes, and zeros of both signs. */
static void random_floats(struct random *random, float *x, size_t n)
{
	random_normal(random, x, n);
	for (size_t i = 0; i < n; i++)
		x[i] = random_u32(random) % 16 ? ldexpf(x[i], (int)(random_u32(random) % 12) - 6)
					       : copysignf(0, x[i]);
}

static void decays_agree_with_double_precision(void **state)
{
	(void)state;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (int i = -2000; i <= 2000; i++) {
			const float x = (float)i * .05F, bias = .375F, factor = .8F;
			float y;
			(*k)->delta_decay(&y, &x, &bias, factor, 1);
			const double z = (double)(x + bias), factor_ = (double)factor;
			const double softplus = z > 30 ? z + exp(-z) : log1p(exp(z));
			const double expected = exp(-factor_ * softplus);
			assert_true(fabs(y - expected) <=
				    (3e-7 + 2e-7 * factor_ * softplus) * expected + 1e-44);
		}
	}
}

static void decays_have_the_right_limits(void **state)
{
	(void)state;
	const float x[] = {-INFINITY, -1e30F, 1e30F, INFINITY, NAN}, bias[COUNT(x)] = {0};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		float y[COUNT(x)];
		(*k)->delta_decay(y, x, bias, 1, COUNT(x));
		assert_true(y[0] == 1 && y[1] == 1 && y[2] == 0 && y[3] == 0 && isnan(y[4]));
	}
}

static void negative_numbers_have_no_square(void **state)
{
	(void)state;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		float x[] = {-INFINITY, -3, 0, .5F, 3, INFINITY, NAN};
		(*k)->relu_squared(x, COUNT(x));
		assert_true(x[0] == 0 && x[1] == 0 && x[2] == 0 && x[3] == .25F && x[4] == 9);
		assert_true(isinf(x[5]) && isnan(x[6]));
	}
}

static void call_delta_decay(const struct kernels *k, float *x, const float *a, uint32_t n)
{
	k->delta_decay(x, x, a, .7F, n);
}

static void call_relu_squared(const struct kernels *k, float *x, const float *a, uint32_t n)
{
	(void)a;
	k->relu_squared(x, n);
}

static void call_sigmoid_mul(const struct kernels *k, float *x, const float *a, uint32_t n)
{
	k->sigmoid_mul(x, a, n);
}

static void call_l2norm(const struct kernels *k, float *x, const float *a, uint32_t n)
{
	(void)a;
	k->l2norm(x, x, n, 1e-6F, .0884F);
}

static void vectors_have_the_same_bits_from_every_table_at_every_length(void **state)
{
	(void)state;
	static void (*const calls[])(const struct kernels *, float *, const float *,
				     uint32_t) = {call_sigmoid_mul, call_l2norm,
						  call_delta_decay, call_relu_squared};
	struct random random = {2};
	for (uint32_t i = 0; i < COUNT(calls) * LONGEST * 20; i++) {
		const uint32_t n = i % LONGEST + 1, c = i % COUNT(calls);
		float x[LONGEST + GUARD], a[LONGEST], expected[LONGEST + GUARD];
		random_floats(&random, x, n + GUARD);
		random_floats(&random, a, n);
		memcpy(expected, x, sizeof x);
		calls[c](&kernels_scalar, expected, a, n);
		assert_true(same_bits(expected + n, x + n, GUARD));
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			float y[LONGEST + GUARD];
			memcpy(y, x, sizeof y);
			calls[c](*k, y, a, n);
			if (!same_bits(y, expected, n + GUARD))
				fail_msg("function %u of %u elements differs in table %s", c, n,
					 (*k)->name);
		}
	}
}

/* ---- convolution ---- */

struct convolution {
	float w[CONV_WIDTH * LONGEST], memory[CONV_WIDTH][LONGEST];
	const float *taps[CONV_WIDTH];
	uint32_t width, channels;
};

static void make_convolution(struct random *random, struct convolution *c, uint32_t width,
			     uint32_t channels)
{
	c->width = width;
	c->channels = channels;
	random_floats(random, c->w, (size_t)width * channels);
	for (uint32_t i = 0; i < width; i++) { /* the taps of a ring are in no order */
		c->taps[i] = c->memory[(i + 3) % width];
		random_floats(random, c->memory[i], channels);
	}
}

static void convolution_agrees_with_double_precision(void **state)
{
	(void)state;
	struct random random = {3};
	struct convolution v;
	for (uint32_t width = 1; width <= CONV_WIDTH; width++) {
		float y[LONGEST], plain[LONGEST];
		make_convolution(&random, &v, width, LONGEST);
		kernels_scalar.conv_silu(y, v.w, NULL, v.taps, width, LONGEST, 0, LONGEST);
		kernels_scalar.conv(plain, v.w, v.memory[0], v.taps, width, LONGEST, 0, LONGEST);
		for (size_t c = 0; c < LONGEST; c++) {
			double sum = 0, size = 0;
			for (size_t i = 0; i < width; i++) {
				const double term = (double)v.w[i * LONGEST + c] * v.taps[i][c];
				sum += term;
				size += fabs(term);
			}
			assert_true(fabs(y[c] - sum * sigmoid(sum)) <= 2e-6 * size);
			size += fabs((double)v.memory[0][c]);
			assert_true(fabs(plain[c] - sum - (double)v.memory[0][c]) <= 2e-6 * size);
		}
	}
}

/* With a bias or without, with silu or without. */
static void convolve(const struct kernels *k, const struct convolution *v, float *y, uint32_t c0,
		     uint32_t c1, uint32_t which)
{
	convolve_fn *const function = which & 1 ? k->conv : k->conv_silu;
	function(y, v->w, which & 2 ? v->memory[0] : NULL, v->taps, v->width, v->channels, c0, c1);
}

/* Any range of channels, and nothing outside it is written. */
static void convolution_has_the_same_bits_from_every_table(void **state)
{
	(void)state;
	struct random random = {4};
	struct convolution v;
	for (uint32_t i = 0; i < CONV_WIDTH * LONGEST * 4; i++) {
		const uint32_t width = i % CONV_WIDTH + 1, channels = i % LONGEST + 1;
		const uint32_t which = random_u32(&random) % 4;
		const uint32_t c0 = random_u32(&random) % channels;
		const uint32_t c1 = c0 + random_u32(&random) % (channels - c0) + 1;
		float expected[LONGEST], y[LONGEST];
		make_convolution(&random, &v, width, channels);
		memset(expected, 0x55, sizeof expected);
		convolve(&kernels_scalar, &v, expected, c0, c1, which);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			memset(y, 0x55, sizeof y);
			convolve(*k, &v, y, c0, c1, which);
			if (!same_bits(y, expected, LONGEST))
				fail_msg("%s: width %u, channels %u to %u of %u differ", (*k)->name,
					 width, c0, c1, channels);
		}
	}
}

static void convolution_shows_nan_and_infinity(void **state)
{
	(void)state;
	const float bad[] = {NAN, INFINITY, -INFINITY};
	struct random random = {5};
	struct convolution v;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (uint32_t i = 0; i < LONGEST * 3; i++) {
			const uint32_t c = i % LONGEST;
			float y[LONGEST];
			make_convolution(&random, &v, 4, LONGEST);
			v.w[(i % 4) * LONGEST + c] = 1;
			v.memory[(i % 4 + 3) % 4][c] = bad[i % 3];
			(*k)->conv_silu(y, v.w, NULL, v.taps, 4, LONGEST, 0, LONGEST);
			for (uint32_t j = 0; j < LONGEST; j++)
				assert_true(j == c ? !isfinite(y[j]) : isfinite(y[j]));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sigmoid_mul_agrees_with_double_precision),
		cmocka_unit_test(a_gate_that_is_far_out_is_shut_or_open),
		cmocka_unit_test(decays_agree_with_double_precision),
		cmocka_unit_test(decays_have_the_right_limits),
		cmocka_unit_test(negative_numbers_have_no_square),
		cmocka_unit_test(l2norm_agrees_with_double_precision),
		cmocka_unit_test(l2norm_of_zeros_is_zeros),
		cmocka_unit_test(l2norm_shows_nan_and_infinity),
		cmocka_unit_test(vectors_have_the_same_bits_from_every_table_at_every_length),
		cmocka_unit_test(convolution_agrees_with_double_precision),
		cmocka_unit_test(convolution_has_the_same_bits_from_every_table),
		cmocka_unit_test(convolution_shows_nan_and_infinity),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
