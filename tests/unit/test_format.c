/* Formats: sizes, 16-bit conversions, and the arranged layout that format.h describes. */
#include "kernels/format.h"
#include "kernels/tq.h"
#include "tests/unit/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static uint32_t bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static float float_of(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

/* The value of a finite f16, from its definition. */
static double f16_value(uint16_t h)
{
	const int exponent = h >> 10 & 31, mantissa = h & 0x3ff;
	const double magnitude =
		exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
	return h & 0x8000 ? -magnitude : magnitude;
}

static void every_f16_reads_as_its_value(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 0x10000; h++) {
		const float f = f16_to_f32((uint16_t)h);
		if ((h & 0x7c00) != 0x7c00)
			assert_true((double)f == f16_value((uint16_t)h) &&
				    !signbit(f) == !(h & 0x8000));
		else if (h & 0x3ff)
			assert_true(isnan(f));
		else
			assert_true(f == (h & 0x8000 ? -INFINITY : INFINITY));
	}
}

/* Around every f16: the value itself, the middle to the next one, and either side of the middle. */
static void f32_rounds_to_the_nearest_f16_and_ties_to_even(void **state)
{
	(void)state;
	for (uint16_t h = 0; h < 0x7c00; h++) {
		const float here = (float)f16_value(h);
		const float next = h == 0x7bff ? 65536.0F : (float)f16_value(h + 1);
		const float middle = (here + next) / 2; /* exact: 12 bits */
		const uint16_t even = h & 1 ? h + 1 : h;
		assert_int_equal(f16_from_f32(here), h);
		assert_int_equal(f16_from_f32(-here), h | 0x8000);
		assert_int_equal(f16_from_f32(middle), even);
		assert_int_equal(f16_from_f32(nextafterf(middle, 0)), h);
		assert_int_equal(f16_from_f32(nextafterf(middle, INFINITY)), h + 1);
	}
	assert_int_equal(f16_from_f32(INFINITY), 0x7c00);
	assert_int_equal(f16_from_f32(-1e30F), 0xfc00);
	assert_int_equal(f16_from_f32(0x1p-149F), 0);
	assert_int_equal(f16_from_f32(-0.0F), 0x8000);
}

#if defined(__x86_64__)
/* In both directions, NaNs included, quiet and signalling. */
__attribute__((target("f16c"))) static void f16_conversions_are_those_of_f16c(void **state)
{
	(void)state;
	struct random random = {1};
	if (!__builtin_cpu_supports("avx2")) {
		print_message("this processor has no AVX2: there is nothing to compare with\n");
		skip();
	}
	for (uint32_t h = 0; h < 0x10000; h++) {
		const float expected = _cvtsh_ss((unsigned short)h);
		assert_int_equal(bits_of(f16_to_f32((uint16_t)h)), bits_of(expected));
	}
	for (uint32_t i = 0; i < 4000000; i++) {
		/* Half of them with exponents where f16 lives. */
		uint32_t u = random_u32(&random);
		if (i & 1)
			u = (u & 0x807fffff) | (100 + u % 45) << 23;
		const float f = float_of(u);
		assert_int_equal(f16_from_f32(f), _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT));
	}
	for (uint32_t u = 0x7f800000 - 4; u < 0x7f800000 + 0x4000; u++)
		assert_int_equal(f16_from_f32(float_of(u)),
				 _cvtss_sh(float_of(u), _MM_FROUND_TO_NEAREST_INT));
}
#endif

static void bf16_rounds_to_nearest_even(void **state)
{
	(void)state;
	assert_int_equal(bf16_from_f32(float_of(0x3f808000)), 0x3f80);
	assert_int_equal(bf16_from_f32(float_of(0x3f808001)), 0x3f81);
	assert_int_equal(bf16_from_f32(float_of(0x3f818000)), 0x3f82);
	assert_int_equal(bf16_from_f32(float_of(0x7f7fffff)), 0x7f80);
	assert_int_equal(bf16_from_f32(float_of(0x7f800001)), 0x7fc0); /* stays a NaN */
	for (uint32_t b = 0; b < 0x10000; b++) {
		const float f = bf16_to_f32((uint16_t)b);
		if (!isnan(f))
			assert_int_equal(bf16_from_f32(f), b);
	}
}

/* Rows of all widths around those that are read at once, placed at the end of their own output. */
static void rows_of_halves_read_as_each_alone(void **state)
{
	(void)state;
	struct random random = {7};
	uint16_t h[70];
	float out[70];

	for (size_t n = 0; n <= 70; n++) {
		for (size_t i = 0; i < n; i++)
			h[i] = (uint16_t)random_u32(&random);
		memcpy((uint8_t *)out + 2 * n, h, 2 * n);
		f16_row_to_f32(out, (uint8_t *)out + 2 * n, n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(bits_of(out[i]), bits_of(f16_to_f32(h[i])));
		memcpy((uint8_t *)out + 2 * n, h, 2 * n);
		bf16_row_to_f32(out, (uint8_t *)out + 2 * n, n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(bits_of(out[i]), bits_of(bf16_to_f32(h[i])));
	}
}

static void sizes_follow_the_layout(void **state)
{
	(void)state;
	const struct shape bf16 = {.format = FORMAT_BF16, .rows = 3, .cols = 5};
	assert_int_equal(format_packed_bytes(&bf16), 30);
	assert_int_equal(format_norm_bytes(&bf16), 0);
	assert_int_equal(format_arranged_bytes(&bf16), 64);

	const struct shape tq3 = {.format = FORMAT_TQ3, .rows = 17, .cols = 300};
	assert_int_equal(format_packed_bytes(&tq3), 17 * 3 * 48);
	assert_int_equal(format_norm_bytes(&tq3), 17 * 3 * 2);
	assert_int_equal(format_arranged_bytes(&tq3), 2 * 3 * 16 * (48 + 2));

	const struct shape largest = {.format = FORMAT_F32, .rows = 1 << 24, .cols = 1 << 20};
	assert_true(format_fits(largest.rows, largest.cols));
	assert_true(format_packed_bytes(&largest) == (size_t)1 << 46);
	assert_false(format_fits(0, 1) || format_fits(1, 0));
	assert_false(format_fits((1 << 24) + 1, 1) || format_fits(1, (1 << 20) + 1));
	assert_false(format_fits(UINT64_MAX, UINT64_MAX));
}

static void trellis_codes_take_the_bytes_of_scalar_ones(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		const enum format tq = (enum format)(FORMAT_TQ2 + i),
				  tc = (enum format)(FORMAT_TC2 + i);
		assert_true(format_is_trellis(tc) && !format_is_trellis(tq));
		assert_true(format_is_tq(tc) && format_input(tc) == INPUT_TQ);
		assert_int_equal(format_tq_bits(tc), 2 + i);
		for (enum norm_type norms = NORM_F16; norms <= NORM_BF16; norms++) {
			const struct shape one = {
				.format = tq, .norms = norms, .rows = 17, .cols = 300};
			struct shape other = one;
			other.format = tc;
			assert_int_equal(format_shape_fits(&other), format_shape_fits(&one));
			assert_int_equal(format_packed_bytes(&other), format_packed_bytes(&one));
			assert_int_equal(format_norm_bytes(&other), format_norm_bytes(&one));
			assert_int_equal(format_arranged_bytes(&other),
					 format_arranged_bytes(&one));
		}
	}
	assert_false(format_is_trellis(FORMAT_BF16) || format_is_trellis(FORMAT_Q8_0));
}

static void names_are_those_of_the_recipes(void **state)
{
	(void)state;
	assert_string_equal(format_name(FORMAT_BF16), "bf16");
	assert_string_equal(format_name(FORMAT_TQ3), "tq3");
	assert_string_equal(format_name(FORMAT_TC3), "tc3");
}

/* Random canonical bytes; the caller frees them. */
static uint8_t *random_bytes(struct random *random, size_t bytes)
{
	uint8_t *p = malloc(bytes ? bytes : 1);
	assert_non_null(p);
	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)random_u32(random);
	return p;
}

/* The place of a group by format.h: its planes, then its norms. */
static size_t group_offset(const struct shape *s, size_t row, size_t group)
{
	const size_t bits = format_tq_bits(s->format), norm = s->norms == NORM_F16 ? 2 : 4;
	return (row / 16 * tq_groups(s->cols) + group) * 16 * (16 * bits + norm);
}

/* Byte `byte` of a row's unit (0 … 15) in its group. */
static size_t byte_offset(const struct shape *s, size_t row, size_t unit, size_t byte)
{
	return (unit / 4 * format_tq_bits(s->format) + byte) * 64 + row % 16 * 4 + unit % 4;
}

static void check_group(const struct shape *s, const uint8_t *group, size_t row,
			const uint8_t *packed, const uint8_t *norm)
{
	const size_t bits = format_tq_bits(s->format), norm_bytes = s->norms == NORM_F16 ? 2 : 4;
	static const uint8_t zeros[4];

	for (size_t unit = 0; unit < 16; unit++)
		for (size_t byte = 0; byte < bits; byte++)
			assert_int_equal(group[byte_offset(s, row, unit, byte)],
					 packed ? packed[unit * bits + byte] : 0);
	assert_memory_equal(group + 16 * 16 * bits + row % 16 * norm_bytes, norm ? norm : zeros,
			    norm_bytes);
}

static void check_arranged(const struct shape *s, const uint8_t *arranged, const uint8_t *packed,
			   const uint8_t *norms)
{
	const size_t bits = format_tq_bits(s->format), norm = s->norms == NORM_F16 ? 2 : 4;
	const size_t groups = tq_groups(s->cols);

	for (size_t row = 0; row < (s->rows + 15U) / 16 * 16UL; row++) {
		const int real = row < s->rows;
		for (size_t g = 0; g < groups; g++) {
			const size_t at = row * groups + g;
			check_group(s, arranged + group_offset(s, row, g), row,
				    real ? packed + at * 16 * bits : NULL,
				    real ? norms + at * norm : NULL);
		}
	}
}

/* In one go and in pieces; the destination starts out dirty. */
static void arranging_puts_planes_and_norms_where_the_layout_says(void **state)
{
	(void)state;
	static const uint32_t rows[] = {1, 15, 16, 17, 33}, cols[] = {1, 128, 129, 300};
	struct random random = {2};
	for (size_t i = 0; i < (size_t)5 * 4 * 3 * 2; i++) {
		const struct shape s = {
			.format = (enum format)(FORMAT_TQ2 + i % 3),
			.norms = i / 3 % 2 ? NORM_F32 : NORM_F16,
			.rows = rows[i / 6 % 5],
			.cols = cols[i / 30],
		};
		const size_t packed_row = format_packed_bytes(&s) / s.rows;
		const size_t norm_row = format_norm_bytes(&s) / s.rows;
		uint8_t *packed = random_bytes(&random, format_packed_bytes(&s));
		uint8_t *norms = random_bytes(&random, format_norm_bytes(&s));
		uint8_t *arranged = random_bytes(&random, format_arranged_bytes(&s));

		format_arrange(arranged, &s, 0, s.rows,
			       &(struct pieces){.weights = packed, .scales = norms});
		check_arranged(&s, arranged, packed, norms);

		memset(arranged, 0xa5, format_arranged_bytes(&s));
		for (uint32_t r = 0; r < s.rows; r += 16)
			format_arrange(arranged, &s, r, s.rows - r < 16 ? s.rows - r : 16,
				       &(struct pieces){.weights = packed + r * packed_row,
							.scales = norms + r * norm_row});
		check_arranged(&s, arranged, packed, norms);
		free(packed);
		free(norms);
		free(arranged);
	}
}

static void float_rows_stay_as_they_are(void **state)
{
	(void)state;
	struct random random = {3};
	const struct shape s = {.format = FORMAT_F16, .rows = 33, .cols = 7};
	uint8_t *packed = random_bytes(&random, format_packed_bytes(&s));
	uint8_t *arranged = random_bytes(&random, format_arranged_bytes(&s));
	format_arrange(arranged, &s, 16, 17, &(struct pieces){.weights = packed + 224});
	format_arrange(arranged, &s, 0, 16, &(struct pieces){.weights = packed});
	assert_memory_equal(arranged, packed, format_packed_bytes(&s));
	free(packed);
	free(arranged);
}

static void float_rows_dequantise_to_their_values(void **state)
{
	(void)state;
	const float f32[3] = {1.5F, -0.0F, 3e38F};
	const uint16_t f16[3] = {0x3e00, 0x8000, 0x0001}, bf16[3] = {0x3fc0, 0x8000, 0x0001};
	struct shape s = {.format = FORMAT_F32, .rows = 1, .cols = 3};
	float out[3];
	format_dequantise_row(out, &s, &(struct pieces){.weights = f32});
	assert_memory_equal(out, f32, sizeof f32);
	s.format = FORMAT_F16;
	format_dequantise_row(out, &s, &(struct pieces){.weights = f16});
	assert_true(out[0] == 1.5F && signbit(out[1]) && out[2] == 0x1p-24F);
	s.format = FORMAT_BF16;
	format_dequantise_row(out, &s, &(struct pieces){.weights = bf16});
	assert_true(out[0] == 1.5F && signbit(out[1]) && out[2] == 0x1p-133F);
}

static void a_padded_row_dequantises_to_its_own_width(void **state)
{
	(void)state;
	struct random random = {4};
	float x[130], out[131];
	uint8_t packed[2 * 64];
	float norms[2];
	const struct shape s = {.format = FORMAT_TQ4, .norms = NORM_F32, .rows = 1, .cols = 130};
	random_normal(&random, x, 130);
	assert_true(tq_quantise_row(packed, norms, x, 130, 4, TQ_GAIN_NORM));
	out[130] = 77;
	format_dequantise_row(out, &s, &(struct pieces){.weights = packed, .scales = norms});
	assert_true(out[130] == 77);
	for (size_t i = 0; i < 130; i++)
		assert_true(fabsf(out[i] - x[i]) < .6F);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_f16_reads_as_its_value),
		cmocka_unit_test(f32_rounds_to_the_nearest_f16_and_ties_to_even),
#if defined(__x86_64__)
		cmocka_unit_test(f16_conversions_are_those_of_f16c),
#endif
		cmocka_unit_test(bf16_rounds_to_nearest_even),
		cmocka_unit_test(rows_of_halves_read_as_each_alone),
		cmocka_unit_test(sizes_follow_the_layout),
		cmocka_unit_test(trellis_codes_take_the_bytes_of_scalar_ones),
		cmocka_unit_test(names_are_those_of_the_recipes),
		cmocka_unit_test(arranging_puts_planes_and_norms_where_the_layout_says),
		cmocka_unit_test(float_rows_stay_as_they_are),
		cmocka_unit_test(float_rows_dequantise_to_their_values),
		cmocka_unit_test(a_padded_row_dequantises_to_its_own_width),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
