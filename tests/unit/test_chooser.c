/* Where attention looks that chooses: the selection, and the scores of index keys, the same bits from
 * every table of kernels. */
#include "engine/cpu/layers.h"
#include "tests/unit/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t below(struct random *random, uint32_t end)
{
	return random_u32(random) % end;
}

static float one(struct random *random)
{
	float x;
	random_normal(random, &x, 1);
	return x;
}

/* ---- the selection ---- */

/* By sorting: larger first, then earlier. */
static uint32_t slowly(const float *scores, uint32_t n, uint32_t most, bool *chosen)
{
	uint32_t count = 0;
	for (; count < most; count++) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < n; i++)
			if (!chosen[i] && !isnan(scores[i]) &&
			    (best == UINT32_MAX || scores[i] > scores[best]))
				best = i;
		if (best == UINT32_MAX)
			break;
		chosen[best] = true;
	}
	return count;
}

static void assert_chosen(const float *scores, uint32_t n, uint32_t most)
{
	uint32_t got[512], at = 0;
	bool want[512] = {false};
	uint32_t wanted = slowly(scores, n, most, want);
	assert_int_equal(chooser_best(scores, n, most, got), wanted);
	for (uint32_t i = 0; i < n; i++)
		if (want[i])
			assert_int_equal(got[at++], i);
	assert_int_equal(at, wanted);
}

static void the_best_scores_are_chosen_and_listed_in_their_order(void **state)
{
	(void)state;
	struct random random = {3};
	float scores[512];
	for (int round = 0; round < 200; round++) {
		uint32_t n = below(&random, 512) + 1;
		for (uint32_t i = 0; i < n; i++)
			scores[i] = ((float)below(&random, 2000) - 1000) / 7;
		assert_chosen(scores, n, below(&random, n + 3));
	}
}

static void of_equal_scores_the_lowest_position_wins(void **state)
{
	(void)state;
	struct random random = {4};
	float scores[300];
	for (int round = 0; round < 100; round++) {
		for (uint32_t i = 0; i < 300; i++) /* few values, zeros of both signs among them */
			scores[i] = below(&random, 3) ? (float)below(&random, 3) : -0.0F;
		assert_chosen(scores, 300, below(&random, 300));
	}
}

static void what_is_not_a_number_is_never_chosen(void **state)
{
	(void)state;
	float scores[] = {NAN, -INFINITY, 1, NAN, -2, INFINITY, -NAN};
	for (uint32_t most = 0; most < 9; most++)
		assert_chosen(scores, 7, most);
	uint32_t got[7];
	assert_int_equal(chooser_best(scores, 7, 7, got), 4);
}

/* ---- scores ---- */

enum { HEADS = 9, DIM = 300 };

/* Of each group's heads, and of nothing else, whatever the width of keys. */
static void compare_scores(const struct index_keys *k, const struct index_queries *q)
{
	enum { STRIDE = KV_BLOCK + 8 };
	float want[HEADS * STRIDE], got[HEADS * STRIDE];
	memset(want, 0x55, sizeof want);
	kernels_scalar.index_scores(want, STRIDE, k, q);
	for (uint32_t g = 0; g < HEADS; g++)
		for (size_t i = g < q->groups ? k->count : 0; i < STRIDE; i++)
			assert_memory_equal(&want[g * STRIDE + i], "UUUU", sizeof *want);
	for (const struct kernels *const *t = kernels_available(); *t; t++) {
		memset(got, 0x55, sizeof got);
		(*t)->index_scores(got, STRIDE, k, q);
		assert_memory_equal(got, want, sizeof got);
	}
}

static void every_table_gives_index_keys_the_same_scores(void **state)
{
	(void)state;
	static float q[HEADS * DIM], weight[HEADS], keys[DIM * KV_BLOCK];
	static uint16_t half[DIM * KV_BLOCK];
	struct random random = {5};
	for (size_t i = 0; i < HEADS * DIM; i++)
		q[i] = one(&random);
	for (size_t i = 0; i < DIM * KV_BLOCK; i++) {
		keys[i] = one(&random);
		half[i] = f16_from_f32(keys[i]);
	}
	for (size_t i = 0; i < HEADS; i++)
		weight[i] = one(&random);
	for (uint32_t count = 1; count <= KV_BLOCK; count *= 2)
		for (uint32_t heads = 1; heads <= HEADS; heads++)
			for (uint32_t groups = 1; groups <= heads; groups++)
				for (int kind = 0; kind < 8 && heads % groups == 0; kind++)
					compare_scores(
						&(struct index_keys){
							.type = kind & 1 ? KV_F16 : KV_F32,
							.dim = kind & 2 ? DIM : 48,
							.count = count,
							.keys = kind & 1 ? (void *)half : keys,
							.next = keys,
							.positive = kind & 4},
						&(struct index_queries){q, weight, heads, groups});
}

static void index_scores_agree_with_double_precision(void **state)
{
	(void)state;
	struct random random = {6};
	float q[HEADS * DIM], weight[HEADS], keys[DIM * 16], got[16];
	for (size_t i = 0; i < HEADS * DIM; i++)
		q[i] = one(&random);
	for (size_t i = 0; i < DIM * 16; i++)
		keys[i] = one(&random);
	for (size_t i = 0; i < HEADS; i++)
		weight[i] = one(&random);
	const struct index_keys k = {KV_F32, DIM, 16, keys, keys, true};
	const struct index_queries queries = {q, weight, HEADS, 1};
	kernels_best()->index_scores(got, 0, &k, &queries);
	for (size_t j = 0; j < 16; j++) {
		double want = 0, size = 0;
		for (size_t h = 0; h < HEADS; h++) {
			double p = 0;
			for (size_t d = 0; d < DIM; d++)
				p += (double)q[h * DIM + d] * keys[d * 16 + j];
			want += p > 0 ? p * weight[h] : 0;
			size += fabs(p * weight[h]);
		}
		assert_true(fabs(got[j] - want) < 1e-5 * (size + 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_best_scores_are_chosen_and_listed_in_their_order),
		cmocka_unit_test(of_equal_scores_the_lowest_position_wins),
		cmocka_unit_test(what_is_not_a_number_is_never_chosen),
		cmocka_unit_test(every_table_gives_index_keys_the_same_scores),
		cmocka_unit_test(index_scores_agree_with_double_precision),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
