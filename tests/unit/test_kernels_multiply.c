/* Matrix products: near the exact ones, with the same bits from every table for every shape,
 * whatever else is computed at the same time. */
#include "kernels/block.h"
#include "kernels/kernels.h"
#include "kernels/tc.h"
#include "tests/unit/random.h"
#include "tests/unit/random_blocks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS = 13 };

static void *allocate(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
	assert_non_null(p);
	return p;
}

/* A random matrix in its canonical and arranged forms, with inputs for it. */
struct problem {
	struct matrix w;
	uint8_t *packed, *norms, *biases, *arranged;
	struct input x;
	float *f, *scale, *block_scale;
	int8_t *q, *block_q;
	int16_t *block_sum;
};

/* The row as TQ, used for TC as well: all bytes are valid codes in both. */
static void fill_tq(struct problem *p, const float *row, uint32_t r)
{
	const struct shape *s = &p->w.shape;
	const size_t groups = tq_groups(s->cols);
	const uint32_t bits = format_tq_bits(s->format);
	float norms[8];

	assert_in_range(groups, 1, 8);
	assert_true(tq_quantise_row(p->packed + r * groups * 16 * bits, norms, row, s->cols, bits,
				    TQ_GAIN_LEAST_SQUARES));
	for (size_t g = 0; g < groups; g++) {
		const size_t at = r * groups + g;
		const uint16_t half = f16_from_f32(norms[g]);
		if (s->norms == NORM_F16)
			memcpy(p->norms + at * 2, &half, sizeof half);
		else
			memcpy(p->norms + at * 4, &norms[g], sizeof norms[g]);
	}
}

static void fill_floats(struct problem *p, const float *row, uint32_t r)
{
	const struct shape *s = &p->w.shape;

	for (size_t i = 0; i < s->cols; i++) {
		const size_t at = (size_t)r * s->cols + i;
		const uint16_t half =
			s->format == FORMAT_F16 ? f16_from_f32(row[i]) : bf16_from_f32(row[i]);
		if (s->format == FORMAT_F32)
			memcpy(p->packed + at * 4, &row[i], sizeof row[i]);
		else
			memcpy(p->packed + at * 2, &half, sizeof half);
	}
}

static void fill_weights(struct problem *p, struct random *random)
{
	const struct shape *s = &p->w.shape;
	float *row = allocate(s->cols * sizeof *row);

	if (format_is_block(s->format))
		random_blocks(random, s, p->packed, p->norms, p->biases);
	for (uint32_t r = 0; !format_is_block(s->format) && r < s->rows; r++) {
		random_normal(random, row, s->cols);
		if (format_is_tq(s->format))
			fill_tq(p, row, r);
		else
			fill_floats(p, row, r);
	}
	free(row);
}

/* Inputs in every form: x->f as p->f is now. */
static void prepare(struct problem *p)
{
	const uint32_t k = p->w.shape.cols;
	const size_t groups = tq_groups(k), blocks = k / BLOCK;

	for (size_t t = 0; t < TOKENS; t++) {
		kernels_scalar.tq_prepare(p->q + t * groups * TQ_GROUP, p->scale + t * groups,
					  p->f + t * k, k);
		if (format_is_block(p->w.shape.format))
			kernels_scalar.block_prepare(
				p->block_q + t * k, p->block_scale + t * blocks,
				p->block_sum + t * blocks * HALVES, p->f + t * k, k);
	}
	p->x = (struct input){.k = k,
			      .f = p->f,
			      .q = p->q,
			      .scale = p->scale,
			      .block = {p->block_q, p->block_scale, p->block_sum}};
}

static struct problem make_problem(struct random *random, struct shape shape)
{
	struct problem p = {.w.shape = shape};
	const size_t groups = tq_groups(shape.cols), blocks = shape.cols / BLOCK;

	assert_true(format_shape_fits(&shape));
	p.packed = allocate(format_packed_bytes(&shape));
	p.norms = allocate(format_norm_bytes(&shape));
	p.biases = allocate(format_bias_bytes(&shape));
	p.arranged = allocate(format_arranged_bytes(&shape));
	fill_weights(&p, random);
	format_arrange(p.arranged, &shape, 0, shape.rows,
		       &(struct pieces){p.packed, p.norms, p.biases});
	p.w.data = p.arranged;

	p.f = allocate((size_t)TOKENS * shape.cols * sizeof *p.f);
	p.q = allocate(TOKENS * groups * TQ_GROUP);
	p.scale = allocate(TOKENS * groups * sizeof *p.scale);
	p.block_q = allocate((size_t)TOKENS * shape.cols);
	p.block_scale = allocate(TOKENS * blocks * sizeof *p.block_scale);
	p.block_sum = allocate(TOKENS * blocks * HALVES * sizeof *p.block_sum);
	random_normal(random, p.f, (size_t)TOKENS * shape.cols);
	prepare(&p);
	return p;
}

static void free_problem(struct problem *p)
{
	void *const all[] = {p->packed, p->norms, p->biases,  p->arranged,    p->f,
			     p->q,	p->scale, p->block_q, p->block_scale, p->block_sum};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

static const uint32_t all_rows[] = {1, 15, 16, 17, 33};
static const uint32_t all_cols[] = {1, 64, 127, 128, 129, 300, 768};

/* For formats with whole blocks about as many columns; for formats with groups some of the groups.
 */
static struct shape fitting(struct shape s)
{
	s.group = 32U << s.cols % 3;
	const uint32_t block = format_block_cols(&s);
	s.cols = (s.cols + block - 1) / block * block;
	if (format_affine_bits(s.format) && s.rows % 5 == 0)
		s.norms = NORM_BF16;
	return s;
}

/* The shapes of all tests here: every format, norm type, number of rows and of columns. */
static bool next_shape(size_t *i, struct shape *s)
{
	const size_t n = (*i)++;
	if (n >= (size_t)5 * 7 * FORMAT_COUNT * 2)
		return false;
	*s = fitting((struct shape){
		.format = (enum format)(n % FORMAT_COUNT),
		.norms = n / FORMAT_COUNT % 2 ? NORM_F32 : NORM_F16,
		.rows = all_rows[n / FORMAT_COUNT / 2 % 5],
		.cols = all_cols[n / FORMAT_COUNT / 2 / 5],
	});
	return true;
}

/* Σ (y - exact)² / Σ exact² over a matrix and all tokens, exact by the dequantised weights. */
static double squared_error(const struct problem *p, const float *y)
{
	const struct shape *s = &p->w.shape;
	const size_t packed_row = format_packed_bytes(s) / s->rows;
	const size_t norm_row = format_norm_bytes(s) / s->rows;
	const size_t bias_row = format_bias_bytes(s) / s->rows;
	float *row = allocate(s->cols * sizeof *row);
	double error = 0, power = 0;

	for (uint32_t r = 0; r < s->rows; r++) {
		const struct pieces from = {p->packed + r * packed_row, p->norms + r * norm_row,
					    p->biases + r * bias_row};
		format_dequantise_row(row, s, &from);
		for (size_t t = 0; t < TOKENS; t++) {
			double exact = 0;
			for (size_t i = 0; i < s->cols; i++)
				exact += (double)row[i] * p->f[t * s->cols + i];
			error += pow(y[t * s->rows + r] - exact, 2);
			power += exact * exact;
		}
	}
	free(row);
	return error / power;
}

/* The integer path rounds inputs and codebook to 8 bits, which may cost 2e-4. The norms' type is
 * in the dequantised weights. */
static void products_are_near_those_of_the_dequantised_weights(void **state)
{
	(void)state;
	struct random random = {1};
	double worst[FORMAT_COUNT] = {0};
	struct shape s;
	for (size_t i = 0; next_shape(&i, &s);) {
		if (s.rows < 15 || s.cols < 64) /* too few sums for a mean */
			continue;
		struct problem p = make_problem(&random, s);
		float *y = allocate((size_t)TOKENS * s.rows * sizeof *y);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			(*k)->multiply[s.format](y, s.rows, &p.w, 0, s.rows, &p.x, NULL, TOKENS);
			const double error = squared_error(&p, y);
			worst[s.format] = fmax(worst[s.format], error);
			assert_true(error <
				    (format_input(s.format) == INPUT_FLOATS ? 1e-12 : 2e-4));
		}
		free(y);
		free_problem(&p);
	}
	for (int f = 0; f < FORMAT_COUNT; f++)
		print_message("%s: squared relative error at most %.2g\n",
			      format_name((enum format)f), worst[f]);
}

/* For 1 … 13 tokens, in order and by a list that repeats and reverses. ldy is wider than needed and
 * what lies between is not written. */
static void every_table_gives_the_same_bits_for_every_shape(void **state)
{
	(void)state;
	static const uint32_t list[TOKENS] = {12, 3, 3, 0, 7, 11, 1, 5, 4, 9, 2, 8, 6};
	struct random random = {2};
	struct shape s;
	for (size_t i = 0; next_shape(&i, &s);) {
		struct problem p = make_problem(&random, s);
		const size_t ldy = s.rows + 3, bytes = TOKENS * ldy * sizeof(float);
		float *expected = allocate(bytes), *y = allocate(bytes);
		for (size_t n = 1; n <= TOKENS; n++) {
			const uint32_t *tokens = n % 2 ? list : NULL;
			memset(expected, 0x55, bytes);
			kernels_scalar.multiply[s.format](expected, ldy, &p.w, 0, s.rows, &p.x,
							  tokens, n);
			for (const struct kernels *const *k = kernels_available(); *k; k++) {
				memset(y, 0x55, bytes);
				(*k)->multiply[s.format](y, ldy, &p.w, 0, s.rows, &p.x, tokens, n);
				if (memcmp(y, expected, bytes) != 0)
					fail_msg("%s %s [%u, %u], %zu tokens", (*k)->name,
						 format_name(s.format), s.rows, s.cols, n);
			}
		}
		free(expected);
		free(y);
		free_problem(&p);
	}
}

/* The result for a (row, token) is the same alone, in company, and however rows are split. */
static void a_result_does_not_depend_on_its_company(void **state)
{
	(void)state;
	struct random random = {3};
	for (int f = 0; f < FORMAT_COUNT; f++) {
		const struct shape s =
			fitting((struct shape){.format = (enum format)f, .rows = 33, .cols = 300});
		struct problem p = make_problem(&random, s);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			float all[TOKENS * 33], split[TOKENS * 33], alone[33];
			(*k)->multiply[f](all, 33, &p.w, 0, 33, &p.x, NULL, TOKENS);

			(*k)->multiply[f](split, 33, &p.w, 16, 33, &p.x, NULL, TOKENS);
			(*k)->multiply[f](split, 33, &p.w, 0, 16, &p.x, NULL, TOKENS);
			assert_memory_equal(split, all, sizeof all);
			(*k)->multiply[f](split, 33, &p.w, 0, 32, &p.x, NULL, TOKENS);
			(*k)->multiply[f](split, 33, &p.w, 32, 33, &p.x, NULL, TOKENS);
			assert_memory_equal(split, all, sizeof all);

			for (uint32_t t = 0; t < TOKENS; t++) {
				(*k)->multiply[f](alone, 33, &p.w, 0, 33, &p.x, &t, 1);
				assert_memory_equal(alone, all + (size_t)t * 33, sizeof alone);
			}
		}
		free_problem(&p);
	}
}

/* Every division of tokens into blocks, and more tokens than any table takes at once. */
static void long_prompts_give_the_same_bits(void **state)
{
	(void)state;
	struct random random = {4};
	enum { MANY = 131, EVERY = 50 };
	uint32_t list[MANY];
	for (uint32_t i = 0; i < MANY; i++)
		list[i] = i * 7 % TOKENS;
	for (int f = 0; f < FORMAT_COUNT; f++) {
		const struct shape s = fitting((struct shape){
			.format = (enum format)f, .norms = NORM_F32, .rows = 17, .cols = 129});
		struct problem p = make_problem(&random, s);
		const size_t bytes = (size_t)MANY * 17 * sizeof(float);
		float *expected = allocate(bytes), *y = allocate(bytes);
		kernels_scalar.multiply[f](expected, 17, &p.w, 0, 17, &p.x, list, MANY);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			for (size_t n = TOKENS; n <= MANY; n = n < EVERY ? n + 1 : n + 27) {
				memset(y, 0x55, bytes);
				(*k)->multiply[f](y, 17, &p.w, 0, 17, &p.x, list, n);
				assert_memory_equal(y, expected, n * 17 * sizeof(float));
			}
		}
		free(expected);
		free(y);
		free_problem(&p);
	}
}

/* More columns than the tables gather at once, so that results are continued. */
static void wide_matrix_gives_the_same_bits(enum format format)
{
	static const uint32_t list[TOKENS] = {1, 0, 2, 2, 3, 1, 0, 1, 3, 2, 1, 0, 3};
	enum { COLS = 50000, WIDE_TOKENS = 4 };
	struct random random = {8};
	const size_t groups = tq_groups(COLS);
	const struct shape s = {.format = format, .rows = 17, .cols = COLS};
	uint8_t *packed = allocate(format_packed_bytes(&s)),
		*norms = allocate(format_norm_bytes(&s));
	uint8_t *arranged = allocate(format_arranged_bytes(&s));
	int8_t *q = allocate(WIDE_TOKENS * groups * TQ_GROUP);
	float *scale = allocate(WIDE_TOKENS * groups * sizeof *scale);
	for (size_t i = 0; i < format_packed_bytes(&s); i++)
		packed[i] = (uint8_t)random_u32(&random);
	for (size_t i = 0; i < format_norm_bytes(&s) / 2; i++) {
		const uint16_t half = f16_from_f32((float)random_uniform(&random));
		memcpy(norms + 2 * i, &half, sizeof half);
	}
	for (size_t i = 0; i < WIDE_TOKENS * groups * TQ_GROUP; i++)
		q[i] = (int8_t)((int)(random_u32(&random) % 255) - 127);
	for (size_t i = 0; i < WIDE_TOKENS * groups; i++)
		scale[i] = (float)random_uniform(&random);
	format_arrange(arranged, &s, 0, s.rows,
		       &(struct pieces){.weights = packed, .scales = norms});
	const struct matrix w = {s, arranged};
	const struct input x = {.k = COLS, .q = q, .scale = scale};
	for (size_t n = 1; n <= TOKENS; n += 6) {
		float expected[TOKENS * 17], y[TOKENS * 17];
		kernels_scalar.multiply[format](expected, 17, &w, 0, 17, &x, list, n);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			(*k)->multiply[format](y, 17, &w, 0, 17, &x, list, n);
			assert_memory_equal(y, expected, n * 17 * sizeof(float));
		}
	}
	free(packed);
	free(norms);
	free(arranged);
	free(q);
	free(scale);
}

static void wide_matrices_give_the_same_bits(void **state)
{
	(void)state;
	wide_matrix_gives_the_same_bits(FORMAT_TQ3);
	wide_matrix_gives_the_same_bits(FORMAT_TC3);
}

/* Two rows and two tokens: inputs of one sign, and of the other. */
static void extremes_are_exact(enum format format, const uint8_t *packed, const int32_t sum[2],
			       float gain)
{
	const struct shape s = {.format = format, .norms = NORM_F32, .rows = 2, .cols = TQ_GROUP};
	uint8_t *arranged = allocate(format_arranged_bytes(&s));
	const float norms[2] = {1, 1}, scale[2] = {1, 1};
	_Alignas(64) int8_t q[2][TQ_GROUP];
	const struct matrix w = {s, arranged};
	const struct input x = {.k = TQ_GROUP, .q = q[0], .scale = scale};

	format_arrange(arranged, &s, 0, 2, &(struct pieces){.weights = packed, .scales = norms});
	memset(q[0], 127, TQ_GROUP);
	memset(q[1], -127, TQ_GROUP);
	for (const struct kernels *const *k = kernels_available(); *k; k++)
		for (size_t n = 1; n <= 2; n++) {
			float y[4];
			(*k)->multiply[format](y, 2, &w, 0, 2, &x, NULL, n);
			for (size_t i = 0; i < 2 * n; i++) {
				const int32_t dot = sum[i % 2] * (i < 2 ? 127 : -127);
				assert_true(y[i] == (float)dot * gain);
			}
		}
	free(arranged);
}

/* All weights at the outermost levels and all inputs at ±127: where 16-bit sums would saturate. */
static void extreme_codes_do_not_saturate(void **state)
{
	(void)state;
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const struct tq_codebook *book = tq_codebook(bits);
		const int32_t largest = book->integer[book->levels - 1] * TQ_GROUP;
		uint8_t packed[2 * 64], low[TQ_GROUP] = {0}, high[TQ_GROUP];
		memset(high, (int)book->levels - 1, sizeof high);
		tq_pack(packed, low, bits);
		tq_pack(packed + (size_t)16 * bits, high, bits);
		extremes_are_exact((enum format)(FORMAT_TQ2 + bits - 2), packed,
				   (int32_t[]){-largest, largest}, book->gain);
	}
}

/* The same for TC, whose largest codes cannot all follow each other: the codes of the stream that
 * is nearest to very large weights. */
static void extreme_streams_do_not_saturate(void **state)
{
	(void)state;
	for (uint32_t bits = 2; bits <= 4; bits++) {
		uint8_t packed[2 * 64];
		int8_t code[TQ_GROUP], largest = 0;
		int32_t sum[2] = {0};
		float far[2][TQ_GROUP], factor[2];
		for (size_t i = 0; i < TQ_GROUP; i++) {
			far[0][i] = -1;
			far[1][i] = 1;
		}
		tc_encode(packed, factor, far[0], 2, bits);
		for (size_t r = 0; r < 2; r++) {
			tc_codes(code, packed + r * 16 * bits, bits);
			for (size_t i = 0; i < TQ_GROUP; i++) {
				sum[r] += code[i];
				largest = code[i] > largest ? code[i] : largest;
			}
		}
		assert_in_range(largest, 32, TC_CODE_MOST);
		extremes_are_exact((enum format)(FORMAT_TC2 + bits - 2), packed, sum,
				   tc_codebook(bits)->gain);
	}
}

/* ---- inputs in 8 bits ---- */

static void every_table_prepares_the_same_bytes(void **state)
{
	(void)state;
	struct random random = {5};
	for (uint32_t k = 1; k <= 400; k += k < 140 ? 1 : 31) {
		float x[400] = {0}, expected_scale[4], scale[4];
		int8_t expected[4 * TQ_GROUP], q[4 * TQ_GROUP];
		const size_t groups = tq_groups(k);
		random_normal(&random, x, k);
		x[k / 2] *= k % 5 ? 1 : 50;
		kernels_scalar.tq_prepare(expected, expected_scale, x, k);
		for (const struct kernels *const *t = kernels_available(); *t; t++) {
			(*t)->tq_prepare(q, scale, x, k);
			assert_memory_equal(q, expected, groups * TQ_GROUP);
			assert_memory_equal(scale, expected_scale, groups * sizeof *scale);
		}
	}
}

static void prepared_inputs_are_the_rotated_ones_to_half_a_step(void **state)
{
	(void)state;
	struct random random = {6};
	float x[TQ_GROUP], y[TQ_GROUP], scale;
	int8_t q[TQ_GROUP];
	random_normal(&random, x, TQ_GROUP);
	memcpy(y, x, sizeof y);
	tq_rotate(y);
	int largest = 0;
	kernels_scalar.tq_prepare(q, &scale, x, TQ_GROUP);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const int here = q[tq_input_place(i)];
		assert_true(fabsf((float)here * scale - y[i]) <= .5001F * scale);
		largest = abs(here) > largest ? abs(here) : largest;
	}
	assert_int_equal(largest, 127);
}

static void a_zero_group_prepares_to_zeros_with_scale_zero(void **state)
{
	(void)state;
	const float x[200] = {0};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		int8_t q[256];
		float scale[2] = {1, 1};
		memset(q, 1, sizeof q);
		(*k)->tq_prepare(q, scale, x, 200);
		for (size_t i = 0; i < 256; i++)
			assert_int_equal(q[i], 0);
		assert_true(scale[0] == 0 && scale[1] == 0);
	}
}

static void the_smallest_inputs_do_not_overflow(void **state)
{
	(void)state;
	float x[TQ_GROUP] = {0};
	x[3] = 0x1p-140F;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		int8_t q[TQ_GROUP];
		float scale;
		(*k)->tq_prepare(q, &scale, x, TQ_GROUP);
		for (size_t i = 0; i < TQ_GROUP; i++)
			assert_int_equal(abs(q[i]), 127);
		assert_true(scale >= 0 && scale < 1e-40F);
	}
}

static void a_nan_or_infinity_in_the_input_shows_in_the_product(void **state)
{
	(void)state;
	static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38F};
	struct random random = {7};
	const struct shape s = {.format = FORMAT_TQ3, .rows = 16, .cols = 300};
	struct problem p = make_problem(&random, s);
	for (size_t i = 0; i < 4; i++) {
		p.f[130] = bad[i];
		p.f[131] = bad[i]; /* two of the largest finite floats overflow in the rotation */
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			float y[16];
			(*k)->tq_prepare(p.q, p.scale, p.f, 300);
			assert_true(isfinite(p.scale[0]) && isnan(p.scale[1]));
			(*k)->multiply[s.format](y, 16, &p.w, 0, 16, &p.x, NULL, 1);
			for (size_t r = 0; r < 16; r++)
				assert_true(isnan(y[r]));
		}
	}
	free_problem(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_are_near_those_of_the_dequantised_weights),
		cmocka_unit_test(every_table_gives_the_same_bits_for_every_shape),
		cmocka_unit_test(a_result_does_not_depend_on_its_company),
		cmocka_unit_test(long_prompts_give_the_same_bits),
		cmocka_unit_test(wide_matrices_give_the_same_bits),
		cmocka_unit_test(extreme_codes_do_not_saturate),
		cmocka_unit_test(extreme_streams_do_not_saturate),
		cmocka_unit_test(every_table_prepares_the_same_bytes),
		cmocka_unit_test(prepared_inputs_are_the_rotated_ones_to_half_a_step),
		cmocka_unit_test(a_zero_group_prepares_to_zeros_with_scale_zero),
		cmocka_unit_test(the_smallest_inputs_do_not_overflow),
		cmocka_unit_test(a_nan_or_infinity_in_the_input_shows_in_the_product),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
