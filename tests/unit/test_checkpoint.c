/* Checkpoints on disk, as one file or shards. Damaged, hostile or incomplete ones are errors that
 * name the file or the tensor. */
#include "checkpoint_help.h"
#include "engine/source/checkpoint.h"
#include "engine/source/source.h"
#include "store_help.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

static char folder[32];
static struct checkpoint *checkpoint;
static struct err e;

static int setup(void **state)
{
	(void)state;
	test_folder_make(folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	checkpoint_close(checkpoint);
	checkpoint = NULL;
	test_folder_remove(folder);
	return 0;
}

static const char *in_folder(const char *name)
{
	static char path[512];
	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static int reopen(void)
{
	checkpoint_close(checkpoint);
	checkpoint = NULL;
	e = (struct err){0};
	return checkpoint_open(&checkpoint, folder, &e);
}

static void assert_refused(int code, const char *word)
{
	int failed = reopen();
	if (failed != -code || !strstr(e.text, word))
		fail_msg("gave %d, \"%s\", not %d with \"%s\"", failed, e.text, -code, word);
}

/* ---- valid checkpoints ---- */

static void assert_holds(const struct test_checkpoint *c)
{
	if (reopen())
		fail_msg("%s", e.text);
	assert_int_equal(checkpoint_count(checkpoint), c->count);
	for (size_t i = 0; i < c->count; i++) {
		const struct test_tensor *want = &c->tensors[i];
		const struct checkpoint_tensor *t = checkpoint_find(checkpoint, want->name);
		assert_non_null(t);
		assert_string_equal(t->type, want->type);
		assert_int_equal(t->dims, want->dims);
		assert_memory_equal(t->shape, want->shape, sizeof want->shape);
		assert_int_equal(t->bytes, want->bytes);
		uint8_t *bytes = malloc(want->bytes);
		assert_int_equal(checkpoint_read(checkpoint, t, 0, bytes, want->bytes, &e), 0);
		assert_memory_equal(bytes, want->data, want->bytes);
		assert_int_equal(checkpoint_read(checkpoint, t, 2, bytes, 6, &e), 0);
		assert_memory_equal(bytes, want->data + 2, 6);
		free(bytes);
	}
}

static void one_file_gives_every_tensor_by_name(void **state)
{
	(void)state;
	static const char *const fixtures[] = {"qwen2", "qwen3", "qwen3_moe"};
	for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
		struct test_checkpoint c;
		test_checkpoint_read(&c, fixtures[i]);
		test_checkpoint_make(&c, fixtures[i], folder);
		assert_holds(&c);
		for (size_t k = 1; k < c.count; k++)
			assert_true(strcmp(checkpoint_tensor(checkpoint, k - 1)->name,
					   checkpoint_tensor(checkpoint, k)->name) < 0);
		test_checkpoint_free(&c);
	}
	assert_null(checkpoint_find(checkpoint, "model.nothing"));
}

static void all_three_float_types_are_read(void **state)
{
	(void)state;
	static const char *const types[] = {"F32", "F16", "BF16"};
	struct test_checkpoint c;
	test_checkpoint_read(&c, "qwen3");
	for (size_t i = 0; i < c.count; i++)
		test_tensor_retype(&c.tensors[i], types[i % 3]);
	test_checkpoint_make(&c, "qwen3", folder);
	assert_holds(&c);
	for (size_t i = 0; i < c.count; i++)
		assert_true(checkpoint_tensor(checkpoint, i)->known_type);
	test_checkpoint_free(&c);
}

/* ---- shards ---- */

struct sharded {
	struct test_checkpoint c;
	size_t cut; /* tensors before it are in 1.safetensors, the rest in 2.safetensors */
};

/* Writes an index that places tensor `odd` in `file`. */
static void write_index(const struct sharded *s, const char *odd, const char *file)
{
	FILE *f = fopen(in_folder("model.safetensors.index.json"), "w");
	assert_non_null(f);
	(void)fputs("{\"metadata\":{\"total_size\":1},\"weight_map\":{", f);
	for (size_t i = 0; i < s->c.count; i++) {
		const char *name = s->c.tensors[i].name;
		(void)fprintf(f, "%s\"%s\":\"%s\"", i ? "," : "", name,
			      odd && !strcmp(odd, name) ? file
			      : i < s->cut		? "1.safetensors"
							: "2.safetensors");
	}
	(void)fputs("}}", f);
	(void)fclose(f);
}

static void write_shards(struct sharded *s)
{
	test_checkpoint_read(&s->c, "qwen3");
	s->cut = s->c.count / 2;
	test_checkpoint_write(&s->c, 0, s->cut, in_folder("1.safetensors"));
	test_checkpoint_write(&s->c, s->cut, s->c.count - s->cut, in_folder("2.safetensors"));
	write_index(s, NULL, NULL);
}

static void shards_are_one_checkpoint(void **state)
{
	(void)state;
	struct sharded s;
	write_shards(&s);
	assert_holds(&s.c);
	test_checkpoint_free(&s.c);
}

static void a_missing_shard_is_named(void **state)
{
	(void)state;
	struct sharded s;
	write_shards(&s);
	unlink(in_folder("2.safetensors"));
	assert_refused(ENOENT, "2.safetensors");
	test_checkpoint_free(&s.c);
}

static void an_index_cannot_lead_out_of_the_folder(void **state)
{
	(void)state;
	static const char *const names[] = {"../2.safetensors", "/etc/passwd",	 "..", ".", "",
					    "x/2.safetensors",	"2.safetensors/"};
	struct sharded s;
	write_shards(&s);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		write_index(&s, s.c.tensors[s.c.count - 1].name, names[i]);
		assert_refused(EINVAL, "outside");
	}
	test_checkpoint_free(&s.c);
}

static void a_tensor_missing_from_its_indexed_file_is_named(void **state)
{
	(void)state;
	struct sharded s;
	write_shards(&s);
	write_index(&s, s.c.tensors[0].name, "2.safetensors");
	assert_refused(EINVAL, s.c.tensors[0].name);
	free(s.c.tensors[0].name);
	s.c.tensors[0].name = strdup("model.nowhere");
	write_index(&s, NULL, NULL);
	assert_refused(EINVAL, "model.nowhere");
	test_checkpoint_free(&s.c);
}

static void a_tensor_that_the_index_leaves_out_is_an_error(void **state)
{
	(void)state;
	struct sharded s;
	write_shards(&s);
	test_tensor_remove(&s.c, s.c.tensors[0].name);
	s.cut--;
	write_index(&s, NULL, NULL);
	assert_refused(EINVAL, "model.safetensors.index.json");
	test_checkpoint_free(&s.c);
}

static void a_tensor_in_two_shards_is_named(void **state)
{
	(void)state;
	struct sharded s;
	write_shards(&s);
	test_checkpoint_write(&s.c, s.cut - 1, s.c.count - s.cut + 1, in_folder("2.safetensors"));
	assert_refused(EINVAL, s.c.tensors[s.cut - 1].name);
	assert_non_null(strstr(e.text, "1.safetensors"));
	assert_non_null(strstr(e.text, "2.safetensors"));
	test_checkpoint_free(&s.c);
}

static void an_invalid_index_is_refused(void **state)
{
	(void)state;
	static const char *const texts[] = {"",
					    "[]",
					    "3",
					    "{}",
					    "{\"weight_map\":3}",
					    "{\"weight_map\":{\"a\":3}}",
					    "{\"weight_map\":{\"a\":null}}",
					    "{\"weight_map\":{\"a\":\"x\\u0000y\"}}"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		test_file_write(in_folder("model.safetensors.index.json"), texts[i],
				strlen(texts[i]));
		assert_refused(EINVAL, "model.safetensors.index.json");
	}
}

/* ---- damaged files ---- */

/* A small file of two tensors with a header of one line. */
static size_t make_small(uint8_t **bytes)
{
	static const char header[] =
		"{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
		"\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]}}";
	uint64_t length = sizeof header - 1;
	size_t n = 8 + sizeof header - 1 + 20;
	*bytes = calloc(1, n);
	memcpy(*bytes, &length, 8);
	memcpy(*bytes + 8, header, sizeof header - 1);
	return n;
}

static void no_checkpoint_is_an_error_that_names_the_file(void **state)
{
	(void)state;
	assert_refused(ENOENT, "model.safetensors");
	test_file_write(in_folder("model.safetensors"), "", 0);
	assert_refused(EINVAL, "too short");
}

static void what_is_no_regular_file_is_refused_at_once(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(in_folder("model.safetensors"), 0600), 0);
	assert_refused(EINVAL, "not a regular file");
	unlink(in_folder("model.safetensors"));
	assert_int_equal(mkdir(in_folder("model.safetensors"), 0700), 0);
	assert_refused(EINVAL, "not a regular file");
}

static void a_header_length_beyond_the_file_or_reason_is_refused(void **state)
{
	(void)state;
	static const uint64_t lengths[] = {
		0,	    1,	       1000,	   (100 << 20) + 1, INT32_MAX,
		UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
	uint8_t *bytes;
	size_t n = make_small(&bytes);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		memcpy(bytes, &lengths[i], 8);
		test_file_write(in_folder("model.safetensors"), bytes, n);
		assert_refused(EINVAL, "model.safetensors");
	}
	/* A header above the limit, in a sparse file of that size, which costs nothing. */
	uint64_t length = (100 << 20) + 1;
	memcpy(bytes, &length, 8);
	test_file_write(in_folder("model.safetensors"), bytes, n);
	assert_int_equal(truncate(in_folder("model.safetensors"), (off_t)length + 100), 0);
	assert_refused(EINVAL, "104857601");
	free(bytes);
}

static void a_file_cut_anywhere_is_an_error_that_names_it(void **state)
{
	(void)state;
	uint8_t *bytes;
	size_t n = make_small(&bytes);
	test_file_write(in_folder("model.safetensors"), bytes, n);
	assert_int_equal(reopen(), 0);
	for (size_t cut = 0; cut < n; cut++) {
		test_file_write(in_folder("model.safetensors"), bytes, cut);
		assert_refused(EINVAL, "model.safetensors");
	}
	bytes = realloc(bytes, n + 1);
	bytes[n] = 0;
	test_file_write(in_folder("model.safetensors"), bytes, n + 1);
	assert_refused(EINVAL, "belong to no tensor");
	free(bytes);
}

static void a_flipped_bit_before_the_data_is_an_error_or_changes_a_name_only(void **state)
{
	(void)state;
	uint8_t *bytes;
	size_t n = make_small(&bytes);
	for (size_t bit = 0; bit < 8 * (n - 20); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		test_file_write(in_folder("model.safetensors"), bytes, n);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (reopen()) {
			assert_non_null(strstr(e.text, "model.safetensors"));
			continue;
		}
		const struct checkpoint_tensor *a = checkpoint_tensor(checkpoint, 0),
					       *b = checkpoint_tensor(checkpoint, 1);
		assert_int_equal(checkpoint_count(checkpoint), 2);
		assert_int_equal(a->bytes + b->bytes, 20);
		assert_int_equal(a->offset + b->offset, 12);
		assert_true(a->dims == 2 || b->dims == 2); /* their order follows their names */
	}
	free(bytes);
}

static void a_file_cut_after_opening_is_an_error_and_no_signal(void **state)
{
	(void)state;
	uint8_t *bytes, got[8];
	size_t n = make_small(&bytes);
	test_file_write(in_folder("model.safetensors"), bytes, n);
	free(bytes);
	assert_int_equal(reopen(), 0);
	assert_int_equal(truncate(in_folder("model.safetensors"), (off_t)n - 4), 0);
	const struct checkpoint_tensor *b = checkpoint_find(checkpoint, "b");
	assert_int_equal(checkpoint_read(checkpoint, b, 0, got, 4, &e), 0);
	assert_int_equal(checkpoint_read(checkpoint, b, 0, got, 8, &e), -EIO);
	assert_non_null(strstr(e.text, "cut short"));
}

/* ---- the sum of samples ---- */

static void sampled(uint64_t out[2])
{
	struct source_state now;
	if (source_look(&now, folder, &e))
		fail_msg("%s", e.text);
	memcpy(out, now.sampled, sizeof now.sampled);
	source_forget(&now);
}

static void samples_follow_content_and_not_times(void **state)
{
	(void)state;
	struct test_checkpoint c;
	uint64_t first[2], second[2];
	test_checkpoint_read(&c, "qwen3");
	test_checkpoint_make(&c, "qwen3", folder);
	sampled(first);
	test_checkpoint_make(&c, "qwen3", folder); /* the same bytes, written later */
	sampled(second);
	assert_memory_equal(first, second, sizeof first);

	c.tensors[3].data[5] ^= 1;
	test_checkpoint_make(&c, "qwen3", folder);
	sampled(second);
	assert_memory_not_equal(first, second, sizeof first);
	c.tensors[3].data[5] ^= 1;

	test_checkpoint_make(&c, "qwen3", folder);
	test_file_write(in_folder("config.json"), "{}", 2);
	sampled(second);
	assert_memory_not_equal(first, second, sizeof first);

	test_checkpoint_files("qwen3", folder);
	test_file_write(in_folder("notes.txt"), "no part of it", 13);
	sampled(second);
	assert_memory_equal(first, second, sizeof first);
	test_checkpoint_free(&c);
}

static void samples_are_of_all_of_a_large_file(void **state)
{
	(void)state;
	enum { BYTES = 40 << 20 };
	uint64_t first[2], second[2];
	test_file_write(in_folder("model.safetensors"), "x", 1);
	assert_int_equal(truncate(in_folder("model.safetensors"), BYTES), 0);
	sampled(first);
	FILE *f = fopen(in_folder("model.safetensors"), "r+");
	(void)fseek(f, BYTES - 1, SEEK_SET);
	(void)fputc('x', f);
	(void)fclose(f);
	sampled(second);
	assert_memory_not_equal(first, second, sizeof first);
	assert_int_equal(truncate(in_folder("model.safetensors"), BYTES + 1), 0);
	sampled(first);
	assert_memory_not_equal(first, second, sizeof first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_file_gives_every_tensor_by_name),
		TEST(all_three_float_types_are_read),
		TEST(shards_are_one_checkpoint),
		TEST(a_missing_shard_is_named),
		TEST(an_index_cannot_lead_out_of_the_folder),
		TEST(a_tensor_missing_from_its_indexed_file_is_named),
		TEST(a_tensor_that_the_index_leaves_out_is_an_error),
		TEST(a_tensor_in_two_shards_is_named),
		TEST(an_invalid_index_is_refused),
		TEST(no_checkpoint_is_an_error_that_names_the_file),
		TEST(what_is_no_regular_file_is_refused_at_once),
		TEST(a_header_length_beyond_the_file_or_reason_is_refused),
		TEST(a_file_cut_anywhere_is_an_error_that_names_it),
		TEST(a_flipped_bit_before_the_data_is_an_error_or_changes_a_name_only),
		TEST(a_file_cut_after_opening_is_an_error_and_no_signal),
		TEST(samples_follow_content_and_not_times),
		TEST(samples_are_of_all_of_a_large_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
