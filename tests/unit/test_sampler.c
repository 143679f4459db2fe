/* The choice of the next token: exact cuts, no bias, and the same token for the same seed. */
#include "engine/compute/sampler.h"
#include "random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DRAWS = 20000 };

static void open_sampler(struct sampler *s, uint32_t vocabulary)
{
	assert_int_equal(sampler_init(s, kernels_best(), vocabulary), 0);
}

/* Natural logarithms, so that the weights at temperature 1 are the numbers themselves. */
static void logits_of(float *logits, const double *probabilities, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		logits[i] = (float)log(probabilities[i]);
}

/* counts[i]: how often i is drawn with the seeds 0 … DRAWS - 1. */
static void count_draws(uint32_t *counts, const float *logits, uint32_t n, struct sampling how)
{
	struct sampler s;
	open_sampler(&s, n);
	memset(counts, 0, n * sizeof *counts);
	for (how.seed = 0; how.seed < DRAWS; how.seed++)
		counts[sampler_draw(&s, logits, &how, 5)]++;
	sampler_free(&s);
}

/* Pearson's statistic of the counts against expected shares. */
static double chi_square(const uint32_t *counts, const double *shares, uint32_t n)
{
	double sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		double want = shares[i] * DRAWS, d = counts[i] - want;
		sum += d * d / want;
	}
	return sum;
}

/* The ids drawn at all are the first `kept`, in their proportions. */
static void assert_cut(const double *probabilities, uint32_t n, struct sampling how, uint32_t kept)
{
	float logits[16];
	uint32_t counts[16];
	double shares[16], sum = 0;
	logits_of(logits, probabilities, n);
	count_draws(counts, logits, n, how);
	for (uint32_t i = 0; i < kept; i++)
		sum += probabilities[i];
	for (uint32_t i = 0; i < kept; i++)
		shares[i] = probabilities[i] / sum;
	for (uint32_t i = kept; i < n; i++)
		assert_int_equal(counts[i], 0);
	/* Of the chi-square distribution with up to 7 degrees of freedom 1e-6 lies above 41. */
	assert_true(chi_square(counts, shares, kept) < 41);
}

static const double falling[] = {.4, .3, .15, .08, .04, .02, .01};
enum { FALLING = sizeof falling / sizeof *falling };
#define PLAIN                                \
	{                                    \
		.temperature = 1, .top_p = 1 \
	}

/* ---- greedy ---- */

static void ties_go_to_the_lowest_id(void **state)
{
	(void)state;
	static const float logits[] = {1, 7, 3, 7, 7, -1}, same[] = {2, 2, 2};
	struct sampling how = {.temperature = 0, .top_p = 1};
	struct sampler s;
	assert_int_equal(sampler_greedy(logits, 6), 1);
	assert_int_equal(sampler_greedy(same, 3), 0);
	open_sampler(&s, 6);
	for (uint64_t position = 0; position < 100; position++)
		assert_int_equal(sampler_draw(&s, logits, &how, position), 1);
	sampler_free(&s);
}

static void random_logits(float *logits, uint32_t n, uint64_t seed)
{
	struct random r = {seed};
	random_normal(&r, logits, n);
}

static void one_candidate_is_the_greedy_choice(void **state)
{
	(void)state;
	static const struct sampling ways[] = {{.temperature = .8f, .top_k = 1, .top_p = 1},
					       {.temperature = .8f, .top_p = 0},
					       {.temperature = .8f, .top_p = 1e-6f},
					       {.temperature = .8f, .top_p = 1, .min_p = 1},
					       {.temperature = 1e-6f, .top_p = 1},
					       {.temperature = 0, .top_p = 1}};
	float logits[500];
	struct sampler s;
	open_sampler(&s, 500);
	for (uint64_t seed = 0; seed < 50; seed++) {
		random_logits(logits, 500, seed);
		uint32_t best = sampler_greedy(logits, 500);
		for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
			struct sampling how = ways[i];
			how.seed = seed;
			assert_int_equal(sampler_draw(&s, logits, &how, seed), best);
		}
	}
	sampler_free(&s);
}

/* ---- frequencies ---- */

static void frequencies_are_the_softmax(void **state)
{
	(void)state;
	assert_cut(falling, FALLING, (struct sampling)PLAIN, FALLING);
}

static void temperature_divides_the_logits(void **state)
{
	(void)state;
	static const float temperatures[] = {.5f, 2};
	float logits[FALLING];
	logits_of(logits, falling, FALLING);
	for (size_t t = 0; t < 2; t++) {
		uint32_t counts[FALLING];
		double shares[FALLING], sum = 0;
		for (int i = 0; i < FALLING; i++)
			sum += shares[i] = pow(falling[i], 1 / (double)temperatures[t]);
		for (int i = 0; i < FALLING; i++)
			shares[i] /= sum;
		count_draws(counts, logits, FALLING,
			    (struct sampling){.temperature = temperatures[t], .top_p = 1});
		assert_true(chi_square(counts, shares, FALLING) < 41);
	}
}

/* Every bucket of a large vocabulary gets its share. */
static void a_large_vocabulary_is_drawn_from_without_bias(void **state)
{
	(void)state;
	enum { N = 32768, BUCKETS = 16 };
	float *logits = calloc(N, sizeof *logits);
	uint32_t counts[BUCKETS] = {0};
	double shares[BUCKETS];
	struct sampling how = PLAIN;
	struct sampler s;
	open_sampler(&s, N);
	for (how.seed = 0; how.seed < 1000; how.seed++)
		counts[sampler_draw(&s, logits, &how, how.seed) / (N / BUCKETS)]++;
	for (int i = 0; i < BUCKETS; i++)
		shares[i] = 1000. / BUCKETS / DRAWS;
	/* 15 degrees of freedom: 1e-6 above 56. */
	assert_true(chi_square(counts, shares, BUCKETS) < 56);
	sampler_free(&s);
	free(logits);
}

static void positions_of_one_seed_are_independent(void **state)
{
	(void)state;
	float logits[FALLING];
	uint32_t counts[FALLING] = {0}, pairs[4] = {0};
	static const double squares[] = {.16, .24, .24, .36};
	struct sampling how = PLAIN;
	struct sampler s;
	how.seed = 42;
	open_sampler(&s, FALLING);
	logits_of(logits, falling, FALLING);
	for (uint32_t position = 0, before = 0; position < DRAWS; position++) {
		uint32_t id = sampler_draw(&s, logits, &how, position);
		counts[id]++;
		pairs[2 * (before != 0) + (id != 0)]++;
		before = id;
	}
	assert_true(chi_square(counts, falling, FALLING) < 41);
	assert_true(chi_square(pairs, squares, 4) < 41);
	sampler_free(&s);
}

/* ---- cuts ---- */

static void top_k_leaves_exactly_k(void **state)
{
	(void)state;
	for (uint32_t k = 1; k <= FALLING + 1; k++)
		assert_cut(falling, FALLING,
			   (struct sampling){.temperature = 1, .top_p = 1, .top_k = k},
			   k < FALLING ? k : FALLING);
}

static void top_p_leaves_the_fewest_that_reach_it(void **state)
{
	(void)state;
	static const struct {
		float p;
		uint32_t kept;
	} cuts[] = {{0, 1},    {.3f, 1},  {.399f, 1}, {.41f, 2}, {.69f, 2},
		    {.71f, 3}, {.86f, 4}, {.96f, 5},  {.98f, 6}, {.995f, 7}};
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
		assert_cut(falling, FALLING,
			   (struct sampling){.temperature = 1, .top_p = cuts[i].p}, cuts[i].kept);
}

static void min_p_leaves_what_is_likely_enough_beside_the_best(void **state)
{
	(void)state;
	static const struct {
		float p;
		uint32_t kept;
	} cuts[] = {{.01f, 7}, {.03f, 6}, {.06f, 5}, {.15f, 4},
		    {.3f, 3},  {.7f, 2},  {.8f, 1},  {1, 1}};
	for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
		assert_cut(falling, FALLING,
			   (struct sampling){.temperature = 1, .top_p = 1, .min_p = cuts[i].p},
			   cuts[i].kept);
}

static void the_cuts_come_one_after_the_other(void **state)
{
	(void)state;
	/* Of the first three, .85 in all, .8 of the rest is reached by two: .7 / .85. */
	assert_cut(falling, FALLING, (struct sampling){.temperature = 1, .top_k = 3, .top_p = .8f},
		   2);
	/* All seven would need three for it. */
	assert_cut(falling, FALLING, (struct sampling){.temperature = 1, .top_p = .8f}, 3);
	assert_cut(falling, FALLING,
		   (struct sampling){.temperature = 1, .top_k = 5, .top_p = .99f, .min_p = .3f}, 3);
}

static void among_equals_a_cut_keeps_the_lowest_ids(void **state)
{
	(void)state;
	static const double same[] = {.25, .25, .25, .25};
	assert_cut(same, 4, (struct sampling){.temperature = 1, .top_p = 1, .top_k = 3}, 3);
	assert_cut(same, 4, (struct sampling){.temperature = 1, .top_p = .5f}, 2);
	assert_cut(same, 4, (struct sampling){.temperature = 1, .top_p = 1, .min_p = 1}, 4);
}

/* ---- the same again ---- */

static void the_same_seed_and_position_give_the_same_token(void **state)
{
	(void)state;
	enum { N = 1000 };
	float logits[N];
	struct sampler one, other;
	uint32_t different = 0;
	open_sampler(&one, N);
	open_sampler(&other, N);
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct sampling how = {
			.temperature = 1, .top_k = seed % 3 ? 50 : 0, .top_p = .9f, .seed = seed};
		random_logits(logits, N, seed);
		uint32_t id = sampler_draw(&one, logits, &how, 3);
		assert_int_equal(sampler_draw(&one, logits, &how, 3), id);
		assert_int_equal(sampler_draw(&other, logits, &how, 3), id);
		different += sampler_draw(&one, logits, &how, 4) != id;
	}
	assert_true(different > 100);
	sampler_free(&one);
	sampler_free(&other);
}

static void logits_that_are_no_numbers_are_survived(void **state)
{
	(void)state;
	struct sampling ways[] = {PLAIN,
				  {.temperature = 1e-38f, .top_p = 1},
				  {.temperature = 1, .top_p = .5f, .top_k = 3, .min_p = .1f}};
	float logits[4][5] = {{NAN, NAN, NAN, NAN, NAN},
			      {1, NAN, 2, NAN, 3},
			      {INFINITY, 1, 2, INFINITY, -INFINITY},
			      {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}};
	struct sampler s;
	open_sampler(&s, 5);
	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < 3; k++)
			assert_in_range(sampler_draw(&s, logits[i], &ways[k], 0), 0, 4);
	sampler_free(&s);
}

/* Against a sum in double precision; and every instruction set's softmax gives the same. */
static void a_logit_less_the_log_sum_is_a_log_probability(void **state)
{
	(void)state;
	enum { MOST = 152064 };
	static const uint32_t sizes[] = {1, 7, 381, MOST};
	float *logits = malloc(MOST * sizeof *logits);
	struct random r = {5};
	for (size_t k = 0; k < 4 * sizeof sizes / sizeof *sizes; k++) {
		struct sampler s;
		uint32_t n = sizes[k / 4], best = 0;
		double sum = 0, scale = (double[]){0, 1, 8, 60}[k % 4];
		open_sampler(&s, n);
		random_normal(&r, logits, n);
		for (uint32_t i = 0; i < n; i++) {
			logits[i] *= (float)scale;
			best = logits[i] > logits[best] ? i : best;
		}
		for (uint32_t i = 0; i < n; i++)
			sum += exp((double)logits[i] - logits[best]);
		double want = logits[best] + log(sum), got = sampler_log_sum(&s, logits);
		if (!(fabs(got - want) < 3e-7))
			fail_msg("of %u at scale %g: %.9f, not %.9f", n, scale, got, want);
		s.kernels = &kernels_scalar;
		assert_true(sampler_log_sum(&s, logits) == got);
		sampler_free(&s);
	}
	free(logits);
}

static void the_likeliest_come_in_order_ties_by_id(void **state)
{
	(void)state;
	static const float logits[] = {1, 5, -2, 5, 0, 7, 5, -9};
	static const uint32_t want[] = {5, 1, 3, 6, 0, 4, 2, 7};
	struct sampler s;
	open_sampler(&s, 8);
	for (uint32_t asked = 0; asked < 12; asked++) {
		uint32_t n = asked;
		const struct candidate *best = sampler_likeliest(&s, logits, &n);
		assert_int_equal(n, asked < 8 ? asked : 8);
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(best[i].id, want[i]);
			assert_true(best[i].p == logits[want[i]]);
		}
	}
	sampler_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ties_go_to_the_lowest_id),
		cmocka_unit_test(one_candidate_is_the_greedy_choice),
		cmocka_unit_test(frequencies_are_the_softmax),
		cmocka_unit_test(temperature_divides_the_logits),
		cmocka_unit_test(a_large_vocabulary_is_drawn_from_without_bias),
		cmocka_unit_test(positions_of_one_seed_are_independent),
		cmocka_unit_test(top_k_leaves_exactly_k),
		cmocka_unit_test(top_p_leaves_the_fewest_that_reach_it),
		cmocka_unit_test(min_p_leaves_what_is_likely_enough_beside_the_best),
		cmocka_unit_test(the_cuts_come_one_after_the_other),
		cmocka_unit_test(among_equals_a_cut_keeps_the_lowest_ids),
		cmocka_unit_test(the_same_seed_and_position_give_the_same_token),
		cmocka_unit_test(logits_that_are_no_numbers_are_survived),
		cmocka_unit_test(a_logit_less_the_log_sum_is_a_log_probability),
		cmocka_unit_test(the_likeliest_come_in_order_ties_by_id),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
