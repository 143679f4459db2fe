/* The recurrences of delta nets and their like, every table against the scalar one; and its gates, which are
 * the same code for all tables, against the bits that they have everywhere. */
#include "tests/cross/compare.h"
#include "tests/unit/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A head's tokens, in columns [col0, value_dim). State and outputs lie in one array with room
 * between them. */
static bool check_steps(const struct kernels *k, struct random *random, struct delta d,
			uint32_t col0)
{
	const size_t state = (size_t)d.key_dim * d.value_dim;
	const size_t out = (size_t)(d.n + 1) * (d.value_dim + 1);
	const size_t stride = (size_t)2 * (2 * d.key_dim + d.value_dim + 7), inputs = d.n * stride;
	const size_t total = state + GUARD + out;
	float *x = allocate(inputs * sizeof *x);
	float *results = allocate(total * sizeof *x), *expected = allocate(total * sizeof *x);

	random_normal(random, x, inputs);
	for (size_t i = 0; i < inputs; i++) /* keys of a length below 1, gates too */
		x[i] /= 1 + sqrtf((float)d.key_dim);
	random_normal(random, expected, total);
	memcpy(results, expected, total * sizeof *x);
	d.q = x;
	d.k = x + stride / 2;
	d.v = x + d.key_dim;
	d.decay = x + d.key_dim + d.value_dim;
	d.beta = d.decay + d.key_dim;
	d.key_stride = d.value_stride = d.decay_stride = d.beta_stride = stride;
	d.out_stride = d.value_dim + 1;
	d.state = expected;
	d.out = expected + state + GUARD;
	kernels_scalar.delta_steps(&d, col0, d.value_dim);
	d.state = results;
	d.out = results + state + GUARD;
	k->delta_steps(&d, col0, d.value_dim);
	const bool same = memcmp(results, expected, total * sizeof *x) == 0;
	if (!same)
		printf("# rule %u: state [%u, %u] from column %u, %u of %u tokens\n", d.rule,
		       d.key_dim, d.value_dim, col0, d.commit, d.n);
	free(x);
	free(results);
	free(expected);
	return same;
}

bool check_delta_steps(const struct kernels *k, enum format format)
{
	static const uint32_t keys[] = {1, 13, 128, DELTA_KEY_DIM};
	static const uint32_t values[] = {1, 15, 33, 128, 150};
	static const uint32_t counts[] = {1, 2, 3, TOKENS};
	struct random random = {7};
	bool same = true;

	(void)format;
	for (size_t i = 0; same && i < COUNT(keys) * COUNT(values) * COUNT(counts); i++) {
		const uint32_t n = counts[i / COUNT(keys) / COUNT(values)];
		struct delta d = {.key_dim = keys[i % COUNT(keys)],
				  .value_dim = values[i / COUNT(keys) % COUNT(values)],
				  .n = n};
		const uint32_t commits[] = {0, 1, n / 2, n};
		for (size_t c = 0; same && c < COUNT(commits); c++) {
			d.commit = commits[c];
			for (d.rule = 0; same && d.rule < DELTA_RULES; d.rule++)
				same = check_steps(k, &random, d, c % 2 ? d.value_dim / 3 : 0);
		}
	}
	return same;
}

/* No table has gates of its own, but each processor and C library must compute these bits. */
bool check_delta_gates(const struct kernels *k, enum format format)
{
	static const uint32_t expected = 0x964ac341;
	uint32_t sum = 0;

	(void)k;
	(void)format;
	for (int i = -4000; i <= 4000; i++) {
		const float x = (float)i * .03F, a_log = (float)(i % 41) * .2F, bias = .7F;
		float gates[2];
		uint32_t bits[2];
		delta_gates(&gates[0], &gates[1], &x, &x, &a_log, &bias, 1);
		memcpy(bits, gates, sizeof bits);
		sum = (sum * 31 + bits[0]) * 31 + bits[1];
	}
	if (sum != expected)
		printf("# the gates' bits sum up to 0x%08x\n", sum);
	return sum == expected;
}
