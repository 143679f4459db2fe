/* Rounding with known inputs: a smaller weighted error, the nearest code if all errors count
 * alike, and the same bytes on every processor. */
#include "engine/convert/rounding.h"
#include "kernels/tc.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COLS = 320, GROUPS = 3, ROWS = 24, BITS = 3 };
enum { PACKED = GROUPS * TQ_GROUP / 8 * BITS };

/* ---- help ---- */

static float weights[ROWS][COLS];
static float moment[COLS * COLS]; /* of correlated inputs, some columns larger than others */

static int make_inputs(void **state)
{
	enum { TOKENS = 700, CAUSES = 40 };
	static float mix[CAUSES][COLS];
	struct random r = {15};
	(void)state;
	random_normal(&r, &weights[0][0], (size_t)ROWS * COLS);
	random_normal(&r, &mix[0][0], (size_t)CAUSES * COLS);
	for (int t = 0; t < TOKENS; t++) {
		float cause[CAUSES], x[COLS];
		random_normal(&r, cause, CAUSES);
		random_normal(&r, x, COLS);
		for (int j = 0; j < COLS; j++)
			for (int c = 0; c < CAUSES; c++)
				x[j] += cause[c] * mix[c][j] * (j % 7 ? 0.3F : 1.5F);
		for (int i = 0; i < COLS; i++)
			for (int j = 0; j < COLS; j++)
				moment[i * COLS + j] += x[i] * x[j] / TOKENS;
	}
	return 0;
}

static void identity(float *h, size_t n)
{
	for (size_t i = 0; i < n * n; i++)
		h[i] = i % (n + 1) == 0;
}

struct rounded {
	uint8_t packed[ROWS][PACKED];
	float norms[ROWS][GROUPS];
};

/* (w - q)' H (w - q) of all rows, q the stored weights. */
static double cost_of(enum format format, const struct rounded *x, const float *h)
{
	const struct shape s = {.format = format, .rows = 1, .cols = COLS, .norms = NORM_F32};
	double cost = 0;
	for (int r = 0; r < ROWS; r++) {
		float q[COLS];
		format_dequantise_row(q, &s, &(struct pieces){x->packed[r], x->norms[r], NULL});
		for (int i = 0; i < COLS; i++)
			for (int j = 0; j < COLS; j++)
				cost += (double)(weights[r][i] - q[i]) * h[i * COLS + j] *
					(weights[r][j] - q[j]);
	}
	return cost;
}

/* Blocks of the moment on its diagonal are given, as columns come together. */
static void round_all(struct rounded *out, const struct kernels *k, enum format format,
		      const float *h, uint32_t block)
{
	static float part[COLS * COLS];
	struct rounding *r;
	struct err e;
	assert_int_equal(rounding_create(&r, k, format, COLS, block, &e), 0);
	for (uint32_t at = 0; at < COLS; at += block) {
		uint32_t n = COLS - at < block ? COLS - at : block;
		for (uint32_t i = 0; i < n; i++)
			memcpy(part + (size_t)i * n, h + (size_t)(at + i) * COLS + at,
			       n * sizeof *part);
		rounding_weigh(r, at, part);
	}
	for (int i = 0; i < ROWS; i++)
		assert_true(rounding_rows(r, out->packed[i], out->norms[i], weights[i], 1, false));
	rounding_free(r);
}

static void round_plainly(struct rounded *out, enum format format)
{
	for (int i = 0; i < ROWS; i++)
		assert_true(format_is_trellis(format)
				    ? tc_quantise_row(out->packed[i], out->norms[i], weights[i],
						      COLS, BITS)
				    : tq_quantise_row(out->packed[i], out->norms[i], weights[i],
						      COLS, BITS, TQ_GAIN_LEAST_SQUARES));
}

/* ---- tests ---- */

static const enum format formats[] = {FORMAT_TQ3, FORMAT_TC3};
enum { FORMATS = sizeof formats / sizeof *formats };

static void errors_that_count_become_less(void **state)
{
	(void)state;
	static struct rounded plain, blocks, whole;
	for (int f = 0; f < FORMATS; f++) {
		enum format format = formats[f];
		round_plainly(&plain, format);
		round_all(&blocks, &kernels_scalar, format, moment, TQ_GROUP);
		round_all(&whole, &kernels_scalar, format, moment, COLS);
		double by_nearest = cost_of(format, &plain, moment),
		       by_blocks = cost_of(format, &blocks, moment),
		       by_whole = cost_of(format, &whole, moment);
		assert_true(by_blocks < 0.6 * by_nearest);
		assert_true(by_whole < 0.5 * by_nearest);
		assert_true(by_whole < by_blocks);
	}
}

/* As without moments, the trellis has the less error. */
static void a_trellis_has_less_of_them(void **state)
{
	(void)state;
	static struct rounded levels, trellis;
	round_all(&levels, &kernels_scalar, FORMAT_TQ3, moment, COLS);
	round_all(&trellis, &kernels_scalar, FORMAT_TC3, moment, COLS);
	assert_true(cost_of(FORMAT_TC3, &trellis, moment) <
		    0.85 * cost_of(FORMAT_TQ3, &levels, moment));
}

/* Whole groups only: errors in padding cost nothing. */
static void where_all_errors_count_alike_the_nearest_is_taken(void **state)
{
	(void)state;
	static float unit[COLS * COLS];
	static struct rounded plain, rounded;
	const struct tq_codebook *book = tq_codebook(BITS);
	identity(unit, COLS);
	round_plainly(&plain, FORMAT_TQ3);
	round_all(&rounded, &kernels_scalar, FORMAT_TQ3, unit, COLS);
	assert_true(cost_of(FORMAT_TQ3, &rounded, unit) <= cost_of(FORMAT_TQ3, &plain, unit));
	for (int r = 0; r < ROWS; r++)
		for (int g = 0; g < COLS / TQ_GROUP; g++) {
			uint8_t index[TQ_GROUP];
			float y[TQ_GROUP], norm = rounded.norms[r][g];
			memcpy(y, weights[r] + (size_t)g * TQ_GROUP, sizeof y);
			tq_rotate(y);
			tq_unpack(index, rounded.packed[r] + (size_t)g * TQ_GROUP / 8 * BITS, BITS);
			for (int i = 0; i < TQ_GROUP; i++) {
				uint32_t nearest = 0;
				for (uint32_t b = 0; b + 1 < book->levels; b++)
					nearest += book->boundary[b] < y[i] / norm;
				assert_int_equal(index[i], nearest);
			}
		}
}

/* The last group of a row whose length is not a multiple of 128 has directions without weights. */
static void what_is_padding_takes_the_errors(void **state)
{
	(void)state;
	static float unit[COLS * COLS];
	static struct rounded plain, rounded;
	const struct shape s = {.format = FORMAT_TQ3, .rows = 1, .cols = COLS, .norms = NORM_F32};
	double error[2] = {0};
	identity(unit, COLS);
	round_plainly(&plain, FORMAT_TQ3);
	round_all(&rounded, &kernels_scalar, FORMAT_TQ3, unit, COLS);
	const struct rounded *both[] = {&plain, &rounded};
	for (int k = 0; k < 2; k++)
		for (int r = 0; r < ROWS; r++) {
			float q[COLS];
			format_dequantise_row(
				q, &s,
				&(struct pieces){both[k]->packed[r], both[k]->norms[r], NULL});
			for (int i = 2 * TQ_GROUP; i < COLS; i++)
				error[k] += (double)(weights[r][i] - q[i]) * (weights[r][i] - q[i]);
		}
	assert_true(error[1] < 0.5 * error[0]);
}

static void bytes_are_the_same_on_every_table(void **state)
{
	(void)state;
	static struct rounded first, other;
	for (int f = 0; f < FORMATS; f++) {
		round_all(&first, &kernels_scalar, formats[f], moment, COLS);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			round_all(&other, *k, formats[f], moment, COLS);
			assert_memory_equal(&first, &other, sizeof first);
		}
	}
}

static void rows_side_by_side_are_rounded_as_each_alone(void **state)
{
	(void)state;
	static struct rounded alone, together;
	for (int f = 0; f < FORMATS; f++) {
		struct rounding *r;
		struct err e;
		round_all(&alone, kernels_best(), formats[f], moment, COLS);
		assert_int_equal(
			rounding_create(&r, kernels_best(), formats[f], COLS, COLS, &e), 0);
		assert_true(rounding_weigh(r, 0, moment));
		for (uint32_t i = 0, n = ROUNDING_ROWS; i < ROWS; i += n) {
			n = ROWS - i < n ? ROWS - i : n;
			assert_true(rounding_rows(r, together.packed[i], together.norms[i],
						  weights[i], n, false));
		}
		rounding_free(r);
		assert_memory_equal(&alone, &together, sizeof alone);
	}
}

/* Codes are chosen for the norm in 16 bits; the norm is not rounded afterwards. */
static void norms_are_those_of_the_store(void **state)
{
	(void)state;
	struct rounding *r;
	struct err e;
	uint8_t packed[PACKED];
	float norms[GROUPS];
	assert_int_equal(rounding_create(&r, &kernels_scalar, FORMAT_TQ3, COLS, COLS, &e), 0);
	rounding_weigh(r, 0, moment);
	assert_true(rounding_rows(r, packed, norms, weights[0], 1, true));
	for (int g = 0; g < GROUPS; g++)
		assert_true(norms[g] > 0 && f16_to_f32(f16_from_f32(norms[g])) == norms[g]);
	rounding_free(r);
}

static void rows_of_nothing_and_of_no_numbers(void **state)
{
	(void)state;
	struct rounding *r;
	struct err e;
	uint8_t packed[PACKED];
	float norms[GROUPS], row[COLS] = {0}, zero[COLS * COLS] = {0};
	assert_int_equal(rounding_create(&r, &kernels_scalar, FORMAT_TQ3, COLS, COLS, &e), 0);
	rounding_weigh(r, 0, zero); /* no moments: all errors weigh alike */
	assert_true(rounding_rows(r, packed, norms, row, 1, false));
	for (int g = 0; g < GROUPS; g++)
		assert_true(norms[g] == 0);
	row[200] = NAN;
	assert_false(rounding_rows(r, packed, norms, row, 1, false));
	row[200] = INFINITY;
	assert_false(rounding_rows(r, packed, norms, row, 1, false));
	rounding_free(r);
}

/* Of either part, of which the first takes seconds where blocks are large. */
static void it_ends_when_it_is_told_to(void **state)
{
	(void)state;
	struct rounding *r;
	struct err e;
	uint8_t packed[PACKED];
	float norms[GROUPS];
	_Atomic bool stop = false;
	assert_int_equal(rounding_create(&r, &kernels_scalar, FORMAT_TC3, COLS, COLS, &e), 0);
	rounding_heed(r, &stop);
	assert_true(rounding_weigh(r, 0, moment));
	assert_true(rounding_rows(r, packed, norms, weights[0], 1, false));
	stop = true;
	assert_false(rounding_weigh(r, 0, moment));
	assert_false(rounding_rows(r, packed, norms, weights[0], 1, false));
	rounding_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_that_count_become_less),
		cmocka_unit_test(a_trellis_has_less_of_them),
		cmocka_unit_test(where_all_errors_count_alike_the_nearest_is_taken),
		cmocka_unit_test(what_is_padding_takes_the_errors),
		cmocka_unit_test(bytes_are_the_same_on_every_table),
		cmocka_unit_test(rows_side_by_side_are_rounded_as_each_alone),
		cmocka_unit_test(norms_are_those_of_the_store),
		cmocka_unit_test(rows_of_nothing_and_of_no_numbers),
		cmocka_unit_test(it_ends_when_it_is_told_to),
	};
	return cmocka_run_group_tests(tests, make_inputs, NULL);
}
