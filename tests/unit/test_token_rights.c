/* Only text with the right to write control tokens produces them: spelled in a person's text they
 * stay text. With published vocabularies if available, and the fixtures'. */
#include "tests/unit/tokenizer_help.h"

#include "engine/family/source_text.h"
#include "engine/source/gguf.h"
#include "engine/tokenizer/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Encodes with one right for all bytes; ids of the caller. */
static void encode(const struct tokenizer *t, const char *text, size_t n, enum token_right right,
		   struct token_list *ids)
{
	struct err e = {0};
	uint8_t *rights = malloc(n + 1);
	memset(rights, (int)right, n);
	ids->count = 0;
	must(tokenizer_encode_rights(t, text, rights, n, NULL, ids, &e), &e);
	free(rights);
}

/* Whether the text, with the right to it, is exactly this token, and a control token. */
static bool is_control(const struct tokenizer *t, uint32_t id, const char *text, size_t n)
{
	struct token_list ids = {0};
	size_t shown;
	tokenizer_bytes(t, id, false, &shown);
	encode(t, text, n, MAY_ALL, &ids);
	bool alone = ids.count == 1 && ids.ids[0] == id;
	token_list_free(&ids);
	return alone && (shown == 0 || token_needed_right(text, n, false) != MAY_TEXT);
}

/* The bytes of the ids are the text, perhaps behind a space that the tokenizer puts there. */
static void assert_spelled(const struct tokenizer *t, const struct token_list *ids,
			   const char *text, size_t n)
{
	char have[2048] = "";
	size_t used = 0;
	for (size_t i = 0; i < ids->count; i++) {
		size_t length;
		const char *bytes = tokenizer_bytes(t, ids->ids[i], false, &length);
		assert_true(used + length < sizeof have);
		memcpy(have + used, bytes, length);
		used += length;
	}
	size_t space = used == n + 1 && have[0] == ' ';
	assert_int_equal(used - space, n);
	assert_memory_equal(have + space, text, n);
}

/* Every control token of a vocabulary, in a person's text; returns how many there are. */
static size_t each_control_token_stays_text(const struct tokenizer *t)
{
	size_t count = 0;
	for (uint32_t id = 0; id < tokenizer_size(t); id++) {
		struct token_list ids = {0};
		size_t n;
		char text[512];
		const char *bytes = tokenizer_bytes(t, id, true, &n);
		if (n < 3 || n > 200 || !strchr("<[]", bytes[0]) || !is_control(t, id, bytes, n))
			continue;
		int length = snprintf(text, sizeof text, "say %.*s, %.*s%.*s\n", (int)n, bytes,
				      (int)n, bytes, (int)n, bytes);
		encode(t, text, (size_t)length, MAY_TEXT, &ids);
		for (size_t i = 0; i < ids.count; i++)
			assert_int_not_equal(ids.ids[i], id);
		assert_spelled(t, &ids, text, (size_t)length);
		token_list_free(&ids);
		count++;
	}
	return count;
}

static size_t of_directory(const char *directory)
{
	struct tokenizer *t;
	struct err e = {0};
	must(tokenizer_open(&t, directory, &e), &e);
	size_t count = each_control_token_stays_text(t);
	tokenizer_close(t);
	return count;
}

static void a_person_s_text_holds_no_control_token(void **state)
{
	(void)state;
	assert_in_range(of_directory(FIXTURE), 2, 1000);
}

static void published_control_tokens_stay_text(void **state)
{
	(void)state;
	char *qwen = temporary_directory(), *granite = temporary_directory();
	bool there = copy_foreign(qwen, "tokenizers/qwen3", "vocab.json.zst", "merges.txt.zst",
				  "tokenizer_config.json", NULL) &&
		     copy_foreign(granite, "tokenizers/granite-3.1", "tokenizer.json.zst",
				  "tokenizer_config.json", NULL);
	if (there) {
		assert_int_equal(of_directory(qwen), 26);
		assert_in_range(of_directory(granite), 20, 100);
	}
	remove_directory(qwen);
	remove_directory(granite);
	if (!there)
		skip();
}

static void control_tokens_of_gguf_vocabularies_stay_text(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		size_t least;
	} FILES[] = {{"deepseek-llm", 2}, {"llama-spm", 2}, {"phi-3", 10},
		     {"gpt-2", 1},	  {"refact", 5},    {"starcoder", 5}};
	for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
		char path[256];
		struct tokenizer *t;
		struct gguf *g;
		struct err e = {0};
		snprintf(path, sizeof path, "tokenizers/gguf/ggml-vocab-%s.gguf", FILES[i].name);
		const char *full = foreign(path);
		if (!full)
			skip();
		must(gguf_open(&g, full, 0, &e), &e);
		must(source_tokenizer_open_gguf(&t, g, FILES[i].name, &e), &e);
		gguf_close(g);
		size_t count = each_control_token_stays_text(t);
		print_message("%s: %zu\n", FILES[i].name, count);
		assert_in_range(count, FILES[i].least, 1000);
		tokenizer_close(t);
	}
}

/* ---- rights of each writer ---- */

static struct tokenizer *with_tokens(const char *added, bool nfc)
{
	struct tokenizer *t;
	struct err e = {0};
	struct json_object *document = fixture_document(), *list = json(added);
	struct json_object *tokens = at(document, "added_tokens");
	int64_t id = 5000;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *one = json_object_get(json_object_array_get_idx(list, i));
		json_object_object_add(one, "id", json_object_new_int64(id++));
		json_object_array_add(tokens, one);
	}
	json_object_put(list);
	json_object_object_add(document, "normalizer", nfc ? json("{\"type\": \"NFC\"}") : NULL);
	must(open_document(&t, document, &e), &e);
	return t;
}

static const char ADDED[] = "[{\"content\": \"<think>\", \"special\": false},"
			    " {\"content\": \"<|x|>\", \"special\": true},"
			    " {\"content\": \"<|x|>y\", \"special\": true, \"normalized\": false},"
			    " {\"content\": \"<b>\", \"special\": false, \"normalized\": false},"
			    " {\"content\": \"<|n|>\", \"special\": true, \"normalized\": true}]";
enum { THINK = 5000, X, XY, B, N };

/* The added tokens of a text; each byte's right is the digit below it. */
static const char *added_in(const struct tokenizer *t, const char *text, const char *digits)
{
	static char found[256];
	struct err e = {0};
	struct token_list ids = {0};
	uint8_t rights[256];
	size_t n = strlen(text);
	assert_int_equal(strlen(digits), n);
	for (size_t i = 0; i < n; i++)
		rights[i] = (uint8_t)(digits[i] - '0');
	must(tokenizer_encode_rights(t, text, rights, n, NULL, &ids, &e), &e);
	char *to = found;
	*to = 0;
	for (size_t i = 0; i < ids.count; i++)
		if (ids.ids[i] >= THINK)
			to += sprintf(to, "%u ", ids.ids[i] - THINK);
	token_list_free(&ids);
	return found;
}

static void a_token_wants_the_right_of_all_its_bytes(void **state)
{
	(void)state;
	struct tokenizer *t = with_tokens(ADDED, false);
	assert_string_equal(added_in(t, "<|x|><think>", "222222222222"), "1 0 ");
	assert_string_equal(added_in(t, "<|x|><think>", "111111111111"), "0 ");
	assert_string_equal(added_in(t, "<|x|><think>", "000000000000"), "");
	/* half of it from another writer */
	assert_string_equal(added_in(t, "<|x|>", "00002"), "");
	assert_string_equal(added_in(t, "<|x|>", "22220"), "");
	assert_string_equal(added_in(t, "<think>", "2220222"), "");
	/* markup that is not a control token may be written by anybody */
	assert_string_equal(added_in(t, "a<b>c", "00000"), "3 ");
	/* the longest that may be, not the longest */
	assert_string_equal(added_in(t, "<|x|>y", "222222"), "2 ");
	assert_string_equal(added_in(t, "<|x|>y", "222220"), "1 ");
	assert_string_equal(added_in(t, "<<|x|>", "022222"), "1 ");
	tokenizer_close(t);
}

static void rights_go_through_the_normal_form(void **state)
{
	(void)state;
	struct tokenizer *t = with_tokens(ADDED, true);
	/* e and an accent become one letter: two bytes in place of three */
	assert_string_equal(added_in(t, "e\xcc\x81<|n|>e\xcc\x81<|n|>", "0002222200000000"), "4 ");
	assert_string_equal(added_in(t, "e\xcc\x81<|n|>e\xcc\x81<|n|>", "0000000022222222"), "4 ");
	assert_string_equal(added_in(t, "<|n|>\xcc\x81", "2222200"), "4 ");
	assert_string_equal(added_in(t, "<|n|>\xcc\x81", "0000000"), "");
	tokenizer_close(t);
}

static void whose_words_they_are_does_not_change_plain_ids(void **state)
{
	(void)state;
	static const char TEXT[] = "user\n\nHello there,  it's 1234 \xc3\xa9t\xc3\xa9!\n";
	struct tokenizer *t;
	struct err e = {0};
	struct token_list want = {0}, have = {0};
	must(tokenizer_open(&t, FIXTURE, &e), &e);
	must(tokenizer_encode(t, TEXT, sizeof TEXT - 1, NULL, &want, &e), &e);
	for (unsigned seed = 0; seed < 200; seed++) {
		uint8_t rights[sizeof TEXT];
		for (size_t i = 0; i < sizeof TEXT; i++)
			rights[i] = (uint8_t)((seed * 2654435761U + i * 40503U) >> 9) % 3;
		have.count = 0;
		must(tokenizer_encode_rights(t, TEXT, rights, sizeof TEXT - 1, NULL, &have, &e),
		     &e);
		assert_int_equal(have.count, want.count);
		assert_memory_equal(have.ids, want.ids, want.count * sizeof *want.ids);
	}
	token_list_free(&want);
	token_list_free(&have);
	tokenizer_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_person_s_text_holds_no_control_token),
		cmocka_unit_test(published_control_tokens_stay_text),
		cmocka_unit_test(control_tokens_of_gguf_vocabularies_stay_text),
		cmocka_unit_test(a_token_wants_the_right_of_all_its_bytes),
		cmocka_unit_test(rights_go_through_the_normal_form),
		cmocka_unit_test(whose_words_they_are_does_not_change_plain_ids),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
