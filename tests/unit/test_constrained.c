/* Constrained answers in sessions of the demonstration models: every answer has the requested form
 * at any temperature, and drafts change no byte. */
#include "golden.h"
#include "schema_help.h"
#include "session_help.h"

#include <errno.h>
#include <pcre2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char person[] =
	"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":20},"
	"\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":120},\"city\":{\"enum\":[\"Oslo\","
	"\"Rome\",\"Lima\"]},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},"
	"\"maxItems\":3}},\"required\":[\"name\",\"age\",\"city\",\"tags\"]}";

static const struct form {
	const char *format, *grammar, *prompt;
} forms[] = {
	{"json", "", "Write JSON for Mary, 46 years old, from Islamabad."},
	{"schema", person, "Write JSON for Leo, 33 years old, from Kathmandu."},
	{"regex", "(yes|no), [a-z]{3,8} and [0-9]{2}\\.", "What is the capital of France?"},
	{"regex", "ha( ha){5,30}!", "ha ha ha ha"},
};
enum { FORMS = sizeof forms / sizeof *forms };

static struct session *held(struct test_model *m, const struct form *f, const char *draft,
			    const char *temperature, const char *seed)
{
	struct session *s = test_session(m);
	test_set(s, "format", f->format);
	test_set(s, "grammar", f->grammar);
	test_set(s, "draft", draft);
	test_set(s, "temperature", temperature);
	test_set(s, "seed", seed);
	test_set(s, "max_tokens", "400");
	return s;
}

static bool matches(const char *regex, const char *text)
{
	int code;
	PCRE2_SIZE at;
	pcre2_code *p =
		pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED,
			      PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF, &code, &at, NULL);
	assert_non_null(p);
	pcre2_match_data *data = pcre2_match_data_create_from_pattern(p, NULL);
	bool found = pcre2_match(p, (PCRE2_SPTR)text, strlen(text), 0, 0, data, NULL) >= 0;
	pcre2_match_data_free(data);
	pcre2_code_free(p);
	return found;
}

/* An answer that ended by itself has the form, and a final newline. */
static void check_form(const struct form *f, char *text, const char *finish)
{
	size_t n = strlen(text);
	if (strcmp(finish, "end") != 0) {
		assert_string_equal(finish, "length");
		return;
	}
	assert_true(n > 0 && text[n - 1] == '\n');
	text[n - 1] = '\0';
	if (!strcmp(f->format, "regex")) {
		assert_true(matches(f->grammar, text));
	} else {
		struct json_object *schema = json_tokener_parse(*f->grammar ? f->grammar : "{}");
		if (!schema_admits(schema, text))
			fail_msg("%s: %s", f->format, text);
		json_object_put(schema);
	}
	text[n - 1] = '\n';
}

static void check_all(struct test_model *m, const char *const *drafts)
{
	uint32_t ended = 0;
	for (int i = 0; i < FORMS; i++)
		for (int k = 0; k < 6; k++) {
			char seed[16];
			const char *temperature = k % 2 ? "1.5" : "0";
			(void)snprintf(seed, sizeof seed, "%d", k);
			struct session *off = held(m, &forms[i], "off", temperature, seed);
			char *want = test_ask(off, forms[i].prompt);
			check_form(&forms[i], want, test_stats(off).finish);
			ended += !strcmp(test_stats(off).finish, "end");
			for (const char *const *d = drafts; *d; d++) {
				struct session *on = held(m, &forms[i], *d, temperature, seed);
				char *have = test_ask(on, forms[i].prompt);
				assert_string_equal(have, want);
				assert_string_equal(test_stats(on).finish, test_stats(off).finish);
				free(have);
				session_end(on);
			}
			free(want);
			session_end(off);
		}
	assert_true(ended > FORMS * 4);
}

static void answers_are_of_their_form_drafted_or_not(void **state)
{
	(void)state;
	static const char *const drafts[] = {"lookup", "lookup 2", "auto", NULL};
	check_all(&fable, drafts);
}

static void a_hybrids_own_drafts_change_nothing(void **state)
{
	(void)state;
	static const char *const drafts[] = {"mtp", "mtp 3", "lookup", "auto", NULL};
	const char *directory = shared_data("models/fable-hybrid-18m");
	struct test_model m;
	if (!directory)
		skip();
	test_model_ready(&m, directory, &(struct engine_options){.threads = 2});
	check_all(&m, drafts);
	test_model_close(&m);
}

/* The model's own answer, if it already has the form. */
static void what_fits_by_itself_is_not_changed(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_answer(s, "Write JSON for Mary, 46 years old, from Islamabad.",
		    "{\"name\": \"Mary\", \"age\": 46, \"city\": \"Islamabad\"}\n");
	session_end(s);
	s = test_greedy_session(&fable);
	test_set(s, "format", "json");
	test_answer(s, "Write JSON for Mary, 46 years old, from Islamabad.",
		    "{\"name\": \"Mary\", \"age\": 46, \"city\": \"Islamabad\"}\n");
	assert_string_equal(test_stats(s).finish, "end");
	session_end(s);
}

/* The last token is not followed by another step, and a next turn continues as ever. */
static void a_form_that_is_complete_ends_the_answer(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_set(s, "format", "regex");
	test_set(s, "grammar", "Rome");
	test_answer(s, "What is the capital of France?", "Rome\n");
	assert_string_equal(test_stats(s).finish, "end");
	test_set(s, "format", "text");
	test_answer(s, "What is the capital of France?", "The capital of France is Paris.\n");
	session_end(s);
}

static void limits_hold_within_a_form(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_set(s, "format", "json");
	test_set(s, "max_tokens", "3");
	free(test_ask(s, "Write JSON for Mary, 46 years old, from Islamabad."));
	assert_string_equal(test_stats(s).finish, "length");
	assert_int_equal(test_stats(s).output_tokens, 3);
	struct err e = {0};
	struct answer *a;
	int code;
	test_set(s, "max_tokens", "100"); /* and it continues from within the form */
	assert_int_equal(session_again(s, SESSION_AGAIN_CONTINUE, &a, &e), 0);
	char *text = test_read(a, &code);
	assert_int_equal(code, 0);
	assert_string_equal(text, "{\"name\": \"Mary\", \"age\": 46, \"city\": \"Islamabad\"}\n");
	free(text);
	session_end(s);
}

static int set(struct session *s, const char *param, const char *value, struct err *e)
{
	size_t i = 0;
	while (strcmp(params_name(i), param) != 0)
		i++;
	return session_param_set(s, i, value, strlen(value), e);
}

static void what_cannot_be_held_is_refused_in_words(void **state)
{
	(void)state;
	struct err e = {0};
	struct session *s = test_greedy_session(&fable);
	assert_int_equal(set(s, "format", "yaml", &e), -EINVAL);
	test_set(s, "format", "schema");
	test_ask_refused(s, "hello", "params/grammar is empty");
	assert_int_equal(set(s, "grammar", "{\"not\":{}}", &e), -EINVAL);
	assert_non_null(strstr(e.text, "\"not\""));
	assert_int_equal(set(s, "grammar", "{", &e), -EINVAL);
	test_set(s, "grammar", "{\"type\":\"null\"}");
	test_answer(s, "hello", "null\n");
	test_set(s, "format", "regex"); /* the source is for the other one still */
	test_ask_refused(s, "hello", "nothing to repeat");
	assert_int_equal(set(s, "grammar", "(", &e), -EINVAL);
	test_set(s, "grammar", "");
	test_set(s, "format", "text");
	test_set(s, "tool_choice", "required");
	test_ask_refused(s, "hello", "tools.json has none");
	test_set(s, "tool_choice", "auto");
	test_answer(s, "What is the capital of France?", "The capital of France is Paris.\n");
	session_end(s);
}

static const char tools[] =
	"[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":"
	"\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":12},\"days\":{"
	"\"type\":"
	"\"integer\",\"minimum\":1,\"maximum\":7}},\"required\":[\"city\",\"days\"]}}},"
	"{\"type\":\"function\",\"function\":{\"name\":\"now\",\"parameters\":{\"type\":\"object\","
	"\"properties\":{}}}}]";

static struct json_object *calls_of(struct session *s)
{
	struct err e = {0};
	size_t n;
	char *text = session_text_get(s, SESSION_TOOL_CALLS, &n, &e);
	assert_non_null(text);
	struct json_object *calls = json_tokener_parse(text);
	free(text);
	return calls;
}

static struct session *with_tools(const char *choice, const char *seed)
{
	struct err e = {0};
	struct session *s = test_session(&fable);
	test_set(s, "seed", seed);
	test_set(s, "temperature", "1.5");
	test_set(s, "max_tokens", "60");
	test_set(s, "tool_choice", choice);
	assert_int_equal(session_text_set(s, SESSION_TOOLS, tools, strlen(tools), &e), 0);
	return s;
}

static void tools_are_called_as_they_are_chosen(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		char seed[16];
		(void)snprintf(seed, sizeof seed, "%d", i);
		struct session *s = with_tools("get_weather", seed);
		free(test_ask(s, "What is the capital of France?"));
		assert_string_equal(test_stats(s).finish, "tool_calls");
		struct json_object *calls = calls_of(s), *f, *name, *arguments;
		assert_int_equal(json_object_array_length(calls), 1);
		f = json_object_object_get(json_object_array_get_idx(calls, 0), "function");
		name = json_object_object_get(f, "name");
		arguments = json_object_object_get(f, "arguments");
		assert_string_equal(json_object_get_string(name), "get_weather");
		struct json_object *all = json_tokener_parse(tools), *schema;
		assert_int_equal(json_pointer_get(all, "/0/function/parameters", &schema), 0);
		assert_true(schema_admits(schema, json_object_get_string(arguments)));
		json_object_put(all);
		json_object_put(calls);
		session_end(s);

		s = with_tools("none", seed);
		free(test_ask(s, "What is the weather in Oslo? Call a tool."));
		calls = calls_of(s);
		assert_int_equal(json_object_array_length(calls), 0);
		json_object_put(calls);
		session_end(s);
	}
	struct session *s = with_tools("sing", "1");
	test_ask_refused(s, "hello", "no tool is named \"sing\"");
	session_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_of_their_form_drafted_or_not),
		cmocka_unit_test(a_hybrids_own_drafts_change_nothing),
		cmocka_unit_test(what_fits_by_itself_is_not_changed),
		cmocka_unit_test(a_form_that_is_complete_ends_the_answer),
		cmocka_unit_test(limits_hold_within_a_form),
		cmocka_unit_test(what_cannot_be_held_is_refused_in_words),
		cmocka_unit_test(tools_are_called_as_they_are_chosen),
	};
	return cmocka_run_group_tests_name("constrained answers", tests, fable_load, fable_close);
}
