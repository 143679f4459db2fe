/* Inputs and products of matrices of blocks, beyond test_kernels_multiply.c, which tests them with
 * all other formats: the largest codes, many columns, outliers, NaN and infinity. */
#include "kernels/block.h"
#include "kernels/block_layout.h"
#include "kernels/kernels.h"
#include "tests/unit/random.h"
#include "tests/unit/random_blocks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *allocate(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
	assert_non_null(p);
	return p;
}

/* Inputs in 8 bits. */
struct prepared {
	int8_t *q;
	float *scale;
	int16_t *sum;
};

static struct prepared room_for(size_t tokens, size_t k)
{
	return (struct prepared){allocate(tokens * k), allocate(tokens * k / BLOCK * sizeof(float)),
				 allocate(tokens * k / HALF_BLOCK * sizeof(int16_t))};
}

static void prepare(const struct prepared *p, const float *x, size_t tokens, uint32_t k)
{
	for (size_t t = 0; t < tokens; t++)
		kernels_scalar.block_prepare(p->q + t * k, p->scale + t * k / BLOCK,
					     p->sum + t * k / HALF_BLOCK, x + t * k, k);
}

static struct input input_of(const struct prepared *p, uint32_t k)
{
	return (struct input){.k = k, .block = {p->q, p->scale, p->sum}};
}

static void free_prepared(struct prepared *p)
{
	free(p->q);
	free(p->scale);
	free(p->sum);
}

/* A matrix in canonical bytes, and arranged. */
struct weights {
	struct shape shape;
	uint8_t *packed, *scales, *biases, *arranged;
};

static struct weights random_weights(struct random *random, struct shape s)
{
	struct weights w = {s, allocate(format_packed_bytes(&s)), allocate(format_norm_bytes(&s)),
			    allocate(format_bias_bytes(&s)), allocate(format_arranged_bytes(&s))};
	assert_true(format_shape_fits(&s));
	random_blocks(random, &s, w.packed, w.scales, w.biases);
	return w;
}

static void arrange(struct weights *w)
{
	format_arrange(w->arranged, &w->shape, 0, w->shape.rows,
		       &(struct pieces){w->packed, w->scales, w->biases});
}

static void dequantise(float *row, const struct weights *w, size_t r)
{
	const struct shape *s = &w->shape;
	const struct pieces from = {w->packed + r * (format_packed_bytes(s) / s->rows),
				    w->scales + r * (format_norm_bytes(s) / s->rows),
				    w->biases + r * (format_bias_bytes(s) / s->rows)};
	format_dequantise_row(row, s, &from);
}

static void free_weights(struct weights *w)
{
	free(w->packed);
	free(w->scales);
	free(w->biases);
	free(w->arranged);
}

#define EACH_FORMAT(f)                         \
	for (int f = 0; f < FORMAT_COUNT; f++) \
		if (format_is_block((enum format)f))
#define EACH_TABLE(k) for (const struct kernels *const *k = kernels_available(); *k; k++)

/* ---- products ---- */

/* Every bit of the codes clear, or set, and inputs of ±127: where sums of 16 bits would saturate.
 */
static void the_largest_codes_and_inputs_do_not_saturate(void **state)
{
	(void)state;
	enum { COLS = 256, ROWS = 33, TOKENS = 3 };
	struct random random = {1};
	EACH_FORMAT(f)
	{
		const struct shape s = {
			.format = (enum format)f, .rows = ROWS, .cols = COLS, .group = 128};
		struct weights w = random_weights(&random, s);
		struct prepared x = room_for(TOKENS, COLS);
		const size_t row_bytes = format_packed_bytes(&s) / ROWS;
		memset(w.packed, 0xff, row_bytes * ROWS);
		for (size_t r = 0; r < ROWS; r += 2)
			memset(w.packed + r * row_bytes, 0, row_bytes);
		random_scales(&random, &s, w.packed, w.scales, w.biases);
		arrange(&w);
		for (size_t i = 0; i < TOKENS * COLS; i++) /* the last one's alternate */
			x.q[i] = i < COLS || (i >= 2 * COLS && i % 2) ? 127 : -127;
		for (size_t i = 0; i < TOKENS * COLS / HALF_BLOCK; i++) {
			x.sum[i] = 0;
			for (size_t j = 0; j < HALF_BLOCK; j++)
				x.sum[i] = (int16_t)(x.sum[i] + x.q[i * HALF_BLOCK + j]);
		}
		for (size_t i = 0; i < TOKENS * COLS / BLOCK; i++)
			x.scale[i] = 1;
		const struct matrix m = {s, w.arranged};
		const struct input in = input_of(&x, COLS);
		EACH_TABLE(k)
		for (uint32_t n = 1; n <= TOKENS; n++) {
			float y[TOKENS * ROWS], row[COLS];
			(*k)->multiply[f](y, ROWS, &m, 0, ROWS, &in, NULL, n);
			for (size_t r = 0; r < ROWS; r++) {
				dequantise(row, &w, r);
				for (size_t t = 0; t < n; t++) {
					double exact = 0, size = 0;
					for (size_t i = 0; i < COLS; i++) {
						exact += (double)row[i] * x.q[t * COLS + i];
						size += fabs((double)row[i] * 127);
					}
					if (fabs(y[t * ROWS + r] - exact) > 1e-5 * size)
						fail_msg("%s %s: %g, not %g", (*k)->name,
							 format_name(s.format), y[t * ROWS + r],
							 exact);
				}
			}
		}
		free_weights(&w);
		free_prepared(&x);
	}
}

/* More columns than the tables gather at once, so that results are continued: of whole tiles, and
 * of 11 or 27 rows that tables take together. */
static void wide_matrices_give_the_same_bits(void **state)
{
	(void)state;
	enum { COLS = 1 << 17, ROWS = 59, CUT = 48, TOKENS = 13 };
	static const uint32_t list[TOKENS] = {1, 0, 2, 2, 1, 0, 0, 1, 2, 0, 2, 1, 0};
	static const enum format some[] = {FORMAT_Q6_K, FORMAT_AFFINE4, FORMAT_AFFINE8,
					   FORMAT_IQ4_NL};
	struct random random = {2};
	float *f = allocate((size_t)3 * COLS * sizeof *f);
	struct prepared x = room_for(3, COLS);
	random_normal(&random, f, (size_t)3 * COLS);
	prepare(&x, f, 3, COLS);
	const struct input in = input_of(&x, COLS);
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		const struct shape s = {.format = some[i], .rows = ROWS, .cols = COLS, .group = 64};
		struct weights w = random_weights(&random, s);
		arrange(&w);
		const struct matrix m = {s, w.arranged};
		for (size_t n = 1; n <= TOKENS; n += 6) {
			float expected[TOKENS * ROWS], y[TOKENS * ROWS];
			kernels_scalar.multiply[s.format](expected, ROWS, &m, 0, ROWS, &in, list,
							  n);
			EACH_TABLE(k)
			{
				(*k)->multiply[s.format](y, ROWS, &m, 0, ROWS, &in, list, n);
				assert_memory_equal(y, expected, n * ROWS * sizeof *y);
				memset(y, 0x55, sizeof y);
				(*k)->multiply[s.format](y, ROWS, &m, 0, CUT, &in, list, n);
				(*k)->multiply[s.format](y, ROWS, &m, CUT, ROWS, &in, list, n);
				assert_memory_equal(y, expected, n * ROWS * sizeof *y);
			}
		}
		free_weights(&w);
	}
	free(f);
	free_prepared(&x);
}

/* A few elements a hundred times as large as the rest, as models have them: the blocks are so short
 * that only their own neighbours lose precision: 32 · (1/127)² / 12 at the worst. */
static void outliers_in_the_input_cost_no_more_than_the_bound(void **state)
{
	(void)state;
	enum { COLS = 1024, ROWS = 2048 };
	struct random random = {3};
	float f[COLS], row[COLS], y[ROWS];
	double worst = 0;
	struct prepared x = room_for(1, COLS);
	random_normal(&random, f, COLS);
	for (size_t i = 0; i < COLS; i += 97)
		f[i] *= 100;
	prepare(&x, f, 1, COLS);
	const struct input in = input_of(&x, COLS);
	EACH_FORMAT(format)
	{
		const struct shape s = {
			.format = (enum format)format, .rows = ROWS, .cols = COLS, .group = 32};
		struct weights w = random_weights(&random, s);
		double error = 0, power = 0;
		arrange(&w);
		const struct matrix m = {s, w.arranged};
		kernels_best()->multiply[format](y, ROWS, &m, 0, ROWS, &in, NULL, 1);
		for (size_t r = 0; r < ROWS; r++) {
			double exact = 0;
			dequantise(row, &w, r);
			for (size_t i = 0; i < COLS; i++)
				exact += (double)row[i] * f[i];
			error += pow(y[r] - exact, 2);
			power += exact * exact;
		}
		if (error > 2e-4 * power)
			fail_msg("%s: %g", format_name(s.format), error / power);
		worst = fmax(worst, error / power);
		free_weights(&w);
	}
	print_message("at most %.2g\n", worst);
	free_prepared(&x);
}

/* Scales that are NaN or infinite, as in damaged files. */
static void a_scale_that_is_no_number_shows_in_its_row_alone(void **state)
{
	(void)state;
	enum { COLS = 256, ROWS = 16 };
	struct random random = {4};
	float f[COLS];
	struct prepared x = room_for(1, COLS);
	random_normal(&random, f, COLS);
	prepare(&x, f, 1, COLS);
	const struct input in = input_of(&x, COLS);
	EACH_FORMAT(format)
	{
		const struct shape s = {
			.format = (enum format)format, .rows = ROWS, .cols = COLS, .group = 128};
		struct weights w = random_weights(&random, s);
		const size_t third = 3 * (format_packed_bytes(&s) / ROWS);
		const uint8_t *at;
		if (block_halves(s.format, &at))
			memcpy(w.packed + third + at[0], &(uint16_t){0x7e00}, 2);
		else if (s.format == FORMAT_MXFP4_GGUF)
			w.packed[third] = 255;
		else
			memset(w.scales + 3 * (format_norm_bytes(&s) / ROWS), 0xff,
			       format_norm_bytes(&s) / ROWS);
		arrange(&w);
		const struct matrix m = {s, w.arranged};
		EACH_TABLE(k)
		{
			float y[ROWS];
			(*k)->multiply[format](y, ROWS, &m, 0, ROWS, &in, NULL, 1);
			for (size_t r = 0; r < ROWS; r++)
				assert_true(isnan(y[r]) == (r == 3));
		}
		free_weights(&w);
	}
	free_prepared(&x);
}

/* 16 rows at a time, into dirty memory. */
static void arranging_in_parts_is_arranging_at_once(void **state)
{
	(void)state;
	enum { COLS = 512, ROWS = 37 };
	struct random random = {5};
	EACH_FORMAT(format)
	for (int norms = NORM_F16; norms <= NORM_BF16; norms++) {
		const struct shape s = {.format = (enum format)format,
					.norms = (enum norm_type)norms,
					.rows = ROWS,
					.cols = COLS,
					.group = 64};
		struct weights w = random_weights(&random, s);
		const size_t bytes = format_arranged_bytes(&s);
		uint8_t *parts = allocate(bytes);
		memset(w.arranged, 0, bytes);
		memset(parts, 0, bytes);
		arrange(&w);
		for (uint32_t r = 0; r < ROWS; r += 16) {
			const struct pieces from = {w.packed + r * (format_packed_bytes(&s) / ROWS),
						    w.scales + r * (format_norm_bytes(&s) / ROWS),
						    w.biases + r * (format_bias_bytes(&s) / ROWS)};
			format_arrange(parts, &s, r, ROWS - r < 16 ? ROWS - r : 16, &from);
		}
		assert_memory_equal(parts, w.arranged, bytes);
		free(parts);
		free_weights(&w);
	}
}

/* From memory that ends with the weights, so that a read behind them is noticed. */
static struct weights exact_weights(struct random *random, struct shape s)
{
	struct weights from = random_weights(random, s), to = {.shape = s};
	const size_t bytes[] = {format_packed_bytes(&s), format_norm_bytes(&s),
				format_bias_bytes(&s)};
	const uint8_t *const piece[] = {from.packed, from.scales, from.biases};
	uint8_t **const copy[] = {&to.packed, &to.scales, &to.biases};

	for (size_t i = 0; i < 3; i++) {
		assert_non_null(*copy[i] = malloc(bytes[i] + !bytes[i]));
		memcpy(*copy[i], piece[i], bytes[i]);
	}
	to.arranged = allocate(format_arranged_bytes(&s));
	free_weights(&from);
	return to;
}

static void check_ways(struct random *random, struct shape s)
{
	struct weights w = exact_weights(random, s);
	const struct pieces from = {w.packed, w.scales, w.biases};
	const size_t bytes = format_arranged_bytes(&s);
	uint8_t *plain = allocate(bytes);

	memset(plain, 0x5a, bytes);
	arrange_blocks_by(kernels_scalar.arrange, plain, &s, s.rows, &from);
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		memset(w.arranged, 0x5a, bytes);
		arrange_blocks_by((*k)->arrange, w.arranged, &s, s.rows, &from);
		assert_memory_equal(w.arranged, plain, bytes);
	}
	free(plain);
	free_weights(&w);
}

static void every_way_of_arranging_gives_the_same_bytes(void **state)
{
	(void)state;
	static const uint32_t rows[] = {1, 5, 8, 11, 16, 17, 37}, cols[] = {256, 768, 4864};
	struct random random = {7};
	EACH_FORMAT(format)
	for (int norms = NORM_F16; norms <= NORM_BF16; norms++)
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
			for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
				check_ways(&random, (struct shape){.format = (enum format)format,
								   .norms = (enum norm_type)norms,
								   .rows = rows[i],
								   .cols = cols[c],
								   .group = 32U << c});
}

/* A token reads little more from memory than the file's bytes. */
static void arranged_matrices_are_hardly_larger_than_files(void **state)
{
	(void)state;
	EACH_FORMAT(format)
	{
		const struct shape s = {
			.format = (enum format)format, .rows = 768, .cols = 2048, .group = 64};
		const size_t file =
			format_packed_bytes(&s) + format_norm_bytes(&s) + format_bias_bytes(&s);
		const double most = format == FORMAT_IQ3_S ? 1.27 : 1.05;
		assert_true((double)format_arranged_bytes(&s) <= most * (double)file);
	}
}

/* ---- inputs ---- */

static void prepared_blocks_are_the_input_to_half_a_step(void **state)
{
	(void)state;
	enum { COLS = 320 };
	struct random random = {6};
	float x[COLS];
	struct prepared p = room_for(1, COLS);
	random_normal(&random, x, COLS);
	EACH_TABLE(k)
	{
		(*k)->block_prepare(p.q, p.scale, p.sum, x, COLS);
		for (size_t b = 0; b < COLS / BLOCK; b++) {
			int largest = 0, sum[HALVES] = {0};
			for (size_t i = 0; i < BLOCK; i++) {
				const int q = p.q[b * BLOCK + i];
				assert_true(fabsf((float)q * p.scale[b] - x[b * BLOCK + i]) <=
					    .5001F * p.scale[b]);
				largest = abs(q) > largest ? abs(q) : largest;
				sum[i / HALF_BLOCK] += q;
			}
			assert_int_equal(largest, 127);
			assert_int_equal(p.sum[HALVES * b], sum[0]);
			assert_int_equal(p.sum[HALVES * b + 1], sum[1]);
		}
	}
	free_prepared(&p);
}

static void blocks_of_zeros_and_of_the_smallest_and_of_no_numbers(void **state)
{
	(void)state;
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	enum { COLS = 4 * BLOCK };
	EACH_TABLE(k)
	for (size_t i = 0; i < 3; i++) {
		float x[COLS] = {0}, scale[COLS / BLOCK];
		int8_t q[COLS];
		int16_t sum[COLS / HALF_BLOCK];
		x[BLOCK] = -0x1p-140F;
		x[2 * BLOCK] = 1;
		x[2 * BLOCK + 5] = bad[i];
		x[3 * BLOCK] = 3e38F;
		(*k)->block_prepare(q, scale, sum, x, COLS);
		assert_true(scale[0] == 0 && q[0] == 0);
		assert_true(scale[1] >= 0 && scale[1] < 1e-40F && q[BLOCK] == -127);
		assert_true(isnan(scale[2]) && q[2 * BLOCK] == 0 && sum[4] == 0);
		assert_true(isfinite(scale[3]) && q[3 * BLOCK] == 127);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_largest_codes_and_inputs_do_not_saturate),
		cmocka_unit_test(wide_matrices_give_the_same_bits),
		cmocka_unit_test(outliers_in_the_input_cost_no_more_than_the_bound),
		cmocka_unit_test(a_scale_that_is_no_number_shows_in_its_row_alone),
		cmocka_unit_test(arranging_in_parts_is_arranging_at_once),
		cmocka_unit_test(every_way_of_arranging_gives_the_same_bytes),
		cmocka_unit_test(arranged_matrices_are_hardly_larger_than_files),
		cmocka_unit_test(prepared_blocks_are_the_input_to_half_a_step),
		cmocka_unit_test(blocks_of_zeros_and_of_the_smallest_and_of_no_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
