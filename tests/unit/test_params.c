/* A session's params: names, ranges and words; a value reads back in the form in which it is
 * written. */
#include "engine/session/params.h"
#include "engine/answer/stream.h"
#include "engine/json/json.h"
#include "engine/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

static struct params p;
static struct err e;

static int setup(void **state)
{
	(void)state;
	static const struct config c = {
		.experts_per_token = 4,
		.experts = 64,
		.vocabulary = 1000,
		.generation = {
			.temperature = .7, .top_p = .8, .top_k = 20, .repetition_penalty = 1.05}};
	return params_default(&p, &c, &e);
}

static int teardown(void **state)
{
	(void)state;
	params_free(&p);
	return 0;
}

static size_t number(const char *name)
{
	for (size_t i = 0; i < params_count(); i++)
		if (!strcmp(params_name(i), name))
			return i;
	fail_msg("no param %s", name);
	return 0;
}

static int set(const char *name, const char *value)
{
	e = (struct err){0};
	int failed = params_check(p.format, number(name), value, strlen(value), &e);
	return failed ? failed : params_set(&p, number(name), value, strlen(value), &e);
}

static void assert_reads(const char *name, const char *value)
{
	char *text = params_get(&p, number(name), true);
	assert_string_equal(text, value);
	free(text);
}

static void assert_refused(const char *name, const char *value, int code)
{
	char *before = params_get(&p, number(name), true);
	int failed = set(name, value);
	if (failed != -code || !strstr(e.text, name))
		fail_msg("%s=%s: gave %d, \"%s\"", name, value, failed, e.text);
	assert_reads(name, before); /* a refused value changes nothing */
	free(before);
}

static void there_are_these_and_no_others(void **state)
{
	(void)state;
	static const char *const names[] = {"temperature",
					    "top_k",
					    "top_p",
					    "min_p",
					    "repetition_penalty",
					    "frequency_penalty",
					    "presence_penalty",
					    "logit_bias",
					    "logprobs",
					    "max_tokens",
					    "seed",
					    "stop",
					    "stop_repetition",
					    "system",
					    "chat",
					    "thinking",
					    "date",
					    "on_full",
					    "priority",
					    "stream",
					    "draft",
					    "experts_per_token",
					    "drop_missing",
					    "substitute",
					    "experts_bias",
					    "format",
					    "grammar",
					    "tool_choice",
					    "share_with"};
	assert_int_equal(params_count(), sizeof names / sizeof *names);
	for (size_t i = 0; i < params_count(); i++) {
		assert_string_equal(params_name(number(names[i])), names[i]);
		bool text = !strcmp(names[i], "stop") || !strcmp(names[i], "system") ||
			    !strcmp(names[i], "logit_bias") || !strcmp(names[i], "grammar") ||
			    !strcmp(names[i], "experts_bias");
		assert_int_equal(params_is_text(number(names[i])), text);
	}
}

static void a_model_s_defaults_are_its_generation_config(void **state)
{
	(void)state;
	static const char *const defaults[][2] = {{"temperature", "0.7"},
						  {"top_k", "20"},
						  {"top_p", "0.8"},
						  {"min_p", "0"},
						  {"repetition_penalty", "1.05"},
						  {"frequency_penalty", "0"},
						  {"presence_penalty", "0"},
						  {"logit_bias", ""},
						  {"logprobs", "0"},
						  {"max_tokens", "0"},
						  {"seed", "random"},
						  {"stop", ""},
						  {"system", ""},
						  {"chat", "on"},
						  {"thinking", "default"},
						  {"date", "auto"},
						  {"on_full", "auto"},
						  {"priority", "normal"},
						  {"format", "text"},
						  {"grammar", ""},
						  {"tool_choice", "auto"},
						  {"experts_per_token", "0"},
						  {"drop_missing", "0"},
						  {"substitute", "off"},
						  {"stream", "on"},
						  {"stop_repetition", "on"},
						  {"draft", "auto"}};
	for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
		assert_reads(defaults[i][0], defaults[i][1]);
}

static void what_is_written_reads_back_the_same(void **state)
{
	(void)state;
	static const char *const values[][2] = {
		{"temperature", "0"},
		{"temperature", "0.1"},
		{"temperature", "1.5"},
		{"temperature", "100"},
		{"top_p", "0"},
		{"top_p", "0.95"},
		{"top_p", "1"},
		{"min_p", "0.05"},
		{"min_p", "1"},
		{"repetition_penalty", "0.01"},
		{"repetition_penalty", "1"},
		{"repetition_penalty", "1.3"},
		{"repetition_penalty", "100"},
		{"frequency_penalty", "-2"},
		{"frequency_penalty", "0.5"},
		{"presence_penalty", "2"},
		{"logit_bias", "0 -100"},
		{"logit_bias", "7 1.5\n999 -99.9\n12 0.1"},
		{"logit_bias", ""},
		{"logprobs", "20"},
		{"logprobs", "0"},
		{"top_k", "0"},
		{"top_k", "1"},
		{"top_k", "16777216"},
		{"max_tokens", "0"},
		{"max_tokens", "16777216"},
		{"seed", "0"},
		{"seed", "18446744073709551615"},
		{"seed", "random"},
		{"chat", "off"},
		{"chat", "on"},
		{"thinking", "on"},
		{"thinking", "off"},
		{"thinking", "low"},
		{"thinking", "medium"},
		{"thinking", "high"},
		{"thinking", "default"},
		{"date", "2026-01-02"},
		{"date", "2024-02-29 23:59:59"},
		{"on_full", "drop-oldest"},
		{"on_full", "error"},
		{"on_full", "auto"},
		{"priority", "low"},
		{"priority", "normal"},
		{"priority", "high"},
		{"grammar", "no schema, as long as none is asked for"},
		{"format", "json"},
		{"format", "regex"},
		{"grammar", "[a-z]+\\n(yes|no)"},
		{"grammar", ""},
		{"format", "schema"},
		{"grammar", "{\"type\": \"integer\"}"},
		{"grammar", ""},
		{"format", "text"},
		{"tool_choice", "none"},
		{"tool_choice", "required"},
		{"tool_choice", "get_weather"},
		{"stream", "off"},
		{"stream", "on"},
		{"stop_repetition", "off"},
		{"stop_repetition", "on"},
		{"draft", "off"},
		{"draft", "lookup"},
		{"draft", "lookup 1"},
		{"draft", "lookup 3"},
		{"stop", "</s>\\n\nUser:"},
		{"stop", ""},
		{"system", "You are terse.\nVery.\n"},
		{"system", "\n"},
		{"system", "Äpfel 🍎"},
		{"system", ""},
		{"experts_per_token", "0"},
		{"experts_per_token", "1"},
		{"experts_per_token", "4"},
		{"drop_missing", "0"},
		{"drop_missing", "0.125"},
		{"drop_missing", "1"},
		{"substitute", "0,16"},
		{"substitute", "2,4"},
		{"substitute", "off"}};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		char line[128];
		assert_int_equal(set(values[i][0], values[i][1]), 0);
		/* A text that ends in a newline loses one, as if echo had added it. */
		(void)snprintf(line, sizeof line, "%s\n", values[i][1]);
		assert_int_equal(set(values[i][0], line), 0);
		assert_reads(values[i][0], values[i][1]);
	}
}

static void a_grammar_is_held_to_the_format(void **state)
{
	(void)state;
	assert_refused("format", "xml", EINVAL);
	assert_refused("format", "", EINVAL);
	assert_refused("tool_choice", "", EINVAL);
	assert_refused("tool_choice", "two words", EINVAL);
	assert_int_equal(set("grammar", "(*"), 0);
	assert_int_equal(set("format", "regex"), 0); /* a source for it may follow */
	assert_refused("grammar", "(a", EINVAL);
	assert_refused("grammar", "a{20000}", EINVAL);
	assert_int_equal(set("format", "schema"), 0);
	assert_refused("grammar", "[a-z]+", EINVAL);
	assert_refused("grammar", "{\"if\": {}}", EINVAL);
	assert_non_null(strstr(e.text, "\"if\""));
	assert_int_equal(set("grammar", "{}"), 0);
}

static void a_draft_layer_is_taken_where_there_is_one(void **state)
{
	(void)state;
	static const char *const values[] = {"mtp", "mtp 2", "mtp 4"};
	assert_refused("draft", "mtp", EINVAL);
	assert_non_null(strstr(e.text, "no draft layer"));
	assert_reads("draft", "auto");
	p.model_drafts = true;
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		assert_int_equal(set("draft", values[i]), 0);
		assert_reads("draft", values[i]);
		assert_int_equal(p.draft_kind, DRAFT_MTP);
	}
	assert_int_equal(set("draft", "mtp 1"), 0);
	assert_reads("draft", "mtp"); /* the number it was trained for */
	assert_refused("draft", "mtp 0", ERANGE);
	assert_refused("draft", "mtp 12", ERANGE);
	assert_reads("draft", "mtp");
	assert_int_equal(set("draft", "off"), 0);
}

static void numbers_read_back_as_the_same_number(void **state)
{
	(void)state;
	static const char *const values[] = {"0.30000000000000004", "1e-3", "0.3333333333333333",
					     "4.9406564584124654e-324", "99.99999999999999"};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		assert_int_equal(set("temperature", values[i]), 0);
		double first = p.temperature;
		assert_true(first == strtod(values[i], NULL));
		char *text = params_get(&p, number("temperature"), true);
		assert_int_equal(set("temperature", text), 0);
		assert_true(p.temperature == first);
		free(text);
	}
}

static void values_of_the_wrong_kind_are_einval(void **state)
{
	(void)state;
	static const char *const numbers[] = {"",    " ",   "hot",  "0.5x",   "0.5 0.5", "nan",
					      "--1", "1,5", "\n\n", "0x1p-2", "inf",	 " 1"};
	static const char *const counts[] = {"", "x", "1.5", "-1", "+1", " 1", "1 ", "0x10", "1e3"};
	static const char *const switches[] = {"", "yes", "1", "ON", "on ", "onoff"};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		assert_refused("temperature", numbers[i], EINVAL);
		assert_refused("top_p", numbers[i], EINVAL);
		assert_refused("repetition_penalty", numbers[i], EINVAL);
		assert_refused("min_p", numbers[i], EINVAL);
		assert_refused("drop_missing", numbers[i], EINVAL);
	}
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		assert_refused("top_k", counts[i], EINVAL);
		assert_refused("max_tokens", counts[i], EINVAL);
		assert_refused("seed", counts[i], EINVAL);
		assert_refused("experts_per_token", counts[i], EINVAL);
	}
	static const char *const drafts[] = {"",	 "on",	      "mtp",	   "lookup ",
					     "lookup x", "lookup 1x", "lookup2",   "lookup -1",
					     "auto 1",	 "off 2",     "lookup  1", "lookup 1 "};
	for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++)
		assert_refused("draft", drafts[i], EINVAL);
	assert_refused("draft", "lookup 0", ERANGE);
	assert_refused("draft", "lookup 5", ERANGE);
	assert_refused("draft", "lookup 10", ERANGE);
	assert_refused("draft", "lookup 99999999999999999999", ERANGE);
	assert_refused("seed", "Random", EINVAL);
	for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
		assert_refused("chat", switches[i], EINVAL);
	for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
		assert_refused("stream", switches[i], EINVAL);
		assert_refused("stop_repetition", switches[i], EINVAL);
	}
	static const char *const dates[] = {"",
					    "today",
					    "2026-02-29",
					    "2026-1-2",
					    "2026-01-02 ",
					    "2026-01-02 1:2:3",
					    "2026-01-32",
					    " 2026-01-02",
					    "12026-01-02",
					    "02.01.2026",
					    "2026-01-02 24:00:00"};
	for (size_t i = 0; i < sizeof dates / sizeof *dates; i++)
		assert_refused("date", dates[i], EINVAL);
	static const char *const words[] = {"", "On", "on ", "maximum", "drop", "error on"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		assert_refused("thinking", words[i], EINVAL);
		assert_refused("on_full", words[i], EINVAL);
		assert_refused("priority", words[i], EINVAL);
	}
}

static void a_date_is_a_clock(void **state)
{
	(void)state;
	struct tm clock;
	assert_false(params_clock(&p, &clock));
	assert_int_equal(set("date", "2026-11-22 14:05:09"), 0);
	assert_true(params_clock(&p, &clock));
	assert_int_equal(clock.tm_year, 126);
	assert_int_equal(clock.tm_yday, 325);
	assert_int_equal(clock.tm_wday, 0);
	assert_int_equal(clock.tm_hour * 10000 + clock.tm_min * 100 + clock.tm_sec, 140509);
}

static void a_bias_is_a_token_and_a_number(void **state)
{
	(void)state;
	static const char *const wrong[] = {
		"x",	 "7",	  "7 ",	   "7 x", "7 1x",  "-7 1",   "7\n1",	"+7 1",
		"7 nan", "7 inf", "7 0x1", "7,1", "7 1 8", "7 1\n8", "7 1 7 2", "7 1\n7 1"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_refused("logit_bias", wrong[i], EINVAL);
	assert_int_equal(set("logit_bias", "7 1 8\t2\n\n9  3\n"), 0);
	assert_reads("logit_bias", "7 1\n8 2\n9 3");
	struct params copy;
	assert_int_equal(params_copy(&copy, &p, &e), 0);
	assert_int_equal(copy.logit_bias.count, 3);
	assert_ptr_not_equal(copy.logit_bias.of, p.logit_bias.of);
	params_free(&copy);
}

static void something_is_left_to_draw(void **state)
{
	(void)state;
	struct params small;
	static const struct config c = {.vocabulary = 3};
	const size_t bias = number("logit_bias");
	assert_int_equal(params_default(&small, &c, &e), 0);
	assert_int_equal(params_set(&small, bias, "0 -100 2 -100", 13, &e), 0);
	assert_int_equal(params_set(&small, bias, "0 -100 1 -100 2 -100", 20, &e), -EINVAL);
	assert_int_equal(params_set(&small, bias, "0 -100 1 -99 2 -100", 19, &e), 0);
	params_free(&small);
}

static void there_is_an_end_to_biases(void **state)
{
	(void)state;
	char text[PARAMS_MAX_TEXT / 64] = "";
	size_t n = 0;
	p.model_vocabulary = 5000;
	for (int i = 0; i < BIASES_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%d 1\n", i);
	assert_int_equal(set("logit_bias", text), 0);
	(void)snprintf(text + n, sizeof text - n, "4000 1\n");
	assert_int_equal(set("logit_bias", text), -ERANGE);
	assert_int_equal(p.logit_bias.count, BIASES_MAX);
	p.model_vocabulary = 1000;
	assert_int_equal(set("logit_bias", ""), 0);
}

/* The documented default of a param is its value in a model that sets none. */
static void words_say_what_a_param_begins_with(void **state)
{
	(void)state;
	static const char of_model[] = "the model's own, else ";
	static const struct config c = {.vocabulary = 3, .generation = GENERATION_DEFAULTS};
	struct params plain;
	assert_int_equal(params_default(&plain, &c, &e), 0);
	for (size_t i = 0; i < params_count(); i++) {
		const struct param_words w = params_words(i);
		if (!w.takes || !w.begins || !w.about || strchr(w.about, '\n'))
			fail_msg("params/%s has no words of one line", params_name(i));
		const char *says = w.begins;
		if (!strncmp(says, of_model, strlen(of_model)))
			says += strlen(of_model);
		char *is = params_get(&plain, i, true);
		if (!strncmp(says, "what the model", 14))
			says = is;
		if (strcmp(is, strcmp(says, "empty") ? says : "") != 0)
			fail_msg("params/%s begins with \"%s\", and its words say \"%s\"",
				 params_name(i), is, w.begins);
		free(is);
	}
	params_free(&plain);
}

static void values_out_of_range_are_erange(void **state)
{
	(void)state;
	static const char *const values[][2] = {{"temperature", "100.1"},
						{"temperature", "-0.1"},
						{"temperature", "1e999"},
						{"top_p", "1.01"},
						{"top_p", "-1"},
						{"min_p", "2"},
						{"repetition_penalty", "0"},
						{"repetition_penalty", "-1"},
						{"repetition_penalty", "100.5"},
						{"frequency_penalty", "2.1"},
						{"presence_penalty", "-2.1"},
						{"logit_bias", "1 100.1"},
						{"logit_bias", "1 -101"},
						{"logit_bias", "1 1e999"},
						{"logit_bias", "1000 1"},
						{"logit_bias", "99999999999999999999999 1"},
						{"logprobs", "21"},
						{"top_k", "16777217"},
						{"top_k", "99999999999999999999999"},
						{"max_tokens", "16777217"},
						{"seed", "18446744073709551616"},
						{"experts_per_token", "5"},
						{"experts_per_token", "99999999999999999999"},
						{"drop_missing", "1.001"},
						{"substitute", "0,0"},
						{"substitute", "5,4"},
						{"substitute", "1,4096"},
						{"drop_missing", "-0.1"}};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		assert_refused(values[i][0], values[i][1], ERANGE);
}

static void lossless_params_are_not_named(void **state)
{
	(void)state;
	static const char *const cases[][3] = {
		{"0", "0", ""},
		{"4", "0", ""},
		{"4", "1e-60", ""}, /* zero, as a weight is stored */
		{"3", "0", "experts_per_token=3"},
		{"0", "0.1", "drop_missing=0.1"},
		{"1", "1", "experts_per_token=1 drop_missing=1"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[96];
		assert_int_equal(set("experts_per_token", cases[i][0]), 0);
		assert_int_equal(set("drop_missing", cases[i][1]), 0);
		params_lossy(&p, text, sizeof text);
		assert_string_equal(text, cases[i][2]);
		struct losses losses = params_losses(&p), none = {0};
		assert_int_equal(step_same_losses(&losses, &none), !*text);
	}
}

static void a_dense_model_has_nothing_to_lose(void **state)
{
	(void)state;
	p.model_experts = 0;
	assert_refused("experts_per_token", "1", ERANGE);
	assert_refused("substitute", "1,2", ERANGE);
	assert_int_equal(set("substitute", "off"), 0);
	assert_refused("drop_missing", "0.1", ERANGE);
	assert_non_null(strstr(e.text, "without experts"));
	assert_int_equal(set("experts_per_token", "0"), 0);
	assert_int_equal(set("drop_missing", "0"), 0);
}

static void a_nul_is_einval_in_any_value(void **state)
{
	(void)state;
	for (size_t i = 0; i < params_count(); i++)
		assert_int_equal(params_set(&p, i, "1\0", 2, &e), -EINVAL);
	/* The words end there. */
	assert_int_equal(params_set(&p, number("system"), "ab\0cd", 5, &e), -EINVAL);
	assert_non_null(strstr(e.text, "\"ab\""));
}

static void invalid_utf8_is_einval_in_texts(void **state)
{
	(void)state;
	static const char *const values[] = {"\xff",	 "caf\xe9",	 "\xe2\x82",
					     "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"};
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		assert_refused("system", values[i], EINVAL);
		assert_refused("stop", values[i], EINVAL);
	}
}

static void texts_have_a_limit(void **state)
{
	(void)state;
	char *text = malloc(PARAMS_MAX_TEXT + 1);
	memset(text, 'x', PARAMS_MAX_TEXT + 1);
	assert_int_equal(params_set(&p, number("system"), text, PARAMS_MAX_TEXT, &e), 0);
	assert_int_equal(params_set(&p, number("system"), text, PARAMS_MAX_TEXT + 1, &e), -EFBIG);
	assert_int_equal(params_set(&p, number("temperature"), text, PARAMS_MAX_TEXT + 1, &e),
			 -EFBIG);
	free(text);
	char lines[STOPS_MAX * 2 + 2];
	for (size_t i = 0; i < sizeof lines; i++)
		lines[i] = i % 2 ? '\n' : 'a';
	/* 64 lines and the newline that echo adds; 65 lines. */
	assert_int_equal(params_set(&p, number("stop"), lines, sizeof lines - 2, &e), 0);
	assert_int_equal(params_set(&p, number("stop"), lines, sizeof lines - 1, &e), -ERANGE);
}

static void stops_are_lines_with_escapes(void **state)
{
	(void)state;
	static const char *const want[] = {"\n\n", "a\tb\rc", "\\n", "\\x", " x ", "\\"};
	const char *stops[STOPS_MAX];
	size_t lengths[STOPS_MAX], count;
	assert_int_equal(set("stop", "\\n\\n\na\\tb\\rc\n\n\\\\n\n\\x\n x \n\\"), 0);
	char *buffer = stream_parse_stops(p.stop, stops, lengths, &count);
	assert_non_null(buffer);
	assert_int_equal(count, sizeof want / sizeof *want); /* empty lines do not count */
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(lengths[i], strlen(want[i]));
		assert_memory_equal(stops[i], want[i], lengths[i]);
	}
	free(buffer);
	assert_int_equal(set("stop", ""), 0);
	free(stream_parse_stops(p.stop, stops, lengths, &count));
	assert_int_equal(count, 0);
}

static void an_unset_chat_is_what_the_model_is_made_for(void **state)
{
	(void)state;
	for (int has_chat = 0; has_chat < 2; has_chat++) {
		char *text = params_get(&p, number("chat"), has_chat);
		assert_string_equal(text, has_chat ? "on" : "off");
		free(text);
	}
}

static void auto_is_the_model_s_default(void **state)
{
	(void)state;
	static const char *const changed[][3] = {{"temperature", "0.1", "0.7"},
						 {"top_k", "3", "20"},
						 {"top_p", "0.5", "0.8"},
						 {"min_p", "0.5", "0"},
						 {"repetition_penalty", "2", "1.05"},
						 {"max_tokens", "5", "0"},
						 {"seed", "7", "random"},
						 {"chat", "off", "on"},
						 {"thinking", "low", "default"},
						 {"date", "2026-01-02", "auto"},
						 {"on_full", "drop-oldest", "auto"},
						 {"priority", "low", "normal"},
						 {"stream", "off", "on"},
						 {"stop_repetition", "off", "on"},
						 {"experts_per_token", "2", "0"},
						 {"drop_missing", "0.5", "0"},
						 {"substitute", "1,8", "off"}};
	struct config c = {
		.experts_per_token = 4,
		.generation = {
			.temperature = .7, .top_p = .8, .top_k = 20, .repetition_penalty = 1.05}};
	for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
		size_t n = number(changed[i][0]);
		assert_int_equal(set(changed[i][0], changed[i][1]), 0);
		assert_true(params_is_auto(n, "auto\n", 5) && params_is_auto(n, "auto", 4));
		assert_int_equal(params_reset(&p, n, &c, &e), 0);
		assert_reads(changed[i][0], changed[i][2]);
	}
	assert_int_equal(p.chat, CHAT_UNSET); /* whatever the model is made for */
	assert_false(params_is_auto(number("top_k"), "automatic", 9));
	assert_false(params_is_auto(number("top_k"), "auto\n\n", 6));
	assert_false(params_is_auto(number("system"), "auto", 4)); /* a text may say that */
}

static void a_copy_is_a_copy_of_the_texts_too(void **state)
{
	(void)state;
	struct params copy;
	assert_int_equal(set("system", "first"), 0);
	assert_int_equal(set("seed", "7"), 0);
	assert_int_equal(params_copy(&copy, &p, &e), 0);
	assert_int_equal(set("system", "second"), 0);
	assert_string_equal(copy.system, "first");
	assert_int_equal(copy.seed, 7);
	assert_ptr_not_equal(copy.stop, p.stop);
	params_free(&copy);
	assert_reads("system", "second");
}

static const char *member(const struct json *row, const char *key)
{
	const char *text = NULL;
	assert_int_equal(json_get_string(row, key, "params.json", &text, &e), 0);
	return text;
}

static const struct json *row_named(const struct json *list, const char *name)
{
	for (const struct json *row = NULL; (row = json_next(list, row));)
		if (!strcmp(member(row, "name"), name))
			return row;
	fail_msg("no row %s", name);
	return NULL;
}

static void as_json_it_is_what_a_form_needs(void **state)
{
	(void)state;
	double bound;
	char *text = params_json(&p, false);
	struct json *list = NULL;
	assert_non_null(text);
	assert_int_equal(json_parse_text(&list, text, strlen(text), "params.json", &e), 0);
	assert_int_equal(json_count(list), params_count());
	size_t i = 0;
	for (const struct json *row = NULL; (row = json_next(list, row)); i++) {
		const char *type = member(row, "type");
		assert_string_equal(member(row, "name"), params_name(i));
		assert_true(*member(row, "label") && *member(row, "help") && *member(row, "takes"));
		bool choice = !strcmp(type, "choice");
		if (choice && json_count(json_find(row, "choices")) < 2)
			fail_msg("%s has no choices", params_name(i));
		assert_int_equal(params_is_text(i), !strcmp(type, "lines"));
		/* Words such as auto, which stand for a default, are the session's to read. */
		const char *value = member(row, "default");
		if (!params_is_auto(i, value, strlen(value)) && set(params_name(i), value))
			fail_msg("%s", e.text);
	}
	const struct json *row = row_named(list, "temperature");
	assert_string_equal(member(row, "type"), "number");
	assert_string_equal(member(row, "default"), "0.7");
	assert_int_equal(json_get_double(row, "most", "params.json", 0, 1e9, &bound, &e), 0);
	assert_true(bound == 100);
	row = row_named(list, "experts_per_token");
	assert_int_equal(json_get_double(row, "most", "params.json", 0, 1e9, &bound, &e), 0);
	assert_true(bound == 4);
	assert_string_equal(member(row_named(list, "chat"), "default"), "off");
	json_free(list);
	free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(there_are_these_and_no_others),
		TEST(a_date_is_a_clock),
		TEST(a_model_s_defaults_are_its_generation_config),
		TEST(what_is_written_reads_back_the_same),
		TEST(a_grammar_is_held_to_the_format),
		TEST(a_draft_layer_is_taken_where_there_is_one),
		TEST(numbers_read_back_as_the_same_number),
		TEST(values_of_the_wrong_kind_are_einval),
		TEST(a_bias_is_a_token_and_a_number),
		TEST(something_is_left_to_draw),
		TEST(there_is_an_end_to_biases),
		TEST(words_say_what_a_param_begins_with),
		TEST(values_out_of_range_are_erange),
		TEST(lossless_params_are_not_named),
		TEST(a_dense_model_has_nothing_to_lose),
		TEST(a_nul_is_einval_in_any_value),
		TEST(invalid_utf8_is_einval_in_texts),
		TEST(texts_have_a_limit),
		TEST(stops_are_lines_with_escapes),
		TEST(an_unset_chat_is_what_the_model_is_made_for),
		TEST(auto_is_the_model_s_default),
		TEST(a_copy_is_a_copy_of_the_texts_too),
		TEST(as_json_it_is_what_a_form_needs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
