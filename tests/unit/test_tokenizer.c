/* Each step from a text to ids by itself. test_tokenizer_vocabularies.c tests real vocabularies,
 * test_tokenizer_files.c wrong files. */
#include "tests/unit/tokenizer_help.h"

#include "engine/json/json.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/normalize.h"
#include "cache/utf8.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utf8proc.h>

static struct tokenizer *open_directory(const char *directory)
{
	struct tokenizer *t;
	struct err e = {0};
	must(tokenizer_open(&t, directory, &e), &e);
	return t;
}

static struct tokenizer *opened(struct json_object *document)
{
	struct tokenizer *t;
	struct err e = {0};
	must(open_document(&t, document, &e), &e);
	return t;
}

static void put(struct json_object *object, const char *key, const char *value)
{
	json_object_object_add(object, key, json(value));
}

/* Reproducible numbers for tests that try many inputs (xorshift, Marsaglia 2003). */
static uint32_t draw(uint32_t *state, uint32_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state % below;
}

/* --- merging --- */

/* Merging as it is defined: again and again the lowest rank, the leftmost among equals. Part i of
 * the text is [begin[i], begin[i + 1]); at first each byte is one. Returns how many are left. */
static size_t merge_slowly(const struct json_object *ranks, const char *text, size_t *begin,
			   size_t n)
{
	for (;;) {
		uint64_t best_rank = UINT64_MAX;
		size_t best = 0;
		for (size_t i = 0; i + 1 < n; i++) {
			char pair[128];
			snprintf(pair, sizeof pair, "%.*s %.*s", (int)(begin[i + 1] - begin[i]),
				 text + begin[i], (int)(begin[i + 2] - begin[i + 1]),
				 text + begin[i + 1]);
			struct json_object *rank = json_object_object_get(ranks, pair);
			if (rank && json_object_get_uint64(rank) < best_rank) {
				best_rank = json_object_get_uint64(rank);
				best = i;
			}
		}
		if (best_rank == UINT64_MAX)
			return n;
		for (size_t i = best + 1; i < n; i++)
			begin[i] = begin[i + 1];
		n--;
	}
}

/* Random merges over a, b and c: a fixture document, and ranks by "LEFT RIGHT" in *by_pair. */
static struct json_object *random_merges(uint32_t *seed, struct json_object **by_pair)
{
	struct json_object *document = fixture_document();
	struct json_object *vocab = at(document, "model.vocab");
	struct json_object *merges = json_object_new_array();
	*by_pair = json_object_new_object();
	char tokens[64][16] = {"a", "b", "c"};
	size_t count = 3;
	for (uint32_t rank = 0; rank < 24 && count < 64; rank++) {
		char pair[64], product[64];
		const char *left = tokens[draw(seed, (uint32_t)count)];
		const char *right = tokens[draw(seed, (uint32_t)count)];
		snprintf(pair, sizeof pair, "%s %s", left, right);
		snprintf(product, sizeof product, "%s%s", left, right);
		if (strlen(product) > 12 || json_object_object_get(*by_pair, pair))
			continue;
		if (!json_object_object_get(vocab, product))
			json_object_object_add(vocab, product, json_object_new_uint64(1000 + rank));
		json_object_array_add(merges, json_object_new_string(pair));
		json_object_object_add(
			*by_pair, pair,
			json_object_new_uint64(json_object_array_length(merges) - 1));
		snprintf(tokens[count++], sizeof *tokens, "%.15s", product);
	}
	json_object_object_add(at(document, "model"), "merges", merges);
	return document;
}

static void merging_takes_the_lowest_rank_and_the_leftmost_among_equals(void **state)
{
	(void)state;
	uint32_t seed = 20161;
	for (int vocabulary = 0; vocabulary < 60; vocabulary++) {
		struct json_object *by_pair;
		struct tokenizer *t = opened(random_merges(&seed, &by_pair));
		for (int word = 0; word < 60; word++) {
			char text[41] = {0}, expected[256];
			size_t begin[42], n = 1 + draw(&seed, 40), used = 0;
			for (size_t i = 0; i <= n; i++)
				begin[i] = i;
			for (size_t i = 0; i < n; i++)
				text[i] = (char)('a' + draw(&seed, 3));
			size_t count = merge_slowly(by_pair, text, begin, n);
			for (size_t i = 0; i < count; i++)
				used += (size_t)snprintf(expected + used, sizeof expected - used,
							 "[%.*s]", (int)(begin[i + 1] - begin[i]),
							 text + begin[i]);
			assert_string_equal(tokens_of(t, text), expected);
		}
		json_object_put(by_pair);
		tokenizer_close(t);
	}
}

static void a_word_of_a_megabyte_comes_to_an_end(void **state)
{
	(void)state;
	enum { LENGTH = 1 << 20 };
	struct tokenizer *t = open_directory(FIXTURE);
	char *text = malloc(LENGTH);
	assert_non_null(text);
	struct err e = {0};
	static const char *const UNITS[] = {"the", " ", "\xcc\x81\xcc\xa7", "x"};
	for (size_t u = 0; u < sizeof UNITS / sizeof *UNITS; u++) {
		size_t unit = strlen(UNITS[u]), n = LENGTH - LENGTH % unit;
		for (size_t i = 0; i < n; i += unit)
			memcpy(text + i, UNITS[u], unit);
		struct token_list ids = {0};
		must(tokenizer_encode(t, text, n, NULL, &ids, &e), &e);
		assert_true(ids.count > LENGTH / 8);
		token_list_free(&ids);
	}
	free(text);
	tokenizer_close(t);
}

static void ignore_merges_takes_a_whole_word_that_is_a_token(void **state)
{
	(void)state;
	struct json_object *document = fixture_document();
	put(at(document, "model.vocab"), "xyzzy", "400");
	struct tokenizer *t = opened(document);
	assert_string_equal(tokens_of(t, "xyzzy"), "[x][y][z][z][y]");
	tokenizer_close(t);
	document = fixture_document();
	put(at(document, "model.vocab"), "xyzzy", "400");
	put(at(document, "model"), "ignore_merges", "true");
	t = opened(document);
	assert_string_equal(tokens_of(t, "xyzzy"), "[xyzzy]");
	assert_string_equal(tokens_of(t, "xyzzyx"), "[x][y][z][z][y][x]");
	tokenizer_close(t);
}

static void a_byte_without_a_token_is_an_error_and_not_dropped(void **state)
{
	(void)state;
	struct json_object *document = fixture_document();
	json_object_object_del(at(document, "model.vocab"), "Z");
	struct tokenizer *t = opened(document);
	struct token_list ids = {0};
	struct err e = {0};
	assert_int_equal(tokenizer_encode(t, "abcZ", 4, NULL, &ids, &e), -EINVAL);
	assert_non_null(strstr(e.text, "0x5a"));
	assert_int_equal(ids.count, 0);
	token_list_free(&ids);
	tokenizer_close(t);
}

/* --- splitting --- */

/* A tokenizer that splits by one pattern and whose only merges are aa and bb. */
static struct tokenizer *splitting_by(const char *pattern)
{
	struct json_object *document = fixture_document();
	put(at(document, "model.vocab"), "aa", "400");
	put(at(document, "model.vocab"), "bb", "401");
	put(at(document, "model.vocab"), "aaaa", "402");
	put(at(document, "model"), "merges", "[\"a a\", \"b b\", \"aa aa\"]");
	json_object_object_add(at(document, "pre_tokenizer.pretokenizers.0.pattern"), "Regex",
			       json_object_new_string(pattern));
	return opened(document);
}

static void matches_and_the_gaps_between_them_are_words(void **state)
{
	(void)state;
	struct tokenizer *t = splitting_by("\\p{N}");
	assert_string_equal(tokens_of(t, "aa1aabb22"), "[aa][1][aa][bb][2][2]");
	tokenizer_close(t);
	t = splitting_by("ab");
	/* Without a split, the gap before the match would be aaaa's second half. */
	assert_string_equal(tokens_of(t, "aaaabb"), "[aa][a][a][b][b]");
	tokenizer_close(t);
}

static void an_empty_match_splits_where_it_stands(void **state)
{
	(void)state;
	struct tokenizer *t = splitting_by("(?=b)");
	assert_string_equal(tokens_of(t, "aabb"), "[aa][b][b]");
	tokenizer_close(t);
	/* At every place but right after a match. */
	t = splitting_by("a*");
	assert_string_equal(tokens_of(t, "aabb"), "[aa][b][b]");
	tokenizer_close(t);
}

static void white_space_is_what_unicode_says(void **state)
{
	(void)state;
	/* A match takes an a from either side, which then do not merge. */
	struct tokenizer *t = splitting_by("a\\sa");
	assert_string_equal(tokens_of(t, "aa aa"), "[a][a][ ][a][a]");
	assert_string_equal(tokens_of(t, "aa\xc2\x85"
					 "aa"),
			    "[a][a][\xc2][\x85][a][a]");
	assert_string_equal(tokens_of(t, "aa\u00a0"
					 "aa"),
			    "[a][a][\xc2][\xa0][a][a]");
	assert_string_equal(tokens_of(t, "aa\u3000"
					 "aa"),
			    "[a][a][\xe3][\x80][\x80][a][a]");
	/* U+180E was a space until Unicode 6.3, and to PCRE2's \s still is. */
	assert_string_equal(tokens_of(t, "aa\u180e"
					 "aa"),
			    "[aa][\xe1][\xa0][\x8e][aa]");
	tokenizer_close(t);
	t = splitting_by("\\S+");
	assert_string_equal(tokens_of(t, "aa aa"), "[aa][ ][aa]");
	tokenizer_close(t);
}

static void a_pre_tokenizer_splits_what_the_one_before_it_left(void **state)
{
	(void)state;
	struct json_object *document = fixture_document();
	json_object_object_add(document, "pre_tokenizer",
			       json("{\"type\": \"Sequence\", \"pretokenizers\": ["
				    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"h\"},"
				    " \"behavior\": \"Isolated\", \"invert\": false},"
				    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
				    "\"use_regex\": true}]}"));
	struct tokenizer *t = opened(document);
	assert_string_equal(tokens_of(t, " the it's"), "[ t][h][e][ it]['s]");
	tokenizer_close(t);
}

static void a_prefix_space_goes_before_what_does_not_begin_with_one(void **state)
{
	(void)state;
	struct json_object *document = fixture_document();
	json_object_object_add(
		document, "pre_tokenizer",
		json("{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"use_regex\": true}"));
	struct tokenizer *t = opened(document);
	assert_string_equal(tokens_of(t, "the"), "[ the]");
	assert_string_equal(tokens_of(t, " the"), "[ the]");
	assert_string_equal(tokens_of(t, "the<|im_end|>it"), "[ the][<|im_end|>][ it]");
	assert_string_equal(tokens_of(t, ""), "");
	tokenizer_close(t);
}

static void a_pattern_that_would_never_end_is_an_error(void **state)
{
	(void)state;
	struct tokenizer *t = splitting_by("(?:a|aa)+[cd]");
	char text[200];
	memset(text, 'a', sizeof text);
	struct token_list ids = {0};
	struct err e = {0};
	assert_true(tokenizer_encode(t, text, sizeof text, NULL, &ids, &e) < 0);
	assert_non_null(strstr(e.text, "split pattern"));
	token_list_free(&ids);
	tokenizer_close(t);
}

/* --- normalising --- */

static void composed_and_decomposed_text_give_the_same_ids(void **state)
{
	(void)state;
	struct tokenizer *t = open_directory(FIXTURE);
	char composed[64];
	snprintf(composed, sizeof composed, "%s", ids_of(t, "caf\u00e9 \uac00", 9));
	assert_string_equal(ids_of(t, "cafe\u0301 \u1100\u1161", 13), composed);
	/* A NUL is text. */
	snprintf(composed, sizeof composed, "%s", ids_of(t, "\0\u00e9\0", 4));
	assert_string_equal(ids_of(t, "\0e\u0301\0", 5), composed);
	assert_int_equal(strncmp(composed, ids_of(t, "\0", 1), strlen(ids_of(t, "\0", 1))), 0);
	tokenizer_close(t);
}

/* Characters that meet in normalisation: letters, marks of several classes, Hangul, exclusions. */
static const uint32_t MEETING[] = {
	'a',	'e',	0x41e,	0xe9,	0x300,	0x301,	0x316,	0x327,	 0x345,	  0x5b0,  0x5b4,
	0x5d0,	0x915,	0x93c,	0x958,	0x9c7,	0x9be,	0xfb2a, 0x1100,	 0x1161,  0x11a8, 0xac00,
	0x1e69, 0x1e0a, 0x212b, 0x2126, 0xf900, 0x2adc, 0x338,	0x1d15e, 0x110ba, 0,	  0x10ffff};

static void normalisation_is_nfc(void **state)
{
	(void)state;
	uint32_t seed = 15;
	for (int round = 0; round < 20000; round++) {
		char text[64];
		size_t n = 0;
		for (uint32_t k = 1 + draw(&seed, 12); k > 0; k--)
			n += utf8_encode(MEETING[draw(&seed, sizeof MEETING / sizeof *MEETING)],
					 text + n);
		char *ours;
		size_t ours_n;
		struct err e = {0};
		must(normalize_nfc(text, n, NULL, &ours, &ours_n, &e), &e);
		uint8_t *theirs;
		utf8proc_ssize_t theirs_n =
			utf8proc_map((const uint8_t *)text, (utf8proc_ssize_t)n, &theirs,
				     (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
		assert_int_equal(ours_n, theirs_n);
		assert_memory_equal(ours, theirs, ours_n);
		free(ours);
		free(theirs);
	}
}

/* --- added tokens --- */

/* The fixture with these added tokens, given as JSON objects without their braces. */
static struct tokenizer *with_added(const char *const *tokens, size_t n)
{
	struct json_object *document = fixture_document();
	struct json_object *list = json_object_new_array();
	for (size_t i = 0; i < n; i++) {
		char object[256];
		snprintf(object, sizeof object, "{\"id\": %zu, %s}", 500 + i, tokens[i]);
		json_object_array_add(list, json(object));
	}
	json_object_object_add(document, "added_tokens", list);
	return opened(document);
}
#define WITH_ADDED(...)                                \
	with_added((const char *const[]){__VA_ARGS__}, \
		   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void the_leftmost_and_longest_added_token_is_cut_out(void **state)
{
	(void)state;
	struct tokenizer *t = WITH_ADDED("\"content\": \"<a>\"", "\"content\": \"<a>b\"",
					 "\"content\": \"a>bcd\"", "\"content\": \"<a>bcX\"");
	assert_string_equal(tokens_of(t, "<a>bcd"), "[<a>b][c][d]");
	assert_string_equal(tokens_of(t, "<a><a>"), "[<a>][<a>]");
	assert_string_equal(tokens_of(t, "<<a>bcX<a"), "[<][<a>bcX][<][a]");
	assert_string_equal(tokens_of(t, "xa>bcd"), "[x][a>bcd]");
	tokenizer_close(t);
}

static void lstrip_and_rstrip_take_the_white_space_beside_a_token(void **state)
{
	(void)state;
	struct tokenizer *t =
		WITH_ADDED("\"content\": \"<L>\", \"lstrip\": true",
			   "\"content\": \"<R>\", \"rstrip\": true", "\"content\": \"<N>\"");
	assert_string_equal(tokens_of(t, "x \n\u3000<L> x"), "[x][<L>][ ][x]");
	assert_string_equal(tokens_of(t, "x <R> \n\u3000x"), "[x][ ][<R>][x]");
	assert_string_equal(tokens_of(t, "<R>  <L>"), "[<R>][<L>]");
	assert_string_equal(tokens_of(t, "x <N> x"), "[x][ ][<N>][ ][x]");
	tokenizer_close(t);
}

static void a_single_word_token_is_not_found_inside_a_word(void **state)
{
	(void)state;
	struct tokenizer *t = WITH_ADDED("\"content\": \"qz\", \"single_word\": true");
	assert_string_equal(tokens_of(t, "qz qz.qz"), "[qz][ ][qz][.][qz]");
	assert_string_equal(tokens_of(t, "xqz"), "[x][q][z]");
	assert_string_equal(tokens_of(t, "qz_"), "[q][z][_]");
	assert_string_equal(tokens_of(t, "\u00e9qz"), "[\xc3][\xa9][q][z]");
	tokenizer_close(t);
}

static void a_normalised_token_is_found_after_normalising_and_others_before(void **state)
{
	(void)state;
	struct tokenizer *t = WITH_ADDED("\"content\": \"<e\u0301>\", \"normalized\": true",
					 "\"content\": \"{e\u0301}\", \"normalized\": false");
	assert_int_equal(strcmp(ids_of(t, "<\u00e9>", 4), "500"), 0);
	assert_int_equal(strcmp(ids_of(t, "<e\u0301>", 5), "500"), 0);
	assert_int_equal(strcmp(ids_of(t, "{e\u0301}", 5), "501"), 0);
	assert_int_not_equal(strcmp(ids_of(t, "{\u00e9}", 4), "501"), 0);
	tokenizer_close(t);
	/* Tokens that are not normalised match first, even if a normalised one begins further
	 * left. */
	t = WITH_ADDED("\"content\": \"xy\", \"normalized\": true",
		       "\"content\": \"yz\", \"normalized\": false");
	assert_string_equal(tokens_of(t, "xyz"), "[x][yz]");
	tokenizer_close(t);
}

static void an_added_token_is_its_content_whatever_alphabet(void **state)
{
	(void)state;
	/* In the vocabulary's alphabet this character is the byte 0x20. */
	struct tokenizer *t = WITH_ADDED("\"content\": \"\u0120\u0120<>\"");
	size_t n;
	const char *bytes = tokenizer_bytes(t, 500, false, &n);
	assert_int_equal(n, 6);
	assert_memory_equal(bytes, "\u0120\u0120<>", 6);
	assert_int_equal(tokenizer_find(t, "\u0120\u0120<>"), 500);
	tokenizer_close(t);
}

/* --- tokens --- */

static void tokens_are_found_by_their_text_and_unknown_ids_are_empty(void **state)
{
	(void)state;
	struct tokenizer *t = open_directory(FIXTURE);
	assert_int_equal(tokenizer_size(t), 384);
	size_t n;
	int64_t the = tokenizer_find(t, " the");
	assert_true(the >= 0);
	assert_memory_equal(tokenizer_bytes(t, (uint32_t)the, false, &n), " the", 4);
	assert_int_equal(n, 4);
	assert_int_equal(tokenizer_find(t, "no such token"), -1);
	assert_int_equal(tokenizer_find(t, "<|im_start|>"), 382);
	tokenizer_bytes(t, 382, false, &n);
	assert_int_equal(n, 0);
	tokenizer_bytes(t, 382, true, &n);
	assert_int_equal(n, 12);
	for (uint32_t id = 384; id != 0; id *= 2) {
		tokenizer_bytes(t, id, true, &n);
		assert_int_equal(n, 0);
	}
	tokenizer_close(t);
}

static void invalid_utf8_is_refused_with_its_offset(void **state)
{
	(void)state;
	struct tokenizer *t = open_directory(FIXTURE);
	static const struct {
		const char *text, *offset;
	} CASES[] = {{"\xff", "byte 0 "},	   {"abc\x80", "byte 3 "},
		     {"ab\xc3", "byte 2 "},	   {"\xc0\x80", "byte 0 "},
		     {"a\xed\xa0\x80", "byte 1 "}, {"a\xf4\x90\x80\x80", "byte 1 "}};
	struct token_list ids = {0};
	struct err e = {0};
	uint32_t before = 7;
	must(token_list_append(&ids, &before, 1, &e), &e);
	for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
		assert_int_equal(
			tokenizer_encode(t, CASES[i].text, strlen(CASES[i].text), NULL, &ids, &e),
			-EILSEQ);
		assert_non_null(strstr(e.text, CASES[i].offset));
		assert_int_equal(ids.count, 1);
	}
	token_list_free(&ids);
	tokenizer_close(t);
}

static void *encode_again_and_again(void *tokenizer)
{
	char expected[] = "[The][ ][\xf0][\x9f][\xa6][\x8a][ wrote][ a][<|im_end|>]";
	for (int i = 0; i < 300; i++) {
		struct token_list ids = {0};
		struct err e = {0};
		static const char TEXT[] = "The \U0001f98a wrote a<|im_end|>";
		if (tokenizer_encode(tokenizer, TEXT, strlen(TEXT), NULL, &ids, &e) < 0)
			return e.code ? "an error" : "no sentence";
		char line[128] = "";
		for (size_t k = 0; k < ids.count; k++) {
			size_t n;
			const char *bytes = tokenizer_bytes(tokenizer, ids.ids[k], true, &n);
			size_t used = strlen(line);
			snprintf(line + used, sizeof line - used, "[%.*s]", (int)n, bytes);
		}
		token_list_free(&ids);
		if (strcmp(line, expected) != 0)
			return "other tokens";
	}
	return NULL;
}

static void threads_share_one_tokenizer(void **state)
{
	(void)state;
	struct tokenizer *t = open_directory(FIXTURE);
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, encode_again_and_again, t), 0);
	for (int i = 0; i < 4; i++) {
		void *wrong;
		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
	tokenizer_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merging_takes_the_lowest_rank_and_the_leftmost_among_equals),
		cmocka_unit_test(a_word_of_a_megabyte_comes_to_an_end),
		cmocka_unit_test(ignore_merges_takes_a_whole_word_that_is_a_token),
		cmocka_unit_test(a_byte_without_a_token_is_an_error_and_not_dropped),
		cmocka_unit_test(matches_and_the_gaps_between_them_are_words),
		cmocka_unit_test(an_empty_match_splits_where_it_stands),
		cmocka_unit_test(white_space_is_what_unicode_says),
		cmocka_unit_test(a_pre_tokenizer_splits_what_the_one_before_it_left),
		cmocka_unit_test(a_prefix_space_goes_before_what_does_not_begin_with_one),
		cmocka_unit_test(a_pattern_that_would_never_end_is_an_error),
		cmocka_unit_test(composed_and_decomposed_text_give_the_same_ids),
		cmocka_unit_test(normalisation_is_nfc),
		cmocka_unit_test(the_leftmost_and_longest_added_token_is_cut_out),
		cmocka_unit_test(lstrip_and_rstrip_take_the_white_space_beside_a_token),
		cmocka_unit_test(a_single_word_token_is_not_found_inside_a_word),
		cmocka_unit_test(a_normalised_token_is_found_after_normalising_and_others_before),
		cmocka_unit_test(an_added_token_is_its_content_whatever_alphabet),
		cmocka_unit_test(tokens_are_found_by_their_text_and_unknown_ids_are_empty),
		cmocka_unit_test(invalid_utf8_is_refused_with_its_offset),
		cmocka_unit_test(threads_share_one_tokenizer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
