/* The codec of 16-bit records: decoding restores every bit, 16-bit weights shrink, and bytes that
 * are not a coded record are refused without a write beyond the record. */
#include "cache/codec.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 0xa5, GUARD_BYTES = 64, LARGEST = 3 * CODEC_BLOCK };

struct fixture {
	uint8_t record[LARGEST + 2], back[LARGEST + 2 + GUARD_BYTES];
	uint8_t temp[CODEC_TEMP + GUARD_BYTES];
	uint8_t *stored;
	size_t stored_bytes;
	struct random random;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	assert_non_null(f);
	f->stored = malloc(codec_most(sizeof f->record));
	assert_non_null(f->stored);
	f->random.state = 7;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	free(f->stored);
	free(f);
	return 0;
}

/* ---- helpers ---- */

static void fill_random(struct fixture *f, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		f->record[i] = (uint8_t)random_u32(&f->random);
}

/* Weights as a trained matrix has them: normally distributed, rounded to bfloat16. */
static void fill_weights(struct fixture *f, size_t bytes)
{
	float x;
	for (size_t i = 0; i + 2 <= bytes; i += 2) {
		uint32_t bits;
		random_normal(&f->random, &x, 1);
		x *= .02F;
		memcpy(&bits, &x, sizeof bits);
		bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
		f->record[i] = (uint8_t)bits;
		f->record[i + 1] = (uint8_t)(bits >> 8);
	}
	if (bytes % 2)
		f->record[bytes - 1] = 0x5a;
}

static void encode(struct fixture *f, size_t bytes)
{
	assert_int_equal(codec_encode(f->stored, &f->stored_bytes, f->record, bytes), 0);
	assert_true(f->stored_bytes >= codec_least(bytes));
	assert_true(f->stored_bytes <= codec_most(bytes));
}

static bool guard_whole(const uint8_t *guard)
{
	for (size_t i = 0; i < GUARD_BYTES; i++)
		if (guard[i] != GUARD)
			return false;
	return true;
}

/* Decodes from memory of exactly the stored size, so that a sanitizer sees a read beyond. */
static int decode(struct fixture *f, const uint8_t *stored, size_t stored_bytes, size_t bytes)
{
	uint8_t *exact = malloc(stored_bytes + !stored_bytes);
	assert_non_null(exact);
	if (stored_bytes)
		memcpy(exact, stored, stored_bytes);
	memset(f->back + bytes, GUARD, GUARD_BYTES);
	memset(f->temp + CODEC_TEMP, GUARD, GUARD_BYTES);
	int rc = codec_decode(f->back, bytes, exact, stored_bytes, f->temp);
	free(exact);
	if (!guard_whole(f->back + bytes) || !guard_whole(f->temp + CODEC_TEMP))
		fail_msg("written beyond the record of %zu bytes", bytes);
	return rc;
}

static void assert_comes_back(struct fixture *f, size_t bytes)
{
	encode(f, bytes);
	if (decode(f, f->stored, f->stored_bytes, bytes))
		fail_msg("%zu bytes are not decoded", bytes);
	if (memcmp(f->back, f->record, bytes) != 0)
		fail_msg("%zu bytes came back as others", bytes);
}

static double share_stored(struct fixture *f, size_t bytes)
{
	assert_comes_back(f, bytes);
	return (double)f->stored_bytes / (double)bytes;
}

/* ---- round trips ---- */

static const size_t sizes[] = {
	0,
	1,
	2,
	3,
	4,
	5,
	63,
	64,
	65,
	127,
	4097,
	CODEC_BLOCK - 1,
	CODEC_BLOCK,
	CODEC_BLOCK + 1,
	(size_t)2 * CODEC_BLOCK,
	LARGEST + 1,
};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void records_of_any_size_come_back(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i < SIZES; i++) {
		fill_weights(f, sizes[i]);
		assert_comes_back(f, sizes[i]);
		fill_random(f, sizes[i]);
		assert_comes_back(f, sizes[i]);
		memset(f->record, 0, sizes[i]);
		assert_comes_back(f, sizes[i]);
	}
}

static void every_16_bit_number_comes_back_bit_for_bit(void **state)
{
	struct fixture *f = *state;
	/* NaNs with every payload, both zeros, infinities and denormals are among them. */
	for (size_t v = 0; v < 1 << 16; v++) {
		f->record[2 * v] = (uint8_t)v;
		f->record[2 * v + 1] = (uint8_t)(v >> 8);
	}
	assert_comes_back(f, 2 << 16);
}

static void weights_shrink_to_their_entropy(void **state)
{
	struct fixture *f = *state;
	fill_weights(f, LARGEST);
	double share = share_stored(f, LARGEST);
	assert_true(share > .66 && share < .68);
}

static void zeros_shrink_to_almost_nothing_and_noise_hardly_grows(void **state)
{
	struct fixture *f = *state;
	memset(f->record, 0, LARGEST);
	assert_true(share_stored(f, LARGEST) < .001);
	fill_random(f, LARGEST);
	assert_true(share_stored(f, LARGEST) < 1.0001);
}

static void the_same_record_becomes_the_same_bytes(void **state)
{
	struct fixture *f = *state;
	size_t first;
	fill_weights(f, LARGEST);
	encode(f, LARGEST);
	uint8_t *before = malloc(f->stored_bytes);
	memcpy(before, f->stored, first = f->stored_bytes);
	memset(f->stored, 0, first);
	encode(f, LARGEST);
	assert_int_equal(f->stored_bytes, first);
	assert_memory_equal(f->stored, before, first);
	free(before);
}

/* ---- damage ---- */

static void a_code_cut_short_or_too_long_is_refused(void **state)
{
	struct fixture *f = *state;
	enum { BYTES = 3000 };
	fill_weights(f, BYTES);
	encode(f, BYTES);
	for (size_t n = 0; n < f->stored_bytes; n++)
		assert_int_equal(decode(f, f->stored, n, BYTES), -EIO);
	f->stored[f->stored_bytes] = 0;
	assert_int_equal(decode(f, f->stored, f->stored_bytes + 1, BYTES), -EIO);
}

static void a_code_of_another_size_is_refused(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i + 1 < SIZES; i++) {
		fill_weights(f, sizes[i]);
		encode(f, sizes[i]);
		assert_int_equal(decode(f, f->stored, f->stored_bytes, sizes[i + 1]), -EIO);
		if (i > 0)
			assert_int_equal(decode(f, f->stored, f->stored_bytes, sizes[i - 1]), -EIO);
	}
}

/* A bit or two in zstd's frames have no meaning; the record is then still right. */
static void a_flipped_bit_is_refused_or_changes_nothing(void **state)
{
	struct fixture *f = *state;
	enum { BYTES = 2051 };
	unsigned harmless = 0;
	fill_weights(f, BYTES);
	encode(f, BYTES);
	for (size_t bit = 0; bit < 8 * f->stored_bytes; bit++) {
		f->stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
		int rc = decode(f, f->stored, f->stored_bytes, BYTES);
		f->stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (rc == 0) {
			assert_memory_equal(f->back, f->record, BYTES);
			harmless++;
		} else {
			assert_int_equal(rc, -EIO);
		}
	}
	assert_true(harmless < 8);
}

static void a_damaged_record_of_several_blocks_is_refused(void **state)
{
	struct fixture *f = *state;
	fill_weights(f, LARGEST);
	encode(f, LARGEST);
	for (unsigned round = 0; round < 200; round++) {
		size_t bit = random_u32(&f->random) % (8 * f->stored_bytes);
		f->stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(decode(f, f->stored, f->stored_bytes, LARGEST), -EIO);
		f->stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void sizes_in_the_table_beyond_their_plane_are_refused(void **state)
{
	struct fixture *f = *state;
	static const uint32_t hostile[] = {UINT32_MAX, 1 << 31, CODEC_BLOCK, 1 << 24, 1501};
	enum { BYTES = 3000 };
	fill_weights(f, BYTES);
	for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
		for (size_t field = 8; field < 16; field += 4) {
			encode(f, BYTES);
			memcpy(f->stored + field, &hostile[i], sizeof hostile[i]);
			assert_int_equal(decode(f, f->stored, f->stored_bytes, BYTES), -EIO);
		}
}

static void noise_is_refused(void **state)
{
	struct fixture *f = *state;
	for (unsigned round = 0; round < 2000; round++) {
		size_t bytes = random_u32(&f->random) % 600;
		fill_random(f, bytes);
		assert_int_equal(decode(f, f->record, bytes, 300), -EIO);
	}
}

/* Each has numbers of its own, whatever ran before it. */
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_of_any_size_come_back),
		TEST(every_16_bit_number_comes_back_bit_for_bit),
		TEST(weights_shrink_to_their_entropy),
		TEST(zeros_shrink_to_almost_nothing_and_noise_hardly_grows),
		TEST(the_same_record_becomes_the_same_bytes),
		TEST(a_code_cut_short_or_too_long_is_refused),
		TEST(a_code_of_another_size_is_refused),
		TEST(a_flipped_bit_is_refused_or_changes_nothing),
		TEST(a_damaged_record_of_several_blocks_is_refused),
		TEST(sizes_in_the_table_beyond_their_plane_are_refused),
		TEST(noise_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
