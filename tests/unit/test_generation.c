/* generation_config.json as shown to users: used and ignored keys. */
#include "engine/family/config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct config c;
static struct err e;

static int parse(const char *text)
{
	c = (struct config){.generation = GENERATION_DEFAULTS};
	e = (struct err){0};
	return config_parse_generation(&c, text, strlen(text), "generation_config.json", &e);
}

static void assert_words(const char *text, const char *words)
{
	if (parse(text))
		fail_msg("%s: %s", text, e.text);
	assert_string_equal(c.generation.words, words);
}

static void what_is_taken_has_its_value(void **state)
{
	(void)state;
	assert_words("{\"do_sample\": true, \"top_p\": 0.8, \"temperature\": 0.7, \"top_k\": 20,"
		     "\"min_p\": 0.05, \"repetition_penalty\": 1.05, \"max_new_tokens\": 2048,"
		     "\"eos_token_id\": [5, 7]}",
		     "do_sample true\ntemperature 0.7\ntop_k 20\ntop_p 0.8\nmin_p 0.05\n"
		     "repetition_penalty 1.05\nmax_new_tokens 2048\neos_token_id 5 7");
	assert_true(c.generation.repetition_penalty == 1.05);
	assert_true(c.generation.min_p == 0.05);
	assert_words("{}", "");
	assert_true(c.generation.repetition_penalty == 1);
}

static void a_penalty_is_taken_without_sampling_and_the_rest_is_not(void **state)
{
	(void)state;
	assert_words("{\"repetition_penalty\": 1.2, \"temperature\": 0.7, \"top_p\": 1.0}",
		     "repetition_penalty 1.2\nignored temperature 0.7 (do_sample is not true)");
	assert_true(c.generation.repetition_penalty == 1.2);
	assert_true(c.generation.temperature == 0);
}

static void what_would_change_a_text_and_is_not_applied_is_named(void **state)
{
	(void)state;
	static const char *const KEYS[][2] = {{"no_repeat_ngram_size", "3"},
					      {"typical_p", "0.9"},
					      {"num_beams", "4"},
					      {"penalty_alpha", "0.6"},
					      {"bad_words_ids", "[[1]]"},
					      {"suppress_tokens", "[7, 8]"},
					      {"min_length", "5"},
					      {"min_new_tokens", "5"},
					      {"forced_eos_token_id", "2"},
					      {"forced_bos_token_id", "1"},
					      {"max_length", "4096"},
					      {"sequence_bias", "{\"a\": 1}"},
					      {"stop_strings", "\"x\""},
					      {"early_stopping", "true"},
					      {"guidance_scale", "1.5"},
					      {"a_key_of_next_year", "0"},
					      {"num_beam_groups", "1e999"},
					      {"length_penalty", "NaN"}};
	for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
		char text[128], words[128];
		const char *shown = *KEYS[i][1] == '['	 ? "a list"
				    : *KEYS[i][1] == '{' ? "an object"
							 : KEYS[i][1];
		snprintf(text, sizeof text, "{\"%s\": %s}", KEYS[i][0], KEYS[i][1]);
		snprintf(words, sizeof words, "ignored %s %s", KEYS[i][0], shown);
		assert_words(text, words);
	}
}

static void what_changes_no_text_is_not_named(void **state)
{
	(void)state;
	assert_words(
		"{\"transformers_version\": \"4.47.0\", \"bos_token_id\": 0, \"pad_token_id\": 0,"
		"\"_from_model_config\": true, \"use_cache\": true, \"num_beams\": 1,"
		"\"no_repeat_ngram_size\": 0, \"typical_p\": 1.0, \"suppress_tokens\": null,"
		"\"bad_words_ids\": [], \"early_stopping\": false, \"max_length\": 20,"
		"\"sequence_bias\": {}, \"a_key_of_next_year\": null}",
		"");
}

static void values_out_of_range_are_refused_by_their_key(void **state)
{
	(void)state;
	static const char *const WRONG[][2] = {
		{"{\"repetition_penalty\": 0}", "repetition_penalty"},
		{"{\"repetition_penalty\": -1}", "repetition_penalty"},
		{"{\"repetition_penalty\": 101}", "repetition_penalty"},
		{"{\"repetition_penalty\": \"1.1\"}", "repetition_penalty"},
		{"{\"do_sample\": true, \"min_p\": 2}", "min_p"}};
	for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
		assert_int_equal(parse(WRONG[i][0]), -EINVAL);
		assert_non_null(strstr(e.text, WRONG[i][1]));
	}
}

static void many_hostile_keys_are_cut_with_a_note(void **state)
{
	(void)state;
	enum { KEYS = 200, LENGTHS = 41 };
	char *text = malloc(KEYS * 64);
	assert_non_null(text);
	for (int length = 0; length < LENGTHS; length++) { /* to end at every place */
		size_t n = (size_t)sprintf(text, "{\"a\\nb\": 1, \"c\": \"d\\ne\", \"%0*d\": 1",
					   length + 1, 0);
		for (int i = 0; i < KEYS; i++)
			n += (size_t)sprintf(text + n, ", \"%040d\": 1", i);
		sprintf(text + n, "}");
		assert_int_equal(parse(text), 0);
		const char *words = c.generation.words, *end = words + strlen(words);
		assert_true(end < words + GENERATION_WORDS);
		assert_string_equal(end - strlen("1\n…"), "1\n…");
		assert_int_equal(strncmp(words, "ignored a?b 1\nignored c \"d?e\"\n", 30), 0);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_taken_has_its_value),
		cmocka_unit_test(a_penalty_is_taken_without_sampling_and_the_rest_is_not),
		cmocka_unit_test(what_would_change_a_text_and_is_not_applied_is_named),
		cmocka_unit_test(what_changes_no_text_is_not_named),
		cmocka_unit_test(values_out_of_range_are_refused_by_their_key),
		cmocka_unit_test(many_hostile_keys_are_cut_with_a_note),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
