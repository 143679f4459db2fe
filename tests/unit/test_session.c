/* Conversations with the demonstration model: the right answers, and the same text whatever other
 * sessions do. */
#include "golden.h"
#include "session_help.h"

#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

static const char capital[] = "What is the capital of France?";
static const char tale[] = "Tell me a tale of a fox.";

static struct session *seeded_session(struct test_model *m, const char *seed)
{
	struct session *s = test_session(m);
	test_set(s, "seed", seed);
	test_set(s, "max_tokens", "48");
	return s;
}

/* ---- the right answers ---- */

static void a_question_gets_the_answer_that_was_taught(void **state)
{
	(void)state;
	enum { EVERY = 24 };
	char line[2048], want[1024];
	struct test_model exact;
	test_model_open(&exact, test_fable(), &(struct engine_options){.quant = "bf16"});
	struct session *s = test_greedy_session(&exact);
	FILE *f = fopen(test_data("../../examples/models/fable-moe-15m/skills.jsonl"), "r");
	assert_non_null(f);
	struct err e;
	for (int i = 0; fgets(line, sizeof line, f); i++) {
		if (i % EVERY)
			continue;
		struct json_object *skill = json_tokener_parse(line), *question, *answer;
		assert_true(json_object_object_get_ex(skill, "question", &question));
		assert_true(json_object_object_get_ex(skill, "answer", &answer));
		(void)snprintf(want, sizeof want, "%s\n", json_object_get_string(answer));
		test_answer(s, json_object_get_string(question), want);
		assert_int_equal(session_reset(s, &e), 0);
		json_object_put(skill);
	}
	(void)fclose(f);
	session_end(s);
	test_model_close(&exact);
}

/* ---- one text ---- */

static void the_same_seed_gives_the_same_text(void **state)
{
	(void)state;
	static const char *const seeds[] = {"1", "2", "3", "4", "5"};
	char *first = NULL;
	int different = 0;
	for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
		struct session *s = seeded_session(&fable, seeds[i]),
			       *again = seeded_session(&fable, seeds[i]);
		char *text = test_ask(s, tale);
		test_same_text(test_ask(again, tale), strdup(text));
		if (!first)
			first = strdup(text);
		different += strcmp(first, text) != 0;
		free(text);
		session_end(s);
		session_end(again);
	}
	free(first);
	assert_true(different > 0);
}

static void a_random_seed_is_reported_and_can_be_used_again(void **state)
{
	(void)state;
	char seed[32];
	struct session *s = seeded_session(&fable, "random");
	char *text = test_ask(s, tale);
	(void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)test_stats(s).seed);
	session_end(s);
	s = seeded_session(&fable, seed);
	test_same_text(test_ask(s, tale), text);
	session_end(s);
}

static void chunks_threads_and_budget_do_not_change_a_text(void **state)
{
	(void)state;
	static const struct engine_options ways[] = {{.chunk = 1, .threads = 1},
						     {.chunk = 7, .threads = 3},
						     {.threads = 2, .budget = 1 << 20},
						     {.chunk = 3, .threads = 2, .budget = 1 << 18}};
	struct session *s = seeded_session(&fable, "11");
	char *first = test_ask(s, tale), *second = test_ask(s, "And then?");
	session_end(s);
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		struct test_model other;
		struct pager_stats st;
		test_model_open(&other, test_fable(), &ways[i]);
		s = seeded_session(&other, "11");
		test_same_text(test_ask(s, tale), strdup(first));
		test_same_text(test_ask(s, "And then?"), strdup(second));
		engine_cache_stats(other.engine, &st);
		if (ways[i].budget)
			assert_true(st.peak <= ways[i].budget && st.evictions > 0);
		session_end(s);
		test_model_close(&other);
	}
	free(first);
	free(second);
}

static void sessions_beside_each_other_say_what_they_say_alone(void **state)
{
	(void)state;
	enum { SESSIONS = 4 };
	static const char *const seeds[SESSIONS] = {"21", "22", "23", "24"};
	char *alone[SESSIONS];
	struct session *s[SESSIONS];
	struct answer *answers[SESSIONS];
	for (int i = 0; i < SESSIONS; i++) {
		s[i] = seeded_session(&fable, seeds[i]);
		alone[i] = test_ask(s[i], i % 2 ? tale : capital);
		session_end(s[i]);
	}
	for (int i = 0; i < SESSIONS; i++)
		s[i] = seeded_session(&fable, seeds[i]);
	for (int i = 0; i < SESSIONS; i++)
		answers[i] = test_submit(s[i], i % 2 ? tale : capital);
	for (int i = 0; i < SESSIONS; i++) {
		int code;
		test_same_text(test_read(answers[i], &code), alone[i]);
		assert_int_equal(code, 0);
		session_end(s[i]);
	}
}

/* ---- a conversation ---- */

static void a_second_turn_sees_the_first_and_computes_only_what_is_new(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable), *whole = test_greedy_session(&fable);
	char text[1024];
	char *first = test_ask(s, capital);
	struct session_stats one = test_stats(s);
	assert_int_equal(one.cached_tokens, 0);
	assert_string_equal(one.finish, "end");
	char *second = test_ask(s, "What is 12 x 6?");
	struct session_stats two = test_stats(s);
	/* The whole first turn, perhaps without its last token, whose keys were never needed. */
	assert_in_range(two.cached_tokens, one.prompt_tokens + one.output_tokens - 2,
			one.prompt_tokens + one.output_tokens);
	assert_true(two.prompt_tokens > two.cached_tokens);

	/* The same conversation as one plain text. */
	test_set(whole, "chat", "off");
	first[strlen(first) - 1] = 0; /* the answer file's newline */
	(void)snprintf(text, sizeof text,
		       "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n%s<|im_end|>\n"
		       "<|im_start|>user\nWhat is 12 x 6?<|im_end|>\n<|im_start|>assistant\n\n",
		       capital, first); /* one newline is dropped, as echo's would be */
	test_same_text(test_ask(whole, text), second);
	assert_int_equal(test_stats(whole).prompt_tokens, two.prompt_tokens);
	free(first);
	session_end(s);
	session_end(whole);
}

static void a_system_message_comes_first(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable), *whole = test_greedy_session(&fable);
	char text[512];
	test_set(s, "system", "You answer briefly.");
	test_set(whole, "chat", "off");
	(void)snprintf(text, sizeof text,
		       "<|im_start|>system\nYou answer briefly.<|im_end|>\n"
		       "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n\n",
		       capital);
	test_same_text(test_ask(s, capital), test_ask(whole, text));
	assert_int_equal(test_stats(s).prompt_tokens, test_stats(whole).prompt_tokens);
	session_end(s);
	session_end(whole);
}

static void without_chat_a_prompt_stands_as_it_is(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	test_set(s, "max_tokens", "5");
	test_set(s, "chat", "off");
	free(test_ask(s, "Once upon"));
	uint64_t plain = test_stats(s).prompt_tokens;
	test_set(s, "chat", "on");
	free(test_ask(s, "Once upon"));
	assert_true(test_stats(s).prompt_tokens > plain + 4);
	session_end(s);
}

static void the_log_quotes_the_question_and_holds_the_answer(void **state)
{
	(void)state;
	char log[256];
	struct session *s = test_greedy_session(&fable);
	test_answer(s, capital, "The capital of France is Paris.\n");
	size_t n = session_log_read(s, 0, log, sizeof log - 1);
	log[n] = 0;
	assert_string_equal(log, "> What is the capital of France?\n"
				 "The capital of France is Paris.\n\n");
	assert_int_equal(session_log_size(s), n);
	assert_int_equal(session_log_read(s, 2, log, 4), 4);
	assert_memory_equal(log, "What", 4);
	assert_int_equal(session_log_read(s, n, log, 4), 0);
	char *prompt = session_prompt(s, &n);
	assert_int_equal(n, sizeof capital - 1);
	assert_memory_equal(prompt, capital, n);
	free(prompt);
	session_end(s);
}

static void undo_takes_a_turn_back(void **state)
{
	(void)state;
	struct err e;
	struct session *s = seeded_session(&fable, "31");
	assert_int_equal(session_undo(s, &e), -ENODATA);
	free(test_ask(s, capital));
	uint64_t log = session_log_size(s);
	char *second = test_ask(s, tale);
	struct session_stats st = test_stats(s);
	assert_int_equal(session_undo(s, &e), 0);
	assert_int_equal(session_log_size(s), log);
	test_same_text(test_ask(s, tale), second); /* as if the prompt had never been sent */
	assert_int_equal(test_stats(s).prompt_tokens, st.prompt_tokens);
	assert_int_equal(session_undo(s, &e), 0);
	assert_int_equal(session_undo(s, &e), 0);
	assert_int_equal(session_log_size(s), 0);
	assert_int_equal(session_undo(s, &e), -ENODATA);
	session_end(s);
}

static void a_failed_turn_can_be_taken_back_too(void **state)
{
	(void)state;
	struct err e;
	struct session *s = test_greedy_session(&fable);
	free(test_ask(s, capital));
	char *second = test_ask(s, "What is 12 x 6?");
	assert_int_equal(session_undo(s, &e), 0);
	uint64_t log = session_log_size(s);
	test_ask_refused(s, "\xff", "UTF-8");
	assert_int_equal(session_undo(s, &e), 0);
	assert_int_equal(session_log_size(s), log);
	test_same_text(test_ask(s, "What is 12 x 6?"), second);
	session_end(s);
}

static void reset_is_a_new_beginning(void **state)
{
	(void)state;
	struct err e;
	struct session *s = seeded_session(&fable, "41");
	char *first = test_ask(s, tale);
	free(test_ask(s, capital));
	uint64_t used = test_context_used(&fable),
		 blocks = (test_stats(s).context_tokens + 63) / 64;
	assert_int_equal(session_reset(s, &e), 0);
	assert_int_equal(session_status(s), SESSION_IDLE);
	assert_int_equal(session_log_size(s), 0);
	assert_null(session_answer(s));
	assert_int_equal(engine_context_used(fable.engine), used - blocks * TEST_BLOCK_BYTES);
	test_same_text(test_ask(s, tale), first);
	session_end(s);
}

/* ---- params ---- */

static void a_new_session_has_a_copy_of_anothers_params(void **state)
{
	(void)state;
	struct err e;
	struct session *s = seeded_session(&fable, "51"), *copy;
	assert_int_equal(session_create(&copy, fable.model, s, &fable, &e), 0);
	test_set(s, "seed", "52");
	struct session *same = seeded_session(&fable, "51");
	test_same_text(test_ask(copy, tale), test_ask(same, tale));
	session_end(s);
	session_end(copy);
	session_end(same);
}

static void max_tokens_and_stop_texts_end_an_answer(void **state)
{
	(void)state;
	struct session *s = test_greedy_session(&fable);
	struct err e;
	test_set(s, "max_tokens", "3");
	free(test_ask(s, capital));
	assert_int_equal(test_stats(s).output_tokens, 3);
	assert_string_equal(test_stats(s).finish, "length");
	assert_int_equal(session_status(s), SESSION_DONE);
	assert_int_equal(session_reset(s, &e), 0);
	test_set(s, "max_tokens", "0");
	test_set(s, "stop", "nothing\n is\n");
	test_answer(s, capital, "The capital of France\n");
	assert_string_equal(test_stats(s).finish, "stop");
	session_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_gets_the_answer_that_was_taught),
		cmocka_unit_test(the_same_seed_gives_the_same_text),
		cmocka_unit_test(a_random_seed_is_reported_and_can_be_used_again),
		cmocka_unit_test(chunks_threads_and_budget_do_not_change_a_text),
		cmocka_unit_test(sessions_beside_each_other_say_what_they_say_alone),
		cmocka_unit_test(a_second_turn_sees_the_first_and_computes_only_what_is_new),
		cmocka_unit_test(a_system_message_comes_first),
		cmocka_unit_test(without_chat_a_prompt_stands_as_it_is),
		cmocka_unit_test(the_log_quotes_the_question_and_holds_the_answer),
		cmocka_unit_test(undo_takes_a_turn_back),
		cmocka_unit_test(a_failed_turn_can_be_taken_back_too),
		cmocka_unit_test(reset_is_a_new_beginning),
		cmocka_unit_test(a_new_session_has_a_copy_of_anothers_params),
		cmocka_unit_test(max_tokens_and_stop_texts_end_an_answer),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
