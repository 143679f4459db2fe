/* Products of one input with several matrices at once: each equals the product alone, whatever the
 * formats. */
#include "engine/cpu/product.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { K = 224, ROWS = 40, TOKENS = 3, MATRICES = 6 };
static const enum format formats[MATRICES] = {FORMAT_BF16, FORMAT_TQ4,	FORMAT_F32,
					      FORMAT_TQ3,  FORMAT_Q4_1, FORMAT_AFFINE4};

static struct environment env;
static struct activation input;
static struct matrix matrix[MATRICES];
static float out[MATRICES][TOKENS][ROWS];
static void *memory;

static int setup(void **state)
{
	(void)state;
	struct err e;
	env.kernels = kernels_best();
	assert_int_equal(threads_create(&env.threads, 2, &e), 0);
	memory = aligned_alloc(64, 1 << 20);
	assert_non_null(memory);
	uint8_t *next = memory;
	for (int i = 0; i < MATRICES; i++) {
		matrix[i] = (struct matrix){
			{.format = formats[i], .rows = ROWS, .cols = K, .group = 32}, next};
		size_t bytes = format_arranged_bytes(&matrix[i].shape);
		for (size_t b = 0; b < bytes; b++) /* small numbers of every type */
			next[b] = (uint8_t)(b % 4 == 3 || b % 2 ? 0x3a : b * 37);
		next += bytes;
	}
	struct arena a = {.memory = next};
	activation_take(&a, &input, TOKENS, K);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	threads_destroy(env.threads);
	free(memory);
	return 0;
}

/* New numbers; forms made from the old ones are no longer valid. */
static void write_input(float scale)
{
	for (size_t i = 0; i < (size_t)TOKENS * K; i++)
		input.f[i] = scale * (float)((int)(i * 31 % 17) - 8);
	activation_changed(&input);
}

static void alone(int i, float y[TOKENS][ROWS])
{
	input.forms = 0;
	product_run(&env, &(struct product){y[0], &matrix[i]}, 1, &input, TOKENS);
}

static void formats_may_meet_one_input_in_any_order(void **state)
{
	(void)state;
	float want[TOKENS][ROWS];
	for (int first = 0; first < MATRICES; first++) {
		struct product p[MATRICES];
		write_input((float)(first + 1));
		memset(input.q, 0x55, (size_t)TOKENS * tq_groups(K) * TQ_GROUP);
		memset(input.block.q, 0x55, (size_t)TOKENS * K);
		for (int i = 0; i < MATRICES; i++)
			p[i] = (struct product){out[i][0], &matrix[(first + i) % MATRICES]};
		product_run(&env, p, MATRICES, &input, TOKENS);
		for (int i = 0; i < MATRICES; i++) {
			alone((first + i) % MATRICES, want);
			assert_memory_equal(out[i], want, sizeof want);
		}
	}
}

/* For each form. */
static void an_8_bit_form_is_made_once_for_an_input_and_anew_for_another(void **state)
{
	(void)state;
	int8_t *const made[] = {input.q, input.block.q};
	static const int of[] = {1, 4}; /* matrices */
	for (int i = 0; i < 2; i++) {
		struct product again = {out[0][0], &matrix[of[i]]};
		float want[TOKENS][ROWS];
		write_input(1);
		alone(of[i], want);
		memset(made[i], 0, (size_t)TOKENS * K);
		product_run(&env, &again, 1, &input, TOKENS);
		assert_memory_not_equal(out[0], want, sizeof want); /* the made form was used */
		write_input(1);
		product_run(&env, &again, 1, &input, TOKENS);
		assert_memory_equal(out[0], want, sizeof want);
	}
}

/* Parts of the input: rows of the matrix that belong to a part are multiplied with it alone. 40 rows in
 * 2, 4 and 8 groups: their ends are within tiles. More tokens than are gathered together. */
static void groups_of_rows_have_a_part_of_the_input_each(void **state)
{
	(void)state;
	enum { MOST = 8, MANY = 100 };
	static float parts[MANY * MOST][ROWS], got[MANY][ROWS];
	uint32_t index[MOST * MANY];
	struct activation wide;
	struct arena measured = {0};
	activation_take(&measured, &wide, (size_t)MANY * MOST, K);
	struct arena a = {.memory = aligned_alloc(64, (measured.used + 63) / 64 * 64)};
	assert_non_null(a.memory);
	void *taken = a.memory;
	activation_take(&a, &wide, (size_t)MANY * MOST, K);
	for (size_t i = 0; i < (size_t)MANY * MOST * K; i++)
		wide.f[i] = (float)((int)(i * 37 % 23) - 11);
	for (uint32_t groups = 2; groups <= MOST; groups *= 2)
		for (int i = 0; i < MATRICES; i++) {
			uint32_t each = ROWS / groups;
			activation_changed(&wide);
			product_run(&env, &(struct product){parts[0], &matrix[i]}, 1, &wide,
				    MANY * groups);
			memset(got, 0x55, sizeof got);
			product_run_groups(&env, &(struct product){got[0], &matrix[i]}, &wide, groups,
					   MANY, index);
			for (uint32_t t = 0; t < MANY; t++)
				for (uint32_t g = 0; g < groups; g++)
					assert_memory_equal(&got[t][g * each],
							    &parts[t * groups + g][g * each],
							    each * sizeof(float));
		}
	free(taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_may_meet_one_input_in_any_order),
		cmocka_unit_test(an_8_bit_form_is_made_once_for_an_input_and_anew_for_another),
		cmocka_unit_test(groups_of_rows_have_a_part_of_the_input_each),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
