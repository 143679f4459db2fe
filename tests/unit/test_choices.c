/* Answers that are one of a list: the most probable candidate, with the probabilities that a score
 * of each gives, whatever is computed beside it and however little memory there is. */
#include "engine/admin/observe.h"
#include "engine/session/answer.h"
#include "golden.h"
#include "session_help.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char CAPITALS[] = "Paris\nRome\nThe capital of France is Paris.\n"
			       "The capital of France is Rome.\nThe capital\nLima\n";
static const char QUESTION[] = "What is the capital of France?";

/* ---- help ---- */

static struct session *choosing(struct test_model *m, const char *choices)
{
	struct session *s = test_greedy_session(m);
	test_set(s, "format", "choices");
	test_write_text(s, SESSION_CHOICES, choices);
	return s;
}

static double logprob_of(const char *tsv, const char *candidate)
{
	char line[256];
	for (const char *at = tsv; *at; at = strchr(at, '\n') + 1) {
		double p, logprob;
		assert_int_equal(sscanf(at, "%lf\t%lf\t%255[^\n]", &p, &logprob, line), 3);
		if (!strcmp(line, candidate))
			return logprob;
	}
	fail_msg("no line for %s", candidate);
	return 0;
}

/* The sum of the log-probabilities of what follows `before` in `text`, by a score. */
static double scored(struct session *s, const char *before, const char *text)
{
	struct answer *a;
	struct err e;
	int code;
	size_t skip = 0;
	double sum = 0, logprob;
	char *line = malloc(strlen(before) + 2); /* one newline at the end does not count */
	assert_non_null(line);
	(void)sprintf(line, "%s\n", before);
	if (session_score(s, line, strlen(line), &a, &e))
		fail_msg("%s", e.text);
	free(line);
	char *head = test_read(a, &code);
	for (const char *at = head; strncmp(at, "mean", 4) != 0; at = strchr(at, '\n') + 1)
		skip++;
	free(head);
	if (session_score(s, text, strlen(text), &a, &e))
		fail_msg("%s", e.text);
	char *lines = test_read(a, &code);
	assert_int_equal(code, 0);
	for (const char *at = lines; strncmp(at, "mean", 4) != 0; at = strchr(at, '\n') + 1)
		if (skip)
			skip--;
		else if (sscanf(at, "%*u %lf", &logprob) == 1)
			sum += logprob;
	free(lines);
	return sum;
}

static void expect_scores(struct test_model *m, const char *before, const char *tsv,
			  const char *const *candidates, size_t count)
{
	struct session *s = test_session(m);
	for (size_t i = 0; i < count; i++) {
		char text[2048];
		(void)snprintf(text, sizeof text, "%s%s<|im_end|>", before, candidates[i]);
		double want = scored(s, before, text), is = logprob_of(tsv, candidates[i]);
		if (fabs(want - is) > 2e-5)
			fail_msg("%s: %f, by its score %f", candidates[i], is, want);
	}
	session_end(s);
}

/* The tsv of one turn that must give this answer, if one is given. */
static char *choose(struct session *s, const char *prompt, const char *want)
{
	char *said = test_ask(s, prompt);
	if (want)
		assert_string_equal(said, want);
	free(said);
	assert_string_equal(test_stats(s).finish, "end");
	return test_text(s, SESSION_CHOSEN);
}

static char *many(size_t count)
{
	char *text = calloc(count, 40), *to = text;
	assert_non_null(text);
	for (size_t i = 0; i < count; i++)
		to += sprintf(to, i % 3 ? "The capital of town %zu is %zu.\n" : "%zu %zu\n", i,
			      i * 7);
	return text;
}

/* ---- probabilities ---- */

static void a_choice_is_as_probable_as_its_score(void **state)
{
	(void)state;
	static const char *const some[] = {"Paris", "Rome", "The capital of France is Paris.",
					   "The capital of France is Rome.", "The capital", "Lima"};
	struct session *s = choosing(&fable, CAPITALS);
	char *log, *tsv = choose(s, QUESTION, "The capital of France is Paris.\n");
	double all = 0, p, before = 2;
	assert_int_equal(session_undo(s, NULL), 0);
	test_write_text(s, SESSION_MESSAGES,
			"[{\"role\": \"user\", \"content\": \"What is the capital of France?\"}]");
	log = test_text(s, SESSION_RENDERED);
	expect_scores(&fable, log, tsv, some, sizeof some / sizeof *some);
	for (const char *at = tsv; *at; at = strchr(at, '\n') + 1) {
		assert_int_equal(sscanf(at, "%lf", &p), 1);
		assert_true(p <= before);
		before = p;
		all += p;
	}
	assert_true(fabs(all - 1) < 1e-5);
	free(log);
	free(tsv);
	session_end(s);
}

static void without_chat_prompt_and_choice_are_encoded_together(void **state)
{
	(void)state;
	static const char *const some[] = {"is Paris.", "is Rome.", "fe"};
	struct session *s = choosing(&fable, "is Paris.\nis Rome.\nfe\n");
	test_set(s, "chat", "off");
	char *tsv = choose(s, "The capital of France ", NULL);
	/* Their first token begins with the prompt's space. */
	struct session *scores = test_session(&fable);
	for (size_t i = 0; i < 3; i++) {
		char text[256];
		(void)snprintf(text, sizeof text, "The capital of France %s<|im_end|>", some[i]);
		double want = scored(scores, "The capital of France", text),
		       is = logprob_of(tsv, some[i]);
		if (fabs(want - is) > 2e-5)
			fail_msg("%s: %f, by its score %f", some[i], is, want);
	}
	session_end(scores);
	free(tsv);
	session_end(s);
}

static void a_list_in_json_may_have_lines_in_its_texts(void **state)
{
	(void)state;
	struct session *s = choosing(&fable, "[\"a\\nb\", \"The capital of France is Paris.\\n\", "
					     "\"a\\tb\\\\\"]");
	char *tsv = choose(s, QUESTION, NULL);
	assert_non_null(strstr(tsv, "\ta\\nb\n"));
	assert_non_null(strstr(tsv, "\tThe capital of France is Paris.\\n\n"));
	assert_non_null(strstr(tsv, "\ta\\tb\\\\\n"));
	free(tsv);
	test_expect_text(s, SESSION_CHOICES, "[\"a\\nb\", \"The capital of France is Paris.\\n\", "
					     "\"a\\tb\\\\\"]");
	session_end(s);
}

/* ---- the same numbers ---- */

static void lines_may_end_as_those_of_windows(void **state)
{
	(void)state;
	struct session *s = choosing(&fable, "The capital of France is Paris.\r\nno\r\n");
	test_answer(s, QUESTION, "The capital of France is Paris.\n");
	test_expect_text(s, SESSION_CHOICES, "The capital of France is Paris.\r\nno\r\n");
	test_write_text(s, SESSION_CHOICES, "a\r\r\nThe capital of France is Paris.\r");
	test_answer(s, QUESTION, "The capital of France is Paris.\n");
	char *tsv = test_text(s, SESSION_CHOSEN);
	assert_non_null(strstr(tsv, "\ta\\r\n")); /* one of two */
	free(tsv);
	session_end(s);
}

static void check_alike(const char *directory, const char *chat)
{
	static const struct engine_options some[] = {
		{.context_budget = 64 << 20, .threads = 2},
		{.context_budget = 4 << 20, .threads = 1, .chunk = 7},
	};
	char *first = NULL, *choices = many(600);
	for (size_t i = 0; i < 2; i++) {
		struct test_model m;
		test_model_ready(&m, directory, &some[i]);
		struct session *s = choosing(&m, choices), *other = test_greedy_session(&m);
		test_set(other, "max_tokens", "60");
		test_set(other, "chat", chat);
		test_set(s, "chat", chat);
		struct answer *beside = test_submit(other, "Tell me a story.");
		char *tsv = choose(s, QUESTION, NULL);
		test_wait(beside);
		answer_unref(beside);
		if (first)
			assert_string_equal(first, tsv);
		else
			first = strdup(tsv);
		free(tsv);
		session_end(other);
		session_end(s);
		test_model_close(&m);
	}
	free(first);
	free(choices);
}

static void memory_chunks_and_company_change_no_probability(void **state)
{
	(void)state;
	check_alike(test_fable(), "on");
}

static void a_hybrid_goes_back_for_each_choice(void **state)
{
	(void)state;
	check_alike(test_fixture("qwen3_5_moe"), "off");
}

static void ten_thousand_choices_fit_into_a_small_budget(void **state)
{
	(void)state;
	static const char *const some[] = {"0 0", "The capital of town 1 is 7.",
					   "The capital of town 9998 is 69986.", "9999 69993",
					   "The capital of town 5000 is 35000."};
	struct test_model m;
	test_model_ready(&m, test_fable(), &(struct engine_options){.context_budget = 64 << 20});
	char *choices = many(10000);
	struct session *s = choosing(&m, choices);
	test_set(s, "chat", "off");
	char *tsv = choose(s, QUESTION, NULL);
	expect_scores(&m, QUESTION, tsv, some, sizeof some / sizeof *some);
	free(tsv);
	free(choices);
	session_end(s);
	test_model_close(&m);
}

/* ---- drawing ---- */

static void a_temperature_draws_by_the_probabilities(void **state)
{
	(void)state;
	enum { DRAWS = 60 };
	struct session *s = choosing(&fable, "Paris\nRome\n");
	char seed[16];
	int rome = 0;
	test_set(s, "temperature", "5");
	for (int i = 0; i < DRAWS; i++) {
		(void)snprintf(seed, sizeof seed, "%d", i);
		test_set(s, "seed", seed);
		char *said = test_ask(s, QUESTION), *again;
		rome += !strcmp(said, "Rome\n");
		assert_int_equal(session_undo(s, NULL), 0);
		again = test_ask(s, QUESTION);
		test_same_text(said, again);
		assert_int_equal(session_undo(s, NULL), 0);
	}
	free(test_ask(s, QUESTION));
	char *tsv = test_text(s, SESSION_CHOSEN);
	double odds = exp((logprob_of(tsv, "Rome") - logprob_of(tsv, "Paris")) / 5);
	double want = DRAWS * odds / (1 + odds);
	if (fabs(rome - want) > 4 * sqrt(DRAWS / 4.))
		fail_msg("%d times, not %f", rome, want);
	free(tsv);
	session_end(s);
}

/* ---- what it does to the session ---- */

static void tools_and_the_longest_answer_are_ignored(void **state)
{
	(void)state;
	struct session *s = choosing(&fable, CAPITALS), *plain = choosing(&fable, CAPITALS);
	test_set(s, "max_tokens", "1");
	test_set(s, "stop", "capital");
	test_write_text(s, SESSION_TOOLS,
			"[{\"type\": \"function\", \"function\": {\"name\": \"f\", "
			"\"parameters\": {\"type\": \"object\"}}}]");
	test_same_text(choose(s, QUESTION, "The capital of France is Paris.\n"),
		       choose(plain, QUESTION, "The capital of France is Paris.\n"));
	assert_string_equal(test_stats(s).ignored, "tools.json max_tokens");
	assert_string_equal(test_stats(plain).ignored, "");
	session_end(plain);
	session_end(s);
}

static void the_choice_is_the_answer_of_the_conversation(void **state)
{
	(void)state;
	struct session *s = choosing(&fable, "Berne\nOslo\n");
	free(choose(s, QUESTION, NULL));
	char *messages = test_text(s, SESSION_MESSAGES);
	assert_true(strstr(messages, "\"Berne\"") || strstr(messages, "\"Oslo\""));
	free(messages);
	struct err e;
	assert_int_equal(session_again(s, SESSION_AGAIN_CONTINUE, NULL, &e), -ENODATA);
	test_set(s, "format", "text");
	test_answer(s, QUESTION, "The capital of France is Paris.\n");
	test_expect_text(s, SESSION_CHOSEN, "");
	session_end(s);
}

static void a_fork_and_a_state_have_the_choices(void **state)
{
	(void)state;
	struct session *s = choosing(&fable, CAPITALS), *fork = test_greedy_session(&fable);
	struct err e;
	struct saved *saved;
	char *tsv = choose(s, QUESTION, NULL), bytes[4096];
	assert_int_equal(session_save(s, &saved, &e), 0);
	struct restored *r;
	assert_int_equal(restored_begin(fable.model, &r, &e), 0);
	size_t n;
	for (uint64_t at = 0; (n = saved_read(saved, at, bytes, sizeof bytes)); at += n)
		if (restored_feed(r, at, bytes, n, &e))
			fail_msg("%s", e.text);
	if (session_restore(fork, r, &e))
		fail_msg("%s", e.text);
	restored_close(r);
	saved_close(saved);
	test_expect_text(fork, SESSION_CHOICES, CAPITALS);
	test_expect_text(fork, SESSION_CHOSEN, tsv);
	assert_int_equal(session_undo(fork, NULL), 0);
	test_same_text(choose(fork, QUESTION, NULL), tsv);
	session_end(fork);
	session_end(s);
}

/* ---- bad input ---- */

static void refused(struct session *s, const char *text, size_t n, int code, const char *words)
{
	struct err e;
	assert_int_equal(session_text_set(s, SESSION_CHOICES, text, n, &e), -code);
	if (!strstr(e.text, words))
		fail_msg("%s", e.text);
}

static void bad_choices_are_refused(void **state)
{
	(void)state;
	struct session *s = choosing(&fable, "kept\n");
	char *long_text = malloc(5 << 20), *lines = many(10001);
	assert_non_null(long_text);
	memset(long_text, 'x', 5 << 20);
	refused(s, "a\n\nb", 4, EINVAL, "candidate 2 is empty");
	refused(s, "a\nb\na\n", 6, EINVAL, "candidates 1 and 3 are the same");
	refused(s, "a\r\n\r\nb", 6, EINVAL, "candidate 2 is empty");
	refused(s, "a\r\na\n", 5, EINVAL, "candidates 1 and 2 are the same");
	refused(s, "a\0b", 3, EINVAL, "NUL");
	refused(s, "a\xff", 2, EINVAL, "UTF-8");
	refused(s, "[\"a\", 1]", 8, EINVAL, "element 2 is not a string");
	refused(s, "[\"\"]", 4, EINVAL, "candidate 1 is empty");
	refused(s, "[]", 2, EINVAL, "empty");
	refused(s, "[a]", 3, EINVAL, "choices");
	refused(s, long_text, 5 << 20, EFBIG, "at most");
	refused(s, lines, strlen(lines), EFBIG, "more than 10000");
	test_expect_text(s, SESSION_CHOICES, "kept\n");
	long_text[2000] = 0;
	for (int i = 0; i < 2000; i += 2)
		long_text[i] = ' ';
	test_write_text(s, SESSION_CHOICES, long_text);
	test_ask_refused(s, QUESTION, "at most 64 are allowed");
	test_write_text(s, SESSION_CHOICES, "\n");
	test_ask_refused(s, QUESTION, "write the candidates to choices");
	free(lines);
	free(long_text);
	session_end(s);
}

/* Stops a session in the middle of a step, long before all candidates are computed. */
struct stop_in_step {
	struct session *session;
	uint32_t taps; /* until then */
};

static void stop_in_step(void *ctx, enum tap_point point, uint32_t layer, uint32_t position, uint32_t n,
			 uint32_t width, const float *rows)
{
	struct stop_in_step *x = ctx;
	(void)point, (void)layer, (void)position, (void)n, (void)width, (void)rows;
	if (x->taps && !--x->taps)
		session_stop(x->session);
}

static void a_choice_is_stopped_in_the_middle(void **state)
{
	(void)state;
	struct session *s = choosing(&fable, "");
	char *choices = many(10000);
	struct model_view view;
	uint64_t used = test_context_used(&fable);
	int code;
	test_write_text(s, SESSION_CHOICES, choices);
	observe_model(fable.model, &view);
	static struct stop_in_step stop;
	stop = (struct stop_in_step){.session = s, .taps = 100};
	view.forward->env.tap_ctx = &stop;
	view.forward->env.tap = stop_in_step;
	free(test_read(test_submit(s, QUESTION), &code));
	test_come_to_rest(&fable);
	view.forward->env.tap = NULL;
	assert_int_equal(stop.taps, 0);
	assert_int_equal(code, 0);
	assert_string_equal(test_stats(s).finish, "stopped");
	test_expect_text(s, SESSION_CHOSEN, "");
	session_end(s);
	while (test_context_used(&fable) > used) /* it ends when its step does */
		;
	free(choices);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_choice_is_as_probable_as_its_score),
		cmocka_unit_test(without_chat_prompt_and_choice_are_encoded_together),
		cmocka_unit_test(a_list_in_json_may_have_lines_in_its_texts),
		cmocka_unit_test(lines_may_end_as_those_of_windows),
		cmocka_unit_test(a_temperature_draws_by_the_probabilities),
		cmocka_unit_test(tools_and_the_longest_answer_are_ignored),
		cmocka_unit_test(the_choice_is_the_answer_of_the_conversation),
		cmocka_unit_test(a_fork_and_a_state_have_the_choices),
		cmocka_unit_test(bad_choices_are_refused),
		cmocka_unit_test(a_choice_is_stopped_in_the_middle),
		cmocka_unit_test(memory_chunks_and_company_change_no_probability),
		cmocka_unit_test(a_hybrid_goes_back_for_each_choice),
		cmocka_unit_test(ten_thousand_choices_fit_into_a_small_budget),
	};
	return cmocka_run_group_tests(tests, fable_load, fable_close);
}
