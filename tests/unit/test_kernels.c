/* The kernels on vectors of floats: right to within stated tolerances, and the same bits from every
 * table at every length. Products are tested in test_kernels_multiply.c, attention in
 * test_kernels_attend.c.
 */
#include "kernels/kernels.h"
#include "tests/unit/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LONGEST = 67, GUARD = 9 }; /* lengths tried; elements behind that must stay untouched */

static double ulp_error(float got, double expected)
{
	const float nearest = (float)expected;
	const double ulp = (double)nextafterf(fabsf(nearest), INFINITY) - fabs((double)nearest);
	return fabs(got - expected) / ulp;
}

/* The exponential is seen through softmax of {0, x}: for x below -18 the sum of the two is 1 in
 * f32, and the second element is exp(x) itself. */
static void the_exponential_is_within_one_ulp(void **state)
{
	(void)state;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		double worst = 0;
		for (int i = 0; i < 180000; i++) {
			const float x = -87.3F + (float)i * 0.000385F;
			float v[2] = {0, x};
			(*k)->softmax(v, 2);
			worst = fmax(worst, ulp_error(v[1], exp((double)x)));
		}
		print_message("%s: exp within %.3f ulp\n", (*k)->name, worst);
		assert_true(worst <= 1);
	}
}

static void the_exponential_of_subnormal_results_rounds_once(void **state)
{
	(void)state;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (int i = 0; i < 16700; i++) {
			const float x = -104 + (float)i * 0.001F;
			float v[2] = {0, x};
			(*k)->softmax(v, 2);
			assert_true(fabs(v[1] - exp((double)x)) <= 0x1p-149);
		}
	}
}

static void the_exponential_has_the_right_limits(void **state)
{
	(void)state;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		float v[4] = {0, -INFINITY, -1e30F, -105};
		(*k)->softmax(v, 4);
		assert_true(v[0] == 1 && v[1] == 0 && v[2] == 0 && v[3] == 0);

		/* silu(x) = x / (1 + exp(-x)): exp overflows to infinity for the first two. */
		float gate[4] = {-200, -1e30F, 200, NAN};
		const float up[4] = {1, 1, 1, 1};
		(*k)->silu_mul(gate, up, 4);
		assert_true(gate[0] == 0 && gate[1] == 0 && gate[2] == 200 && isnan(gate[3]));
	}
}

static void silu_agrees_with_double_precision(void **state)
{
	(void)state;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (int i = 0; i < 12000; i++) {
			const float x = -78 + (float)i * 0.013F;
			float gate = x;
			const float up = 1.25F;
			const double expected = x / (1 + exp(-(double)x)) * up;
			(*k)->silu_mul(&gate, &up, 1);
			assert_true(fabs(gate - expected) <= 4e-7 * fabs(expected));
		}
	}
}

static void the_other_activations_agree_with_double_precision(void **state)
{
	(void)state;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (int i = 0; i < 6000; i++) {
			const double x = -30 + i * 0.01, up = i % 2 ? 1.25 : -9, limit = 7;
			const double u = sqrt(2 / acos(-1)) * (x + .044715 * x * x * x);
			const double gelu = .5 * x * (1 + tanh(u)) * up;
			const double g = x < limit ? x : limit, clamped = up < -7 ? -7 : up;
			const double swiglu = (clamped + 1) * g / (1 + exp(-1.702 * g));
			const float ups = (float)up;
			float y = (float)x;
			(*k)->gelu_mul(&y, &ups, 1);
			assert_true(fabs(y - gelu) <= 2e-6 * fabs(x));
			y = (float)x;
			(*k)->swiglu_clamped(&y, &ups, 1, 1.702F, 7);
			assert_true(fabs(y - swiglu) <= 2e-6 * fabs(swiglu) + 1e-12);
			y = (float)x;
			(*k)->softcap(&y, 1, 30);
			assert_true(fabs(y - 30 * tanh(x / 30)) <= 1e-5);
		}
		float x[4] = {-1e30F, -INFINITY, INFINITY, NAN};
		const float up[4] = {1, 1, 1, 1};
		(*k)->softcap(x, 4, 30);
		assert_true(x[0] == -30 && x[1] == -30 && x[2] == 30 && isnan(x[3]));
		x[0] = x[1] = -200;
		x[2] = 200;
		(*k)->gelu_mul(x, up, 4);
		assert_true(x[0] == 0 && x[2] == 200 && isnan(x[3]));
		(*k)->swiglu_clamped(x, up, 4, 1.702F, 7);
		assert_true(x[0] == 0 && fabsf(x[2] - 14) < 1e-3F && isnan(x[3]));
		x[2] = 1;
		const float nans[4] = {NAN, NAN, NAN, NAN};
		(*k)->swiglu_clamped(x, nans, 4, 1.702F, 7);
		assert_true(isnan(x[2]));
	}
}

static void softmax_agrees_with_double_precision(void **state)
{
	(void)state;
	struct random random = {1};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (size_t n = 1; n <= 1000; n += 37) {
			float x[1000];
			double expected[1000], sum = 0, total = 0;
			random_normal(&random, x, n);
			for (size_t i = 0; i < n; i++) {
				x[i] *= 8;
				sum += expected[i] = exp((double)x[i]);
			}
			(*k)->softmax(x, n);
			for (size_t i = 0; i < n; i++) {
				/* x - max is rounded: up to 64 · 2^-24 in the exponent. */
				assert_true(fabs(x[i] - expected[i] / sum) <=
					    5e-6 * expected[i] / sum);
				total += x[i];
			}
			assert_true(fabs(total - 1) < 1e-6);
		}
	}
}

static void rmsnorm_agrees_with_double_precision(void **state)
{
	(void)state;
	struct random random = {2};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (uint32_t n = 1; n <= 2100; n += 61) {
			float x[2100], w[2100], y[2100];
			double squares = 0;
			random_normal(&random, x, n);
			random_normal(&random, w, n);
			for (uint32_t i = 0; i < n; i++)
				squares += (double)x[i] * x[i];
			(*k)->rmsnorm(y, x, w, n, 1e-6F);
			const double scale = 1 / sqrt(squares / n + (double)1e-6F);
			for (uint32_t i = 0; i < n; i++) {
				const double expected = x[i] * scale * w[i];
				assert_true(fabs(y[i] - expected) <= 1e-6 * fabs(expected));
			}
		}
	}
}

static void rope_turns_pairs_and_leaves_the_rest(void **state)
{
	(void)state;
	struct random random = {3};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (uint32_t half = 1; half <= 33; half++) {
			float x[70], before[70], c[33], s[33];
			random_normal(&random, x, 70);
			memcpy(before, x, sizeof x);
			for (uint32_t i = 0; i < half; i++) {
				c[i] = cosf((float)i);
				s[i] = sinf((float)i);
			}
			(*k)->rope(x, c, s, half);
			for (uint32_t i = 0; i < half; i++) {
				const double a = before[i], b = before[i + half];
				assert_true(fabs(x[i] - (a * c[i] - b * s[i])) < 1e-6);
				assert_true(fabs(x[i + half] - (b * c[i] + a * s[i])) < 1e-6);
			}
			const size_t rest = (size_t)2 * half;
			assert_memory_equal(x + rest, before + rest, (70 - rest) * sizeof *x);
		}
	}
}

/* ---- the same bits from every table ---- */

/* One call of each function on n elements, in place on x; the others are inputs. */
typedef void call_fn(const struct kernels *k, float *x, const float *a, const float *b, uint32_t n);

static void call_rmsnorm(const struct kernels *k, float *x, const float *a, const float *b,
			 uint32_t n)
{
	(void)b;
	k->rmsnorm(x, x, a, n, 1e-5F);
}

static void call_rope(const struct kernels *k, float *x, const float *a, const float *b, uint32_t n)
{
	k->rope(x, a, b, n / 2);
}

static void call_silu_mul(const struct kernels *k, float *x, const float *a, const float *b,
			  uint32_t n)
{
	(void)b;
	k->silu_mul(x, a, n);
}

static void call_gelu_mul(const struct kernels *k, float *x, const float *a, const float *b,
			  uint32_t n)
{
	(void)b;
	k->gelu_mul(x, a, n);
}

static void call_swiglu_clamped(const struct kernels *k, float *x, const float *a, const float *b,
				uint32_t n)
{
	(void)b;
	k->swiglu_clamped(x, a, n, 1.702F, 1.5F);
}

static void call_softcap(const struct kernels *k, float *x, const float *a, const float *b,
			 uint32_t n)
{
	(void)a;
	(void)b;
	k->softcap(x, n, 30);
}

static void call_softmax(const struct kernels *k, float *x, const float *a, const float *b,
			 uint32_t n)
{
	(void)a;
	(void)b;
	k->softmax(x, n);
}

static void call_add(const struct kernels *k, float *x, const float *a, const float *b, uint32_t n)
{
	(void)b;
	k->add(x, a, n);
}

static void call_add_scaled(const struct kernels *k, float *x, const float *a, const float *b,
			    uint32_t n)
{
	k->add_scaled(x, b[0], a, n);
}

static const struct {
	const char *name;
	call_fn *call;
} calls[] = {
	{"rmsnorm", call_rmsnorm},   {"rope", call_rope},
	{"silu_mul", call_silu_mul}, {"softmax", call_softmax},
	{"add", call_add},	     {"add_scaled", call_add_scaled},
	{"gelu_mul", call_gelu_mul}, {"swiglu_clamped", call_swiglu_clamped},
	{"softcap", call_softcap},
};

/* Rows and columns of tiles, and past their ends; a by rows and by columns. */
static void sums_of_products_have_the_same_bits(void **state)
{
	(void)state;
	enum { MOST = 70, STEPS = 37 };
	static float a[MOST * STEPS], b[STEPS * (MOST + 1)], y[MOST * (MOST + 3)],
		expected[MOST * (MOST + 3)];
	static const uint32_t sizes[] = {1, 3, 4, 7, 8, 9, 16, 24, 31, 47, 48, 49, MOST};
	enum { SIZES = sizeof sizes / sizeof *sizes };
	struct random random = {44};
	random_normal(&random, a, sizeof a / sizeof *a);
	random_normal(&random, b, sizeof b / sizeof *b);
	for (size_t i = 0; i < (size_t)SIZES * SIZES * 2; i++) {
		const struct add_products p = {
			.a = a,
			.a_row = i % 2 ? STEPS : 1,
			.a_step = i % 2 ? 1 : MOST,
			.b = b,
			.ldb = MOST + 1,
			.rows = sizes[i / 2 % SIZES],
			.cols = sizes[i / 2 / SIZES],
			.n = i % 5 ? STEPS : 0,
		};
		for (size_t j = 0; j < sizeof y / sizeof *y; j++)
			expected[j] = (float)(j % 11);
		for (size_t r = 0; r < p.rows; r++)
			for (size_t t = 0; t < p.n; t++)
				for (size_t c = 0; c < p.cols; c++)
					expected[r * (MOST + 3) + c] =
						fmaf(a[r * p.a_row + t * p.a_step],
						     b[t * p.ldb + c], expected[r * (MOST + 3) + c]);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			for (size_t j = 0; j < sizeof y / sizeof *y; j++)
				y[j] = (float)(j % 11);
			(*k)->add_products(y, MOST + 3, &p);
			assert_memory_equal(y, expected, sizeof y);
		}
	}
}

static void check_same_bits(struct random *random, call_fn *call, const char *name, uint32_t n)
{
	float x[LONGEST + GUARD], a[LONGEST], b[LONGEST], expected[LONGEST + GUARD];

	random_normal(random, x, n + GUARD);
	random_normal(random, a, n);
	random_normal(random, b, n);
	for (uint32_t i = 0; i < n; i++) /* large and small magnitudes, and zeros of both signs */
		x[i] = random_u32(random) % 16 ? ldexpf(x[i], (int)(random_u32(random) % 12) - 6)
					       : copysignf(0, x[i]);
	memcpy(expected, x, (n + GUARD) * sizeof *x);
	call(&kernels_scalar, expected, a, b, n);
	assert_memory_equal(expected + n, x + n, GUARD * sizeof *x);
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		float y[LONGEST + GUARD];
		memcpy(y, x, (n + GUARD) * sizeof *x);
		call(*k, y, a, b, n);
		if (memcmp(y, expected, (n + GUARD) * sizeof *y) != 0)
			fail_msg("%s of %u elements differs in table %s", name, n, (*k)->name);
	}
}

static void every_table_gives_the_same_bits_at_every_length(void **state)
{
	(void)state;
	struct random random = {4};
	for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
		for (uint32_t n = 1; n <= LONGEST; n++)
			for (int repeat = 0; repeat < 20; repeat++)
				check_same_bits(&random, calls[c].call, calls[c].name, n);
}

/* ---- the table ---- */

static void the_scalar_table_comes_first_and_the_environment_can_choose_it(void **state)
{
	(void)state;
	const struct kernels *const *available = kernels_available(), *last = NULL;
	assert_ptr_equal(available[0], &kernels_scalar);
	for (; *available; available++)
		last = *available;
	assert_int_equal(unsetenv("MOEFS_KERNELS"), 0);
	assert_ptr_equal(kernels_best(), last);
	assert_int_equal(setenv("MOEFS_KERNELS", "scalar", 1), 0);
	assert_ptr_equal(kernels_best(), &kernels_scalar);
	assert_int_equal(setenv("MOEFS_KERNELS", "no such table", 1), 0);
	assert_ptr_equal(kernels_best(), last);
	assert_int_equal(unsetenv("MOEFS_KERNELS"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_exponential_is_within_one_ulp),
		cmocka_unit_test(the_exponential_of_subnormal_results_rounds_once),
		cmocka_unit_test(the_exponential_has_the_right_limits),
		cmocka_unit_test(silu_agrees_with_double_precision),
		cmocka_unit_test(the_other_activations_agree_with_double_precision),
		cmocka_unit_test(softmax_agrees_with_double_precision),
		cmocka_unit_test(rmsnorm_agrees_with_double_precision),
		cmocka_unit_test(rope_turns_pairs_and_leaves_the_rest),
		cmocka_unit_test(sums_of_products_have_the_same_bits),
		cmocka_unit_test(every_table_gives_the_same_bits_at_every_length),
		cmocka_unit_test(the_scalar_table_comes_first_and_the_environment_can_choose_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
