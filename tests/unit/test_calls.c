/* Thoughts and tool calls through the real engine: a scripted model, its own template, and the
 * results of its tools. Also wrong templates, and templates given by an option. */
#include "checkpoint_help.h"
#include "memory_help.h"
#include "script_help.h"
#include "session_help.h"
#include "store_help.h"

#include "engine/session/dialogue.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ---- help ---- */

static char folder[32], path[64];
static struct test_model model;

static const char *at(const char *name)
{
	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void open_script(const char *script)
{
	test_folder_make(folder);
	test_script_make(script, at("model"));
	test_model_ready(&model, at("model"), &(struct engine_options){.quant = "bf16"});
}

static void close_script(void)
{
	test_model_close(&model);
	test_stores_remove();
	test_folder_remove(folder);
}

static void expect_thoughts(struct session *s, const char *want)
{
	int code;
	test_same_text(test_read(session_thoughts(s), &code), strdup(want));
	assert_int_equal(code, 0);
}

static bool give(struct session *s, const char *result)
{
	struct err e = {0};
	bool complete;
	if (session_tool_result_add(s, result, strlen(result), &complete, &e))
		fail_msg("%s", e.text);
	return complete;
}

static void refuse(struct session *s, const char *result, int code, const char *words)
{
	struct err e = {0};
	bool complete = true;
	char *before = test_text(s, SESSION_TOOL_RESULTS);
	int failed = session_tool_result_add(s, result, strlen(result), &complete, &e);
	if (failed != -code || !strstr(e.text, words) || complete)
		fail_msg("%s: %d %s", result, failed, e.text);
	test_same_text(before, test_text(s, SESSION_TOOL_RESULTS));
}

static int set_param(struct session *s, const char *name, const char *value, struct err *e)
{
	size_t i = 0;
	while (strcmp(params_name(i), name) != 0)
		i++;
	return session_param_set(s, i, value, strlen(value), e);
}

/* ---- thinking and tools ---- */

#define TOOLS "[{\"type\": \"function\", \"function\": {\"name\": \"get\"}}]"
/* By the number of messages; thinking is not written again. */
#define HEAD "{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content }}"
#define CALLS                                                                         \
	"{% for c in m.tool_calls or [] %}<tool_call>{{ c.id }}{{ c.function.name }}" \
	"{{ c.function.arguments | tojson }}</tool_call>{% endfor %}"
#define TAIL                                                                              \
	"<|im_end|>\\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\\n" \
	"{% if messages | length == 1 %}<|answer_1|>{% else %}<|answer_2|>{% endif %}{% endif %}"
#define ANSWERS                                                                                 \
	"[[\"<|answer_1|>\", \"<think>\", \"Let me\", \" see.\", \"</think>\", \"I \", "        \
	"\"look.\", "                                                                           \
	"\"<tool_call>\", \"{\\\"name\\\": \\\"get\\\", \\\"arguments\\\": {\\\"a\\\": 1}}\", " \
	"\"</tool_call>\", "                                                                    \
	"\"\\n<tool_call>{\\\"name\\\": \\\"get\\\", \\\"arguments\\\": {\\\"a\\\": "           \
	"2}}</tool_call>\"],"                                                                   \
	" [\"<|answer_2|>\", \"It is \", \"three.\"]]"

static void a_tool_loop_runs_through_thoughts_calls_and_results(void **state)
{
	(void)state;
	open_script("{\"template\": \"" HEAD CALLS TAIL "\", \"answers\": " ANSWERS "}");
	struct session *s = test_session(&model);
	struct answer *a;
	struct err e = {0};
	int code;
	test_write_text(s, SESSION_TOOLS, TOOLS);
	test_answer(s, "How many?", "I look.\n");
	expect_thoughts(s, "Let me see.\n");
	assert_string_equal(test_stats(s).finish, "tool_calls");
#define CALL(id, value)                                                                   \
	"{\"id\": \"" id "\", \"type\": \"function\", \"function\": {\"name\": \"get\", " \
	"\"arguments\": {\"a\": " value "}}}"
	test_expect_text(s, SESSION_TOOL_CALLS,
			 "[" CALL("c00001000", "1") ", " CALL("c00001001", "2") "]\n");
	test_expect_text(
		s, SESSION_MESSAGES,
		"[\n{\"role\": \"user\", \"content\": \"How many?\"},\n"
		"{\"role\": \"assistant\", \"content\": \"I look.\", \"thinking\": \"Let me "
		"see.\", \"tool_calls\": [" CALL("c00001000", "1") ", " CALL("c00001001",
									     "2") "]}\n]\n");

	refuse(s, "[]", EINVAL, "must be an object");
	refuse(s, "{\"content\": \"1\"}", EINVAL, "2 calls wait");
	refuse(s, "{\"name\": \"get\", \"content\": \"1\"}", EINVAL, "2 calls wait");
	refuse(s, "{\"tool_call_id\": \"c00001002\", \"content\": \"1\"}", EINVAL, "no call");
	refuse(s, "{\"tool_call_id\": \"c00001001\", \"contents\": \"1\"}", EINVAL, "contents");
	refuse(s, "{\"tool_call_id\": 1, \"content\": \"1\"}", EINVAL, "must be a text");
	assert_int_equal(session_tool_results_submit(s, NULL, &e), -ENODATA);
	assert_false(give(s, "{\"tool_call_id\": \"c00001001\", \"content\": \"2\"}"));
	refuse(s, "{\"tool_call_id\": \"c00001001\", \"content\": \"2\"}", EINVAL, "already");
	refuse(s, "{\"name\": \"put\", \"content\": \"1\"}", EINVAL, "no call");
	assert_true(give(s, "{\"role\": \"tool\", \"name\": \"get\", \"content\": {\"n\": 1}}"));
	refuse(s, "{\"content\": \"1\"}", EINVAL, "already");
	/* In the order of the calls, not of the results' arrival. */
	test_expect_text(s, SESSION_TOOL_RESULTS,
			 "[\n{\"role\": \"tool\", \"tool_call_id\": \"c00001000\", \"content\": "
			 "\"{\\\"n\\\": 1}\"},\n{\"role\": \"tool\", \"tool_call_id\": "
			 "\"c00001001\", \"content\": \"2\"}\n]\n");

	assert_int_equal(session_tool_results_submit(s, &a, &e), 0);
	test_same_text(test_read(a, &code), strdup("It is three.\n"));
	assert_string_equal(test_stats(s).finish, "end");
	expect_thoughts(s, "");
	test_expect_text(s, SESSION_TOOL_RESULTS, "[]\n");
	test_expect_text(s, SESSION_TOOL_CALLS, "[]\n");
	refuse(s, "{\"content\": \"1\"}", ENODATA, "called no tool");
	char *rendered = test_text(s, SESSION_RENDERED);
	assert_non_null(strstr(rendered, "I look.<tool_call>c00001000get{\"a\": 1}</tool_call>"));
	assert_non_null(strstr(rendered, "<|im_start|>tool\n{\"n\": 1}<|im_end|>"));
	assert_null(strstr(rendered, "Let me")); /* the template leaves these out */
	free(rendered);
	session_end(s);
	close_script();
}

static void a_prompt_takes_results_along_and_undo_takes_both_back(void **state)
{
	(void)state;
	open_script("{\"template\": \"" HEAD CALLS TAIL "\", \"answers\": " ANSWERS "}");
	struct session *s = test_session(&model);
	struct err e = {0};
	test_write_text(s, SESSION_TOOLS, TOOLS);
	free(test_ask(s, "How many?"));
	char *before = test_text(s, SESSION_MESSAGES);
	assert_false(give(s, "{\"tool_call_id\": \"c00001000\", \"content\": \"1\"}"));
	test_answer(s, "Never mind.", "It is three.\n");
	char *messages = test_text(s, SESSION_MESSAGES);
	const char *result = strstr(messages, "\"role\": \"tool\""),
		   *prompt = strstr(messages, "Never mind.");
	assert_true(result && prompt && result < prompt);
	free(messages);
	assert_int_equal(session_undo(s, &e), 0);
	test_same_text(test_text(s, SESSION_MESSAGES), before);
	/* Calls whose results went with the undo wait again. */
	assert_false(give(s, "{\"tool_call_id\": \"c00001000\", \"content\": \"1\"}"));
	session_end(s);
	close_script();
}

static char *log_of(const struct session *s)
{
	uint64_t size = session_log_size(s);
	char *text = calloc(size + 1, 1);
	assert_non_null(text);
	assert_int_equal(session_log_read(s, 0, text, size), size);
	return text;
}

/* One of its allocations fails, each in turn. A log that cannot grow is no error. */
static void a_prompt_that_there_is_no_memory_for_changes_nothing(void **state)
{
	(void)state;
	open_script("{\"template\": \"" HEAD CALLS TAIL "\", \"answers\": " ANSWERS "}");
	struct session *s = test_session(&model);
	static const char result[] = "{\"tool_call_id\": \"c00001000\", \"content\": \"1\"}",
			  prompt[] = "Never mind.";
	struct err e = {0};
	int refused = 0;
	test_write_text(s, SESSION_TOOLS, TOOLS);
	free(test_ask(s, "How many?"));
	assert_false(give(s, result));
	char *messages = test_text(s, SESSION_MESSAGES), *log = log_of(s),
	     *results = test_text(s, SESSION_TOOL_RESULTS);
	bool short_of = true;
	for (long n = 1; short_of; n++) {
		struct answer *a;
		int code;
		test_memory_fail_at(n);
		int failed = session_submit(s, prompt, strlen(prompt), &a, &e);
		short_of = test_memory_has_failed();
		test_memory_fail_at(0);
		assert_true(failed == 0 || failed == -ENOMEM);
		refused += failed != 0;
		if (!failed) {
			test_same_text(test_read(a, &code), strdup("It is three.\n"));
			assert_int_equal(session_undo(s, &e), 0);
			assert_false(give(s, result));
		}
		test_expect_text(s, SESSION_MESSAGES, messages);
		test_expect_text(s, SESSION_TOOL_RESULTS, results);
		test_same_text(log_of(s), strdup(log));
	}
	assert_true(refused >= 6); /* turn, answer, prompt twice, messages, the prompt as one */
	free(messages);
	free(results);
	free(log);
	session_end(s);
	close_script();
}

/* Many turns with tools: a common prefix is never computed twice. */
static void a_long_day_of_calls_computes_only_what_is_new(void **state)
{
	(void)state;
	open_script(
		"{\"template\": \"" HEAD CALLS
		"<|im_end|>\\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\\n"
		"{% if messages[-1].role == 'user' %}<|answer_1|>{% else %}<|answer_2|>{% endif %}"
		"{% endif %}\", \"answers\": " ANSWERS "}");
	struct session *s = test_session(&model);
	struct answer *a;
	struct err e = {0};
	uint64_t before = 1;
	int code;
	test_write_text(s, SESSION_TOOLS, TOOLS);
	for (int i = 0; i < 100; i++) {
		char id[64];
		test_answer(s, "How many?", "I look.\n");
		assert_int_equal(test_stats(s).cached_tokens, before - 1);
		before = test_stats(s).prompt_tokens;
		for (int k = 0; k < 2; k++) {
			char *calls = test_text(s, SESSION_TOOL_CALLS), *at = calls;
			for (int skip = 0; skip <= k; skip++)
				at = strstr(at + 1, "\"id\": \"");
			(void)snprintf(id, sizeof id,
				       "{\"tool_call_id\": \"%.9s\", \"content\": \"%d\"}", at + 7,
				       i);
			assert_int_equal(give(s, id), k);
			free(calls);
		}
		assert_int_equal(session_tool_results_submit(s, &a, &e), 0);
		test_same_text(test_read(a, &code), strdup("It is three.\n"));
		assert_int_equal(test_stats(s).cached_tokens, before - 1);
		/* The next prompt contains this answer without the mark that it began with. */
		before = test_stats(s).prompt_tokens;
	}
	session_end(s);
	close_script();
}

static void an_id_with_a_nul_is_answered_once(void **state)
{
	(void)state;
	open_script("{\"template\": \"" HEAD CALLS TAIL "\", \"answers\": " ANSWERS "}");
	struct session *s = test_session(&model);
	test_write_text(s, SESSION_MESSAGES,
			"[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": "
			"\"a\\u0000b\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
			"\"arguments\": {}}}]}]");
	assert_true(give(s, "{\"tool_call_id\": \"a\\u0000b\", \"content\": \"1\"}"));
	refuse(s, "{\"tool_call_id\": \"a\\u0000b\", \"content\": \"1\"}", EINVAL, "already");
	session_end(s);
	close_script();
}

/* Unbounded results would each be compared with each call, while others wait for the lock. */
static void no_answer_has_results_without_end(void **state)
{
	(void)state;
	open_script("{\"template\": \"" HEAD CALLS TAIL "\", \"answers\": " ANSWERS "}");
	struct session *s = test_session(&model);
	char *text = malloc(1 << 17), *at = text;
	at += sprintf(at, "[{\"role\": \"assistant\", \"tool_calls\": [" CALL("c", "1") "]}");
	for (size_t i = 0; i <= MESSAGE_CALLS_MAX; i++)
		at += sprintf(at,
			      ",{\"role\": \"tool\", \"tool_call_id\": \"z\", \"content\": \"\"}");
	(void)sprintf(at, "]");
	test_write_text(s, SESSION_MESSAGES, text);
	refuse(s, "{\"tool_call_id\": \"c\", \"content\": \"1\"}", EINVAL, "1024 results");
	free(text);
	session_end(s);
	close_script();
}

static void calls_are_named_whatever_the_messages_name(void **state)
{
	(void)state;
	enum { NAMED = 1000000 };
	struct messages m = {0};
	struct err e = {0};
	char *text = malloc((size_t)NAMED * CALL_ID_TURN + CALL_ID), *at = text;
	uint32_t turn;
	for (uint32_t i = 0; i < NAMED; i++, at += CALL_ID_TURN)
		message_call_id(at, i + 1, 0); /* the next overwrites its place */
	assert_int_equal(messages_add(&m, "user", text, (size_t)(at - text), &e), 0);
	assert_int_equal(dialogue_name_turn(&m, &turn, &e), 0);
	assert_int_equal(turn, NAMED + 1);
	messages_free(&m);
	assert_int_equal(dialogue_name_turn(&m, &turn, &e), 0);
	assert_int_equal(turn, 0);
	free(text);
}

static void a_turn_that_is_dropped_takes_its_results_along(void **state)
{
	(void)state;
	struct err e = {0};
	open_script("{\"template\": \"" HEAD CALLS TAIL "\", \"answers\": " ANSWERS "}");
	struct test_model small;
	test_model_ready(&small, at("model"),
			 &(struct engine_options){.quant = "bf16", .context = 96});
	struct session *s = test_session(&small);
	char text[80];
	memset(text, 'x', sizeof text);
	text[36] = 0;
	test_set(s, "on_full", "drop-oldest");
	test_write_text(s, SESSION_TOOLS, TOOLS);
	free(test_ask(s, text));
	assert_string_equal(test_stats(s).finish, "tool_calls");
	assert_false(give(s, "{\"tool_call_id\": \"c00001000\", \"content\": \"1\"}"));
	free(test_ask(s, text));
	assert_int_equal(test_stats(s).dropped_turns, 1);
	char *messages = test_text(s, SESSION_MESSAGES);
	assert_null(strstr(messages, "\"tool\""));
	free(messages);
	assert_int_equal(session_undo(s, &e), 0);
	test_expect_text(s, SESSION_MESSAGES, "[]\n");
	session_end(s);
	test_model_close(&small);
	close_script();
}

static void without_tools_nothing_is_a_call(void **state)
{
	(void)state;
	open_script("{\"template\": \"" HEAD CALLS TAIL "\", \"answers\": " ANSWERS "}");
	struct session *s = test_session(&model);
	char *text = test_ask(s, "How many?");
	assert_non_null(strstr(text, "I look.<tool_call>{\"name\": \"get\""));
	assert_string_equal(test_stats(s).finish, "end");
	test_expect_text(s, SESSION_TOOL_CALLS, "[]\n");
	expect_thoughts(s, "Let me see.\n");
	free(text);
	session_end(s);
	close_script();
}

static void a_template_that_knows_no_calls_keeps_them_in_the_content(void **state)
{
	(void)state;
	open_script("{\"template\": \"" HEAD TAIL "\", \"answers\": " ANSWERS "}");
	struct session *s = test_session(&model);
	test_write_text(s, SESSION_TOOLS, TOOLS);
	test_answer(s, "How many?", "I look.\n");
	char *rendered = test_text(s, SESSION_RENDERED);
	assert_non_null(
		strstr(rendered,
		       "assistant\nI look.<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": 1}}"
		       "</tool_call>\n<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": 2}}"
		       "</tool_call><|im_end|>"));
	free(rendered);
	char *calls = test_text(s, SESSION_TOOL_CALLS);
	assert_non_null(strstr(calls, "c00001001"));
	free(calls);
	assert_false(give(s, "{\"tool_call_id\": \"c00001001\", \"content\": \"2\"}"));
	session_end(s);
	close_script();
}

static void stops_apply_behind_thoughts_and_tokens_count_in_them(void **state)
{
	(void)state;
	open_script("{\"template\": \"" HEAD CALLS TAIL "\", \"answers\": " ANSWERS "}");
	struct session *s = test_session(&model);
	struct err e;
	test_set(s, "stop", " me\nlook");
	test_answer(s, "How many?", "I \n");
	expect_thoughts(s, "Let me see.\n");
	assert_string_equal(test_stats(s).finish, "stop");
	assert_int_equal(session_reset(s, &e), 0);
	test_set(s, "stop", " ");
	test_answer(s, "How many?", "I\n");
	assert_string_equal(test_stats(s).finish, "stop");
	assert_int_equal(test_stats(s).output_tokens, 5); /* not when more follows */
	assert_int_equal(session_reset(s, &e), 0);
	test_set(s, "stop", "");
	test_set(s, "max_tokens", "3");
	test_answer(s, "How many?", "\n");
	expect_thoughts(s, "Let me see.\n");
	assert_string_equal(test_stats(s).finish, "length");
	struct answer *a;
	int code;
	assert_int_equal(session_again(s, SESSION_AGAIN_CONTINUE, &a, &e), 0);
	test_same_text(test_read(a, &code), strdup("I look.\n"));
	expect_thoughts(s, "Let me see.\n");
	session_end(s);
	close_script();
}

static void a_template_may_open_the_thoughts(void **state)
{
	(void)state;
	open_script(
		"{\"template\": \"" HEAD
		"<|im_end|>\\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\\n"
		"<think>{% endif %}\", \"answers\": [[\"<think>\", \"Hm.\", \"</think>\", "
		"\"\\n\\n\", \"Yes.\"]]}");
	struct session *s = test_session(&model);
	test_answer(s, "Is it?", "Yes.\n");
	expect_thoughts(s, "Hm.\n");
	test_expect_text(
		s, SESSION_RENDERED,
		"<|im_start|>user\nIs it?<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n"
		"<|im_start|>assistant\n<think>");
	uint64_t prompt = test_stats(s).prompt_tokens;
	test_answer(s, "Is it?", "Yes.\n"); /* costs only the tokens that the thoughts change */
	assert_int_equal(test_stats(s).cached_tokens, prompt - 1);
	session_end(s);
	close_script();
}

/* A hybrid's state goes back to where the answer's marks began, and no further. */
static void thoughts_that_are_left_out_cost_a_hybrid_nothing(void **state)
{
	(void)state;
	open_script(
		"{\"fixture\": \"qwen3_5\", \"template\": \"" HEAD
		"<|im_end|>\\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\\n"
		"<think>{% endif %}\", \"answers\": [[\"<think>\", \"Hm.\", \"</think>\", "
		"\"\\n\\n\", \"Yes.\"]]}");
	struct session *s = test_session(&model);
	test_set(s, "draft", "off");
	for (int i = 0; i < 40; i++) {
		uint64_t before = test_stats(s).prompt_tokens;
		test_answer(s, "Is it?", "Yes.\n");
		expect_thoughts(s, "Hm.\n");
		assert_int_equal(test_stats(s).recomputed_tokens, 0);
		assert_int_equal(test_stats(s).cached_tokens, before ? before - 1 : 0);
	}
	session_end(s);
	close_script();
}

/* ---- variables of templates ---- */

static void params_and_variables_reach_the_template(void **state)
{
	(void)state;
	struct err e = {0};
	open_script("{\"template\": \"{% if enable_thinking is defined %}{{ enable_thinking }}"
		    "{% endif %}{{ extra }}{{ strftime_now('%Y-%m-%d %H') }}\", \"answers\": []}");
	struct session *s = test_session(&model);
	test_set(s, "date", "2024-02-29");
	test_expect_text(s, SESSION_RENDERED, "2024-02-29 00");
	test_set(s, "thinking", "on");
	test_expect_text(s, SESSION_RENDERED, "True2024-02-29 00");
	test_set(s, "thinking", "off");
	test_write_text(s, SESSION_VARIABLES, "{\"extra\": \"-\", \"enable_thinking\": true}");
	test_expect_text(s, SESSION_RENDERED, "False-2024-02-29 00"); /* the param wins */
	assert_int_equal(set_param(s, "thinking", "low", &e), -EINVAL);
	assert_non_null(strstr(e.text, "reasoning_effort"));
	test_expect_text(s, SESSION_RENDERED, "False-2024-02-29 00");
	session_end(s);
	close_script();
}

static void be_in(const char *zone)
{
	assert_int_equal(setenv("TZ", zone, 1), 0);
	tzset();
}

static void the_clock_stands_from_the_first_turn_on(void **state)
{
	(void)state;
	struct err e;
	open_script("{\"template\": \"{{ strftime_now('%d %H') }}<|answer_1|>\", \"answers\": "
		    "[[\"<|answer_1|>\", \"Yes.\"]]}");
	struct session *s = test_session(&model);
	be_in("AAA-12");
	test_answer(s, "Is it?", "Yes.\n");
	char *rendered = test_text(s, SESSION_RENDERED);
	be_in("BBB+11"); /* another hour of another day */
	test_same_text(test_text(s, SESSION_RENDERED), strdup(rendered));
	assert_int_equal(session_reset(s, &e), 0);
	char *now = test_text(s, SESSION_RENDERED);
	assert_string_not_equal(now, rendered);
	free(now);
	free(rendered);
	assert_int_equal(unsetenv("TZ"), 0);
	session_end(s);
	close_script();
}

/* ---- templates that cannot be used ---- */

static void a_broken_template_says_so_and_leaves_texts(void **state)
{
	(void)state;
	char fact[256];
	open_script("{\"template\": \"{% if %}\", \"answers\": [[\"go\", \"on.\"]]}");
	struct session *s = test_session(&model);
	assert_int_equal(model_fact(model.model, FACT_TEMPLATE, fact, sizeof fact), 0);
	assert_non_null(strstr(fact, "unusable: "));
	test_ask_refused(s, "go", "-o template=");
	test_set(s, "chat", "off");
	test_answer(s, "go", "on.\n");
	session_end(s);
	close_script();
}

static void a_template_refuses_in_its_own_words(void **state)
{
	(void)state;
	open_script(
		"{\"template\": \"{{ raise_exception('No system, please') }}\", \"answers\": []}");
	struct session *s = test_session(&model);
	test_ask_refused(s, "Hi", "No system, please");
	test_expect_text(s, SESSION_MESSAGES, "[]\n");
	session_end(s);
	close_script();
}

static void an_option_gives_another_template(void **state)
{
	(void)state;
	char fact[256], file[64];
	struct engine *g;
	struct err e = {0};
	open_script("{\"template\": \"{% if %}\", \"answers\": [[\"<|answer_1|>\", \"Yes.\"]]}");
	static const char good[] = "<|answer_1|>", bad[] = "{% for %}";
	(void)snprintf(file, sizeof file, "%s", at("good.jinja"));
	test_file_write(file, good, sizeof good - 1);
	struct test_model other;
	test_model_ready(&other, at("model"),
			 &(struct engine_options){.quant = "bf16", .template_file = file});
	struct session *s = test_session(&other);
	test_answer(s, "Is it?", "Yes.\n");
	assert_int_equal(model_fact(other.model, FACT_TEMPLATE, fact, sizeof fact), 0);
	assert_string_equal(fact, file);
	session_end(s);
	test_model_close(&other);
	test_file_write(file, bad, sizeof bad - 1);
	assert_int_equal(engine_create(&g, &(struct engine_options){.template_file = file}, &e),
			 -EINVAL);
	assert_non_null(strstr(e.text, "good.jinja"));
	assert_int_equal(
		engine_create(&g, &(struct engine_options){.template_file = "/none/such"}, &e),
		-ENOENT);
	close_script();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tool_loop_runs_through_thoughts_calls_and_results),
		cmocka_unit_test(a_prompt_takes_results_along_and_undo_takes_both_back),
		cmocka_unit_test(a_prompt_that_there_is_no_memory_for_changes_nothing),
		cmocka_unit_test(a_long_day_of_calls_computes_only_what_is_new),
		cmocka_unit_test(an_id_with_a_nul_is_answered_once),
		cmocka_unit_test(no_answer_has_results_without_end),
		cmocka_unit_test(calls_are_named_whatever_the_messages_name),
		cmocka_unit_test(a_turn_that_is_dropped_takes_its_results_along),
		cmocka_unit_test(without_tools_nothing_is_a_call),
		cmocka_unit_test(a_template_that_knows_no_calls_keeps_them_in_the_content),
		cmocka_unit_test(stops_apply_behind_thoughts_and_tokens_count_in_them),
		cmocka_unit_test(a_template_may_open_the_thoughts),
		cmocka_unit_test(thoughts_that_are_left_out_cost_a_hybrid_nothing),
		cmocka_unit_test(params_and_variables_reach_the_template),
		cmocka_unit_test(the_clock_stands_from_the_first_turn_on),
		cmocka_unit_test(a_broken_template_says_so_and_leaves_texts),
		cmocka_unit_test(a_template_refuses_in_its_own_words),
		cmocka_unit_test(an_option_gives_another_template),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
