/* The TQ format: bit for bit equal to the reference vectors, and as good as theory predicts. */
#include "kernels/format.h"
#include "kernels/kernels.h"
#include "kernels/tc.h"
#include "kernels/tq.h"
#include "tests/unit/golden.h"
#include "tests/unit/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const vectors = "tq_vectors/tq.safetensors";

static struct golden_tensor get(const struct golden *g, uint32_t bits, const char *name,
				const char *dtype)
{
	char full[64];
	const int length = snprintf(full, sizeof full, "b%u.%s", bits, name);
	assert_in_range(length, 1, sizeof full - 1);
	return golden_get(g, full, dtype);
}

static void centroids_are_those_of_the_vectors(void **state)
{
	(void)state;
	struct golden *g = golden_open(test_data(vectors));
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const struct tq_codebook *book = tq_codebook(bits);
		const struct golden_tensor t = get(g, bits, "centroids", "F32");
		assert_int_equal(book->bits, bits);
		assert_int_equal(book->levels, 1U << bits);
		assert_int_equal(t.count, book->levels);
		assert_memory_equal(book->level, t.data, t.bytes);
	}
	golden_close(g);
}

static void boundaries_are_midpoints_of_levels(void **state)
{
	(void)state;
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const struct tq_codebook *book = tq_codebook(bits);
		for (uint32_t i = 0; i + 1 < book->levels; i++) {
			const double middle = ((double)book->level[i] + book->level[i + 1]) / 2;
			assert_true(fabs(book->boundary[i] - middle) < 1e-8);
		}
	}
}

/* A basis vector's rotation is a column of the matrix, so its signs show signs1 and signs2. */
static void signs_are_those_of_the_vectors(void **state)
{
	(void)state;
	struct golden *g = golden_open(test_data(vectors));
	const float *signs1 = get(g, 3, "signs1", "F32").data;
	const float *signs2 = get(g, 3, "signs2", "F32").data;
	for (size_t column = 0; column < TQ_GROUP; column++) {
		float y[TQ_GROUP] = {0};
		y[column] = 1;
		tq_rotate(y);
		for (size_t i = 0; i < TQ_GROUP; i++) {
			const float hadamard = __builtin_parityll(i & column) ? -1.0F : 1.0F;
			const float expected = hadamard * signs1[column] * signs2[i];
			assert_true(y[i] == expected / sqrtf(TQ_GROUP));
		}
	}
	golden_close(g);
}

static void rotation_reproduces_the_vectors_bit_for_bit(void **state)
{
	(void)state;
	struct golden *g = golden_open(test_data(vectors));
	const struct golden_tensor x = golden_get(g, "x", "F32");
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const struct golden_tensor rotated = get(g, bits, "x.rotated", "F32");
		for (size_t row = 0; row < x.shape[0]; row++) {
			float y[TQ_GROUP];
			memcpy(y, (const float *)x.data + row * TQ_GROUP, sizeof y);
			tq_rotate(y);
			assert_memory_equal(y, (const float *)rotated.data + row * TQ_GROUP,
					    sizeof y);
		}
	}
	golden_close(g);
}

/* Rows of one tensor of the vectors, as f32. */
static float *rows_of(const struct golden *g, const char *name, size_t *rows, uint32_t *cols)
{
	struct golden_tensor t;
	assert_true(golden_find(g, name, &t));
	*cols = (uint32_t)t.shape[t.dims - 1];
	*rows = t.count / *cols;
	float *out = malloc(t.count * sizeof *out);
	assert_non_null(out);
	for (size_t i = 0; i < t.count; i++) {
		if (strcmp(t.dtype, "F32") == 0)
			out[i] = ((const float *)t.data)[i];
		else
			out[i] = bf16_to_f32(((const uint16_t *)t.data)[i]);
	}
	return out;
}

/* x: whole groups; m2: 300 columns, so the last group is padded; m3: stacked matrices. */
static void quantising_reproduces_packed_bytes_and_norms_bit_for_bit(void **state)
{
	(void)state;
	static const struct {
		const char *weights, *packed, *norms;
	} names[] = {
		{"x", "x.packed", "x.norms"},
		{"m2", "m2.packed", "m2.norms"},
		{"m3", "m3.packed", "m3.norms"},
	};
	struct golden *g = golden_open(test_data(vectors));
	for (size_t i = 0; i < 3; i++) {
		size_t rows;
		uint32_t cols;
		float *x = rows_of(g, names[i].weights, &rows, &cols);
		for (uint32_t bits = 2; bits <= 4; bits++) {
			const struct golden_tensor packed = get(g, bits, names[i].packed, "U8");
			const struct golden_tensor norms = get(g, bits, names[i].norms, "F32");
			const size_t groups = tq_groups(cols), bytes = groups * 16 * bits;
			assert_int_equal(norms.count, rows * groups);
			for (size_t r = 0; r < rows; r++) {
				uint8_t got[3 * 64];
				float got_norms[3];
				assert_true(tq_quantise_row(got, got_norms, x + r * cols, cols,
							    bits, TQ_GAIN_NORM));
				assert_memory_equal(got, (const uint8_t *)packed.data + r * bytes,
						    bytes);
				assert_memory_equal(got_norms,
						    (const float *)norms.data + r * groups,
						    groups * sizeof(float));
			}
		}
		free(x);
	}
	golden_close(g);
}

static void dequantising_reproduces_the_vectors_bit_for_bit(void **state)
{
	(void)state;
	struct golden *g = golden_open(test_data(vectors));
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const struct golden_tensor packed = get(g, bits, "x.packed", "U8");
		const struct golden_tensor norms = get(g, bits, "x.norms", "F32");
		const struct golden_tensor dequant = get(g, bits, "x.dequant", "F32");
		const struct shape shape = {.format = (enum format)(FORMAT_TQ2 + bits - 2),
					    .norms = NORM_F32,
					    .rows = 1,
					    .cols = TQ_GROUP};
		for (size_t r = 0; r < dequant.shape[0]; r++) {
			float row[TQ_GROUP];
			format_dequantise_row(
				row, &shape,
				&(struct pieces){.weights = (const uint8_t *)packed.data +
							    r * 16 * bits,
						 .scales = (const float *)norms.data + r});
			assert_memory_equal(row, (const float *)dequant.data + r * TQ_GROUP,
					    sizeof row);
		}
	}
	golden_close(g);
}

/* One of its coefficients is exactly 0 and must take the lower level. The example states its norm
 * as exact arithmetic gives it, 5.01724711; the vectors' order of sums ends one unit below that. */
static void the_worked_example_gives_its_bytes_and_norm(void **state)
{
	(void)state;
	static const uint8_t expected[48] = {
		0x5c, 0x29, 0x52, 0xe6, 0xd8, 0xf9, 0x24, 0xab, 0x44, 0x5c, 0xf9, 0x82,
		0x53, 0xf9, 0x5a, 0xd1, 0x2e, 0xa6, 0x65, 0x34, 0x62, 0x6b, 0xed, 0x4d,
		0x42, 0xbf, 0x2b, 0xea, 0x44, 0x42, 0x34, 0xcb, 0x2a, 0x84, 0x6f, 0x88,
		0xcb, 0x48, 0xa9, 0xcc, 0xae, 0x48, 0x63, 0xc1, 0x95, 0xe9, 0xdc, 0x56,
	};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		float x[TQ_GROUP], norm;
		uint8_t packed[48];
		for (int i = 0; i < TQ_GROUP; i++)
			x[i] = (float)((37 * i + 11) % 101 - 50) / 64;
		assert_true((*k)->tq_quantise_row(packed, &norm, x, TQ_GROUP, 3, TQ_GAIN_NORM));
		assert_memory_equal(packed, expected, sizeof packed);
		assert_true(fabsf(norm - 5.0172472F) <= 0x1p-21F);
	}
}

static void a_zero_group_has_the_index_below_zero_and_norm_zero(void **state)
{
	(void)state;
	const float x[TQ_GROUP] = {0};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		for (int gain = TQ_GAIN_NORM; gain <= TQ_GAIN_LEAST_SQUARES; gain++) {
			uint8_t packed[64], index[TQ_GROUP];
			float norm = -1;
			assert_true(tq_quantise_row(packed, &norm, x, TQ_GROUP, bits,
						    (enum tq_gain)gain));
			assert_true(norm == 0);
			tq_unpack(index, packed, bits);
			for (size_t i = 0; i < TQ_GROUP; i++)
				assert_int_equal(index[i], (1U << (bits - 1)) - 1);
		}
	}
}

static void a_row_that_cannot_be_normalised_is_refused(void **state)
{
	(void)state;
	static const float bad[] = {NAN, INFINITY, -INFINITY, 1e30F};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (size_t i = 0; i < 4; i++) {
			float x[300], norms[3];
			uint8_t packed[3 * 48];
			for (size_t j = 0; j < 300; j++)
				x[j] = 1;
			x[290] = bad[i];
			assert_false((*k)->tq_quantise_row(packed, norms, x, 300, 3, TQ_GAIN_NORM));
		}
	}
}

static void padding_quantises_as_zeros(void **state)
{
	(void)state;
	struct random random = {1};
	float x[256] = {0};
	random_normal(&random, x, 200);
	for (uint32_t bits = 2; bits <= 4; bits++) {
		uint8_t narrow[128], wide[128];
		float narrow_norms[2], wide_norms[2];
		assert_true(tq_quantise_row(narrow, narrow_norms, x, 200, bits, TQ_GAIN_NORM));
		assert_true(tq_quantise_row(wide, wide_norms, x, 256, bits, TQ_GAIN_NORM));
		assert_memory_equal(narrow, wide, (size_t)32 * bits);
		assert_memory_equal(narrow_norms, wide_norms, sizeof wide_norms);
	}
}

static void unpacking_returns_what_was_packed(void **state)
{
	(void)state;
	struct random random = {2};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const size_t end = (size_t)16 * bits;
		uint8_t index[TQ_GROUP], back[TQ_GROUP], packed[65];
		for (size_t i = 0; i < TQ_GROUP; i++)
			index[i] = (uint8_t)(random_u32(&random) & ((1U << bits) - 1));
		packed[end] = 0xee;
		tq_pack(packed, index, bits);
		assert_int_equal(packed[end], 0xee);
		tq_unpack(back, packed, bits);
		assert_memory_equal(back, index, sizeof index);
	}
}

static void unrotating_undoes_the_rotation(void **state)
{
	(void)state;
	struct random random = {3};
	float x[TQ_GROUP], y[TQ_GROUP];
	random_normal(&random, x, TQ_GROUP);
	memcpy(y, x, sizeof y);
	tq_rotate(y);
	tq_unrotate(y);
	for (size_t i = 0; i < TQ_GROUP; i++)
		assert_true(fabsf(x[i] - y[i]) < 2e-6F);
}

/* Squared error of a quantised row, summed. */
static double squared_error(const float *x, uint32_t cols, uint32_t bits, enum tq_gain gain)
{
	uint8_t packed[8 * 64];
	float norms[8], back[1024];
	const struct shape shape = {.format = (enum format)(FORMAT_TQ2 + bits - 2),
				    .norms = NORM_F32,
				    .rows = 1,
				    .cols = cols};
	double sum = 0;

	assert_true(tq_quantise_row(packed, norms, x, cols, bits, gain));
	format_dequantise_row(back, &shape, &(struct pieces){.weights = packed, .scales = norms});
	for (size_t i = 0; i < cols; i++)
		sum += ((double)x[i] - back[i]) * ((double)x[i] - back[i]);
	return sum;
}

static void error_on_gaussian_weights_is_what_theory_expects(void **state)
{
	(void)state;
	static const double expected[] = {.115, .0340, .0095};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		struct random random = {4};
		double error = 0, power = 0;
		for (size_t row = 0; row < 200; row++) {
			float x[1024];
			random_normal(&random, x, 1024);
			error += squared_error(x, 1024, bits, TQ_GAIN_LEAST_SQUARES);
			for (size_t i = 0; i < 1024; i++)
				power += (double)x[i] * x[i];
		}
		print_message("TQ%u: relative squared error %.5f\n", bits, error / power);
		assert_true(fabs(error / power / expected[bits - 2] - 1) < .05);
	}
}

static void the_least_squares_gain_is_never_worse_than_the_native_one(void **state)
{
	(void)state;
	struct random random = {5};
	for (size_t row = 0; row < 300; row++) {
		float x[TQ_GROUP];
		random_normal(&random, x, TQ_GROUP);
		for (uint32_t bits = 2; bits <= 4; bits++) {
			const double native = squared_error(x, TQ_GROUP, bits, TQ_GAIN_NORM);
			const double best = squared_error(x, TQ_GROUP, bits, TQ_GAIN_LEAST_SQUARES);
			assert_true(best <= native * (1 + 1e-6)); /* rounding of the gains */
		}
	}
}

static void every_table_quantises_the_same_bytes(void **state)
{
	(void)state;
	static const uint32_t widths[] = {1, 7, 8, 64, 127, 128, 129, 300, 768};
	struct random random = {6};
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
		const uint32_t cols = widths[w];
		float x[768];
		random_normal(&random, x, cols);
		x[cols / 2] *= 40; /* an outlier reaches the outermost levels */
		for (uint32_t bits = 2; bits <= 4; bits++) {
			for (int gain = TQ_GAIN_NORM; gain <= TQ_GAIN_LEAST_SQUARES; gain++) {
				uint8_t reference[6 * 64], packed[6 * 64];
				float reference_norms[6], norms[6];
				const size_t groups = tq_groups(cols);
				assert_true(tq_quantise_row(reference, reference_norms, x, cols,
							    bits, (enum tq_gain)gain));
				for (const struct kernels *const *k = kernels_available(); *k;
				     k++) {
					assert_true((*k)->tq_quantise_row(
						packed, norms, x, cols, bits, (enum tq_gain)gain));
					assert_memory_equal(packed, reference, groups * 16 * bits);
					assert_memory_equal(norms, reference_norms,
							    groups * sizeof(float));
				}
			}
		}
	}
}

/* From the smallest floats to large ones, two sizes in each group. */
static void every_table_quantises_numbers_of_all_sizes_the_same(void **state)
{
	(void)state;
	static const float sizes[] = {0x1p-149F, 0x1p-130F, 0x1p-101F, 0x1p-61F, 0x1p-60F, 0x1p-59F,
				      0x1p-30F,	 1,	    0x1p15F,   0x1p16F,	 0x1p19F,  0x1p50F};
	enum { SIZES = sizeof sizes / sizeof *sizes, GROUPS = SIZES * SIZES };
	static float x[GROUPS * TQ_GROUP];
	static uint8_t reference[GROUPS * 64], packed[GROUPS * 64];
	static float reference_norms[GROUPS], norms[GROUPS];
	struct random random = {7};
	random_normal(&random, x, GROUPS * TQ_GROUP);
	for (size_t i = 0; i < GROUPS * TQ_GROUP; i++) { /* of each group half of either size */
		const size_t g = i / TQ_GROUP;
		x[i] *= sizes[random_u32(&random) % 2 ? g / SIZES : g % SIZES];
	}
	for (uint32_t bits = 2; bits <= 4; bits++) {
		assert_true(tq_quantise_row(reference, reference_norms, x, GROUPS * TQ_GROUP, bits,
					    TQ_GAIN_LEAST_SQUARES));
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			assert_true((*k)->tq_quantise_row(packed, norms, x, GROUPS * TQ_GROUP, bits,
							  TQ_GAIN_LEAST_SQUARES));
			assert_memory_equal(packed, reference, GROUPS * (size_t)16 * bits);
			assert_memory_equal(norms, reference_norms, sizeof norms);
		}
		assert_true(
			tc_quantise_row(reference, reference_norms, x, GROUPS * TQ_GROUP, bits));
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			assert_true(
				(*k)->tc_quantise_row(packed, norms, x, GROUPS * TQ_GROUP, bits));
			assert_memory_equal(packed, reference, GROUPS * (size_t)16 * bits);
			assert_memory_equal(norms, reference_norms, sizeof norms);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(centroids_are_those_of_the_vectors),
		cmocka_unit_test(boundaries_are_midpoints_of_levels),
		cmocka_unit_test(signs_are_those_of_the_vectors),
		cmocka_unit_test(rotation_reproduces_the_vectors_bit_for_bit),
		cmocka_unit_test(quantising_reproduces_packed_bytes_and_norms_bit_for_bit),
		cmocka_unit_test(dequantising_reproduces_the_vectors_bit_for_bit),
		cmocka_unit_test(the_worked_example_gives_its_bytes_and_norm),
		cmocka_unit_test(a_zero_group_has_the_index_below_zero_and_norm_zero),
		cmocka_unit_test(a_row_that_cannot_be_normalised_is_refused),
		cmocka_unit_test(padding_quantises_as_zeros),
		cmocka_unit_test(unpacking_returns_what_was_packed),
		cmocka_unit_test(unrotating_undoes_the_rotation),
		cmocka_unit_test(error_on_gaussian_weights_is_what_theory_expects),
		cmocka_unit_test(the_least_squares_gain_is_never_worse_than_the_native_one),
		cmocka_unit_test(every_table_quantises_the_same_bytes),
		cmocka_unit_test(every_table_quantises_numbers_of_all_sizes_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
