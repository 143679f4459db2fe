/* A session's messages are authoritative: after writing, undo or retry the model sees exactly
 * these messages next, and the ids are their encoding. On the demonstration model. */
#include "random.h"
#include "session_help.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char capital[] = "What is the capital of France?";
static const char paris[] = "The capital of France is Paris.";

static _Atomic bool looked_enough;

/* ---- help ---- */

static void refuse_text(struct session *s, enum session_text what, const char *text, int code,
			const char *words)
{
	struct err e = {0};
	char *before = test_text(s, what);
	int failed = session_text_set(s, what, text, strlen(text), &e);
	if (failed != -code || !strstr(e.text, words))
		fail_msg("%s: %d %s", text, failed, e.text);
	test_same_text(before, test_text(s, what)); /* nothing is changed */
}

static char *again(struct session *s, enum session_again how)
{
	struct answer *a;
	struct err e = {0};
	int code;
	if (session_again(s, how, &a, &e))
		fail_msg("%s", e.text);
	char *text = test_read(a, &code);
	assert_int_equal(code, 0);
	return text;
}

static void refuse_again(struct session *s, enum session_again how, const char *words)
{
	struct err e = {0};
	assert_int_equal(session_again(s, how, NULL, &e), -ENODATA);
	if (!strstr(e.text, words))
		fail_msg("%s", e.text);
}

static void param_is(const struct session *s, const char *name, const char *want)
{
	size_t i = 0;
	while (strcmp(params_name(i), name) != 0)
		i++;
	test_same_text(session_param_get(s, i), strdup(want));
}

/* ---- messages ---- */

static void a_turn_becomes_two_messages(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_expect_text(s, SESSION_MESSAGES, "[]\n");
	free(test_ask(s, capital));
	test_expect_text(
		s, SESSION_MESSAGES,
		"[\n{\"role\": \"user\", \"content\": \"What is the capital of France?\"},\n"
		"{\"role\": \"assistant\", \"content\": \"The capital of France is "
		"Paris.\"}\n]\n");
	test_expect_text(s, SESSION_RENDERED,
			 "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
			 "<|im_start|>assistant\nThe capital of France is Paris.<|im_end|>\n"
			 "<|im_start|>assistant\n");
	session_end(s);
}

static void what_is_rendered_is_what_the_model_reads(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_write_text(s, SESSION_MESSAGES,
			"[{\"role\": \"user\", \"content\": \"What is the capital of France?\"}]");
	test_expect_text(s, SESSION_RENDERED,
			 "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
			 "<|im_start|>assistant\n");
	char *tokens = test_text(s, SESSION_RENDERED_TOKENS);
	free(again(s, SESSION_AGAIN_ANSWER));
	assert_int_equal(strtoull(tokens, NULL, 10), test_stats(s).prompt_tokens);
	free(tokens);
	session_end(s);
}

static void an_edited_history_is_what_the_model_sees(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable), *fresh = test_greedy_session(&fable);
	static const char edited[] = "[{\"role\": \"user\", \"content\": \"What is 12 x 6?\"},"
				     "{\"role\": \"assistant\", \"content\": \"12 x 6 is 72.\"}]";
	free(test_ask(s, capital));
	test_write_text(s, SESSION_MESSAGES, edited);
	test_write_text(fresh, SESSION_MESSAGES, edited);
	test_same_text(test_ask(s, "And then?"), test_ask(fresh, "And then?"));
	test_same_text(test_text(s, SESSION_MESSAGES), test_text(fresh, SESSION_MESSAGES));
	assert_int_equal(test_stats(s).prompt_tokens, test_stats(fresh).prompt_tokens);
	assert_int_equal(test_stats(fresh).cached_tokens, 0);
	assert_in_range(test_stats(s).cached_tokens, 3, test_stats(s).prompt_tokens);
	session_end(s);
	session_end(fresh);
}

static void only_what_differs_is_computed(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	free(test_ask(s, capital));
	char *messages = test_text(s, SESSION_MESSAGES);
	struct session_stats one = test_stats(s);
	test_write_text(s, SESSION_MESSAGES, messages); /* read and written back: nothing differs */
	free(test_ask(s, "What is 12 x 6?"));
	assert_in_range(test_stats(s).cached_tokens, one.prompt_tokens + one.output_tokens - 2,
			one.prompt_tokens + one.output_tokens);
	free(messages);
	session_end(s);
}

static void hostile_messages_are_refused_and_change_nothing(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	static const char deep[] =
		"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[";
	free(test_ask(s, capital));
	refuse_text(s, SESSION_MESSAGES, "{}", EINVAL, "must be a list");
	refuse_text(s, SESSION_MESSAGES, "[{\"role\": \"king\"}]", EINVAL, "message 0");
	refuse_text(s, SESSION_MESSAGES, deep, EINVAL, "messages.json");
	refuse_text(s, SESSION_MESSAGES, "[{\"role\": \"system\", \"content\": \"a\\u0000b\"}]",
		    EINVAL, "message 0");
	refuse_text(s, SESSION_TOOLS, "{}", EINVAL, "tools.json");
	refuse_text(s, SESSION_TOOLS, "[{\"type\": \"function\"}]", EINVAL, "tool 0");
	refuse_text(s, SESSION_VARIABLES, "[]", EINVAL, "template.json");
	refuse_text(s, SESSION_VARIABLES, "{\"messages\": []}", EINVAL, "messages");
	refuse_text(s, SESSION_RENDERED, "x", EACCES, "only read");
	char *large = malloc((4 << 20) + 2);
	assert_non_null(large);
	memset(large, ' ', (4 << 20) + 1);
	large[(4 << 20) + 1] = 0;
	refuse_text(s, SESSION_TOOLS, large, EFBIG, "tools.json");
	free(large);
	test_answer(s, capital, "The capital of France is Paris.\n");
	session_end(s);
}

/* Control tokens spelled in a text stay text, however the text came in. */
static void what_a_text_spells_is_no_control_token(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_set(s, "max_tokens", "1");
	free(test_ask(s, "x"));
	uint64_t plain = test_stats(s).prompt_tokens;
	struct err e;
	assert_int_equal(session_reset(s, &e), 0);
	free(test_ask(s, "<|im_end|>"));
	assert_in_range(test_stats(s).prompt_tokens, plain + 3, plain + 12);
	session_end(s);
}

static void documents_read_back(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_expect_text(s, SESSION_TOOLS, "[]\n");
	test_expect_text(s, SESSION_VARIABLES, "{}\n");
	test_expect_text(s, SESSION_TOOL_CALLS, "[]\n");
	test_expect_text(s, SESSION_TOOL_RESULTS, "[]\n");
	test_write_text(s, SESSION_TOOLS,
			"[{\"type\":\"function\",\n \"function\":{\"name\":\"f\"}}]\n");
	test_expect_text(s, SESSION_TOOLS,
			 "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]\n");
	test_write_text(s, SESSION_VARIABLES, "{\"a\": [1.0, null]}");
	test_expect_text(s, SESSION_VARIABLES, "{\"a\": [1.0, null]}\n");
	test_write_text(s, SESSION_TOOLS, " \n");
	test_expect_text(s, SESSION_TOOLS, "[]\n");
	test_write_text(s, SESSION_VARIABLES, "{}");
	test_expect_text(s, SESSION_VARIABLES, "{}\n");
	session_end(s);
}

/* ---- the system's message ---- */

static void the_system_message_is_the_param_both_ways(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	struct err e;
	test_set(s, "system", "Be brief.");
	test_expect_text(s, SESSION_MESSAGES,
			 "[\n{\"role\": \"system\", \"content\": \"Be brief.\"}\n]\n");
	free(test_ask(s, capital));
	test_set(s, "system", "Be kind.");
	char *messages = test_text(s, SESSION_MESSAGES);
	assert_non_null(
		strstr(messages, "[\n{\"role\": \"system\", \"content\": \"Be kind.\"},\n"));
	assert_null(strstr(messages, "Be brief."));
	free(messages);
	test_set(s, "system", "");
	assert_int_equal(session_undo(s, &e), 0); /* the turn began after the removed part */
	test_expect_text(s, SESSION_MESSAGES, "[]\n");
	test_write_text(
		s, SESSION_MESSAGES,
		"[{\"role\": \"system\", \"content\": [{\"type\": \"text\", \"text\": \"A\"}, "
		"{\"type\": \"text\", \"text\": \"B\"}]}]");
	param_is(s, "system", "AB");
	test_set(s, "system", "AB"); /* says the same: it stays as it was written */
	messages = test_text(s, SESSION_MESSAGES);
	assert_non_null(strstr(messages, "\"text\": \"A\""));
	free(messages);
	test_write_text(s, SESSION_MESSAGES, "[{\"role\": \"user\", \"content\": \"x\"}]");
	param_is(s, "system", "");
	session_end(s);
}

static void a_copied_session_and_a_reset_one_keep_the_system_message(void **state)
{
	(void)state;
	struct err e;
	struct session *s = test_greedy_session(&fable), *copy;
	static const char kept[] = "[\n{\"role\": \"system\", \"content\": \"Be brief.\"}\n]\n";
	test_set(s, "system", "Be brief.");
	free(test_ask(s, capital));
	assert_int_equal(session_create(&copy, fable.model, s, &fable, &e), 0);
	test_expect_text(copy, SESSION_MESSAGES, kept);
	assert_int_equal(session_reset(s, &e), 0);
	test_expect_text(s, SESSION_MESSAGES, kept);
	session_end(s);
	session_end(copy);
}

/* ---- undo and retry ---- */

static void undo_cuts_messages(void **state)
{
	(void)state;
	struct err e;
	struct session *s = test_greedy_session(&fable);
	free(test_ask(s, capital));
	char *one = test_text(s, SESSION_MESSAGES);
	free(test_ask(s, "What is 12 x 6?"));
	assert_int_equal(session_undo(s, &e), 0);
	test_same_text(test_text(s, SESSION_MESSAGES), one);
	/* In written messages: from the last user message on. */
	test_write_text(s, SESSION_MESSAGES,
			"[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
			"\"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}]");
	assert_int_equal(session_undo(s, &e), 0);
	assert_int_equal(session_undo(s, &e), 0);
	test_expect_text(s, SESSION_MESSAGES, "[]\n");
	assert_int_equal(session_undo(s, &e), -ENODATA);
	session_end(s);
}

static void messages_are_answered_as_they_stand(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	refuse_again(s, SESSION_AGAIN_ANSWER, "no messages");
	test_write_text(s, SESSION_MESSAGES,
			"[{\"role\": \"user\", \"content\": \"What is the capital of France?\"}]");
	test_same_text(again(s, SESSION_AGAIN_ANSWER), strdup("The capital of France is Paris.\n"));
	refuse_again(s, SESSION_AGAIN_ANSWER, "retry");
	struct err e;
	assert_int_equal(session_undo(s, &e), 0); /* the answer alone: the question was there */
	refuse_again(s, SESSION_AGAIN_RETRY, "answer");
	test_same_text(again(s, SESSION_AGAIN_ANSWER), strdup("The capital of France is Paris.\n"));
	session_end(s);
}

static void retry_makes_the_last_answer_anew(void **state)
{
	(void)state;
	char log[512];
	struct session *s = test_greedy_session(&fable);
	refuse_again(s, SESSION_AGAIN_RETRY, "retry");
	test_set(s, "max_tokens", "2");
	free(test_ask(s, capital));
	test_set(s, "max_tokens", "0");
	test_same_text(again(s, SESSION_AGAIN_RETRY), strdup("The capital of France is Paris.\n"));
	assert_int_equal(test_stats(s).cached_tokens, test_stats(s).prompt_tokens - 1);
	char *messages = test_text(s, SESSION_MESSAGES);
	assert_non_null(strstr(messages, paris));
	assert_null(strstr(strstr(messages, "assistant") + 1, "assistant"));
	free(messages);
	size_t n = session_log_read(s, 0, log, sizeof log - 1);
	log[n] = 0;
	assert_string_equal(log, "> What is the capital of France?\n"
				 "The capital of France is Paris.\n\n");
	struct err e;
	assert_int_equal(session_undo(s, &e), 0);
	test_expect_text(s, SESSION_MESSAGES, "[]\n");
	session_end(s);
}

static void retry_leaves_alone_what_was_no_conversation(void **state)
{
	(void)state;
	char log[512];
	struct session *s = test_greedy_session(&fable);
	free(test_ask(s, capital));
	test_set(s, "chat", "off");
	test_set(s, "max_tokens", "3");
	char *plain = test_ask(s, "Once upon");
	test_set(s, "chat", "on");
	test_set(s, "max_tokens", "0");
	test_same_text(again(s, SESSION_AGAIN_RETRY), strdup("The capital of France is Paris.\n"));
	log[session_log_read(s, 0, log, sizeof log - 1)] = 0;
	assert_non_null(strstr(log, plain));
	free(plain);
	session_end(s);
}

/* With the same seed, continuing gives the same text. */
static void continued_is_the_text_that_was_not_cut(void **state)
{
	(void)state;
	for (int seed = 1; seed < 6; seed++) {
		char digits[2] = {(char)('0' + seed), 0};
		struct session *s = test_session(&fable), *whole = test_session(&fable);
		test_set(s, "seed", digits);
		test_set(whole, "seed", digits);
		char *want = test_ask(whole, "Tell me a tale of a fox.");
		test_set(s, "max_tokens", "5");
		free(test_ask(s, "Tell me a tale of a fox."));
		for (int i = 0; i < 3 && !strcmp(test_stats(s).finish, "length"); i++) {
			free(again(s, SESSION_AGAIN_CONTINUE));
			assert_in_range(test_stats(s).output_tokens, 1, 5);
		}
		test_set(s, "max_tokens", "0");
		if (!strcmp(test_stats(s).finish, "length"))
			free(again(s, SESSION_AGAIN_CONTINUE));
		int code;
		test_same_text(test_read(session_answer(s), &code), want);
		test_same_text(test_text(s, SESSION_MESSAGES), test_text(whole, SESSION_MESSAGES));
		size_t n = session_log_size(s);
		assert_int_equal(n, session_log_size(whole));
		session_end(s);
		session_end(whole);
	}
}

static void what_was_not_cut_short_is_not_continued(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	refuse_again(s, SESSION_AGAIN_CONTINUE, "continue");
	free(test_ask(s, capital));
	refuse_again(s, SESSION_AGAIN_CONTINUE, "not cut short");
	test_set(s, "max_tokens", "2");
	free(test_ask(s, capital));
	test_write_text(s, SESSION_MESSAGES, "[{\"role\": \"user\", \"content\": \"x\"}]");
	refuse_again(s, SESSION_AGAIN_CONTINUE, "not an answer");
	test_write_text(s, SESSION_MESSAGES,
			"[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": "
			"\"c00000000\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
			"\"arguments\": {}}}]}]");
	refuse_again(s, SESSION_AGAIN_CONTINUE, "calls tools");
	session_end(s);
}

static void a_written_answer_is_continued(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	int code;
	test_write_text(s, SESSION_MESSAGES,
			"[{\"role\": \"user\", \"content\": \"What is the capital of France?\"}, "
			"{\"role\": \"assistant\", \"content\": \"The capital of \"}]");
	free(again(s, SESSION_AGAIN_CONTINUE));
	test_same_text(test_read(session_answer(s), &code),
		       strdup("The capital of France is Paris.\n"));
	refuse_again(s, SESSION_AGAIN_CONTINUE, "not cut short");
	session_end(s);
}

/* ---- while a turn runs ---- */

static void a_running_turn_shows_its_prompt_and_refuses_changes(void **state)
{
	(void)state;
	struct err e = {0};
	struct session *s = test_greedy_session(&fable);
	struct answer *a = test_submit_held(s, "Go on", 10);
	test_expect_text(s, SESSION_MESSAGES,
			 "[\n{\"role\": \"user\", \"content\": \"Go on\"}\n]\n");
	test_expect_text(s, SESSION_RENDERED,
			 "<|im_start|>user\nGo on<|im_end|>\n<|im_start|>assistant\n");
	static const enum session_text written[] = {SESSION_MESSAGES, SESSION_TOOLS,
						    SESSION_VARIABLES};
	for (size_t i = 0; i < sizeof written / sizeof *written; i++)
		assert_int_equal(session_text_set(s, written[i], "", 0, &e), -EBUSY);
	assert_int_equal(session_again(s, SESSION_AGAIN_RETRY, NULL, &e), -EBUSY);
	assert_int_equal(session_tool_results_submit(s, NULL, &e), -EBUSY);
	test_set(s, "system", "Later."); /* of the next turn */
	session_stop(s);
	test_wait(a);
	answer_unref(a);
	char *messages = test_text(s, SESSION_MESSAGES);
	assert_non_null(strstr(messages, "Later."));
	assert_non_null(strstr(messages, "assistant"));
	free(messages);
	session_end(s);
}

/* Looks at all texts until it is told to end. */
static void *look(void *session)
{
	while (!atomic_load(&looked_enough))
		for (enum session_text what = SESSION_MESSAGES; what <= SESSION_TOOL_RESULTS;
		     what++) {
			struct err e = {0};
			size_t n;
			char *text = session_text_get(session, what, &n, &e);
			if (!text)
				return session;
			free(text);
		}
	return NULL;
}

/* Under ThreadSanitizer: other threads read texts while a turn runs. */
static void looking_disturbs_no_turn(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable), *alone = test_greedy_session(&fable);
	pthread_t lookers[2];
	void *failed;
	test_set(s, "system", "You answer briefly.");
	test_set(alone, "system", "You answer briefly.");
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&lookers[i], NULL, look, s), 0);
	for (int i = 0; i < 4; i++) {
		test_same_text(test_ask(s, capital), test_ask(alone, capital));
		test_same_text(again(s, SESSION_AGAIN_RETRY), again(alone, SESSION_AGAIN_RETRY));
	}
	test_set(s, "system", "");
	atomic_store(&looked_enough, true);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(lookers[i], &failed), 0);
		assert_null(failed);
	}
	session_end(s);
	session_end(alone);
}

static void a_failed_turn_was_never_there(void **state)
{
	(void)state;
	struct test_model small;
	char text[512];
	test_model_open(&small, test_fable(), &(struct engine_options){.context = 64});
	struct session *s = test_greedy_session(&small);
	test_answer(s, capital, "The capital of France is Paris.\n");
	char *messages = test_text(s, SESSION_MESSAGES);
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	static const char *const words[][2] = {
		{"error", "drop-oldest"}, {"drop-oldest", "shorten"}, {"auto", "shorten"}};
	for (size_t i = 0; i < 3; i++) {
		test_set(s, "on_full", words[i][0]);
		test_ask_refused(s, text, words[i][1]);
		test_same_text(test_text(s, SESSION_MESSAGES), strdup(messages));
	}
	test_ask_refused(s, "\xff", "UTF-8");
	test_same_text(test_text(s, SESSION_MESSAGES), messages);
	session_end(s);
	test_model_close(&small);
}

/* ---- a full context ---- */

static void goes_on_without_the_oldest_turns(const char *on_full)
{
	struct test_model small;
	struct err e;
	uint64_t dropped = 0;
	test_model_open(&small, test_fable(), &(struct engine_options){.context = 128});
	struct session *s = test_greedy_session(&small);
	test_set(s, "system", "You answer briefly.");
	test_set(s, "on_full", on_full);
	for (int i = 0; i < 12; i++) {
		free(test_ask(s, capital));
		dropped += test_stats(s).dropped_turns;
		assert_true(test_stats(s).context_tokens <= 128);
	}
	assert_true(dropped >= 3);
	char *messages = test_text(s, SESSION_MESSAGES), *from = messages;
	assert_non_null(strstr(messages, "[\n{\"role\": \"system\""));
	int questions = 0;
	while ((from = strstr(from, "\"user\"")))
		questions++, from++;
	assert_int_equal(questions + (int)dropped, 12); /* whole turns, each said */
	free(messages);
	char *log = calloc(1, session_log_size(s) + 1);
	session_log_read(s, 0, log, session_log_size(s));
	assert_non_null(strstr(log, "(the context is full: without the oldest "));
	free(log);
	for (int i = 0; i < questions; i++)
		assert_int_equal(session_undo(s, &e), 0);
	test_expect_text(s, SESSION_MESSAGES,
			 "[\n{\"role\": \"system\", \"content\": \"You answer briefly.\"}\n]\n");
	assert_int_equal(session_undo(s, &e), -ENODATA);
	/* One turn alone that is too long is not dropped. */
	char text[1024];
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	test_ask_refused(s, text, "128");
	session_end(s);
	test_model_close(&small);
}

static void drop_oldest_and_auto_go_on_without_the_oldest_turns(void **state)
{
	(void)state;
	goes_on_without_the_oldest_turns("drop-oldest");
	goes_on_without_the_oldest_turns("auto");
}

/* Messages may be longer than any prompt: those that cannot fit are refused, or dropped, unread. */
static void a_history_beyond_all_bounds_is_refused_or_dropped(void **state)
{
	(void)state;
	struct test_model small;
	int code;
	struct answer *a;
	struct err e = {0};
	test_model_open(&small, test_fable(), &(struct engine_options){.context = 128});
	struct session *s = test_greedy_session(&small);
	enum { LONG = 1 << 20 };
	char *text = malloc(LONG + 512);
	assert_non_null(text);
	int n = sprintf(text, "[{\"role\": \"user\", \"content\": \"");
	memset(text + n, 'x', LONG);
	(void)sprintf(text + n + LONG,
		      "\"}, {\"role\": \"assistant\", \"content\": \"So?\"}, {\"role\": \"user\", "
		      "\"content\": \"%s\"}]",
		      capital);
	assert_int_equal(session_text_set(s, SESSION_MESSAGES, text, strlen(text), &e), 0);
	assert_int_equal(session_again(s, SESSION_AGAIN_ANSWER, &a, &e), 0);
	free(test_read(a, &code));
	assert_int_equal(code, -EIO);
	char words[1024];
	session_error(s, words, sizeof words);
	assert_non_null(strstr(words, "at least 655")); /* 2^20 bytes, 16 each */
	test_set(s, "on_full", "drop-oldest");
	test_same_text(again(s, SESSION_AGAIN_ANSWER), strdup("The capital of France is Paris.\n"));
	assert_int_equal(test_stats(s).dropped_turns, 1);
	free(text);
	session_end(s);
	test_model_close(&small);
}

/* ---- edits ---- */

static uint32_t below(struct random *r, uint32_t n)
{
	return random_u32(r) % n;
}

/* `count` random messages of a conversation, as JSON. */
static char *random_messages(struct random *r, int count)
{
	static const char *const asked[] = {"What is the capital of France?", "What is 12 x 6?",
					    "Tell me a tale.", "<|im_end|>", "caf\\u00e9 \\n\\n"};
	static const char *const said[] = {"Paris.", "72", "", " Once upon a time ", "I\\tdo"};
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);
	assert_non_null(out);
	(void)fputs(below(r, 2) ? "[{\"role\": \"system\", \"content\": \"Be good.\"}"
				: "[{\"role\": \"user\", \"content\": \"Hi\"}",
		    out);
	for (int i = 0; i < count; i++)
		(void)fprintf(out, ", {\"role\": \"%s\", \"content\": \"%s\"}",
			      i % 2 ? "assistant" : "user",
			      i % 2 ? said[below(r, 5)] : asked[below(r, 5)]);
	(void)fputs("]", out);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void random_edits_are_answered_as_by_a_fresh_session(void **state)
{
	(void)state;
	const char *asked = getenv("MOEFS_EDITS");
	int edits = asked ? atoi(asked) : 40;
	uint64_t cached = 0;
	struct random r = {7};
	struct session *s = test_greedy_session(&fable);
	test_set(s, "max_tokens", "6");
	for (int i = 0; i < edits; i++) {
		struct session *fresh = test_greedy_session(&fable);
		char *messages = random_messages(&r, 1 + 2 * (int)below(&r, 4));
		test_set(fresh, "max_tokens", "6");
		test_write_text(s, SESSION_MESSAGES, messages);
		test_write_text(fresh, SESSION_MESSAGES, messages);
		test_same_text(again(s, SESSION_AGAIN_ANSWER), again(fresh, SESSION_AGAIN_ANSWER));
		test_same_text(test_text(s, SESSION_MESSAGES), test_text(fresh, SESSION_MESSAGES));
		cached += test_stats(s).cached_tokens;
		free(messages);
		session_end(fresh);
	}
	assert_true(cached > (uint64_t)edits); /* and without computing all of it again */
	session_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_becomes_two_messages),
		cmocka_unit_test(what_is_rendered_is_what_the_model_reads),
		cmocka_unit_test(an_edited_history_is_what_the_model_sees),
		cmocka_unit_test(only_what_differs_is_computed),
		cmocka_unit_test(hostile_messages_are_refused_and_change_nothing),
		cmocka_unit_test(what_a_text_spells_is_no_control_token),
		cmocka_unit_test(documents_read_back),
		cmocka_unit_test(the_system_message_is_the_param_both_ways),
		cmocka_unit_test(a_copied_session_and_a_reset_one_keep_the_system_message),
		cmocka_unit_test(undo_cuts_messages),
		cmocka_unit_test(messages_are_answered_as_they_stand),
		cmocka_unit_test(retry_makes_the_last_answer_anew),
		cmocka_unit_test(retry_leaves_alone_what_was_no_conversation),
		cmocka_unit_test(continued_is_the_text_that_was_not_cut),
		cmocka_unit_test(what_was_not_cut_short_is_not_continued),
		cmocka_unit_test(a_written_answer_is_continued),
		cmocka_unit_test(a_running_turn_shows_its_prompt_and_refuses_changes),
		cmocka_unit_test(looking_disturbs_no_turn),
		cmocka_unit_test(a_failed_turn_was_never_there),
		cmocka_unit_test(drop_oldest_and_auto_go_on_without_the_oldest_turns),
		cmocka_unit_test(a_history_beyond_all_bounds_is_refused_or_dropped),
		cmocka_unit_test(random_edits_are_answered_as_by_a_fresh_session),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
