/* The TC format: decoding, the quality of the encoder, and the same bytes from all tables. */
#include "kernels/kernels.h"
#include "kernels/tc.h"
#include "tests/unit/random.h"
#include "tests/unit/random_group.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The codes of a group as kernels/README.md defines them, independent of tc.c: bits are taken one
 * by one from a ring of bytes. */
static int32_t bit_of_ring(const uint8_t *packed, uint32_t bits, size_t at)
{
	static const uint8_t unit_order[16] = {0, 4, 8,	 12, 1, 5, 9,  13,
					       2, 6, 10, 14, 3, 7, 11, 15};
	at %= (size_t)TQ_GROUP * bits;
	const size_t unit = unit_order[at / (TQ_UNIT * bits)], bit = at % (TQ_UNIT * bits);
	return packed[unit * bits + bit / 8] >> bit % 8 & 1;
}

static uint32_t nibble_of_ring(const uint8_t *packed, uint32_t bits, size_t position)
{
	uint32_t nibble = 0;

	for (size_t i = 0; i < 4; i++)
		nibble |= (uint32_t)bit_of_ring(packed, bits,
						(TQ_GROUP + position + 1) * bits - 4 + i)
			  << i;
	return nibble;
}

static void random_bytes(struct random *r, uint8_t packed[64])
{
	for (size_t i = 0; i < 64; i++)
		packed[i] = (uint8_t)random_u32(r);
}

/* With 64 added, two products of a code with 8 bits fit in 16; a distance to `before` does, in the
 * encoder, and the dearest way through a state with any transition. */
static void tables_keep_within_their_bounds(void **state)
{
	(void)state;
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const struct tc_codebook *book = tc_codebook(bits);
		assert_int_equal(book->bits, bits);
		for (uint32_t w = 0; w < 1U << book->window; w++) {
			assert_in_range(tc_code(book, w) + TC_CODE_MOST, 0, 2 * TC_CODE_MOST);
			assert_true(TC_THROUGH_MOST + tc_transition(book, w) <= INT16_MAX);
		}
		for (size_t i = 0; i < TC_NIBBLE; i++)
			assert_in_range(book->before[i] + TC_BEFORE_MOST, 0, 2 * TC_BEFORE_MOST);
	}
}

static void codes_are_those_that_the_page_says(void **state)
{
	(void)state;
	struct random r = {1};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const struct tc_codebook *book = tc_codebook(bits);
		const size_t back = bits == 2 ? 2 : 1;
		uint8_t packed[64];
		int8_t code[TQ_GROUP];

		random_bytes(&r, packed);
		tc_codes(code, packed, bits);
		for (size_t t = 0; t < TQ_GROUP; t++) {
			const size_t unit = t / 8 % 4 * 4 + t / 32, column = unit * 8 + t % 8;
			const int32_t expected =
				book->newest[nibble_of_ring(packed, bits, t)] +
				book->before[nibble_of_ring(packed, bits, TQ_GROUP + t - back)];
			assert_int_equal(code[column], expected);
		}
	}
}

static enum format format_of(uint32_t bits)
{
	return (enum format)(FORMAT_TC2 + bits - 2);
}

/* Σ (x - x̂)² / Σ x² over some groups of normally distributed weights. */
static double relative_error(uint32_t bits, size_t groups)
{
	const struct shape s = {format_of(bits), NORM_F32, 1, TQ_GROUP, 0};
	struct random r = {bits};
	double error = 0, power = 0;

	for (size_t g = 0; g < groups; g++) {
		float x[TQ_GROUP], back[TQ_GROUP], norm;
		uint8_t packed[64];
		random_normal(&r, x, TQ_GROUP);
		assert_true(kernels_best()->tc_quantise_row(packed, &norm, x, TQ_GROUP, bits));
		const struct pieces from = {packed, &norm, NULL};
		format_dequantise_row(back, &s, &from);
		for (size_t i = 0; i < TQ_GROUP; i++) {
			error += ((double)x[i] - back[i]) * ((double)x[i] - back[i]);
			power += (double)x[i] * x[i];
		}
	}
	return error / power;
}

static void errors_on_normal_weights_are_the_trellis_own(void **state)
{
	(void)state;
	static const double expected[] = {.0792, .0219, .00592};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const double error = relative_error(bits, 4000);
		if (fabs(error / expected[bits - 2] - 1) > .01)
			fail_msg("%u bits: %.5f, not %.5f", bits, error, expected[bits - 2]);
	}
}

/* Σ (code - target)² of a packed group. */
static double distance(const uint8_t *packed, const float y[TQ_GROUP], uint32_t bits)
{
	const double gain = tc_codebook(bits)->gain;
	int8_t code[TQ_GROUP];
	double sum = 0;

	tc_codes(code, packed, bits);
	for (size_t i = 0; i < TQ_GROUP; i++) {
		const double d = code[i] - y[i] / gain;
		sum += d * d;
	}
	return sum;
}

/* A rotated group of normally distributed weights. */
static void random_group(struct random *r, float y[TQ_GROUP])
{
	random_normal(r, y, TQ_GROUP);
	for (size_t i = 0; i < TQ_GROUP; i++)
		y[i] /= sqrtf(TQ_GROUP);
}

/* Tries all values of two neighbouring symbols: none is better, up to the encoder's costs, which
 * are rounded to halves. */
static void no_symbol_can_be_changed_for_the_better(void **state)
{
	(void)state;
	struct random r = {3};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		for (size_t g = 0; g < 4; g++) {
			uint8_t packed[64] = {0}, symbol[TQ_GROUP];
			float y[TQ_GROUP], factor;
			random_group(&r, y);
			kernels_best()->tc_encode(packed, &factor, y, 1, bits);
			const double found = distance(packed, y, bits);
			tq_unpack(symbol, packed, bits);
			for (size_t t = 0; t < TQ_GROUP; t++) {
				uint8_t *const a = &symbol[tc_column(t)];
				uint8_t *const b = &symbol[tc_column((t + 1) % TQ_GROUP)];
				const uint8_t were[2] = {*a, *b};
				for (uint32_t both = 0; both < 1U << 2 * bits; both++) {
					*a = (uint8_t)(both % (1U << bits));
					*b = (uint8_t)(both >> bits);
					tq_pack(packed, symbol, bits);
					assert_true(distance(packed, y, bits) > found - 2);
				}
				*a = were[0];
				*b = were[1];
			}
		}
	}
}

/* A group whose weights are the levels of a stream decodes to these weights. */
static void levels_of_a_stream_come_back_exactly(void **state)
{
	(void)state;
	struct random r = {4};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		size_t same = 0;
		for (size_t g = 0; g < 50; g++) {
			uint8_t packed[64], again[64];
			int8_t code[TQ_GROUP], back[TQ_GROUP];
			float y[TQ_GROUP], factor;
			random_bytes(&r, packed);
			tc_codes(code, packed, bits);
			for (size_t i = 0; i < TQ_GROUP; i++)
				y[i] = code[i] * tc_codebook(bits)->gain;
			kernels_best()->tc_encode(again, &factor, y, 1, bits);
			tc_codes(back, again, bits);
			if (memcmp(code, back, sizeof code) == 0) {
				assert_true(factor == 1);
				same++;
			}
		}
		assert_int_equal(same, 50);
	}
}

static void every_window_is_reached(void **state)
{
	(void)state;
	struct random r = {5};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const uint32_t window_bits = tc_codebook(bits)->window;
		const uint32_t windows = 1U << window_bits;
		uint32_t seen[256] = {0}, reached = 0;
		for (size_t g = 0; g < 200; g++) {
			uint8_t packed[64];
			float y[TQ_GROUP], factor;
			random_group(&r, y);
			kernels_best()->tc_encode(packed, &factor, y, 1, bits);
			for (size_t t = 0; t < TQ_GROUP; t++) {
				uint32_t window = 0;
				for (uint32_t i = 0; i < window_bits; i++)
					window |= (uint32_t)bit_of_ring(packed, bits,
									(TQ_GROUP + t + 1) * bits -
										window_bits + i)
						  << i;
				reached += seen[window]++ == 0;
			}
		}
		assert_int_equal(reached, windows);
	}
}

/* A weight's code depends on the symbols before its own, so one symbol more changes the codes of as
 * many weights as a window has symbols, and bytes are not those of a scalar codebook. */
static void a_symbol_changes_the_weights_after_it(void **state)
{
	(void)state;
	struct random r = {6};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const size_t reach = (tc_codebook(bits)->window + bits - 1) / bits;
		bool differs[TQ_GROUP] = {false};
		for (size_t g = 0; g < 40; g++) {
			uint8_t packed[64], symbol[TQ_GROUP];
			int8_t code[TQ_GROUP], other[TQ_GROUP];
			random_bytes(&r, packed);
			tc_codes(code, packed, bits);
			tq_unpack(symbol, packed, bits);
			const size_t t = random_u32(&r) % TQ_GROUP;
			symbol[tc_column(t)] ^= (uint8_t)((1U << bits) - 1);
			tq_pack(packed, symbol, bits);
			tc_codes(other, packed, bits);
			for (size_t i = 0; i < TQ_GROUP; i++) {
				const size_t column = tc_column((t + i) % TQ_GROUP);
				differs[i] |= code[column] != other[column];
			}
		}
		for (size_t i = 0; i < TQ_GROUP; i++)
			assert_int_equal(differs[i], i < reach);
	}
}

static void bytes_are_not_those_of_a_scalar_codebook(void **state)
{
	(void)state;
	struct random r = {7};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		float x[TQ_GROUP], norm;
		uint8_t scalar[64], trellis[64];
		random_normal(&r, x, TQ_GROUP);
		assert_true(
			tq_quantise_row(scalar, &norm, x, TQ_GROUP, bits, TQ_GAIN_LEAST_SQUARES));
		assert_true(tc_quantise_row(trellis, &norm, x, TQ_GROUP, bits));
		size_t different = 0;
		for (size_t i = 0; i < 16 * bits; i++)
			different += scalar[i] != trellis[i];
		assert_true(different > 8 * bits);
	}
}

/* ---- all tables ---- */

/* The vector of kernels/README.md. */
static void the_worked_example_gives_its_bytes_and_norm(void **state)
{
	(void)state;
	static const struct {
		float norm;
		const char *packed;
	} expected[] = {
		{5.035977F, "624b98fa5dc534aceb8096d36f11ea886a50eee333ef71924d31714420dc0ca7"},
		{5.085903F, "23321aa0b79dd722e9c7f538caf52906ab392b366df97007c5cfa740356dccd787e210"
			    "bb056850d289355edd32b85956"},
		{5.145231F, "c9e32a095fc9fe13b641ed35fe77b4f5659441618d8f4ee01b00d736904931763d1f19"
			    "2383e8e45049f937d5cdff5e9303d7619c68ea03c5f1cd963990a7e061"},
	};
	float x[TQ_GROUP];
	for (int i = 0; i < TQ_GROUP; i++)
		x[i] = (float)((37 * i + 11) % 101 - 50) / 64;
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (uint32_t bits = 2; bits <= 4; bits++) {
			uint8_t packed[64];
			char hex[2 * 64 + 1];
			float norm;
			assert_true((*k)->tc_quantise_row(packed, &norm, x, TQ_GROUP, bits));
			for (size_t i = 0; i < 16 * bits; i++)
				(void)snprintf(hex + 2 * i, 3, "%02x", packed[i]);
			assert_string_equal(hex, expected[bits - 2].packed);
			assert_true(fabsf(norm - expected[bits - 2].norm) <= 0x1p-20F);
		}
	}
}

enum { MOST_GROUPS = 73 };

/* Inputs of many kinds: normal, few values (so that paths cost the same), outliers, and so large
 * that they are clamped. */
static void fill(struct random *r, float *y, size_t n, size_t kind)
{
	random_normal(r, y, n);
	for (size_t i = 0; i < n; i++) {
		if (kind == 0)
			y[i] *= .09F;
		else if (kind == 1)
			y[i] = .05F * rintf(y[i]);
		else if (kind == 2)
			y[i] = random_u32(r) % 50 ? y[i] * .01F : y[i] * 3;
		else if (kind == 3)
			y[i] = y[i] < 0 ? -1e30F : 1e30F;
		else
			y[i] = 0;
	}
}

static void every_table_encodes_the_same_bytes(void **state)
{
	(void)state;
	static float y[MOST_GROUPS * TQ_GROUP];
	struct random r = {8};
	for (size_t round = 0; round < 30; round++) {
		const uint32_t bits = 2 + round % 3;
		const size_t groups = 1 + random_u32(&r) % MOST_GROUPS;
		const size_t bytes = groups * 16 * bits;
		uint8_t expected[MOST_GROUPS * 64], packed[MOST_GROUPS * 64 + 1];
		float expected_factor[MOST_GROUPS], factor[MOST_GROUPS + 1];
		fill(&r, y, groups * TQ_GROUP, round / 3 % 5);
		tc_encode(expected, expected_factor, y, groups, bits);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			packed[bytes] = 0x77;
			factor[groups] = 77;
			(*k)->tc_encode(packed, factor, y, groups, bits);
			assert_memory_equal(packed, expected, bytes);
			assert_memory_equal(factor, expected_factor, groups * sizeof *factor);
			assert_int_equal(packed[bytes], 0x77);
			assert_true(factor[groups] == 77);
		}
	}
}

static void every_table_quantises_the_same_rows(void **state)
{
	(void)state;
	static const uint32_t widths[] = {1, 127, 128, 129, 300, 768, 2048, 2176, 2177};
	struct random r = {9};
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
		const uint32_t cols = widths[w];
		const size_t groups = tq_groups(cols);
		float x[2177];
		random_normal(&r, x, cols);
		x[cols / 2] *= 40;
		for (uint32_t bits = 2; bits <= 4; bits++) {
			uint8_t expected[18 * 64], packed[18 * 64];
			float expected_norms[18], norms[18];
			assert_true(tc_quantise_row(expected, expected_norms, x, cols, bits));
			for (const struct kernels *const *k = kernels_available(); *k; k++) {
				assert_true((*k)->tc_quantise_row(packed, norms, x, cols, bits));
				assert_memory_equal(packed, expected, groups * 16 * bits);
				assert_memory_equal(norms, expected_norms, groups * sizeof *norms);
			}
		}
	}
}

static void padding_quantises_as_zeros(void **state)
{
	(void)state;
	struct random r = {10};
	float x[256] = {0};
	random_normal(&r, x, 200);
	for (uint32_t bits = 2; bits <= 4; bits++) {
		uint8_t narrow[128], wide[128];
		float narrow_norms[2], wide_norms[2];
		assert_true(kernels_best()->tc_quantise_row(narrow, narrow_norms, x, 200, bits));
		assert_true(kernels_best()->tc_quantise_row(wide, wide_norms, x, 256, bits));
		assert_memory_equal(narrow, wide, (size_t)32 * bits);
		assert_memory_equal(narrow_norms, wide_norms, sizeof wide_norms);
	}
}

static void whole_rows_may_be_given_as_one(void **state)
{
	(void)state;
	struct random r = {11};
	float x[3 * 256];
	random_normal(&r, x, 3 * 256);
	for (uint32_t bits = 2; bits <= 4; bits++) {
		uint8_t apart[6 * 64], together[6 * 64];
		float norms_apart[6], norms_together[6];
		for (size_t row = 0; row < 3; row++)
			assert_true(kernels_best()->tc_quantise_row(apart + row * 32 * bits,
								    norms_apart + row * 2,
								    x + row * 256, 256, bits));
		assert_true(
			kernels_best()->tc_quantise_row(together, norms_together, x, 768, bits));
		assert_memory_equal(apart, together, 96 * bits);
		assert_memory_equal(norms_apart, norms_together, sizeof norms_apart);
	}
}

static void a_zero_group_has_norm_zero_and_is_zeros_again(void **state)
{
	(void)state;
	const float x[TQ_GROUP] = {0};
	for (const struct kernels *const *k = kernels_available(); *k; k++) {
		for (uint32_t bits = 2; bits <= 4; bits++) {
			const struct shape s = {format_of(bits), NORM_F32, 1, TQ_GROUP, 0};
			float norm = -1, back[TQ_GROUP];
			uint8_t packed[64];
			assert_true((*k)->tc_quantise_row(packed, &norm, x, TQ_GROUP, bits));
			assert_true(norm == 0);
			const struct pieces from = {packed, &norm, NULL};
			format_dequantise_row(back, &s, &from);
			for (size_t i = 0; i < TQ_GROUP; i++)
				assert_true(back[i] == 0);
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
			assert_false((*k)->tc_quantise_row(packed, norms, x, 300, 3));
		}
	}
}

/* From the smallest floats, whose squares vanish, to the largest that are accepted: finite norms,
 * and where the norm is a number with all its bits, the error is what it is elsewhere. */
static void sizes_of_weights_do_not_matter(void **state)
{
	(void)state;
	static const float sizes[] = {1e-45F, 1e-38F, 1e-23F, 1e-17F, 1e-4F, 1, 1e6F, 1e17F};
	struct random r = {12};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		const struct shape s = {FORMAT_TC3, NORM_F32, 1, TQ_GROUP, 0};
		float x[TQ_GROUP], back[TQ_GROUP], norm;
		double error = 0, power = 0;
		uint8_t packed[48];
		random_normal(&r, x, TQ_GROUP);
		for (size_t j = 0; j < TQ_GROUP; j++)
			x[j] *= sizes[i];
		assert_true(kernels_best()->tc_quantise_row(packed, &norm, x, TQ_GROUP, 3));
		assert_true(isfinite(norm) && norm >= 0);
		const struct pieces from = {packed, &norm, NULL};
		format_dequantise_row(back, &s, &from);
		for (size_t j = 0; j < TQ_GROUP; j++) {
			assert_true(isfinite(back[j]));
			error += ((double)x[j] - back[j]) * ((double)x[j] - back[j]);
			power += (double)x[j] * x[j];
		}
		if (sizes[i] >= 1e-17F)
			assert_true(error < .03 * power);
	}
}

/* ---- errors that cost more in some directions ---- */

/* Some symbols that nothing would choose. */
static void spoil(uint8_t symbol[TQ_GROUP])
{
	for (size_t i = 5; i < TQ_GROUP; i += 17)
		symbol[i] ^= 1;
}

static void every_table_chooses_the_same_symbols(void **state)
{
	(void)state;
	static struct random_group g;
	struct random r = {11};
	for (size_t round = 0; round < 12; round++) {
		const float norm = .8F * sqrtf(TQ_GROUP) * (1 + .1F * (float)(round % 4));
		uint8_t expected[TQ_GROUP], symbol[TQ_GROUP];
		float expected_pull[TQ_GROUP], pull[TQ_GROUP];
		random_group_make(&g, &r, 2 + round % 3);
		for (const struct kernels *const *k = kernels_available(); *k; k++) {
			(*k)->tc_choose(symbol, &g.shape, g.weight, g.aimed, g.target, norm);
			spoil(symbol);
			(void)random_group_pull(pull, &g, symbol, norm);
			const bool changed = (*k)->tc_improve(symbol, pull, &g.shape, norm, 0);
			assert_true(changed);
			if (*k == kernels_available()[0]) {
				memcpy(expected, symbol, sizeof symbol);
				memcpy(expected_pull, pull, sizeof pull);
			}
			assert_memory_equal(symbol, expected, sizeof symbol);
			assert_memory_equal(pull, expected_pull, sizeof pull);
		}
	}
}

/* Where all errors count alike there is nothing to make up for: tc_encode's symbols, but for what
 * its whole numbers round. */
static void without_directions_symbols_are_those_of_the_encoder(void **state)
{
	(void)state;
	static struct random_group g;
	struct random r = {12};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		double chosen = 0, encoded = 0;
		for (size_t round = 0; round < 20; round++) {
			uint8_t symbol[TQ_GROUP], packed[64], index[TQ_GROUP], of_ring[TQ_GROUP];
			float y[TQ_GROUP], factor, pull[TQ_GROUP];
			random_group_make(&g, &r, bits);
			for (size_t i = 0; i < (size_t)TQ_GROUP * TQ_GROUP; i++)
				g.upper[i] = g.pairs[i] = i % (TQ_GROUP + 1) == 0;
			for (size_t i = 0; i < TQ_GROUP; i++) {
				g.cost[i] = 1;
				g.aimed[i] = g.target[i] = g.weight[i] /= sqrtf(TQ_GROUP);
				y[tc_column(i)] = g.weight[i];
			}
			kernels_best()->tc_choose(symbol, &g.shape, g.weight, g.aimed, g.target, 1);
			chosen += random_group_pull(pull, &g, symbol, 1);
			tc_encode(packed, &factor, y, 1, bits);
			tq_unpack(index, packed, bits);
			for (size_t i = 0; i < TQ_GROUP; i++)
				of_ring[i] = index[tc_column(i)];
			encoded += random_group_pull(pull, &g, of_ring, 1);
		}
		assert_true(fabs(chosen - encoded) < .01 * encoded);
	}
}

static void improving_lowers_the_cost_and_keeps_the_pull(void **state)
{
	(void)state;
	static struct random_group g;
	struct random r = {13};
	for (uint32_t bits = 2; bits <= 4; bits++) {
		const float norm = sqrtf(TQ_GROUP);
		uint8_t symbol[TQ_GROUP];
		float pull[TQ_GROUP], again[TQ_GROUP];
		random_group_make(&g, &r, bits);
		kernels_best()->tc_choose(symbol, &g.shape, g.weight, g.aimed, g.target, norm);
		spoil(symbol);
		double cost = random_group_pull(pull, &g, symbol, norm), before = cost;
		while (kernels_best()->tc_improve(symbol, pull, &g.shape, norm, 1e-4F)) {
			double now = random_group_pull(again, &g, symbol, norm);
			assert_true(now < cost);
			cost = now;
			for (size_t i = 0; i < TQ_GROUP; i++)
				assert_true(fabsf(pull[i] - again[i]) < 1e-3F);
		}
		assert_true(cost < before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_keep_within_their_bounds),
		cmocka_unit_test(codes_are_those_that_the_page_says),
		cmocka_unit_test(errors_on_normal_weights_are_the_trellis_own),
		cmocka_unit_test(no_symbol_can_be_changed_for_the_better),
		cmocka_unit_test(levels_of_a_stream_come_back_exactly),
		cmocka_unit_test(every_window_is_reached),
		cmocka_unit_test(a_symbol_changes_the_weights_after_it),
		cmocka_unit_test(bytes_are_not_those_of_a_scalar_codebook),
		cmocka_unit_test(the_worked_example_gives_its_bytes_and_norm),
		cmocka_unit_test(every_table_encodes_the_same_bytes),
		cmocka_unit_test(every_table_quantises_the_same_rows),
		cmocka_unit_test(padding_quantises_as_zeros),
		cmocka_unit_test(whole_rows_may_be_given_as_one),
		cmocka_unit_test(a_zero_group_has_norm_zero_and_is_zeros_again),
		cmocka_unit_test(a_row_that_cannot_be_normalised_is_refused),
		cmocka_unit_test(sizes_of_weights_do_not_matter),
		cmocka_unit_test(every_table_chooses_the_same_symbols),
		cmocka_unit_test(without_directions_symbols_are_those_of_the_encoder),
		cmocka_unit_test(improving_lowers_the_cost_and_keeps_the_pull),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
