/* Ids that are exact for published vocabularies, where those are at hand, and for the fixture's
 * golden numbers. */
#include "tests/unit/golden.h"
#include "tests/unit/tokenizer_help.h"

#include "engine/json/json.h"
#include "engine/tokenizer/tokenizer.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

/* --- real vocabularies --- */

static void qwen_texts_give_the_ids_of_the_published_tests(void **state)
{
	(void)state;
	char *directory = temporary_directory();
	if (!copy_foreign(directory, "tokenizers/qwen3", "vocab.json.zst", "merges.txt.zst",
			  "tokenizer_config.json", NULL)) {
		remove_directory(directory);
		skip();
	}
	struct tokenizer *t = open_directory(directory);
	assert_int_equal(each_pair("qwen2", check_exact, t), 47);
	assert_int_equal(tokenizer_size(t), 151669);
	assert_int_equal(tokenizer_find(t, "<|im_start|>"), 151644);
	assert_int_equal(tokenizer_find(t, "<think>"), 151667);
	size_t length;
	tokenizer_bytes(t, 151644, false, &length);
	assert_int_equal(length, 0); /* special */
	assert_memory_equal(tokenizer_bytes(t, 151667, false, &length), "<think>", 7);
	tokenizer_close(t);
	remove_directory(directory);
}

static void qwen_added_tokens_are_also_read_from_the_older_files(void **state)
{
	(void)state;
	char *directory = temporary_directory();
	if (!copy_foreign(directory, "tokenizers/qwen3", "vocab.json.zst", "merges.txt.zst",
			  "added_tokens.json", "special_tokens_map.json", NULL)) {
		remove_directory(directory);
		skip();
	}
	static const char CONFIG[] = "{\"tokenizer_class\": \"Qwen2TokenizerFast\"}";
	write_file(directory, "tokenizer_config.json", CONFIG, strlen(CONFIG));
	struct tokenizer *t = open_directory(directory);
	assert_string_equal(ids_of(t, "<|im_start|><think>", 19), "151644 151667");
	size_t length;
	tokenizer_bytes(t, 151644, false, &length);
	assert_int_equal(length, 0);
	tokenizer_bytes(t, 151643, false, &length); /* <|endoftext|> is the padding token */
	assert_int_equal(length, 0);
	tokenizer_bytes(t, 151667, false, &length);
	assert_int_equal(length, 7);
	tokenizer_close(t);
	remove_directory(directory);
}

static void gpt2_texts_give_the_ids_of_the_published_tests(void **state)
{
	(void)state;
	char *directory = temporary_directory();
	if (!copy_foreign(directory, "tokenizers/gpt2", "vocab.json.zst", "merges.txt.zst", NULL)) {
		remove_directory(directory);
		skip();
	}
	static const char CONFIG[] = "{\"tokenizer_class\": \"GPT2Tokenizer\"}";
	write_file(directory, "tokenizer_config.json", CONFIG, strlen(CONFIG));
	struct tokenizer *t = open_directory(directory);
	assert_int_equal(each_pair("gpt-2", check_exact, t), 47);
	assert_string_equal(ids_of(t, "a<|endoftext|>b", 15), "64 50256 65");
	tokenizer_close(t);
	remove_directory(directory);
}

/* Llama 3's merges with its split pattern, as a tokenizer.json with ignore_merges. */
static void llama_texts_give_the_ids_of_the_published_tests(void **state)
{
	(void)state;
	const char *path = foreign("tokenizers/llama3.2/encoder.json.zst");
	if (!path)
		skip();
	size_t n;
	char *vocab = read_any(path, &n);
	char *lines = read_any(foreign("tokenizers/llama3.2/vocab.bpe.zst"), &n);
	struct json_object *document = fixture_document();
	struct json_object *merges = json_object_new_array();
	char *rest = lines;
	for (char *line; (line = strsep(&rest, "\n"));)
		if (*line)
			json_object_array_add(merges, json_object_new_string(line));
	json_object_object_add(document, "normalizer", NULL);
	put(document, "added_tokens", "[]");
	put(at(document, "pre_tokenizer.pretokenizers.0.pattern"), "Regex",
	    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
	    "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"
	    "\\\\s+(?!\\\\S)|\\\\s+\"");
	put(at(document, "model"), "vocab", vocab);
	json_object_object_add(at(document, "model"), "merges", merges);
	put(at(document, "model"), "ignore_merges", "true");
	struct tokenizer *t = opened(document);
	assert_int_equal(each_pair("llama-bpe", check_exact, t), 47);
	tokenizer_close(t);
	free(vocab);
	free(lines);
}

/* Checks that a text gives the same ids in both of two tokenizers, and itself back. */
static void check_same(void *tokenizers, const char *text, size_t n, const struct token_list *ids)
{
	(void)ids; /* of another vocabulary */
	struct tokenizer **t = tokenizers;
	struct token_list first = {0};
	struct err e = {0};
	must(tokenizer_encode(t[0], text, n, NULL, &first, &e), &e);
	check_exact(t[0], text, n, &first);
	check_exact(t[1], text, n, &first);
	token_list_free(&first);
}

static void granites_two_layouts_are_the_same_tokenizer(void **state)
{
	(void)state;
	char *one = temporary_directory(), *two = temporary_directory();
	if (!copy_foreign(one, "tokenizers/granite-3.1", "tokenizer.json.zst", NULL) ||
	    !copy_foreign(two, "tokenizers/granite-3.1", "vocab.json.zst", "merges.txt.zst",
			  "tokenizer_config.json", NULL)) {
		remove_directory(one);
		remove_directory(two);
		skip();
	}
	struct tokenizer *t[2] = {open_directory(one), open_directory(two)};
	assert_int_equal(each_pair("refact", check_same, t), 47);
	assert_int_equal(tokenizer_size(t[0]), tokenizer_size(t[1]));
	for (int i = 0; i < 2; i++)
		assert_string_equal(ids_of(t[i], "<|start_of_role|><|end_of_text|>", 32),
				    "49152 0");
	tokenizer_close(t[0]);
	tokenizer_close(t[1]);
	remove_directory(one);
	remove_directory(two);
}

static void the_demonstration_model_s_tokenizer_gives_texts_back(void **state)
{
	(void)state;
	if (!foreign("models/fable-moe-15m/tokenizer.json"))
		skip();
	struct tokenizer *t = open_directory(foreign("models/fable-moe-15m"));
	static const char TEXT[] = "What is the capital of France? 17 + 25 = 42; naïve 😀\n\n";
	struct token_list ids = {0};
	struct err e = {0};
	must(tokenizer_encode(t, TEXT, strlen(TEXT), NULL, &ids, &e), &e);
	assert_true(ids.count < strlen(TEXT));
	check_exact(t, TEXT, strlen(TEXT), &ids);
	assert_int_equal(tokenizer_find(t, "<|im_end|>"), 4089);
	token_list_free(&ids);
	tokenizer_close(t);
}

/* --- the fixture's golden ids --- */

/* A one-dimensional I32 tensor of a safetensors file in memory. */
static struct token_list golden_ids(const char *file, const char *name)
{
	uint64_t header_length;
	memcpy(&header_length, file, sizeof header_length);
	struct err e = {0};
	char *text = strndup(file + 8, header_length);
	struct json_object *header = json(text), *offsets = at(at(header, name), "data_offsets");
	size_t begin = json_object_get_uint64(at(offsets, "0"));
	size_t end = json_object_get_uint64(at(offsets, "1"));
	assert_string_equal(json_object_get_string(at(at(header, name), "dtype")), "I32");
	struct token_list ids = {0};
	uint32_t *values = malloc(end - begin);
	assert_non_null(values);
	memcpy(values, file + 8 + header_length + begin, end - begin);
	must(token_list_append(&ids, values, (end - begin) / 4, &e), &e);
	free(values);
	json_object_put(header);
	free(text);
	return ids;
}

static void the_fixture_s_prompts_give_the_golden_ids(void **state)
{
	(void)state;
	struct tokenizer *t = open_directory(FIXTURE);
	struct json_object *golden = json_object_from_file(FIXTURE "/golden.json");
	assert_non_null(golden);
	char path[PATH_MAX];
	size_t n;
	(void)snprintf(path, sizeof path, "%s/golden.safetensors", test_fixture("qwen3_moe"));
	char *file = read_any(path, &n);
	static const char *const NAMES[][2] = {{"prompt", "input_ids"},
					       {"long_prompt", "long_input_ids"}};
	for (int i = 0; i < 2; i++) {
		const char *text = json_object_get_string(at(golden, NAMES[i][0]));
		struct token_list ids = golden_ids(file, NAMES[i][1]);
		check_exact(t, text, strlen(text), &ids);
		token_list_free(&ids);
	}
	free(file);
	json_object_put(golden);
	tokenizer_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qwen_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(qwen_added_tokens_are_also_read_from_the_older_files),
		cmocka_unit_test(gpt2_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(llama_texts_give_the_ids_of_the_published_tests),
		cmocka_unit_test(granites_two_layouts_are_the_same_tokenizer),
		cmocka_unit_test(the_demonstration_model_s_tokenizer_gives_texts_back),
		cmocka_unit_test(the_fixture_s_prompts_give_the_golden_ids),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
