/* tiktoken.model gives the ids that the same vocabulary gives with its merges listed; a file that is
 * wrong, or another model's, is refused in words. */
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

static char *folder;

static int setup(void **state)
{
	(void)state;
	folder = temporary_directory();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	remove_directory(folder);
	return 0;
}

/* The fixture's vocabulary has the bytes and then the products of merges, in their order. */
static struct tokenizer *with_merges(void)
{
	struct json_object *document = fixture_document(),
			   *split = at(document, "pre_tokenizer.pretokenizers.0.pattern");
	json_object_object_add(split, "Regex", json_object_new_string(KIMI_PATTERN));
	json_object_object_add(at(document, "model"), "ignore_merges",
			       json_object_new_boolean(true));
	struct tokenizer *t;
	struct err e = {0};
	must(open_document(&t, document, &e), &e);
	return t;
}

static void base64(const unsigned char *bytes, size_t n, char *out)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < n; i += 3) {
		uint32_t bits = (uint32_t)bytes[i] << 16;
		bits |= i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0;
		bits |= i + 2 < n ? bytes[i + 2] : 0;
		*out++ = digits[bits >> 18];
		*out++ = digits[bits >> 12 & 63];
		*out++ = i + 1 < n ? digits[bits >> 6 & 63] : '=';
		*out++ = i + 2 < n ? digits[bits & 63] : '=';
	}
	*out = 0;
}

enum { RANKS = 381 }; /* tokens of the fixture that are not added */
static const char KIMI[] =
	"{\"auto_map\": {\"AutoTokenizer\": [\"tokenization_kimi.TikTokenTokenizer\", null]},"
	"\"added_tokens_decoder\": {\"382\": {\"content\": \"[EOS]\", \"special\": true},"
	"\"381\": {\"content\": \"[BOS]\", \"special\": true}}, \"eos_token\": \"[EOS]\"}";

static void write_config(const char *text)
{
	write_file(folder, "tokenizer_config.json", text, strlen(text));
}

/* The lines of tiktoken.model, of which `wrong` replaces the first, unless it is NULL. */
static void write_model(const struct tokenizer *t, const char *wrong)
{
	char *text, line[256];
	size_t size, n;
	FILE *f = open_memstream(&text, &size);
	assert_non_null(f);
	for (uint32_t id = 0; id < RANKS; id++) {
		const char *bytes = tokenizer_bytes(t, id, true, &n);
		assert_true(n > 0 && n < 100);
		base64((const unsigned char *)bytes, n, line);
		if (wrong && id == 0)
			(void)fprintf(f, "%s\n", wrong);
		else
			(void)fprintf(f, "%s %u\n", line, id);
	}
	assert_int_equal(fclose(f), 0);
	write_file(folder, "tiktoken.model", text, size);
	free(text);
}

static const char *const TEXTS[] = {
	"Once upon a time there was a small fox.",
	"  The old engine's tale, and it wouldn't (ever) end!\n\n\tif x >= 10: return [1, 234567]",
	"DON'T stop; I'm sure you'll see   spaces   and\r\nlines\r\n",
	"\xe4\xbd\xa0\xe5\xa5\xbd, \xe4\xb8\x96\xe7\x95\x8c! caf\xc3\xa9 \xd0\x9f\xd1\x80 \xf0\x9f\x98\x80",
	"",
};

static void ids_are_those_of_listed_merges(void **state)
{
	(void)state;
	struct tokenizer *merges = with_merges(), *t;
	struct err e = {0};
	write_config(KIMI);
	write_model(merges, NULL);
	must(tokenizer_open(&t, folder, &e), &e);
	for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
		char want[4096];
		(void)snprintf(want, sizeof want, "%s",
			       ids_of(merges, TEXTS[i], strlen(TEXTS[i])));
		assert_string_equal(ids_of(t, TEXTS[i], strlen(TEXTS[i])), want);
	}
	tokenizer_close(merges);
	tokenizer_close(t);
}

static void a_long_text_has_the_same_ids(void **state)
{
	(void)state;
	const char *path = foreign("text/wikitext2.wiki.test.raw.zst");
	struct token_list want = {0}, ids = {0};
	struct tokenizer *merges = with_merges(), *t;
	struct err e = {0};
	size_t n;
	if (!path) {
		tokenizer_close(merges);
		skip();
	}
	char *text = read_any(path, &n);
	write_config(KIMI);
	write_model(merges, NULL);
	must(tokenizer_open(&t, folder, &e), &e);
	n = strlen(text) < 200000 ? strlen(text) : 200000;
	while (n > 0 && (text[n] & 0xc0) == 0x80)
		n--;
	must(tokenizer_encode(merges, text, n, NULL, &want, &e), &e);
	must(tokenizer_encode(t, text, n, NULL, &ids, &e), &e);
	assert_int_equal(ids.count, want.count);
	assert_memory_equal(ids.ids, want.ids, ids.count * sizeof *ids.ids);
	token_list_free(&want);
	token_list_free(&ids);
	free(text);
	tokenizer_close(merges);
	tokenizer_close(t);
}

static void control_tokens_follow_the_ranks(void **state)
{
	(void)state;
	struct tokenizer *merges = with_merges(), *t;
	struct err e = {0};
	write_config(KIMI);
	write_model(merges, NULL);
	must(tokenizer_open(&t, folder, &e), &e);
	assert_int_equal(tokenizer_size(t), RANKS + 256);
	assert_int_equal(tokenizer_eos(t), 382);
	assert_string_equal(ids_of(t, "[BOS]he[EOS]<|reserved_token_400|>", 34), "381 256 382 400");
	assert_int_equal(tokenizer_find(t, "<|reserved_token_382|>"), -1);
	tokenizer_close(merges);
	tokenizer_close(t);
}

static void assert_refused(int code, const char *words)
{
	struct tokenizer *t = NULL;
	struct err e = {0};
	int rc = tokenizer_open(&t, folder, &e);
	if (rc != -code || !strstr(e.text, words))
		fail_msg("gave %d, \"%s\", not \"%s\"", rc, e.text, words);
}

static void another_model_s_file_is_refused_with_what_can_be_mounted(void **state)
{
	(void)state;
	struct tokenizer *merges = with_merges();
	write_model(merges, NULL);
	assert_refused(ENOENT, "but no tokenizer_config.json");
	write_config("{\"tokenizer_class\": \"TikTokenTokenizer\"}");
	assert_refused(ENOTSUP, "mount a GGUF file");
	write_config("{\"auto_map\": {\"AutoTokenizer\": [\"tokenization_hy.HYTokenizer\", null]}}");
	assert_refused(ENOTSUP, "tokenization_hy.HYTokenizer");
	tokenizer_close(merges);
}

static void wrong_lines_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *line, *words;
	} wrong[] = {
		{"IQ== 1", "id 1 is given to two tokens"},
		{"IQ== 381", "line 1 is not a token in base64 and a rank below 381"},
		{"IQ== 99999999999999999999999", "line 1 is not"},
		{"IQ==", "line 1 is not"},
		{"IQ== ", "line 1 is not"},
		{" 0", "line 1 is not"},
		{"", "line 1 is not"},
		{"I*== 0", "line 1 is not"},
		{"IQ= 0", "line 1 is not"},
		{"==== 0", "line 1 is not"},
		{"Ig== 0", "occurs twice"},
		{"IQ== 0x", "line 1 is not"},
	};
	struct tokenizer *merges = with_merges();
	write_config(KIMI);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		write_model(merges, wrong[i].line);
		assert_refused(EINVAL, wrong[i].words);
	}
	write_file(folder, "tiktoken.model", "", 0);
	assert_refused(EINVAL, "0 tokens");
	write_model(merges, NULL);
	write_config("{\"auto_map\": {\"AutoTokenizer\": [\"tokenization_kimi.X\"]},"
		     "\"added_tokens_decoder\": {\"900\": {\"content\": \"[EOS]\"}}}");
	assert_refused(EINVAL, "381 to 636");
	tokenizer_close(merges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ids_are_those_of_listed_merges, setup, teardown),
		cmocka_unit_test_setup_teardown(a_long_text_has_the_same_ids, setup, teardown),
		cmocka_unit_test_setup_teardown(control_tokens_follow_the_ranks, setup, teardown),
		cmocka_unit_test_setup_teardown(
			another_model_s_file_is_refused_with_what_can_be_mounted, setup, teardown),
		cmocka_unit_test_setup_teardown(wrong_lines_are_refused, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
