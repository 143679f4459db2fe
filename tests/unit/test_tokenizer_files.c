/* Wrong tokenizer files, and files with unsupported parts: each is an error whose sentence names
 * the part. */
#include "tests/unit/tokenizer_help.h"

#include "engine/tokenizer/pretokenize.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A change of the fixture's tokenizer.json: the member `key` of the object at `path` becomes
 * `value` (JSON, NULL for null); and what the error must say. */
struct change {
	const char *path, *key, *value;
	int code;
	const char *words;
};

static struct json_object *changed(const struct change *c)
{
	struct json_object *document = fixture_document();
	json_object_object_add(*c->path ? at(document, c->path) : document, c->key,
			       c->value ? json(c->value) : NULL);
	return document;
}

static void expect_refused(const struct change *changes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct tokenizer *t;
		struct err e = {0};
		int rc = open_document(&t, changed(&changes[i]), &e);
		if (rc == 0)
			fail_msg("accepted: %s = %s", changes[i].key, changes[i].value);
		if (rc != -changes[i].code || !strstr(e.text, changes[i].words))
			fail_msg("%s = %s: %d, %s", changes[i].key, changes[i].value, rc, e.text);
	}
}
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void what_the_reader_does_not_know_is_refused_by_name(void **state)
{
	(void)state;
#define SPLIT "pre_tokenizer.pretokenizers.0"
	static const struct change CHANGES[] = {
		{"", "normalizer", "{\"type\": \"Lowercase\"}", ENOTSUP, "Lowercase"},
		{"", "normalizer",
		 "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": "
		 "\"NFKC\"}]}",
		 ENOTSUP, "NFKC"},
		{"", "pre_tokenizer", "{\"type\": \"Whitespace\"}", ENOTSUP, "Whitespace"},
		{"", "pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"_\"}", ENOTSUP,
		 "Metaspace with \"replacement\": \"_\""},
		{"", "pre_tokenizer", NULL, ENOTSUP, "ByteLevel"},
		{"", "pre_tokenizer",
		 "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, "
		 "{\"type\": \"ByteLevel\"}]}",
		 ENOTSUP, "after ByteLevel"},
		{SPLIT, "behavior", "\"Removed\"", ENOTSUP, "Removed"},
		{SPLIT, "invert", "true", ENOTSUP, "inverted"},
		{SPLIT, "pattern", "{\"Text\": \" \"}", EINVAL, "Regex"},
		{"", "decoder", NULL, ENOTSUP, "decoder"},
		{"", "decoder", "{\"type\": \"WordPiece\"}", ENOTSUP, "decoder"},
		{"", "decoder", "{\"type\": \"Metaspace\", \"replacement\": \"\u2581\"}", ENOTSUP,
		 "decoder"},
		{"", "post_processor", "{\"type\": \"RobertaProcessing\"}", ENOTSUP,
		 "RobertaProcessing"},
		{"post_processor", "single",
		 "[{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, "
		 "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}]",
		 EINVAL, "\"<s>\", which is not a token"},
		{"post_processor", "single",
		 "[{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
		 "{\"SpecialToken\": {\"id\": \"<|im_end|>\", \"type_id\": 0}}, "
		 "{\"SpecialToken\": {\"id\": \"<|im_end|>\", \"type_id\": 0}}]",
		 ENOTSUP, "more special tokens"},
		{"post_processor", "single",
		 "[{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
		 "{\"SpecialToken\": {\"id\": \"</s>\", \"type_id\": 0}}]",
		 EINVAL, "ends a text with \"</s>\", which is not a token"},
		{"", "surprise", "1", ENOTSUP, "surprise"},
		{"added_tokens.0", "surprise", "1", ENOTSUP, "surprise"},
		{"model", "type", "\"WordPiece\"", ENOTSUP, "WordPiece"},
		{"model", "surprise", "1", ENOTSUP, "surprise"},
		{"model", "dropout", "0.1", ENOTSUP, "dropout"},
		{"model", "byte_fallback", "true", ENOTSUP, "byte_fallback"},
		{"model", "end_of_word_suffix", "\"</w>\"", ENOTSUP, "</w>"},
		{"model", "continuing_subword_prefix", "\"##\"", ENOTSUP, "##"},
	};
	expect_refused(CHANGES, COUNT(CHANGES));
}

static void wrong_types_and_ids_are_refused(void **state)
{
	(void)state;
	static const struct change CHANGES[] = {
		{"", "model", "[]", EINVAL, "\"model\""},
		{"", "model", NULL, EINVAL, "\"model\" is missing"},
		{"", "added_tokens", "{}", EINVAL, "\"added_tokens\""},
		{"", "added_tokens", "[7]", EINVAL, "object"},
		{"model", "vocab", "[]", EINVAL, "\"vocab\""},
		{"model", "vocab", "{}", EINVAL, "empty"},
		{"model", "vocab", NULL, EINVAL, "\"vocab\" is missing"},
		{"model.vocab", "zz", "\"1\"", EINVAL, "\"zz\""},
		{"model.vocab", "zz", "-1", EINVAL, "\"zz\""},
		{"model.vocab", "zz", "1.5", EINVAL, "\"zz\""},
		{"model.vocab", "zz", "16777216", EINVAL, "\"zz\""},
		{"model.vocab", "zz", "18446744073709551616", EINVAL, "\"zz\""},
		{"model.vocab", "zz", "0", EINVAL, "id 0"},
		{"added_tokens.0", "id", "99999999999", EINVAL, "\"id\""},
		{"added_tokens.0", "id", "382", EINVAL, "id 382 of another"},
		{"added_tokens.0", "id", "0", EINVAL, "id 0 of another"},
		{"added_tokens.0", "content", "\"<|im_end|>\"", EINVAL, "twice"},
		{"", "added_tokens",
		 "[{\"id\": 400, \"content\": \"<x>\"}, "
		 "{\"id\": 401, \"content\": \"<x>\"}, {\"id\": 402, \"content\": \"<y>\"}, "
		 "{\"id\": 402, \"content\": \"<y>\"}]",
		 EINVAL, "\"<y>\" occurs twice"},
		{"added_tokens.0", "content", "\"the\\u0000\"", EINVAL, "NUL"},
		{"added_tokens.0", "content", "\"\"", EINVAL, "0 bytes"},
		{"added_tokens.0", "content", "\"he\"", EINVAL, "the vocabulary has it"},
		{"added_tokens.0", "special", "1", EINVAL, "\"special\""},
		{"added_tokens.0", "lstrip", "\"yes\"", EINVAL, "\"lstrip\""},
		{"model", "merges", "{}", EINVAL, "\"merges\""},
		{"model", "merges", "[7]", EINVAL, "\"merges\""},
		{"model", "merges", "[[\"h\"]]", EINVAL, "two parts"},
		{"model", "merges", "[[\"h\", 7]]", EINVAL, "\"merges\""},
		{"model", "merges", "[\"he\"]", EINVAL, "merge 0"},
		{"model", "merges", "[\"h e e\"]", EINVAL, "merge 0"},
		{"model", "merges", "[\" e\"]", EINVAL, "merge 0"},
		{"model", "merges", "[\"h e\", \"qqq e\"]", EINVAL, "merge 1, \"qqq\""},
		{"model", "merges", "[\"h e\", \"h qqq\"]", EINVAL, "the second is not a token"},
		{"model", "merges", "[\"q q\"]", EINVAL, "the product is not a token"},
	};
	expect_refused(CHANGES, COUNT(CHANGES));
}

static void an_unknown_token_that_would_be_needed_is_refused(void **state)
{
	(void)state;
	struct tokenizer *t;
	struct err e = {0};
	struct json_object *document = fixture_document();
	json_object_object_add(at(document, "model"), "unk_token", json("\"<|endoftext|>\""));
	must(open_document(&t, document, &e), &e);
	tokenizer_close(t);
	document = fixture_document();
	json_object_object_add(at(document, "model"), "unk_token", json("\"<|endoftext|>\""));
	json_object_object_del(at(document, "model.vocab"), "Z");
	assert_int_equal(open_document(&t, document, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "0x5a"));
}

static void patterns_that_pcre2_reads_differently_or_not_at_all_are_refused(void **state)
{
	(void)state;
	static const char *const PATTERNS[] = {
		"(",	    "a)",      "[",
		"[]a]",	    "[a[b]]",  "[[:alpha:]]",
		"[a&&b]",   "\\",      "\\w+",
		"\\b",	    "\\h",     "\\pL",
		"\\p{Han}", "\\p{L",   "\\p{^L}",
		"^a",	    "a$",      "a{,3}",
		"a{2}+",    "a{2}?",   "a{",
		"(?i)a",    "(?<n>a)", "(?R)",
		"(*UTF)a",  "(?#a)",   "(?m:a)",
		"\\1(a)",   "a**",     "(?<=a+)b",
		"\\C",	    "\\x41",   "[b-a]",
		"\\u0041",  "+",       "(((((((a{9999}){9999}){9999}){9999}){9999}){9999}){9999})"};
	for (size_t i = 0; i < COUNT(PATTERNS); i++) {
		struct pretokenizer s = {0};
		struct err e = {0};
		if (pretokenize_add(&s, PATTERNS[i], false, "tokenizer.json", &e) == 0)
			fail_msg("accepted: %s", PATTERNS[i]);
		assert_non_null(strstr(e.text, "tokenizer.json: the split pattern"));
		pretokenize_free(&s);
	}
}

static void patterns_of_published_tokenizers_are_taken(void **state)
{
	(void)state;
	static const char *const PATTERNS[] = {
		GPT2_PATTERN, QWEN2_PATTERN,
		/* GPT-4o's, which gpt-oss has */
		"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}"
		"\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
		"|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
		"\\p{N}{1,3}", "[!-/:-~]\\s?", "[\\]\\[\\-]", "a|\u4e00"};
	for (size_t i = 0; i < COUNT(PATTERNS); i++) {
		struct pretokenizer s = {0};
		struct err e = {0};
		must(pretokenize_add(&s, PATTERNS[i], false, "tokenizer.json", &e), &e);
		pretokenize_free(&s);
	}
}

/* The patterns of tokenizer.json files for the names in GGUF files, word for word. */
static void splits_by_name_are_the_published_patterns(void **state)
{
	(void)state;
#define TRAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CASED(tail)                                                     \
	"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"   \
	"[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" tail "|[^\\r\\n\\p{L}\\p{N}]?" \
	"[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" tail
	static const struct {
		const char *name, *pattern;
	} PUBLISHED[] = {
		{"qwen2",
		 "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TRAIL},
		{"llama-bpe",
		 "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TRAIL},
		{"glm4",
		 "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TRAIL},
		{"qwen35",
		 "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
		 "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
		{"gpt-4o",
		 CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+"
							"[\\r\\n/"
							"]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
		{"minimax-m2",
		 CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "|\\p{N}{1,3}| ?[^\\s\\p{L}"
							"\\p{N}]+[\\r\\n/"
							"]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
		{"tekken", CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|"
				     "\\s+(?!\\S)|\\s+"},
	};
	for (size_t i = 0; i < COUNT(PUBLISHED); i++) {
		const struct pretokenize_name *split = pretokenize_find_name(PUBLISHED[i].name);
		assert_non_null(split);
		assert_string_equal(split->patterns[0], PUBLISHED[i].pattern);
		assert_null(split->patterns[1]);
	}
	assert_null(pretokenize_find_name("default"));
}

static void a_cut_file_is_an_error_at_every_length(void **state)
{
	(void)state;
	size_t n;
	char *text = read_any(FIXTURE "/tokenizer.json", &n);
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
		n--;
	for (size_t length = 0; length < n; length += 1 + length / 50) {
		struct tokenizer *t;
		struct err e = {0};
		/* In memory of exactly that size, so that reading beyond is noticed. */
		char *cut = malloc(length ? length : 1);
		assert_non_null(cut);
		memcpy(cut, text, length);
		assert_int_equal(tokenizer_open_text(&t, cut, length, "cut", &e), -EINVAL);
		assert_non_null(strstr(e.text, "cut: "));
		free(cut);
	}
	free(text);
}

static void nesting_and_bytes_that_are_no_text_are_refused(void **state)
{
	(void)state;
	struct tokenizer *t;
	struct err e = {0};
	char deep[4096];
	memset(deep, '[', sizeof deep);
	assert_int_equal(tokenizer_open_text(&t, deep, sizeof deep, "deep", &e), -EINVAL);
	assert_non_null(strstr(e.text, "nested deeper"));
	assert_int_equal(tokenizer_open_text(&t, "{\"model\":\"\xed\xa0\x80\"}", 15, "bytes", &e),
			 -EINVAL);
	assert_non_null(strstr(e.text, "UTF-8 at byte 10"));
	assert_int_equal(tokenizer_open_text(&t, "[]", 2, "list", &e), -EINVAL);
	assert_non_null(strstr(e.text, "list: must be a JSON object"));
}

/* --- directories --- */

/* Files of a small GPT-2 layout; NULL leaves one out. */
struct layout {
	const char *vocab, *merges, *config, *added;
};
static const struct layout WHOLE = {
	"{\"a\": 0, \"b\": 1, \"ab\": 2, \"<|endoftext|>\": 3, \"\u0120\": 4}",
	"#version: 0.2\na b\n", "{\"tokenizer_class\": \"GPT2Tokenizer\"}", NULL};

static int open_layout(struct tokenizer **t, const struct layout *l, struct err *e)
{
	const char *const files[][2] = {{"vocab.json", l->vocab},
					{"merges.txt", l->merges},
					{"tokenizer_config.json", l->config},
					{"added_tokens.json", l->added}};
	char *directory = temporary_directory();
	for (size_t i = 0; i < COUNT(files); i++)
		if (files[i][1])
			write_file(directory, files[i][0], files[i][1], strlen(files[i][1]));
	int rc = tokenizer_open(t, directory, e);
	remove_directory(directory);
	return rc;
}

static void gpt2_s_layout_is_read_with_its_added_tokens(void **state)
{
	(void)state;
	struct layout l = WHOLE;
	l.merges = "a b\r\n";
	l.added = "{\"<x>\": 9}";
	l.config = "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_prefix_space\": true,"
		   " \"eos_token\": {\"content\": \"<x>\", \"lstrip\": true}}";
	struct tokenizer *t;
	struct err e = {0};
	must(open_layout(&t, &l, &e), &e);
	assert_int_equal(tokenizer_size(t), 10);
	assert_string_equal(tokens_of(t, "ab <x>"), "[ ][ab][<x>]");
	assert_string_equal(ids_of(t, "<|endoftext|>", 13), "3");
	size_t n;
	tokenizer_bytes(t, 9, false, &n);
	assert_int_equal(n, 0);
	tokenizer_bytes(t, 3, false, &n);
	assert_int_equal(n, 0);
	tokenizer_bytes(t, 8, true, &n);
	assert_int_equal(n, 0);
	tokenizer_close(t);
}

static void gpt2_s_layout_is_refused_where_files_are_missing_or_wrong(void **state)
{
	(void)state;
	static const struct {
		size_t file; /* its place in struct layout */
		const char *text;
		int code;
		const char *words;
	} CASES[] = {
		{0, NULL, ENOENT, "no tokenizer.json"},
		{0, "[]", EINVAL, "vocab.json: must be a JSON object"},
		{0, "{\"a\": 0, \"b\": 0}", EINVAL, "vocab.json: id 0"},
		{1, NULL, ENOENT, "merges.txt"},
		{1, "a b\nb a\n", EINVAL, "merges.txt: merge 1"},
		{1, "a\n", EINVAL, "merges.txt: merge 0"},
		{1, "\xff b\n", EINVAL, "merges.txt: invalid UTF-8"},
		{2, NULL, ENOENT, "tokenizer_class"},
		{2, "{}", EINVAL, "\"tokenizer_class\" is missing"},
		{2, "{\"tokenizer_class\": \"LlamaTokenizer\"}", ENOTSUP, "LlamaTokenizer"},
		{2, "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_bos_token\": true}", EINVAL,
		 "\"add_bos_token\" is true, but"},
		{2, "{\"tokenizer_class\": \"GPT2Tokenizer\", \"pad_token\": \"<pad>\"}", EINVAL,
		 "\"<pad>\" is missing"},
		{2,
		 "{\"tokenizer_class\": \"GPT2Tokenizer\", \"added_tokens_decoder\": {\"x\": {}}}",
		 EINVAL, "\"x\" is not a token id"},
		{2,
		 "{\"tokenizer_class\": \"GPT2Tokenizer\", \"added_tokens_decoder\": "
		 "{\"16777216\": {\"content\": \"<x>\"}}}",
		 EINVAL, "\"16777216\" is not a token id"},
		{3, "{\"<x>\": -1}", EINVAL, "added_tokens.json: \"<x>\""},
		{3, "{\"<x>\": 0}", EINVAL, "takes id 0"},
	};
	for (size_t i = 0; i < COUNT(CASES); i++) {
		const char *files[4] = {WHOLE.vocab, WHOLE.merges, WHOLE.config, WHOLE.added};
		files[CASES[i].file] = CASES[i].text;
		struct layout l = {files[0], files[1], files[2], files[3]};
		struct tokenizer *t;
		struct err e = {0};
		int rc = open_layout(&t, &l, &e);
		if (rc == 0)
			fail_msg("accepted: %s", CASES[i].text);
		if (rc != -CASES[i].code || !strstr(e.text, CASES[i].words))
			fail_msg("%s: %d, %s", CASES[i].text, rc, e.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_reader_does_not_know_is_refused_by_name),
		cmocka_unit_test(wrong_types_and_ids_are_refused),
		cmocka_unit_test(an_unknown_token_that_would_be_needed_is_refused),
		cmocka_unit_test(patterns_that_pcre2_reads_differently_or_not_at_all_are_refused),
		cmocka_unit_test(patterns_of_published_tokenizers_are_taken),
		cmocka_unit_test(splits_by_name_are_the_published_patterns),
		cmocka_unit_test(a_cut_file_is_an_error_at_every_length),
		cmocka_unit_test(nesting_and_bytes_that_are_no_text_are_refused),
		cmocka_unit_test(gpt2_s_layout_is_read_with_its_added_tokens),
		cmocka_unit_test(gpt2_s_layout_is_refused_where_files_are_missing_or_wrong),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
