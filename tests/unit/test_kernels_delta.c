/* The recurrences of delta nets and their like, and their heads' gates: near double precision, the same bits
 * from every table, however tokens and columns are divided into calls; the state is left as it is
 * after the committed tokens; NaN and infinity show in the result. */
#include "kernels/kernels.h"
#include "tests/unit/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { TOKENS = 70 };

static float *floats(size_t n)
{
	float *p = malloc(n * sizeof *p);
	assert_non_null(p);
	return p;
}

static bool same_bits(const float *a, const float *b, size_t n)
{
	return memcmp(a, b, n * sizeof *a) == 0;
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

/* ---- gates of heads ---- */

static void gates_agree_with_their_definition(void **state)
{
	(void)state;
	for (int i = -600; i <= 600; i++) {
		const float a = (float)i * .05F, bias = .75F, a_log = (float)(i % 40) * .1F, b = a;
		float decay, beta;
		delta_gates(&decay, &beta, &a, &b, &a_log, &bias, 1);
		const double x = (double)a + (double)bias;
		const double softplus = log1p(exp(x)); /* nothing overflows in this range */
		const double expected = exp(-exp((double)a_log) * softplus);
		assert_true(fabs(decay - expected) <= 0x1p-24 * expected + 0x1p-149);
		assert_true(fabs(beta - sigmoid((double)b)) <= 0x1p-24 * sigmoid((double)b));
	}
}

/* Whatever the compiler, the C library and the processor; tests/cross compares the same. */
static void gates_have_the_same_bits_everywhere(void **state)
{
	(void)state;
	uint32_t sum = 0, bits[2];
	for (int i = -4000; i <= 4000; i++) {
		const float x = (float)i * .03F, a_log = (float)(i % 41) * .2F, bias = .7F;
		float gates[2];
		delta_gates(&gates[0], &gates[1], &x, &x, &a_log, &bias, 1);
		memcpy(bits, gates, sizeof bits);
		sum = (sum * 31 + bits[0]) * 31 + bits[1];
	}
	assert_int_equal(sum, 0x964ac341);
}

static void gates_have_the_right_limits(void **state)
{
	(void)state;
	/* softplus(x) is x for large x, exp(x) for small; a head that fades at once, or never */
	const float a[] = {1e30F, 800, -800, -1e30F, -30, NAN, 0, 0};
	const float a_log[] = {0, 0, 0, 0, 20, 0, NAN, -INFINITY};
	const float b[] = {INFINITY, 800, -800, -INFINITY, 0, NAN, 0, 0};
	const float bias[COUNT(a)] = {0};
	float decay[COUNT(a)], beta[COUNT(a)];
	delta_gates(decay, beta, a, b, a_log, bias, COUNT(a));
	assert_true(decay[0] == 0 && decay[1] == 0 && decay[2] == 1 && decay[3] == 1);
	assert_true(fabs(decay[4] - exp(-exp(20.) * exp(-30.))) <= 0x1p-24);
	assert_true(isnan(decay[5]) && isnan(decay[6]) && decay[7] == 1);
	assert_true(beta[0] == 1 && beta[1] == 1 && beta[2] == 0 && beta[3] == 0);
	assert_true(beta[4] == .5F && isnan(beta[5]));
}

/* ---- the recurrence ---- */

/* A head with its tokens as in the engine: other heads' data lies between. */
struct head {
	struct delta d; /* state and out are for the caller of each call */
	float *state;	/* [key_dim][value_dim], before the first token */
	float *q, *k, *v, *gates;
	size_t state_size, out_size;
};

/* Keys and queries have length 1, as a model's. */
static float *random_units(struct random *random, const struct delta *d)
{
	float *x = floats(d->n * d->key_stride);

	random_normal(random, x, d->n * d->key_stride);
	for (size_t t = 0; t < d->n; t++)
		kernels_scalar.l2norm(x + t * d->key_stride, x + t * d->key_stride, d->key_dim,
				      1e-6F, 1);
	return x;
}

static struct head make_head(struct random *random, enum delta_rule rule, uint32_t key_dim,
			     uint32_t value_dim, uint32_t n)
{
	struct head h = {
		.d = {.rule = rule,
		      .key_dim = key_dim,
		      .value_dim = value_dim,
		      .n = n,
		      .commit = n,
		      .key_stride = key_dim + 5,
		      .value_stride = value_dim + 3,
		      .decay_stride = key_dim + 1, /* a factor, and each row's decay */
		      .beta_stride = key_dim + 1,
		      .out_stride = value_dim + 1},
		.state_size = (size_t)key_dim * value_dim,
		.out_size = (size_t)n * (value_dim + 1),
	};
	const size_t values = n * h.d.value_stride, gates = n * h.d.decay_stride;

	h.d.q = h.q = random_units(random, &h.d);
	h.d.k = h.k = random_units(random, &h.d);
	h.d.v = h.v = floats(values);
	random_normal(random, h.v, values);
	h.d.beta = h.gates = floats(gates);
	h.d.decay = h.gates + 1;
	for (size_t i = 0; i < gates; i++)
		h.gates[i] = (float)(.2 + .79 * random_uniform(random));
	h.state = floats(h.state_size);
	random_normal(random, h.state, h.state_size);
	return h;
}

static void free_head(struct head *h)
{
	free(h->q);
	free(h->k);
	free(h->v);
	free(h->gates);
	free(h->state);
}

/* A call's results: the outputs (a pattern where nothing was written) and the state. */
struct result {
	float *out, *state;
};

static struct result make_result(const struct head *h)
{
	struct result r = {floats(h->out_size), floats(h->state_size)};
	memset(r.out, 0x55, h->out_size * sizeof *r.out);
	memcpy(r.state, h->state, h->state_size * sizeof *r.state);
	return r;
}

static void free_result(struct result *r)
{
	free(r->out);
	free(r->state);
}

/* Tokens first … first+n-1, of which the state takes in `commit`. */
static void take(const struct kernels *k, const struct head *h, struct result *r, uint32_t first,
		 uint32_t n, uint32_t commit, uint32_t col0, uint32_t col1)
{
	struct delta d = h->d;

	d.n = n;
	d.commit = commit;
	d.state = r->state;
	d.out = r->out + first * d.out_stride;
	d.q += first * d.key_stride;
	d.k += first * d.key_stride;
	d.v += first * d.value_stride;
	d.decay += first * d.decay_stride;
	d.beta += first * d.beta_stride;
	k->delta_steps(&d, col0, col1);
}

static struct result run(const struct kernels *k, const struct head *h, uint32_t commit,
			 uint32_t col0, uint32_t col1)
{
	struct result r = make_result(h);
	take(k, h, &r, 0, h->d.n, commit, col0, col1);
	return r;
}

static bool same_results(const struct head *h, const struct result *a, const struct result *b)
{
	return same_bits(a->out, b->out, h->out_size) &&
	       same_bits(a->state, b->state, h->state_size);
}

/* One token in one column, s[key_dim]; the output. */
static double step_in_double(const struct delta *d, double *s, size_t t, size_t j)
{
	const float *q = d->q + t * d->key_stride, *k = d->k + t * d->key_stride;
	const float *decay = d->decay + t * d->decay_stride;
	double found = 0, out = 0;

	for (size_t i = 0; i < d->key_dim; i++) {
		s[i] *= (double)decay[d->rule == DELTA_REPLACES_BY_ROW ? i : 0];
		found += d->rule == DELTA_ADDS ? 0 : s[i] * (double)k[i];
	}
	const double change = ((double)d->v[t * d->value_stride + j] - found) *
			      (double)d->beta[t * d->beta_stride];
	for (size_t i = 0; i < d->key_dim; i++) {
		s[i] += (double)k[i] * change;
		out += s[i] * (double)q[i];
	}
	return out;
}

/* Errors are relative to the lengths of all outputs and of the whole state. */
static void check_against_double(const struct head *h)
{
	const struct delta *d = &h->d;
	struct result r = run(&kernels_scalar, h, d->n, 0, d->value_dim);
	double out_error = 0, out_size = 0, state_error = 0, state_size = 0;

	for (size_t j = 0; j < d->value_dim; j++) {
		double s[DELTA_KEY_DIM];
		for (size_t i = 0; i < d->key_dim; i++)
			s[i] = (double)h->state[i * d->value_dim + j];
		for (size_t t = 0; t < d->n; t++) {
			const double out = step_in_double(d, s, t, j);
			out_error += pow((double)r.out[t * d->out_stride + j] - out, 2);
			out_size += out * out;
		}
		for (size_t i = 0; i < d->key_dim; i++) {
			state_error += pow((double)r.state[i * d->value_dim + j] - s[i], 2);
			state_size += s[i] * s[i];
		}
	}
	assert_true(out_error <= 1e-12 * out_size);
	assert_true(state_error <= 1e-12 * state_size);
	free_result(&r);
}

static const uint32_t key_dims[] = {1, 7, 64, 128, DELTA_KEY_DIM};
static const uint32_t value_dims[] = {1, 15, 33, 128, 150, 300};

static void the_recurrence_agrees_with_double_precision(void **state)
{
	(void)state;
	struct random random = {6};
	for (size_t i = 0; i < COUNT(key_dims); i++) {
		for (uint32_t n = 1; n <= TOKENS * DELTA_RULES; n += 23) {
			struct head h = make_head(&random, n % DELTA_RULES, key_dims[i], 21,
						  (n - 1) % TOKENS + 1);
			check_against_double(&h);
			free_head(&h);
		}
	}
}

static void check_tables(const struct head *h, uint32_t commit, uint32_t col0, uint32_t col1)
{
	struct result expected = run(&kernels_scalar, h, commit, col0, col1);

	for (const struct kernels *const *k = kernels_available() + 1; *k; k++) {
		struct result r = run(*k, h, commit, col0, col1);
		if (!same_results(h, &r, &expected))
			fail_msg("%s, rule %u: state [%u, %u], columns %u to %u, %u of %u tokens "
				 "differ",
				 (*k)->name, h->d.rule, h->d.key_dim, h->d.value_dim, col0, col1, commit,
				 h->d.n);
		free_result(&r);
	}
	free_result(&expected);
}

static void the_recurrence_has_the_same_bits_from_every_table_in_any_columns(void **state)
{
	(void)state;
	struct random random = {7};
	for (size_t i = 0; i < COUNT(key_dims) * COUNT(value_dims) * 4 * DELTA_RULES; i++) {
		const uint32_t n = i % 4 + 1;
		const enum delta_rule rule = i / 4 / COUNT(value_dims) / COUNT(key_dims);
		const uint32_t width = value_dims[i / 4 % COUNT(value_dims)];
		struct head h = make_head(&random, rule, key_dims[i % COUNT(key_dims)], width, n);
		check_tables(&h, n, 0, width);
		for (int repeat = 0; repeat < 4; repeat++) {
			const uint32_t col0 = random_u32(&random) % width;
			const uint32_t col1 = col0 + random_u32(&random) % (width - col0) + 1;
			check_tables(&h, random_u32(&random) % (n + 1), col0, col1);
		}
		free_head(&h);
	}
}

static void the_recurrence_has_the_same_bits_from_every_table_for_any_tokens(void **state)
{
	(void)state;
	struct random random = {8};
	for (uint32_t i = 0; i < TOKENS * DELTA_RULES; i++) {
		const uint32_t n = i / DELTA_RULES + 1;
		struct head h = make_head(&random, i % DELTA_RULES, 19, 37, n);
		for (uint32_t commit = 0; commit <= n;
		     commit += commit < 3 || commit >= n - 2 ? 1 : 9)
			check_tables(&h, commit, 0, 37);
		check_tables(&h, n, 0, 37);
		free_head(&h);
	}
}

static void tokens_at_once_are_tokens_one_by_one(void **state)
{
	(void)state;
	struct random random = {9};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (uint32_t i = 0; i < 9 * DELTA_RULES; i++) {
			const uint32_t part = i / DELTA_RULES < 4 ? i / DELTA_RULES + 1
								  : i / DELTA_RULES * 9;
			struct head h = make_head(&random, i % DELTA_RULES, 128, 130, TOKENS);
			struct result whole = run(*k, &h, TOKENS, 0, 130);
			struct result parts = make_result(&h);
			for (uint32_t t = 0; t < TOKENS; t += part) {
				const uint32_t left = TOKENS - t, n = left < part ? left : part;
				take(*k, &h, &parts, t, n, n, 0, 130);
			}
			assert_true(same_results(&h, &whole, &parts));
			free_result(&whole);
			free_result(&parts);
			free_head(&h);
		}
	}
}

static void columns_at_once_are_columns_one_by_one(void **state)
{
	(void)state;
	struct random random = {10};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (uint32_t i = 0; i < 5 * DELTA_RULES; i++) {
			const uint32_t n = i / DELTA_RULES + 1;
			struct head h = make_head(&random, i % DELTA_RULES, 64, 130, n);
			struct result whole = run(*k, &h, n, 0, 130), parts = make_result(&h);
			for (uint32_t j = 0; j < 130; j++)
				take(*k, &h, &parts, 0, n, n, j, j + 1);
			assert_true(same_results(&h, &whole, &parts));
			free_result(&whole);
			free_result(&parts);
			free_head(&h);
		}
	}
}

/* Rejected drafts were computed and leave no trace. */
static void the_state_is_that_after_the_tokens_that_count(void **state)
{
	(void)state;
	enum { MOST = 12 };
	struct random random = {11};
	const struct kernels *const *k = kernels_available();
	for (enum delta_rule rule = 0; *k; k += ++rule == DELTA_RULES, rule %= DELTA_RULES) {
		struct head h = make_head(&random, rule, 128, 130, MOST);
		struct result all = run(*k, &h, MOST, 0, 130), stood = make_result(&h);
		for (uint32_t commit = 0; commit <= MOST; commit++) {
			struct result r = run(*k, &h, commit, 0, 130);
			assert_true(same_bits(r.out, all.out, h.out_size));
			assert_true(same_bits(r.state, stood.state, h.state_size));
			free_result(&r);
			if (commit < MOST)
				take(*k, &h, &stood, commit, 1, 1, 0, 130);
		}
		free_result(&all);
		free_result(&stood);
		free_head(&h);
	}
}

/* Puts f into one of a head's inputs. True if only column j must show it. */
static bool spoil(struct head *h, struct random *random, uint32_t what, uint32_t t, uint32_t j,
		  float f)
{
	const uint32_t i = random_u32(random) % h->d.key_dim;

	switch (what) {
	case 0:
		h->state[(size_t)i * h->d.value_dim + j] = f;
		return true;
	case 1:
		h->v[t * h->d.value_stride + j] = f;
		return true;
	case 2:
		h->q[t * h->d.key_stride + i] = f;
		return false;
	case 3:
		h->k[t * h->d.key_stride + i] = f;
		return false;
	default:
		h->gates[t * h->d.decay_stride + what % 2] = f;
		return false;
	}
}

static void the_recurrence_shows_nan_and_infinity(void **state)
{
	(void)state;
	enum { KEY = 24, VALUE = 37, LAST = 3 };
	const float bad[] = {NAN, INFINITY, -INFINITY};
	struct random random = {12};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (uint32_t i = 0; i < 6 * 3 * (LAST + 1) * 5 * DELTA_RULES; i++) {
			const uint32_t t = random_u32(&random) % (LAST + 1);
			const uint32_t j = random_u32(&random) % VALUE;
			const enum delta_rule rule = i / 6 / 3 / (LAST + 1) / 5;
			struct head h =
				make_head(&random, rule, KEY, VALUE, i % 4 ? LAST + 1 : t + 1);
			const bool one = spoil(&h, &random, i % 6, t, j, bad[i / 6 % 3]);
			struct result r = run(*k, &h, h.d.n, 0, VALUE);
			for (uint32_t c = 0; c < VALUE; c++) {
				const float out = r.out[t * h.d.out_stride + c];
				assert_true(one && c != j ? isfinite(out) : !isfinite(out));
			}
			free_result(&r);
			free_head(&h);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gates_agree_with_their_definition),
		cmocka_unit_test(gates_have_the_same_bits_everywhere),
		cmocka_unit_test(gates_have_the_right_limits),
		cmocka_unit_test(the_recurrence_agrees_with_double_precision),
		cmocka_unit_test(the_recurrence_has_the_same_bits_from_every_table_in_any_columns),
		cmocka_unit_test(the_recurrence_has_the_same_bits_from_every_table_for_any_tokens),
		cmocka_unit_test(tokens_at_once_are_tokens_one_by_one),
		cmocka_unit_test(columns_at_once_are_columns_one_by_one),
		cmocka_unit_test(the_state_is_that_after_the_tokens_that_count),
		cmocka_unit_test(the_recurrence_shows_nan_and_infinity),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
