/* Sizes as people write them: valid sizes, their bytes, and that a written size reads back. */
#include "fs/base/human.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)
static const uint64_t whole = 3 * GIB;

static void assert_size(const char *string, uint64_t want)
{
	uint64_t bytes = 0;
	if (!human_parse_size(string, whole, &bytes))
		fail_msg("%s is not taken", string);
	assert_int_equal(bytes, want);
}

static void digits_are_bytes_and_units_powers_of_1024(void **state)
{
	(void)state;
	assert_size("0", 0);
	assert_size("4096", 4096);
	assert_size("18446744073709551615", UINT64_MAX);
	assert_size("7K", 7 << 10);
	assert_size("512m", 512 * MIB);
	assert_size("4G", 4 * GIB);
	assert_size("2T", 2048 * GIB);
	assert_size("16777215T", UINT64_C(16777215) << 40);
}

static void gb_and_gib_are_g(void **state)
{
	(void)state;
	assert_size("4GB", 4 * GIB);
	assert_size("4GiB", 4 * GIB);
	assert_size("4gb", 4 * GIB);
	assert_size("1.5MB", 3 * MIB / 2);
}

static void a_size_may_have_a_fraction(void **state)
{
	(void)state;
	assert_size("1.5G", 3 * GIB / 2);
	assert_size("0.25K", 256);
	assert_size("2.0G", 2 * GIB);
	assert_size("0.000001M", 1);
	assert_size("1.00000000000000000001G", GIB); /* beyond millionths it makes no difference */
	assert_size("3.0", 3);
}

static void a_percentage_is_of_the_whole_in_whole_megabytes(void **state)
{
	(void)state;
	assert_size("50%", 3 * GIB / 2);
	assert_size("100%", 3 * GIB);
	assert_size("12.5%", 3 * GIB / 8);
	assert_size("33%", (whole * 33 / 100) / MIB * MIB);
	assert_size("0%", 0);
}

static void what_is_not_a_size_is_refused(void **state)
{
	(void)state;
	static const char *const strings[] = {"",
					      " 1",
					      "1 ",
					      "-1",
					      "+1",
					      "G",
					      "much",
					      "1X",
					      "1GG",
					      "1GBB",
					      "1iB",
					      "4B",
					      "1.5",
					      "1.",
					      ".5G",
					      "1.5.5G",
					      "1,5G",
					      "1e3",
					      "0x10",
					      "101%",
					      "100.1%",
					      "-5%",
					      "5%%",
					      "%",
					      "50%G",
					      "18446744073709551616",
					      "16777216T",
					      "17179869184G",
					      "99999999999999999999999T"};
	uint64_t bytes;
	for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
		if (human_parse_size(strings[i], whole, &bytes))
			fail_msg("'%s' is taken", strings[i]);
}

static void a_percentage_of_the_unknown_is_refused(void **state)
{
	(void)state;
	uint64_t bytes;
	assert_false(human_parse_size("50%", 0, &bytes));
	assert_true(human_parse_size("50G", 0, &bytes));
}

static void what_is_printed_reads_back(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {0,	     1,	      1023,	  1024,
					 1536 * MIB, 4 * GIB, UINT64_MAX, 5 << 10};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		char text[32];
		human_print_size(text, sizeof text, sizes[i]);
		assert_size(text, sizes[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digits_are_bytes_and_units_powers_of_1024),
		cmocka_unit_test(gb_and_gib_are_g),
		cmocka_unit_test(a_size_may_have_a_fraction),
		cmocka_unit_test(a_percentage_is_of_the_whole_in_whole_megabytes),
		cmocka_unit_test(what_is_not_a_size_is_refused),
		cmocka_unit_test(a_percentage_of_the_unknown_is_refused),
		cmocka_unit_test(what_is_printed_reads_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
