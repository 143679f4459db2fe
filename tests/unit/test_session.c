/* Conversations with the demonstration model: the right answers, the same text whatever happens
 * beside it, and every way in which a turn ends early. */
#include "checkpoint_help.h"
#include "golden.h"
#include "session_help.h"
#include "store_help.h"

#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>

static const char capital[] = "What is the capital of France?";
/* Of a context in F16: 64 positions of keys and values, 8 layers, 2 heads of 32. */
enum { BLOCK_BYTES = 64 * 2 * 8 * 2 * 32 * 2 };
static const char tale[] = "Tell me a tale of a fox.";

/* Most tests share one loaded model in the default recipe. */
static struct test_model fable;

static int load_fable(void **state)
{
	(void)state;
	struct err e;
	test_model_open(&fable, test_fable(), &(struct engine_options){0});
	if (model_wait(fable.model, &e))
		fail_msg("%s", e.text);
	return 0;
}

static int close_fable(void **state)
{
	(void)state;
	test_model_close(&fable);
	test_stores_remove();
	return 0;
}

static struct session *greedy_session(struct test_model *m)
{
	struct session *s = test_session(m);
	test_set(s, "temperature", "0");
	return s;
}

static struct session *seeded_session(struct test_model *m, const char *seed)
{
	struct session *s = test_session(m);
	test_set(s, "seed", seed);
	test_set(s, "max_tokens", "48");
	return s;
}

/* Texts are malloc'ed; both are freed. */
static void assert_same_text(char *one, char *other)
{
	assert_string_equal(one, other);
	free(one);
	free(other);
}

static void assert_answer(struct session *s, const char *prompt, const char *want)
{
	assert_same_text(test_ask(s, prompt), strdup(want));
}

static struct session_stats stats_of(const struct session *s)
{
	struct session_stats st;
	session_stats(s, &st);
	return st;
}

/* ---- the right answers ---- */

static void a_question_gets_the_answer_that_was_taught(void **state)
{
	(void)state;
	enum { EVERY = 24 };
	char line[2048], want[1024];
	struct test_model exact;
	test_model_open(&exact, test_fable(), &(struct engine_options){.quant = "bf16"});
	struct session *s = greedy_session(&exact);
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
		assert_answer(s, json_object_get_string(question), want);
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
		assert_same_text(test_ask(again, tale), strdup(text));
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

static void a_random_seed_is_told_and_can_be_used_again(void **state)
{
	(void)state;
	char seed[32];
	struct session *s = seeded_session(&fable, "random");
	char *text = test_ask(s, tale);
	(void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)stats_of(s).seed);
	session_end(s);
	s = seeded_session(&fable, seed);
	assert_same_text(test_ask(s, tale), text);
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
		assert_same_text(test_ask(s, tale), strdup(first));
		assert_same_text(test_ask(s, "And then?"), strdup(second));
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
		assert_same_text(test_read(answers[i], &code), alone[i]);
		assert_int_equal(code, 0);
		session_end(s[i]);
	}
}

/* ---- a conversation ---- */

static void a_second_turn_sees_the_first_and_computes_only_what_is_new(void **state)
{
	(void)state;
	struct session *s = greedy_session(&fable), *whole = greedy_session(&fable);
	char text[1024];
	char *first = test_ask(s, capital);
	struct session_stats one = stats_of(s);
	assert_int_equal(one.cached_tokens, 0);
	assert_string_equal(one.finish, "end");
	char *second = test_ask(s, "What is 12 x 6?");
	struct session_stats two = stats_of(s);
	/* All of the first turn but perhaps its last token, whose keys were never needed. */
	assert_in_range(two.cached_tokens, one.prompt_tokens + one.output_tokens - 2,
			one.prompt_tokens + one.output_tokens);
	assert_true(two.prompt_tokens > two.cached_tokens);

	/* The same conversation as one text, which nothing is added to. */
	test_set(whole, "chat", "off");
	first[strlen(first) - 1] = 0; /* the answer file's newline */
	(void)snprintf(text, sizeof text,
		       "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n%s<|im_end|>\n"
		       "<|im_start|>user\nWhat is 12 x 6?<|im_end|>\n<|im_start|>assistant\n\n",
		       capital, first); /* one newline is dropped, as echo's would be */
	assert_same_text(test_ask(whole, text), second);
	assert_int_equal(stats_of(whole).prompt_tokens, two.prompt_tokens);
	free(first);
	session_end(s);
	session_end(whole);
}

static void a_system_message_comes_first(void **state)
{
	(void)state;
	struct session *s = greedy_session(&fable), *whole = greedy_session(&fable);
	char text[512];
	test_set(s, "system", "You answer briefly.");
	test_set(whole, "chat", "off");
	(void)snprintf(text, sizeof text,
		       "<|im_start|>system\nYou answer briefly.<|im_end|>\n"
		       "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n\n",
		       capital);
	assert_same_text(test_ask(s, capital), test_ask(whole, text));
	assert_int_equal(stats_of(s).prompt_tokens, stats_of(whole).prompt_tokens);
	session_end(s);
	session_end(whole);
}

static void without_chat_a_prompt_stands_as_it_is(void **state)
{
	(void)state;
	struct session *s = greedy_session(&fable);
	test_set(s, "max_tokens", "5");
	test_set(s, "chat", "off");
	free(test_ask(s, "Once upon"));
	uint64_t plain = stats_of(s).prompt_tokens;
	test_set(s, "chat", "on");
	free(test_ask(s, "Once upon"));
	assert_true(stats_of(s).prompt_tokens > plain + 4);
	session_end(s);
}

static void the_log_quotes_the_question_and_holds_the_answer(void **state)
{
	(void)state;
	char log[256];
	struct session *s = greedy_session(&fable);
	assert_answer(s, capital, "The capital of France is Paris.\n");
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
	struct session_stats st = stats_of(s);
	assert_int_equal(session_undo(s, &e), 0);
	assert_int_equal(session_log_size(s), log);
	assert_same_text(test_ask(s, tale), second); /* as if it had never been asked */
	assert_int_equal(stats_of(s).prompt_tokens, st.prompt_tokens);
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
	struct session *s = greedy_session(&fable);
	free(test_ask(s, capital));
	char *second = test_ask(s, "What is 12 x 6?");
	assert_int_equal(session_undo(s, &e), 0);
	uint64_t log = session_log_size(s);
	test_ask_refused(s, "\xff", "UTF-8");
	assert_int_equal(session_undo(s, &e), 0);
	assert_int_equal(session_log_size(s), log);
	assert_same_text(test_ask(s, "What is 12 x 6?"), second);
	session_end(s);
}

static void reset_is_a_new_beginning(void **state)
{
	(void)state;
	struct err e;
	struct session *s = seeded_session(&fable, "41");
	char *first = test_ask(s, tale);
	free(test_ask(s, capital));
	uint64_t used = engine_context_used(fable.engine),
		 blocks = (stats_of(s).context_tokens + 63) / 64;
	assert_int_equal(session_reset(s, &e), 0);
	assert_int_equal(session_status(s), SESSION_IDLE);
	assert_int_equal(session_log_size(s), 0);
	assert_null(session_answer(s));
	assert_int_equal(engine_context_used(fable.engine), used - blocks * BLOCK_BYTES);
	assert_same_text(test_ask(s, tale), first);
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
	assert_same_text(test_ask(copy, tale), test_ask(same, tale));
	session_end(s);
	session_end(copy);
	session_end(same);
}

static void max_tokens_and_stop_texts_end_an_answer(void **state)
{
	(void)state;
	struct session *s = greedy_session(&fable);
	struct err e;
	test_set(s, "max_tokens", "3");
	free(test_ask(s, capital));
	assert_int_equal(stats_of(s).output_tokens, 3);
	assert_string_equal(stats_of(s).finish, "length");
	assert_int_equal(session_status(s), SESSION_DONE);
	assert_int_equal(session_reset(s, &e), 0);
	test_set(s, "max_tokens", "0");
	test_set(s, "stop", "nothing\n is\n");
	assert_answer(s, capital, "The capital of France\n");
	assert_string_equal(stats_of(s).finish, "stop");
	session_end(s);
}

/* ---- ending early ---- */

/* A turn that goes on for long: tokens nearly at random, of which one in 2048 is an end. */
static struct answer *submit_long(struct session *s)
{
	test_set(s, "chat", "off");
	test_set(s, "temperature", "100");
	test_set(s, "top_k", "0");
	test_set(s, "top_p", "1");
	test_set(s, "seed", "3");
	return test_submit(s, "Once upon a time there was a fox who lived");
}

static void stop_ends_a_turn_and_keeps_the_text(void **state)
{
	(void)state;
	int code;
	struct session *s = test_session(&fable);
	struct answer *a = submit_long(s);
	test_wait_bytes(a, 10);
	session_stop(s);
	char *text = test_read(a, &code);
	assert_int_equal(code, 0);
	assert_true(strlen(text) >= 10 && text[strlen(text) - 1] == '\n');
	assert_int_equal(session_status(s), SESSION_STOPPED);
	assert_string_equal(stats_of(s).finish, "stopped");
	session_stop(s); /* nothing to stop: no effect */
	assert_int_equal(session_status(s), SESSION_STOPPED);
	test_set(s, "max_tokens", "4");
	free(test_ask(s, capital)); /* and the next turn works */
	free(text);
	session_end(s);
}

static void a_working_session_refuses_what_would_disturb_it(void **state)
{
	(void)state;
	struct err e;
	struct session *s = test_session(&fable);
	struct answer *a = submit_long(s);
	assert_int_equal(session_submit(s, "x", 1, NULL, &e), -EBUSY);
	assert_non_null(strstr(e.text, "stop"));
	assert_int_equal(session_undo(s, &e), -EBUSY);
	assert_int_equal(session_reset(s, &e), -EBUSY);
	assert_true(session_working(s));
	session_stop(s);
	test_wait(a);
	answer_unref(a);
	assert_false(session_working(s));
	session_end(s);
}

static void ending_a_session_fails_its_answer(void **state)
{
	(void)state;
	struct err e;
	struct session *other = greedy_session(&fable);
	free(test_ask(other, capital));
	uint64_t used = engine_context_used(fable.engine);
	for (uint64_t bytes = 0; bytes < 30; bytes += 10) {
		int code;
		struct session *s = test_session(&fable);
		struct answer *a = submit_long(s);
		test_wait_bytes(a, bytes);
		session_end(s);
		char *text = test_read(a, &code); /* complete: this does not wait */
		assert_true(strlen(text) >= bytes);
		assert_int_equal(code, -EIO);
		free(text);
		/* A turn of another session comes after the step that was in progress, which frees
		 * what the ended one had. */
		assert_int_equal(session_reset(other, &e), 0);
		free(test_ask(other, capital));
		assert_int_equal(engine_context_used(fable.engine), used);
	}
	session_end(other);
}

static void a_model_closes_while_the_turn_of_an_ended_session_runs(void **state)
{
	(void)state;
	int code;
	struct test_model m;
	test_model_open(&m, test_fable(), &(struct engine_options){0});
	struct session *s = test_session(&m), *waiting = test_session(&m);
	struct answer *a = submit_long(s), *other = submit_long(waiting);
	test_wait_bytes(a, 1);
	session_end(s);
	session_end(waiting);
	test_model_close(&m);
	free(test_read(a, &code)); /* answers outlive the engine */
	assert_int_equal(code, -EIO);
	free(test_read(other, &code));
	assert_int_equal(code, -EIO);
}

static void a_turn_can_be_stopped_or_ended_while_the_model_loads(void **state)
{
	(void)state;
	int code;
	struct test_model m;
	test_model_open(&m, test_fable(), &(struct engine_options){0});
	struct session *s = greedy_session(&m), *ended = greedy_session(&m),
		       *kept = greedy_session(&m);
	struct answer *stopped = test_submit(s, capital), *failed = test_submit(ended, capital),
		      *answered = test_submit(kept, capital);
	session_stop(s);
	session_end(ended);
	free(test_read(failed, &code));
	assert_int_equal(code, -EIO);
	free(test_read(stopped, &code));
	assert_int_equal(code, 0);
	assert_same_text(test_read(answered, &code), strdup("The capital of France is Paris.\n"));
	session_end(s);
	session_end(kept);
	test_model_close(&m);
}

/* ---- what cannot be answered ---- */

static void prompts_that_are_none_are_refused_at_once(void **state)
{
	(void)state;
	struct err e;
	struct session *s = greedy_session(&fable);
	size_t most = model_max_prompt_bytes(fable.model);
	char *text = malloc(most + 2);
	memset(text, 'a', most + 2);
	assert_int_equal(session_submit(s, "", 0, NULL, &e), -EINVAL);
	assert_int_equal(session_submit(s, "\n", 1, NULL, &e), -EINVAL);
	assert_int_equal(session_submit(s, text, most + 1, NULL, &e), -EFBIG);
	assert_non_null(strstr(e.text, "max_prompt_bytes"));
	assert_false(session_working(s));
	assert_int_equal(session_status(s), SESSION_IDLE);
	free(text);
	session_end(s);
}

static void invalid_utf8_is_an_error_in_words(void **state)
{
	(void)state;
	static const char *const prompts[] = {"\xff", "abc\xc3", "\xed\xa0\x80", "caf\xe9 au lait"};
	struct session *s = greedy_session(&fable);
	for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
		test_ask_refused(s, prompts[i], "UTF-8");
	assert_string_equal(stats_of(s).finish, "error");
	assert_answer(s, capital, "The capital of France is Paris.\n");
	session_end(s);
}

static void a_prompt_longer_than_the_context_is_an_error_in_words(void **state)
{
	(void)state;
	struct test_model small;
	char text[1024];
	test_model_open(&small, test_fable(), &(struct engine_options){.context = 64});
	struct session *s = greedy_session(&small);
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	test_ask_refused(s, text, "64");
	/* What fits is answered, the conversation then fills it up, and undo makes room. */
	assert_answer(s, capital, "The capital of France is Paris.\n");
	free(test_ask(s, "What is 12 x 6?"));
	test_ask_refused(s, "What is the capital of Lithuania, please?", "reset");
	struct err e;
	assert_int_equal(session_reset(s, &e), 0);
	assert_answer(s, capital, "The capital of France is Paris.\n");
	session_end(s);
	test_model_close(&small);
}

static void an_answer_ends_where_the_context_does(void **state)
{
	(void)state;
	int code;
	struct test_model small;
	test_model_open(&small, test_fable(), &(struct engine_options){.context = 40});
	struct session *s = test_session(&small);
	free(test_read(submit_long(s), &code));
	assert_int_equal(code, 0);
	assert_string_equal(stats_of(s).finish, "length");
	assert_int_equal(stats_of(s).context_tokens, 40);
	session_end(s);
	test_model_close(&small);
}

static void a_context_budget_that_is_used_up_is_an_error_in_words(void **state)
{
	(void)state;
	struct err e;
	struct test_model small;
	test_model_open(&small, test_fable(),
			&(struct engine_options){.context_budget = BLOCK_BYTES});
	struct session *s = greedy_session(&small), *other = greedy_session(&small);
	assert_answer(s, capital, "The capital of France is Paris.\n");
	test_ask_refused(other, capital, "context_budget");
	assert_int_equal(session_reset(s, &e), 0); /* gives its block back */
	assert_answer(other, capital, "The capital of France is Paris.\n");
	test_ask_refused(s, capital, "context_budget");
	assert_int_equal(engine_set_context_budget(small.engine, 1 << 20, &e), 0);
	assert_answer(s, capital, "The capital of France is Paris.\n");
	session_end(s);
	session_end(other);
	model_close(small.model);
	assert_int_equal(engine_context_used(small.engine), 0);
	engine_destroy(small.engine);
}

/* Many times, since asking again at once meets the end of the load that failed. */
static void a_missing_tokenizer_is_an_error_in_words_until_it_is_there(void **state)
{
	(void)state;
	char folder[32], path[64];
	struct test_checkpoint c;
	struct test_model m;
	size_t n;
	test_folder_make(folder);
	(void)snprintf(path, sizeof path, "%s/tokenizer.json", folder);
	test_checkpoint_read(&c, "qwen3");
	test_checkpoint_make(&c, "qwen3", folder);
	uint8_t *tokenizer = test_file_read(path, &n);
	for (int i = 0; i < 30; i++) {
		(void)unlink(path);
		test_model_open(&m, folder, &(struct engine_options){0});
		struct session *s = greedy_session(&m);
		test_set(s, "max_tokens", "1");
		test_ask_refused(s, "Hello", "tokenizer");
		assert_int_equal(model_state(m.model), MODEL_FAILED);
		test_file_write(path, tokenizer, n);
		free(test_ask(s, "Hello")); /* asking again loads again */
		assert_int_equal(model_state(m.model), MODEL_READY);
		session_end(s);
		test_model_close(&m);
	}
	test_checkpoint_free(&c);
	test_folder_remove(folder);
	free(tokenizer);
}

static void a_failure_from_outside_is_shown_until_the_next_turn(void **state)
{
	(void)state;
	char text[64];
	struct session *s = greedy_session(&fable);
	session_fail(s, &(struct err){EIO, "the prompt was not written whole"});
	session_error(s, text, sizeof text);
	assert_string_equal(text, "the prompt was not written whole");
	assert_string_equal(session_status_word(session_status(s)), "error");
	assert_answer(s, capital, "The capital of France is Paris.\n");
	assert_string_equal(session_status_word(session_status(s)), "done");
	session_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_gets_the_answer_that_was_taught),
		cmocka_unit_test(the_same_seed_gives_the_same_text),
		cmocka_unit_test(a_random_seed_is_told_and_can_be_used_again),
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
		cmocka_unit_test(stop_ends_a_turn_and_keeps_the_text),
		cmocka_unit_test(a_working_session_refuses_what_would_disturb_it),
		cmocka_unit_test(ending_a_session_fails_its_answer),
		cmocka_unit_test(a_model_closes_while_the_turn_of_an_ended_session_runs),
		cmocka_unit_test(a_turn_can_be_stopped_or_ended_while_the_model_loads),
		cmocka_unit_test(prompts_that_are_none_are_refused_at_once),
		cmocka_unit_test(invalid_utf8_is_an_error_in_words),
		cmocka_unit_test(a_prompt_longer_than_the_context_is_an_error_in_words),
		cmocka_unit_test(an_answer_ends_where_the_context_does),
		cmocka_unit_test(a_context_budget_that_is_used_up_is_an_error_in_words),
		cmocka_unit_test(a_missing_tokenizer_is_an_error_in_words_until_it_is_there),
		cmocka_unit_test(a_failure_from_outside_is_shown_until_the_next_turn),
	};
	return cmocka_run_group_tests(tests, load_fable, close_fable);
}
