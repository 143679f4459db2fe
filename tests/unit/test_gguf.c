/* The header of a GGUF file: accepted headers, values of keys, and a sentence for every error. */
#include "engine/source/gguf.h"
#include "golden.h"
#include "gguf_help.h"
#include "memory_help.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

static struct gguf parsed;
static struct test_gguf made;
static struct err e;

static int reset(void **state)
{
	(void)state;
	gguf_clear(&parsed);
	test_gguf_free(&made);
	e = (struct err){0};
	return 0;
}

/* Parses the made file as if it had `more` bytes more (or fewer). */
static int parse(struct test_bytes *file, int64_t more)
{
	gguf_clear(&parsed);
	test_gguf_bytes(&made, file);
	size_t bytes = (size_t)((int64_t)file->count + more);
	return gguf_parse(&parsed, file->bytes, bytes < file->count ? bytes : file->count, bytes, 7,
			  "x.gguf", &e);
}

static void assert_refused_cut(int64_t more, int code, const char *word)
{
	struct test_bytes file;
	int failed = parse(&file, more);
	if (failed != -code || !strstr(e.text, word) || !strstr(e.text, "x.gguf"))
		fail_msg("gave %d, \"%s\", not %s", failed, e.text, word);
	test_bytes_free(&file);
	(void)reset(NULL);
}

static void assert_refused(int code, const char *word)
{
	assert_refused_cut(0, code, word);
}

static const uint64_t two_rows[] = {2, 32};
static const uint8_t zeros[8192];

/* Two tensors, F32 [2, 32] and Q8_0 [2, 32], 256 and 68 bytes. */
static void make_good(void)
{
	test_gguf_string(&made, "general.architecture", "qwen3moe");
	test_gguf_u32(&made, "qwen3moe.block_count", 2);
	test_gguf_tensor(&made, "a.weight", 0, two_rows, 2, zeros, 256);
	test_gguf_tensor(&made, "b.weight", 8, two_rows, 2, zeros, 68);
}

/* ---- valid files ---- */

static void a_header_says_what_there_is_and_where(void **state)
{
	(void)state;
	struct test_bytes file;
	for (made.version = 2; made.version <= 3; made.version++) {
		uint32_t version = made.version;
		make_good();
		assert_int_equal(parse(&file, 0), 0);
		assert_int_equal(parsed.version, version);
		assert_int_equal(parsed.tensors.count, 2);
		const struct checkpoint_tensor *t = parsed.tensors.tensors;
		assert_string_equal(t[0].name, "a.weight");
		assert_true(t[0].known_type && t[0].format == FORMAT_F32);
		assert_int_equal(t[0].file, 7);
		assert_int_equal(t[1].dims, 2);
		assert_int_equal(t[1].shape[0], 2); /* rows before columns */
		assert_int_equal(t[1].shape[1], 32);
		assert_string_equal(t[1].type, "Q8_0");
		assert_int_equal(t[1].offset, 256);
		assert_int_equal(t[1].bytes, 68);
		assert_int_equal(parsed.data_offset % 32, 0);
		assert_int_equal(parsed.data_offset, file.count - 256 - 68);
		test_bytes_free(&file);
		(void)reset(NULL);
		made.version = version;
	}
}

static void keys_have_typed_values(void **state)
{
	(void)state;
	static const char *const words[] = {"a", "", "bcd"};
	static const int32_t numbers[] = {1, -2, 3};
	struct test_bytes file;
	uint64_t u;
	double d;
	bool b;
	const char *text;
	size_t length, at = 0;
	const struct gguf_value *v;
	test_gguf_u32(&made, "u", 5);
	test_gguf_f32(&made, "f", 0.5F);
	test_gguf_bool(&made, "b", true);
	test_gguf_string(&made, "s", "hello");
	test_gguf_strings(&made, "words", words, 3);
	test_gguf_array(&made, "numbers", GGUF_I32, 3, numbers, sizeof numbers);
	assert_int_equal(parse(&file, 0), 0);
	assert_int_equal(gguf_get_uint(&parsed, "u", "x", 0, 5, &u, &e), 0);
	assert_int_equal(u, 5);
	assert_int_equal(gguf_get_uint(&parsed, "u", "x", 0, 4, &u, &e), -ERANGE);
	assert_int_equal(gguf_get_uint(&parsed, "f", "x", 0, 4, &u, &e), -EINVAL);
	assert_int_equal(gguf_get_uint(&parsed, "none", "x", 0, 4, &u, &e), -ENOENT);
	assert_int_equal(gguf_get_double(&parsed, "f", "x", &d, &e), 0);
	assert_true(d == 0.5);
	assert_int_equal(gguf_get_double(&parsed, "u", "x", &d, &e), 0);
	assert_true(d == 5);
	assert_int_equal(gguf_get_double(&parsed, "s", "x", &d, &e), -EINVAL);
	assert_int_equal(gguf_get_bool(&parsed, "b", "x", &b, &e), 0);
	assert_true(b);
	assert_int_equal(gguf_get_bool(&parsed, "u", "x", &b, &e), -EINVAL);
	assert_int_equal(gguf_get_string(&parsed, "s", "x", &text, &length, &e), 0);
	assert_int_equal(length, 5);
	assert_memory_equal(text, "hello", 5);
	assert_int_equal(gguf_get_string(&parsed, "words", "x", &text, &length, &e), -EINVAL);
	assert_int_equal(gguf_get_array(&parsed, "words", "x", GGUF_STRING, &v, &e), 0);
	assert_int_equal(v->count, 3);
	for (int i = 0; i < 3; i++) {
		assert_true(gguf_next_string(v, &at, &text, &length));
		assert_int_equal(length, strlen(words[i]));
		assert_memory_equal(text, words[i], length);
	}
	assert_false(gguf_next_string(v, &at, &text, &length));
	assert_int_equal(gguf_get_array(&parsed, "numbers", "x", GGUF_U32, &v, &e), -EINVAL);
	assert_int_equal(gguf_get_array(&parsed, "numbers", "x", GGUF_I32, &v, &e), 0);
	assert_true(gguf_uint(v, 2, &u) && u == 3);
	assert_false(gguf_uint(v, 1, &u)); /* negative */
	assert_true(gguf_double(v, 1, &d) && d == -2);
	assert_false(gguf_double(v, 3, &d));
	test_bytes_free(&file);
}

static void a_header_beyond_the_bytes_read_asks_for_more(void **state)
{
	(void)state;
	struct test_bytes file;
	make_good();
	test_gguf_bytes(&made, &file);
	size_t header = file.count - 256 - 68;
	for (size_t n = 0; n + 31 < header; n++) {
		gguf_clear(&parsed);
		assert_int_equal(gguf_parse(&parsed, file.bytes, n, file.count, 0, "x", &e),
				 -EAGAIN);
	}
	gguf_clear(&parsed);
	assert_int_equal(gguf_parse(&parsed, file.bytes, header, file.count, 0, "x", &e), 0);
	test_bytes_free(&file);
}

static void a_file_is_opened_however_long_its_header(void **state)
{
	(void)state;
	char path[] = "/tmp/moefs-test-gguf-XXXXXX";
	struct gguf *g;
	uint64_t u;
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	uint8_t *long_text = calloc(1, 5 << 20);
	assert_non_null(long_text);
	test_gguf_array(&made, "long", GGUF_U8, 5 << 20, long_text, 5 << 20);
	free(long_text);
	test_gguf_u32(&made, "last", 3);
	test_gguf_tensor(&made, "t", 0, two_rows, 2, zeros, 256);
	test_gguf_write(&made, path);
	assert_true(gguf_is(path));
	assert_int_equal(gguf_open(&g, path, 2, &e), 0);
	assert_int_equal(gguf_get_uint(g, "last", path, 0, 3, &u, &e), 0);
	assert_int_equal(g->tensors.tensors[0].file, 2);
	gguf_close(g);
	assert_int_equal(truncate(path, 2 << 20), 0);
	assert_int_equal(gguf_open(&g, path, 0, &e), -EINVAL);
	assert_non_null(strstr(e.text, "cut short"));
	unlink(path);
	assert_int_equal(gguf_open(&g, path, 0, &e), -ENOENT);
	assert_false(gguf_is(path));
}

/* ---- invalid files ---- */

static void what_is_no_gguf_of_version_2_or_3_is_refused(void **state)
{
	(void)state;
	static const struct {
		uint32_t version;
		const char *word;
	} wrong[] = {{1, "version 1"}, {4, "version 4"}, {3U << 24, "big-endian"}};
	struct test_bytes file;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		made.version = wrong[i].version;
		assert_refused(ENOTSUP, wrong[i].word);
	}
	make_good();
	test_gguf_bytes(&made, &file);
	file.bytes[0] = 'g';
	assert_int_equal(gguf_parse(&parsed, file.bytes, file.count, file.count, 0, "x.gguf", &e),
			 -EINVAL);
	assert_non_null(strstr(e.text, "not a GGUF"));
	test_bytes_free(&file);
}

static void a_file_cut_short_anywhere_is_refused(void **state)
{
	(void)state;
	struct test_bytes file;
	make_good();
	test_gguf_bytes(&made, &file);
	for (size_t n = 0; n < file.count; n++) {
		gguf_clear(&parsed);
		e = (struct err){0};
		int failed = gguf_parse(&parsed, file.bytes, n, n, 0, "x.gguf", &e);
		if (failed != -EINVAL || !strstr(e.text, "cut short"))
			fail_msg("%zu bytes: %d, %s", n, failed, e.text);
	}
	test_bytes_free(&file);
}

static void counts_and_lengths_that_the_file_cannot_have_are_refused(void **state)
{
	(void)state;
	static const uint64_t counts[] = {64,	      1000,	  1ULL << 17,
					  1ULL << 40, UINT64_MAX, UINT64_MAX / 2};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		uint64_t n = counts[i];
		made.keys = n; /* of which there is none */
		assert_refused(EINVAL, "x.gguf");
		made.tensors = n;
		assert_refused(EINVAL, "x.gguf");
		test_gguf_array(&made, "a", GGUF_F64, n, zeros, 0);
		assert_refused(EINVAL, "x.gguf");
		test_gguf_array(&made, "a", GGUF_STRING, n, zeros, 0);
		assert_refused(EINVAL, "x.gguf");
		made.keys = 1; /* whose name is so long */
		test_bytes_number(&made.key_bytes, n, 8);
		assert_refused(EINVAL, "x.gguf");
		made.keys = 1; /* and whose value is */
		test_bytes_string(&made.key_bytes, "s");
		test_bytes_number(&made.key_bytes, GGUF_STRING, 4);
		test_bytes_number(&made.key_bytes, n, 8);
		assert_refused(EINVAL, "x.gguf");
		made.tensors = 1;
		test_bytes_number(&made.tensor_bytes, n, 8);
		assert_refused(EINVAL, "x.gguf");
	}
}

static void keys_that_are_wrong_are_refused(void **state)
{
	(void)state;
	test_gguf_u32(&made, "twice", 1);
	test_gguf_u32(&made, "twice", 2);
	assert_refused(EINVAL, "twice");
	test_gguf_u32(&made, "", 1);
	assert_refused(EINVAL, "key");
	made.keys = 1;
	test_bytes_number(&made.key_bytes, 3, 8);
	test_bytes_add(&made.key_bytes, "a\0b\4\0\0\0\1\0\0\0", 11);
	assert_refused(EINVAL, "zero byte");
	made.keys = 1;
	test_bytes_string(&made.key_bytes, "odd");
	test_bytes_number(&made.key_bytes, GGUF_KINDS, 4);
	assert_refused(EINVAL, "kind 13");
	test_gguf_array(&made, "odd", GGUF_KINDS, 0, NULL, 0);
	assert_refused(EINVAL, "kind 13");
	test_gguf_array(&made, "nested", GGUF_ARRAY, 0, NULL, 0);
	assert_refused(ENOTSUP, "nested");
	made.keys = 1;
	test_bytes_string(&made.key_bytes, "b");
	test_bytes_number(&made.key_bytes, GGUF_BOOL, 4);
	test_bytes_number(&made.key_bytes, 2, 1);
	assert_refused(EINVAL, "boolean");
}

static void an_alignment_that_is_no_power_of_two_is_refused(void **state)
{
	(void)state;
	static const uint32_t wrong[] = {0, 24, 33, UINT32_MAX, 1U << 31};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		test_gguf_u32(&made, "general.alignment", wrong[i]);
		assert_refused(wrong[i] == 24 || wrong[i] == 33 ? EINVAL : ERANGE, "alignment");
	}
	struct test_bytes file;
	made.alignment = 256;
	test_gguf_u32(&made, "general.alignment", 256);
	make_good();
	assert_int_equal(parse(&file, 0), 0);
	assert_int_equal(parsed.data_offset % 256, 0);
	test_bytes_free(&file);
}

/* A tensor "t" of that type and shape at that offset, and 4096 bytes of data. */
static void make_tensor(const char *name, uint32_t type, const uint64_t *shape, size_t dims,
			uint64_t offset)
{
	made.tensors++;
	test_bytes_string(&made.tensor_bytes, name);
	test_bytes_number(&made.tensor_bytes, dims, 4);
	for (size_t i = dims; i-- > 0;)
		test_bytes_number(&made.tensor_bytes, shape[i], 8);
	test_bytes_number(&made.tensor_bytes, type, 4);
	test_bytes_number(&made.tensor_bytes, offset, 8);
	made.data.count = 0;
	test_bytes_add(&made.data, zeros, 4096);
}

static void tensors_that_are_wrong_are_refused(void **state)
{
	(void)state;
	static const uint64_t shape[8] = {2, 32, 1, 1, 1, 1, 1, 1}, short_rows[] = {2, 48};
	static const uint64_t huge[][4] = {{1ULL << 32, 1ULL << 32, 1, 1},
					   {UINT64_MAX, 2, 1, 1},
					   {INT64_MAX, 1, 1, 1},
					   {1ULL << 16, 1ULL << 16, 1ULL << 16, 1ULL << 16}};
	make_tensor("t", 0, shape, 0, 0);
	assert_refused(EINVAL, "0 dimensions");
	make_tensor("t", 0, shape, 5, 0);
	assert_refused(EINVAL, "5 dimensions");
	make_tensor("t", 99, shape, 2, 0);
	assert_refused(ENOTSUP, "type 99");
	make_tensor("t", 4, shape, 2, 0); /* a type that was removed */
	assert_refused(ENOTSUP, "type 4");
	make_tensor("t", 8, short_rows, 2, 0);
	assert_refused(EINVAL, "blocks of 32");
	make_tensor("", 0, shape, 2, 0);
	assert_refused(EINVAL, "tensor");
	for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
		make_tensor("t", 0, huge[i], 4, 0);
		assert_refused(EINVAL, "t");
	}
	make_tensor("same", 0, shape, 2, 0);
	make_tensor("same", 0, shape, 2, 256);
	assert_refused(EINVAL, "twice");
}

static void tensors_that_do_not_follow_each_other_are_refused(void **state)
{
	(void)state;
	static const uint64_t odd[] = {1, 33};
	static const struct {
		uint64_t first, second;
		const char *word;
	} wrong[] = {
		{0, 0, "overlaps"},
		{0, 128, "overlaps"},
		{0, 255, "overlaps"},
		{0, 257, "gap"},
		{0, 512, "gap"},
		{32, 288, "gap"},
		{0, UINT64_MAX - 31, "gap"},
		{UINT64_MAX - 31, 0, "gap"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		make_tensor("a", 0, two_rows, 2, wrong[i].first);
		make_tensor("b", 0, two_rows, 2, wrong[i].second);
		assert_refused(EINVAL, wrong[i].word);
	}
	make_tensor("a", 0, odd, 2, 0); /* 132 bytes, and then to the alignment */
	make_tensor("b", 0, two_rows, 2, 132);
	assert_refused(EINVAL, "overlaps");
	make_tensor("a", 0, two_rows, 2, 0);
	make_tensor("b", 0, two_rows, 2, 256);
	assert_refused_cut(-4096 + 511, EINVAL, "cut short");
	struct test_bytes file;
	make_tensor("a", 0, two_rows, 2, 0);
	make_tensor("b", 0, two_rows, 2, 256);
	assert_int_equal(parse(&file, -4096 + 512), 0);
	test_bytes_free(&file);
}

/* A header takes memory in proportion to its size, whatever is in it: as many of the smallest keys
 * and tensors as are allowed. */
static void a_header_takes_memory_by_its_size(void **state)
{
	(void)state;
	enum { TIMES = 16, SLACK = 1 << 20, KEYS = 1 << 16, TENSORS = 1 << 18 };
	static const uint64_t empty[] = {0};
	struct test_bytes file;
	struct rlimit before;
	char name[16];
	test_memory_limitable();
	for (int tensors = 0; tensors < 2; tensors++) {
		for (int i = 0; i < (tensors ? TENSORS : KEYS); i++) {
			(void)snprintf(name, sizeof name, "%x", i);
			if (tensors)
				test_gguf_tensor(&made, name, 0, empty, 1, NULL, 0);
			else
				test_gguf_array(&made, name, GGUF_STRING, 0, NULL, 0);
		}
		test_gguf_bytes(&made, &file);
		test_memory_limit(RLIMIT_AS, TIMES * file.count + SLACK, &before);
		int failed = gguf_parse(&parsed, file.bytes, file.count, file.count, 0, "x", &e);
		test_memory_unlimit(RLIMIT_AS, &before);
		if (failed)
			fail_msg("%s", e.text);
		test_bytes_free(&file);
		(void)reset(NULL);
	}
}

static void published_vocabularies_can_be_read(void **state)
{
	(void)state;
	static const char *const names[] = {"gpt-2", "phi-3", "llama-spm", "deepseek-llm"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char name[96];
		struct gguf *g;
		const struct gguf_value *tokens, *types;
		const char *text;
		size_t at = 0, length, count = 0;
		(void)snprintf(name, sizeof name, "tokenizers/gguf/ggml-vocab-%s.gguf", names[i]);
		const char *path = shared_data(name);
		if (!path)
			skip();
		if (gguf_open(&g, path, 0, &e))
			fail_msg("%s", e.text);
		assert_int_equal(
			gguf_get_array(g, "tokenizer.ggml.tokens", path, GGUF_STRING, &tokens, &e),
			0);
		assert_int_equal(
			gguf_get_array(g, "tokenizer.ggml.token_type", path, GGUF_I32, &types, &e),
			0);
		while (gguf_next_string(tokens, &at, &text, &length))
			count++;
		assert_int_equal(count, tokens->count);
		assert_int_equal(count, types->count);
		gguf_close(g);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, reset, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_header_says_what_there_is_and_where),
		TEST(keys_have_typed_values),
		TEST(a_header_beyond_the_bytes_read_asks_for_more),
		TEST(a_file_is_opened_however_long_its_header),
		TEST(what_is_no_gguf_of_version_2_or_3_is_refused),
		TEST(a_file_cut_short_anywhere_is_refused),
		TEST(counts_and_lengths_that_the_file_cannot_have_are_refused),
		TEST(keys_that_are_wrong_are_refused),
		TEST(an_alignment_that_is_no_power_of_two_is_refused),
		TEST(tensors_that_are_wrong_are_refused),
		TEST(tensors_that_do_not_follow_each_other_are_refused),
		TEST(a_header_takes_memory_by_its_size),
		TEST(published_vocabularies_can_be_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
