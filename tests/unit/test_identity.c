/* A store's record of its source: records of every kind and state, the bytes they cover, and their
 * comparison with a source. */
#include "checkpoint_help.h"
#include "engine/source/identity.h"
#include "random.h"
#include "store_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[32];
static struct identity id, read_again;
static struct err e;

static int setup(void **state)
{
	(void)state;
	test_folder_make(folder);
	id = (struct identity){.name = {7, 8}, .sampled = {1, 2}};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	identity_free(&id);
	identity_free(&read_again);
	test_folder_remove(folder);
	return 0;
}

static void add_file(uint64_t name_hash, uint64_t size)
{
	const struct identity_file f = {
		.name_hash = name_hash,
		.stamp = {size, {-5, 999999999}, {1700000000, 123}},
	};
	assert_int_equal(identity_add_file(&id, &f, &e), 0);
}

static void add_range(uint32_t file, uint64_t offset, uint64_t bytes, uint64_t hash)
{
	const struct identity_range r = {file, offset, bytes, hash};
	assert_int_equal(identity_add_range(&id, &r, &e), 0);
	id.kept++;
}

static const char *path(const char *name)
{
	static char text[64];
	(void)snprintf(text, sizeof text, "%s/%s", folder, name);
	return text;
}

static int find(void)
{
	identity_free(&read_again);
	return identity_find(&read_again, folder, id.name, &e);
}

/* ---- records ---- */

static void write_small(void)
{
	add_file(11, 1000);
	add_file(12, 50);
	add_range(0, 0, 600, 1);
	add_range(0, 600, 400, 2);
	add_range(1, 0, 50, 3);
	assert_int_equal(identity_write(&id, folder, &e), 0);
}

static void what_is_written_is_read_again(void **state)
{
	(void)state;
	assert_int_equal(find(), -ENOENT);
	write_small();
	assert_int_equal(find(), 0);
	assert_int_equal(read_again.file_count, 2);
	assert_int_equal(read_again.range_count, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct identity_range *got = &read_again.ranges[i], *want = &id.ranges[i];
		assert_true(got->file == want->file && got->offset == want->offset &&
			    got->bytes == want->bytes && got->hash == want->hash);
	}
	assert_memory_equal(read_again.sampled, id.sampled, sizeof id.sampled);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(source_stamps_equal(&read_again.files[i].stamp, &id.files[i].stamp));
	id.name[0]++;
	assert_int_equal(find(), -ENOENT); /* of another name */
}

static void a_short_or_damaged_file_counts_as_none(void **state)
{
	(void)state;
	size_t n;
	write_small();
	uint8_t *bytes = test_file_read(path(IDENTITY_FILE), &n);
	for (size_t cut = 0; cut < n; cut += 7) {
		test_file_write(path(IDENTITY_FILE), bytes, cut);
		assert_int_equal(find(), -ENOENT);
	}
	for (size_t i = 0; i < n; i++) {
		bytes[i] ^= 4;
		test_file_write(path(IDENTITY_FILE), bytes, n);
		assert_int_equal(find(), -ENOENT);
		bytes[i] ^= 4;
	}
	test_file_write(path(IDENTITY_FILE), bytes, n);
	assert_int_equal(find(), 0);
	free(bytes);
}

static void a_range_outside_its_file_is_passed_over(void **state)
{
	(void)state;
	uint8_t record[IDENTITY_RECORD];
	static const struct identity_range wrong[] = {
		{0, 0, 1001, 0},       {0, 1000, 1, 0},
		{0, 1001, 0, 0},       {1, 0, 1, 0},
		{0, UINT64_MAX, 2, 0}, {0, 2, UINT64_MAX, 0},
		{0, 0, 0, 0},	       {UINT32_MAX, 0, UINT64_MAX, 0},
	};
	add_file(11, 1000);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		identity_encode_range(record, &id, &wrong[i]);
		assert_int_equal(identity_decode(&id, record, &e), 0);
		assert_int_equal(id.range_count, 0);
	}
	identity_encode_range(record, &id, &(struct identity_range){0, 999, 1, 5});
	assert_int_equal(identity_decode(&id, record, &e), 0);
	assert_int_equal(id.range_count, 1);
}

static void newer_stamps_stand_behind_what_is_whole_or_torn(void **state)
{
	(void)state;
	write_small();
	assert_int_equal(find(), 0);
	for (int i = 0; i < 3; i++) {
		read_again.files[1].stamp.changed.tv_sec++;
		assert_int_equal(identity_keep_stamps(&read_again, folder, &e), 0);
		int fd = open(path(IDENTITY_FILE), O_WRONLY | O_APPEND);
		assert_int_equal(write(fd, "torn", 4), 4);
		(void)close(fd);
		assert_int_equal(find(), 0);
		assert_int_equal(read_again.files[1].stamp.changed.tv_sec, 1700000001 + i);
	}
}

/* ---- coverage ---- */

static void ranges_and_gaps_cover_every_byte(void **state)
{
	(void)state;
	enum { SIZE = 200 };
	struct random r = {5};
	for (int round = 0; round < 200; round++) {
		bool covered[3][SIZE] = {{false}};
		struct identity_gaps at = {0};
		struct identity_range gap;
		identity_free(&id);
		for (uint64_t i = 0; i < 3; i++)
			add_file(i, i == 1 ? 0 : SIZE);
		for (int k = 0; k < round % 12; k++) {
			uint32_t file = random_u32(&r) % 2 * 2;
			uint64_t offset = random_u32(&r) % SIZE;
			uint64_t bytes = 1 + random_u32(&r) % (SIZE - offset);
			add_range(file, offset, bytes, 9);
			memset(&covered[file][offset], true, bytes);
		}
		assert_int_equal(identity_sort(&id, &e), 0);
		while (identity_next_gap(&id, &at, &gap)) {
			assert_in_range(gap.bytes, 1, SIZE);
			for (uint64_t i = 0; i < gap.bytes; i++) {
				assert_false(covered[gap.file][gap.offset + i]);
				covered[gap.file][gap.offset + i] = true;
			}
		}
		for (int i = 0; i < SIZE; i++)
			assert_true(covered[0][i] && covered[2][i] && !covered[1][i]);
	}
}

static void bytes_that_were_read_twice_must_have_been_the_same(void **state)
{
	(void)state;
	add_file(11, 1000);
	add_range(0, 0, 10, 1);
	add_range(0, 10, 10, 2);
	add_range(0, 0, 10, 1);
	assert_int_equal(identity_sort(&id, &e), 0);
	assert_int_equal(id.range_count, 2);
	add_range(0, 10, 10, 3);
	assert_int_equal(identity_sort(&id, &e), -ESTALE);
	assert_non_null(strstr(e.text, "was changed while it was read"));
}

/* ---- against a source ---- */

/* A source of two files, and its identity by whole files. */
static struct source_state look(void)
{
	struct source_state now;
	if (source_look(&now, folder, &e))
		fail_msg("%s", e.text);
	return now;
}

static void a_source_is_the_same_a_copy_or_another(void **state)
{
	(void)state;
	struct stat st;
	uint64_t before[2], after[2];
	uint8_t *bytes = calloc(1, 3 << 20); /* mostly missed by samples */
	test_file_write(path("config.json"), "{}", 2);
	test_file_write(path("model.safetensors"), bytes, 3 << 20);
	struct source_state now = look();
	identity_free(&id);
	assert_int_equal(identity_of_source(&id, &now, NULL, NULL, &e), 0);
	assert_int_equal(identity_compare(&id, &now), IDENTITY_SAME);
	source_number(&now, before);
	assert_true(source_unchanged(&now));
	source_forget(&now);

	test_file_write(path("model.safetensors"), bytes, 3 << 20);
	now = look();
	source_number(&now, after);
	assert_memory_not_equal(before, after, sizeof before);
	assert_int_equal(identity_compare(&id, &now), IDENTITY_MAYBE);
	assert_int_equal(identity_verify(&id, &now, NULL, NULL, &e), 0);
	assert_int_equal(identity_compare(&id, &now), IDENTITY_SAME);

	bytes[(2 << 20) + 3000000 / 16] = 1; /* between two samples */
	assert_int_equal(stat(path("model.safetensors"), &st), 0);
	test_file_write(path("model.safetensors"), bytes, 3 << 20);
	const struct timespec times[2] = {st.st_atim, st.st_mtim};
	assert_int_equal(utimensat(AT_FDCWD, path("model.safetensors"), times, 0), 0);
	assert_false(source_unchanged(&now));
	assert_int_equal(source_compare(&now, &now.files[1], &e), -ESTALE);
	source_forget(&now);
	now = look();
	assert_int_equal(identity_compare(&id, &now), IDENTITY_MAYBE);
	assert_int_equal(identity_verify(&id, &now, NULL, NULL, &e), -ESTALE);
	source_forget(&now);

	assert_int_equal(truncate(path("model.safetensors"), (3 << 20) + 1), 0);
	now = look();
	assert_int_equal(identity_compare(&id, &now), IDENTITY_OTHER);
	source_forget(&now);
	free(bytes);
}

static bool stop_at_once(void *ctx, uint64_t bytes)
{
	*(uint64_t *)ctx += bytes;
	return false;
}

static void checking_can_be_stopped(void **state)
{
	(void)state;
	uint64_t done = 0;
	uint8_t *bytes = calloc(1, 3 << 20);
	test_file_write(path("model.safetensors"), bytes, 3 << 20);
	struct source_state now = look();
	identity_free(&id);
	assert_int_equal(identity_of_source(&id, &now, stop_at_once, &done, &e), -ECANCELED);
	assert_int_equal(done, 1 << 20);
	source_forget(&now);
	free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_written_is_read_again),
		TEST(a_short_or_damaged_file_counts_as_none),
		TEST(a_range_outside_its_file_is_passed_over),
		TEST(newer_stamps_stand_behind_what_is_whole_or_torn),
		TEST(ranges_and_gaps_cover_every_byte),
		TEST(bytes_that_were_read_twice_must_have_been_the_same),
		TEST(a_source_is_the_same_a_copy_or_another),
		TEST(checking_can_be_stopped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
